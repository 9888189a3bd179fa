"""A packet ring on the loopback interface, and a client that sends a request to a broker on it."""

from __future__ import annotations

import socket
import struct

import pytest

from kwire.capture.files.packet_ring import PacketRing


def opened_ring(name: str = "lo", **sizes: int) -> PacketRing:
    """Open a packet ring on an interface; skip the test without the permission."""
    try:
        return PacketRing(name, **sizes)
    except PermissionError:
        pytest.skip("no permission to capture: CAP_NET_RAW is missing")


def ask_versions(sock: socket.socket, number: int) -> None:
    """Send ApiVersions v0 with this correlation id, and receive the response."""
    sock.sendall(struct.pack(">ihhih", 10, 18, 0, number, 0))
    (size,) = struct.unpack(">i", sock.recv(4, socket.MSG_WAITALL))
    sock.recv(size, socket.MSG_WAITALL)
