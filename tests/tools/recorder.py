"""A forwarder that records the bytes between clients and a broker in a pcap file, as TCP on Ethernet.

``python recorder.py PORT FILE`` prints the port to connect to, and writes FILE at the end of its standard input. It
runs in a separate process, so that the recorded times do not depend on the threads of another program. The bytes of
one ``recv`` become one segment, or several segments of PIECE bytes, with the time at which they were received.
"""

from __future__ import annotations

import selectors
import socket
import struct
import sys
import time
from pathlib import Path

PIECE = 32_000  # bytes of a segment: an IPv4 packet has at most 65,535
SYN, FIN, ACK, PUSH = 2, 1, 16, 8
HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1)
ADDRESSES = socket.inet_aton("127.0.0.1") * 2


class Stream:
    """A forwarded connection: both sockets, and the next sequence number of each direction."""

    def __init__(self, client: socket.socket, broker_port: int) -> None:
        self.client = client
        self.broker = socket.create_connection(("127.0.0.1", broker_port))
        self.ports = (client.getpeername()[1], broker_port)
        self.seq = {client: 1000, self.broker: 5000}
        for end in (client, self.broker):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def other(self, end: socket.socket) -> socket.socket:
        return self.broker if end is self.client else self.client


class Recorder:
    """A forwarder on loopback that keeps a packet for each segment, in memory."""

    def __init__(self, broker_port: int) -> None:
        self.broker_port = broker_port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.selector = selectors.DefaultSelector()
        self.packets = [HEADER]
        self.streams: dict[socket.socket, Stream] = {}

    def run(self) -> None:
        """Forward connections until the standard input ends."""
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.selector.register(sys.stdin, selectors.EVENT_READ)
        while True:
            for key, _ in self.selector.select():
                if key.fileobj is sys.stdin:
                    return
                if key.fileobj is self.listener:
                    self.accept()
                elif isinstance(key.fileobj, socket.socket) and key.fileobj in self.streams:
                    self.forward(key.fileobj)

    def accept(self) -> None:
        client, _ = self.listener.accept()
        stream = Stream(client, self.broker_port)
        for end, flags in ((stream.client, SYN), (stream.broker, SYN | ACK)):
            self.note(stream, end, b"", flags)
            stream.seq[end] += 1
            self.streams[end] = stream
            self.selector.register(end, selectors.EVENT_READ)

    def forward(self, end: socket.socket) -> None:
        stream = self.streams[end]
        try:
            data = end.recv(1 << 20)
        except OSError:
            data = b""
        if not data:
            self.close(stream, end)
            return
        now = time.time_ns()
        for begin in range(0, len(data), PIECE):
            piece = data[begin : begin + PIECE]
            self.note(stream, end, piece, ACK | PUSH, now)
            stream.seq[end] += len(piece)
        try:
            stream.other(end).sendall(data)
        except OSError:
            self.close(stream, stream.other(end))

    def close(self, stream: Stream, first: socket.socket) -> None:
        for end in (first, stream.other(first)):
            self.note(stream, end, b"", FIN | ACK)
            self.selector.unregister(end)
            del self.streams[end]
            end.close()

    def note(self, stream: Stream, end: socket.socket, data: bytes, flags: int, now: int | None = None) -> None:
        source, target = stream.ports if end is stream.client else stream.ports[::-1]
        seq, ack = stream.seq[end], stream.seq[stream.other(end)]
        tcp = struct.pack(">HHIIBBHHH", source, target, seq, ack, 5 << 4, flags, 65_535, 0, 0)
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 40 + len(data), 0, 0, 64, 6, 0) + ADDRESSES
        packet = bytes(12) + b"\x08\x00" + ip + tcp + data
        seconds, rest = divmod(now or time.time_ns(), 1_000_000_000)
        self.packets.append(struct.pack("<IIII", seconds, rest // 1000, len(packet), len(packet)) + packet)


def main() -> None:
    recorder = Recorder(int(sys.argv[1]))
    sys.stdout.write(f"{recorder.listener.getsockname()[1]}\n")
    sys.stdout.flush()
    recorder.run()
    Path(sys.argv[2]).write_bytes(b"".join(recorder.packets))


if __name__ == "__main__":
    main()
