"""Packets of a network interface while they arrive, as the bytes of a pcap file (Linux).

The kernel writes packets to a ring of blocks in memory shared with the process (AF_PACKET with TPACKET_V3). If all
blocks are full, further packets are lost; the kernel counts them.
"""

from __future__ import annotations

import errno
import mmap
import os
import select
import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from kwire.capture.limits import RING_BLOCK, RING_BLOCKS, SNAPLEN

NOT_LINUX = "interfaces can be read only on Linux; elsewhere, pipe tcpdump -w - to this command"
ANY = "any"  # name that means all interfaces
LINK_ETHERNET, LINK_RAW = 1, 101  # link types in the pcap header

# From linux/if_packet.h, linux/if_ether.h, linux/if_arp.h and linux/sockios.h.
_SOL_PACKET, _RX_RING, _STATISTICS, _VERSION, _V3 = 263, 5, 6, 10, 2
_ALL_PROTOCOLS = 0x0003
_IP_PROTOCOLS = (0x0800, 0x86DD)
_OUTGOING = 4
_ETHERNET, _LOOPBACK = 1, 772
_GET_HARDWARE = 0x8927
_OF_USER = 1  # status of a block that the process may read; 0 returns it to the kernel

_REQUEST = struct.Struct("@7I")  # struct tpacket_req3
_BLOCK = struct.Struct("@8xIII")  # of tpacket_block_desc: status, number of packets, offset of the first packet
_STATUS_AT = 8
_PACKET = struct.Struct("@IIIII4xHH")  # of tpacket3_hdr: next, s, ns, captured, size, offset of link and IP header
_ADDRESS = struct.Struct("@2xH4xHB")  # of sockaddr_ll: protocol in network order, hardware type, packet type
_ADDRESS_AT = 48  # size of tpacket3_hdr
_COUNTS = struct.Struct("@III")  # struct tpacket_stats_v3: packets, lost packets, full rings
_PCAP = struct.Struct("<IHHiIII")
_RECORD = struct.Struct("<IIII")

_RETIRE_MS = 50  # a block that is not full is delivered after this time
_POLL_MS = 100  # interval in which a stop is noticed


class PacketRing:
    """A readable stream of the packets of a network interface, as a pcap file with times in nanoseconds.

    The kernel reports each packet on a loopback interface twice; the stream contains it once. If the interface has no
    Ethernet headers, or if ``name`` is ANY, the stream contains only IP packets.

    Args:
        name: name of the interface, such as ``lo``, or ANY.
        block: size of a block in bytes, a multiple of the page size.
        blocks: number of blocks.

    Attributes:
        lost: number of packets that were lost so far because all blocks were full; updated by each read.

    Raises: OSError, with ``filename`` set to the name, if there is no such interface, if the process may not capture,
    or if the system is not Linux.
    """

    def __init__(self, name: str, block: int = RING_BLOCK, blocks: int = RING_BLOCKS) -> None:
        self.name = name
        self.lost = 0
        self._stopped = False
        self._next = 0
        self._size, self._count = block, blocks
        try:
            self._open()
        except OSError as error:
            raise OSError(error.errno, error.strerror, name) from error
        header = _PCAP.pack(0xA1B23C4D, 2, 4, 0, 0, SNAPLEN, LINK_ETHERNET if self._has_links else LINK_RAW)
        self._pending: list[bytes] = [header]

    def _open(self) -> None:
        if not hasattr(socket, "AF_PACKET"):
            raise OSError(errno.EAFNOSUPPORT, NOT_LINUX)
        self._has_links = self.name != ANY and _hardware(self.name) in (_ETHERNET, _LOOPBACK)
        kind = socket.SOCK_RAW if self._has_links else socket.SOCK_DGRAM
        protocol = socket.htons(_ALL_PROTOCOLS) if self.name == ANY else 0  # 0: no packets before bind
        self._socket = socket.socket(socket.AF_PACKET, kind, protocol)
        try:
            self._socket.setsockopt(_SOL_PACKET, _VERSION, _V3)
            request = _REQUEST.pack(self._size, self._count, 2048, self._size // 2048 * self._count, _RETIRE_MS, 0, 0)
            self._socket.setsockopt(_SOL_PACKET, _RX_RING, request)
            self._ring = mmap.mmap(self._socket.fileno(), self._size * self._count)
            if self.name != ANY:
                self._socket.bind((self.name, _ALL_PROTOCOLS))
        except BaseException:
            self._socket.close()
            raise

    def read(self, size: int) -> bytes:
        """Wait for packets, and return them as records of a pcap file. The first read returns the file header.

        Args:
            size: ignored: each read returns all packets of a block, whatever its size.

        Returns: the records; b"" after ``stop``.
        """
        del size
        while not self._pending:
            if not self._wait():
                return b""
            self._pending += self._taken_block()
            self._count_lost()
        return self._pending.pop(0)

    def stop(self) -> None:
        """End the stream: ``read`` returns b"" from then on. A signal handler may call this method."""
        self._stopped = True

    def close(self) -> None:
        """Stop the capture and return the memory of the ring."""
        self._stopped = True
        with suppress(OSError):
            self._count_lost()
        self._ring.close()
        self._socket.close()

    def __enter__(self) -> PacketRing:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wait(self) -> bool:
        """Wait until the next block is readable. Return False if the stream was stopped.

        Raises: OSError if the interface reports an error.
        """
        poll = select.poll()
        poll.register(self._socket, select.POLLIN | select.POLLERR)
        while not self._stopped:
            if _BLOCK.unpack_from(self._ring, self._next * self._size)[0] & _OF_USER:
                return True
            if any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(_POLL_MS)):
                reason = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                raise OSError(reason, os.strerror(reason), self.name)  # such as: the interface went down
        return False

    def _taken_block(self) -> list[bytes]:
        """Read the next block, and release its memory to the kernel. Return the block's packets as pcap records."""
        begin = self._next * self._size
        _, count, first = _BLOCK.unpack_from(self._ring, begin)
        ring, records, at = self._ring, [], begin + first
        for _ in range(count):
            step, seconds, nanos, captured, size, mac, net = _PACKET.unpack_from(ring, at)
            protocol, hardware, kind = _ADDRESS.unpack_from(ring, at + _ADDRESS_AT)
            is_second = hardware == _LOOPBACK and kind == _OUTGOING
            if not is_second and (self._has_links or socket.ntohs(protocol) in _IP_PROTOCOLS):
                start = at + (mac if self._has_links else net)
                records.append(_RECORD.pack(seconds, nanos, captured, size))
                records.append(ring[start : start + captured])
            at += step
        struct.pack_into("@I", ring, begin + _STATUS_AT, 0)
        self._next = (self._next + 1) % self._count
        return [b"".join(records)] if records else []

    def _count_lost(self) -> None:
        counts = self._socket.getsockopt(_SOL_PACKET, _STATISTICS, _COUNTS.size)  # reading sets them to 0
        self.lost += _COUNTS.unpack(counts)[1]


def interface_names() -> list[str]:
    """Return the names of the network interfaces of this machine."""
    return [name for _, name in socket.if_nameindex()]


def _hardware(name: str) -> int:
    """Return the hardware type of an interface, such as 1 for Ethernet.

    Raises: OSError if the interface does not exist.
    """
    import fcntl  # not on Windows

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as some:
        answer = fcntl.ioctl(some, _GET_HARDWARE, struct.pack("@16s24x", name.encode()[:15]))
    kind: int = struct.unpack_from("@H", answer, 16)[0]
    return kind


@contextmanager
def stopped_by_signals(
    stop: Callable[[], Any], numbers: Iterable[int] = (signal.SIGINT, signal.SIGTERM)
) -> Iterator[None]:
    """Call ``stop`` on the first signal inside the ``with`` block, instead of ending the process.

    A second signal has its usual effect. If the ``with`` block does not run in the main thread, signals keep their
    usual effect.

    Args:
        stop: function that the signal handler calls.
        numbers: signals to handle.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in numbers}

    def handle(_number: int, _frame: FrameType | None) -> None:
        for number, handler in before.items():
            signal.signal(number, handler)
        stop()

    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
