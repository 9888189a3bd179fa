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
