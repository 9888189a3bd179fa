"""The writer of recordings in pcapng files.

Packets begin with the IP header (link type RAW), without MAC addresses.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from kwire.frames import pack
from kwire.recording.packets import Endpoint, TcpConnection, endpoint_of

RAW = 101  # link type: packets begin with the IP header
FIRST_EPHEMERAL, LAST_PORT = 1_024, 65_535
BLOCK = struct.Struct("<II")
PACKET = struct.Struct("<IIIII")  # interface, high and low half of the time, captured and original size
SECTION = struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)
INTERFACE = struct.pack("<HHI", RAW, 0, 0)
SECTION_TYPE, INTERFACE_TYPE, PACKET_TYPE = 0x0A0D0D0A, 1, 6
PACKET_HEAD = struct.Struct("<IIIIIII")  # BLOCK and PACKET in one
ENDS = tuple(struct.Struct(f"<{-size % 4}xI") for size in range(4))  # padding and size, by the size modulo 4
SMALL = 4_096  # bytes of a packet that is returned as one buffer
HEADS = BLOCK.size + PACKET.size
LARGEST = 65_495  # bytes of payload in a packet of ``frames``; a packet with headers has at most 65,535
LENT = 16  # packets, at most, into which one read of a socket is received
LAST_SIZE = 4  # bytes: the size of a block is repeated at its end
ISN_STEP = 0x01000193  # distance of the initial sequence numbers of two connections


class PcapngFile:
    """The writer that records the frames of each connection as packets of a TCP connection.

    If a new connection has the same endpoints as an open connection, its client port is changed in the recording.
    """

    needs_complete_frames = False

    def __init__(self) -> None:
        self._connections: dict[int, TcpConnection] = {}
        self._ends: dict[int, tuple[Endpoint, Endpoint]] = {}
        self._used: set[tuple[Endpoint, Endpoint]] = set()

    def begin(self) -> bytes:
        return _block(SECTION_TYPE, SECTION) + _block(INTERFACE_TYPE, INTERFACE)

    def opened(self, connection: int, client: str, broker: str, time_us: int) -> bytes:
        ends = self._free(endpoint_of(client), endpoint_of(broker))
        self._used.add(ends)
        self._ends[connection] = ends
        made = self._connections[connection] = TcpConnection(*ends, connection * ISN_STEP)
        return _packets(made.handshake(), time_us)

    def frame(self, connection: int, to_broker: bool, frame: bytes, time_us: int) -> bytes:
        return _packets(self._connections[connection].data(to_broker, pack(frame)), time_us)

    def frames(self, connection: int, to_broker: bool, data: Sequence[bytes], time_us: int) -> list[bytes | memoryview]:
        high, low = time_us >> 32 & 0xFFFFFFFF, time_us & 0xFFFFFFFF
        buffers: list[bytes | memoryview] = []
        headers_of = self._connections[connection].offloaded
        for piece in data:
            for begin in range(0, len(piece), LARGEST):
                payload = piece if len(piece) <= LARGEST else memoryview(piece)[begin : begin + LARGEST]
                headers = headers_of(to_broker, len(payload))
                captured = len(headers) + len(payload)
                end = ENDS[captured % 4]
                size = HEADS + captured + end.size
                head = PACKET_HEAD.pack(PACKET_TYPE, size, 0, high, low, captured, captured)
                packet = (head, headers, payload, end.pack(size))
                if captured < SMALL:
                    buffers.append(b"".join(packet))
                else:
                    buffers += packet
        return buffers

    def spaces(self, connection: int, memory: memoryview, size: int) -> list[memoryview]:
        """Return the parts of a memory into which the next bytes of a connection can be received.

        The parts are the payload of up to ``LENT`` packets. ``complete`` writes the rest of the packets between the
        parts. So the bytes become part of the recording without a copy.

        Args:
            connection: number of the connection.
            memory: memory for the recording; its size is a multiple of 4.
            size: maximum number of bytes in all parts.

        Returns:
            The parts, in the order of the bytes; an empty list if the memory is too small.
        """
        before = HEADS + self._connections[connection].headers_size
        spaces: list[memoryview] = []
        at, end = before, len(memory) - LAST_SIZE
        while size and len(spaces) < LENT and end - at >= SMALL:
            payload = min(size, LARGEST, end - at)
            spaces.append(memory[at : at + payload])
            size -= payload
            at += payload + -payload % 4 + LAST_SIZE + before
        return spaces

    def complete(
        self,
        connection: int,
        to_broker: bool,
        memory: memoryview,
        spaces: Sequence[memoryview],
        size: int,
        time_us: int,
    ) -> int:
        """Write the rest of the packets whose payload was received into the parts that ``spaces`` has returned.

        Args:
            connection: number of the connection.
            to_broker: True for bytes from the client, False for bytes from the broker.
            memory: the argument of ``spaces``.
            spaces: the result of ``spaces``.
            size: number of received bytes, at least 1.
            time_us: time of the bytes, in microseconds since 1970.

        Returns:
            Number of bytes at the beginning of the memory that belong to the recording.
        """
        high, low = time_us >> 32 & 0xFFFFFFFF, time_us & 0xFFFFFFFF
        headers_of = self._connections[connection].offloaded
        at = 0
        for space in spaces:
            payload = min(size, len(space))
            headers = headers_of(to_broker, payload)
            captured = len(headers) + payload
            end = ENDS[captured % 4]
            block = HEADS + captured + end.size
            PACKET_HEAD.pack_into(memory, at, PACKET_TYPE, block, 0, high, low, captured, captured)
            memory[at + HEADS : at + HEADS + len(headers)] = headers
            at += block
            end.pack_into(memory, at - end.size, block)
            size -= payload
            if not size:
                break
        return at

    def closed(self, connection: int, time_us: int, *, reset: bool = False) -> bytes:
        made = self._connections.pop(connection, None)
        if made is None:
            return b""
        self._used.discard(self._ends.pop(connection))
        return _packets(made.end(reset=reset), time_us)

    def _free(self, client: Endpoint, broker: Endpoint) -> tuple[Endpoint, Endpoint]:
        ports = LAST_PORT - FIRST_EPHEMERAL + 1
        for _ in range(ports):
            if (client, broker) not in self._used:
                break
            client = Endpoint(client.address, FIRST_EPHEMERAL + (client.port - FIRST_EPHEMERAL + 1) % ports)
        return client, broker


def _packets(packets: list[bytes], time_us: int) -> bytes:
    high, low = time_us >> 32 & 0xFFFFFFFF, time_us & 0xFFFFFFFF
    return b"".join(
        _block(PACKET_TYPE, PACKET.pack(0, high, low, len(packet), len(packet)) + packet) for packet in packets
    )


def _block(kind: int, content: bytes) -> bytes:
    padding = -len(content) % 4
    size = BLOCK.size + len(content) + padding + 4
    return b"".join((BLOCK.pack(kind, size), content, bytes(padding), size.to_bytes(4, "little")))
