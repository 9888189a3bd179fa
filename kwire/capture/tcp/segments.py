"""TCP segments as columns, and the endpoints of connections."""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kwire.capture.files.blocks import Ints
from kwire.lazy_dataclass import dataclass

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10
KEY = struct.Struct(">QQHQQH")  # form of an encoded Key
MAPPED = 0xFFFF_0000_0000  # an IPv4 address as the low half of an IPv6 address

Bools = NDArray[np.bool_]
Key = tuple[int, int, int, int, int, int]  # two endpoints, the lower first: halves of the address, port


@dataclass(slots=True)
class Segments:
    """TCP segments in file order, as columns: element ``n`` of each column belongs to segment ``n``.

    Attributes:
        path: path of the file.
        base: position of ``data`` in the file.
        data: bytes of the file that contain the payloads.
        keys: keys (pairs of endpoints) of the connections.
        flow: column: index of the connection in ``keys``.
        upward: column: True if the first endpoint of the key sent the segment.
        time_us: column: time of the packet, in microseconds since 1970.
        position: column: byte offset of the packet's record in the file.
        start: column: byte offset of the payload in the file; negative if the payload is in an earlier file.
        captured: column: captured bytes of the payload.
        size: column: sent bytes of the payload.
        seq: column: sequence number.
        ack: column: acknowledgement number.
        flags: column: TCP flags.
        skipped: number of skipped packets by reason.
        spare: payloads of fragments that were captured in earlier blocks and therefore are not in ``data``; the key is
            ``start``.
    """

    path: str
    base: int
    data: bytes
    keys: list[Key]
    flow: Ints
    upward: Bools
    time_us: Ints
    position: Ints
    start: Ints
    captured: Ints
    size: Ints
    seq: Ints
    ack: Ints
    flags: Ints
    skipped: dict[str, int] = field(default_factory=dict)
    spare: dict[int, bytes] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.flow)

    def payload(self, index: int) -> bytes:
        """Return the captured payload of one segment."""
        start, size = int(self.start[index]), int(self.captured[index])
        if start in self.spare:
            return self.spare[start]
        return self.data[start - self.base : start - self.base + size]

    def columns(self) -> dict[str, Any]:
        """Return the segments as columns, by column name.

        The columns contain the position of each payload, but not its bytes.
        """
        keys = [pack_key(key) for key in self.keys]
        return {
            "connection": np.array(keys, object)[self.flow] if keys else np.array([], object),
            "upward": self.upward,
            "time_us": self.time_us,
            "position": self.position,
            "start": self.start,
            "captured": self.captured.astype(np.int32),
            "size": self.size.astype(np.int32),
            "seq": self.seq.astype(np.uint32),
            "ack": self.ack.astype(np.uint32),
            "flags": self.flags.astype(np.uint8),
        }


def pack_key(key: Key) -> bytes:
    """Encode the key of a connection as bytes; ``unpack_key`` decodes it."""
    return KEY.pack(*key)


def unpack_key(connection: bytes) -> Key:
    """Decode the key of a connection from its encoding by ``pack_key``."""
    key: Key = KEY.unpack(connection)
    return key


def endpoint(high: int, low: int, port: int) -> str:
    """Return an endpoint as text: ``host:port`` for IPv4, ``[host]:port`` for IPv6.

    Args:
        high: upper 64 bits of the IPv6 address; an IPv4 address is given as an IPv4-mapped IPv6 address.
        low: lower 64 bits of the IPv6 address.
        port: TCP port.
    """
    if not high and low & ~0xFFFF_FFFF == MAPPED:
        return f"{ipaddress.IPv4Address(low & 0xFFFF_FFFF)}:{port}"
    return f"[{ipaddress.IPv6Address(high << 64 | low)}]:{port}"


def endpoints(key: Key) -> tuple[str, str]:
    """Return both endpoints of a connection as text, the lower first."""
    return endpoint(*key[:3]), endpoint(*key[3:])
