"""Construction of the TCP/IP packets of a recorded connection.

The packets have sequence numbers, acknowledgements and checksums, and include the TCP handshake.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from ipaddress import IPv4Address, IPv6Address, ip_address

from kwire.lazy_dataclass import dataclass

FIN, SYN, RST, PUSH, ACK = 1, 2, 4, 8, 16
SEGMENT = 16_384  # bytes of payload in one packet
WINDOW = 65_535
TCP = struct.Struct(">HHIIBBHHH")
PORTS = struct.Struct(">HH")
IPV4 = struct.Struct(">BBHHHBBH")
IPV6 = struct.Struct(">IHBB")
NUMBERS = struct.Struct(">II")  # sequence and acknowledgement number of a TCP header
AFTER_NUMBERS = struct.Struct(">IHH")  # the rest of the TCP header
HEADERS = IPV4.size + 8 + TCP.size
HEADERS_IPV6 = IPV6.size + 32 + TCP.size
TCP_PROTOCOL, TTL = 6, 64
DATA_AND_WINDOW = (5 << 12 | ACK | PUSH) << 16 | WINDOW  # size of the TCP header, flags and window
NAMED = 10 << 24  # network of the addresses that replace host names
LAST_PORT = 65_535
DEFAULT_PORT = 9_092


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The IP address and port of the client or the broker of a TCP connection."""

    address: IPv4Address | IPv6Address
    port: int


def endpoint_of(text: str) -> Endpoint:
    """Return the endpoint for the text ``host:port``.

    A host name is replaced by an address in 10.0.0.0/8 that depends only on the name. Without a valid port, the whole
    text is the host, and the port is 9092.
    """
    host, colon, port = text.rpartition(":")
    if not (colon and port.isascii() and port.isdigit() and int(port) <= LAST_PORT):
        host, port = text, str(DEFAULT_PORT)
    try:
        address = ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        number = int.from_bytes(blake2b(host.encode("utf-8", "surrogatepass"), digest_size=3).digest(), "big")
        address = IPv4Address(NAMED + number)
    return Endpoint(address, int(port))


class TcpConnection:
    """A builder of the packets of one TCP connection.

    Args:
        client: endpoint that opens the connection.
        broker: endpoint that accepts the connection. If only one of both endpoints has an IPv4 address, this address is
            converted to an IPv6 address.
        initial: initial sequence number of the client. The initial sequence number of the broker is derived from it.
    """

    __slots__ = ("_addresses_and_ports", "_around", "_ends", "_ipv4", "_is_ipv4", "_next", "_pseudo")

    def __init__(self, client: Endpoint, broker: Endpoint, initial: int) -> None:
        first, second = _same_family(client.address, broker.address)
        self._ends = {True: (first, client.port), False: (second, broker.port)}
        self._pseudo = _sum(first.packed + second.packed) + TCP_PROTOCOL
        self._is_ipv4 = first.version == 4
        to_broker, to_client = PORTS.pack(client.port, broker.port), PORTS.pack(broker.port, client.port)
        self._addresses_and_ports = {
            True: first.packed + second.packed + to_broker,
            False: second.packed + first.packed + to_client,
        }
        self._ipv4 = _sum(IPV4.pack(0x45, 0, 0, 0, 0x4000, TTL, TCP_PROTOCOL, 0) + first.packed + second.packed)
        # by direction: size and parts of the headers that ``offloaded`` has returned last
        self._around: dict[bool, tuple[int, bytes, bytes]] = {True: (-1, b"", b""), False: (-1, b"", b"")}
        self._next = {True: initial & 0xFFFFFFFF, False: (initial + 0x40000000) & 0xFFFFFFFF}

    @property
    def headers_size(self) -> int:
        """The size of the IP and TCP headers of a packet with data, in bytes."""
        return HEADERS if self._is_ipv4 else HEADERS_IPV6

    def handshake(self) -> list[bytes]:
        """Return the three packets that open the connection."""
        return [self._packet(True, SYN), self._packet(False, SYN | ACK), self._packet(True, ACK)]

    def data(self, to_broker: bool, data: bytes) -> list[bytes]:
        """Return the packets that carry bytes in one direction.

        Args:
            to_broker: True for bytes from the client, False for bytes from the broker.
            data: bytes of any length, which are divided into packets.
        """
        parts = [data[at : at + SEGMENT] for at in range(0, len(data), SEGMENT)]
        return [self._packet(to_broker, ACK | PUSH, part) for part in parts]

    def offloaded(self, to_broker: bool, size: int) -> bytes:
        """Return the IP and TCP headers of a packet that carries bytes in one direction; advance the sequence number.

        The checksum in the TCP header is incomplete: it includes the addresses and the length, but not the payload.
        Packets that are captured on the sending host are the same if the network card computes checksums (offloading).

        Args:
            to_broker: True for bytes from the client, False for bytes from the broker.
            size: number of bytes that follow the headers, at most 65,000.
        """
        sequence = self._next[to_broker]
        around = self._around[to_broker]
        if around[0] != size:
            around = self._around[to_broker] = self._around_numbers(to_broker, size)
        self._next[to_broker] = (sequence + size) & 0xFFFFFFFF
        return around[1] + NUMBERS.pack(sequence, self._next[not to_broker]) + around[2]

    def _around_numbers(self, to_broker: bool, size: int) -> tuple[int, bytes, bytes]:
        """Return the headers of ``offloaded`` before and after the sequence and acknowledgement numbers.

        Args:
            to_broker: the argument of ``offloaded``.
            size: the argument of ``offloaded``.

        Returns:
            The size, and both parts.
        """
        ends = self._addresses_and_ports[to_broker]
        after = AFTER_NUMBERS.pack(DATA_AND_WINDOW, (self._pseudo + TCP.size + size) % 0xFFFF, 0)
        if not self._is_ipv4:
            return size, IPV6.pack(6 << 28, TCP.size + size, TCP_PROTOCOL, TTL) + ends, after
        total = HEADERS + size
        check = 0xFFFF - ((self._ipv4 + total) % 0xFFFF or 0xFFFF)
        return size, IPV4.pack(0x45, 0, total, 0, 0x4000, TTL, TCP_PROTOCOL, check) + ends, after

    def end(self, *, reset: bool = False) -> list[bytes]:
        """Return the packets that close the connection.

        Args:
            reset: True for a reset by the client (one packet), False for a close by both sides (three packets).
        """
        if reset:
            return [self._packet(True, RST | ACK)]
        return [self._packet(True, FIN | ACK), self._packet(False, FIN | ACK), self._packet(True, ACK)]

    def _packet(self, to_broker: bool, flags: int, payload: bytes = b"") -> bytes:
        (source, from_port), (target, to_port) = self._ends[to_broker], self._ends[not to_broker]
        sequence = self._next[to_broker]
        acknowledged = self._next[not to_broker] if flags & ACK else 0
        self._next[to_broker] = (sequence + len(payload) + bool(flags & (SYN | FIN))) & 0xFFFFFFFF
        fields = (from_port, to_port, sequence, acknowledged, 5 << 4, flags, WINDOW)
        head = TCP.pack(*fields, 0, 0)
        size = len(head) + len(payload)
        total = self._pseudo + size + _sum(head) + _sum(payload)
        head = TCP.pack(*fields, checksum(total), 0)
        return b"".join((_ip(source, target, size), head, payload))


def _ip(source: IPv4Address | IPv6Address, target: IPv4Address | IPv6Address, size: int) -> bytes:
    """Return the IP header of a packet.

    Args:
        source: address of the sender.
        target: address of the receiver.
        size: bytes of TCP header and payload.
    """
    if source.version == 6:
        return IPV6.pack(6 << 28, size, TCP_PROTOCOL, TTL) + source.packed + target.packed
    fields = (0x45, 0, IPV4.size + 8 + size, 0, 0x4000, TTL, TCP_PROTOCOL)
    addresses = source.packed + target.packed
    check = checksum(_sum(IPV4.pack(*fields, 0) + addresses))
    return IPV4.pack(*fields, check) + addresses


def _same_family(
    client: IPv4Address | IPv6Address, broker: IPv4Address | IPv6Address
) -> tuple[IPv4Address | IPv6Address, IPv4Address | IPv6Address]:
    if client.version == broker.version:
        return client, broker
    return _as_ipv6(client), _as_ipv6(broker)


def _as_ipv6(address: IPv4Address | IPv6Address) -> IPv6Address:
    return address if isinstance(address, IPv6Address) else IPv6Address(f"::ffff:{address}")


def _sum(data: bytes) -> int:
    """Return the sum of the 16-bit words of the data, modulo 0xFFFF."""
    return int.from_bytes(data + b"\0" * (len(data) % 2), "big") % 0xFFFF


def checksum(total: int) -> int:
    """Return the Internet checksum of data (RFC 1071).

    Args:
        total: sum of the 16-bit words of the data. At least one word must not be 0.
    """
    return 0xFFFF - (total % 0xFFFF or 0xFFFF)
