"""Heartbeat latency beside event streams of the control API, on real sockets.

    python benchmarks/event_streams.py [--streams 1000] [--seconds 35] [--rounds 3] [--path /v1/state/stream]

Two brokers run, one with the streams and one without, and each round measures one after the other: a client sends a
heartbeat every 5 ms and waits for its response. Idle streams get comments only; in the last rows commits make events,
which every stream receives. CPU time of the broker comes from /proc.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from processes import cpu_times

from kwire import encode_request
from kwire.frames import pack
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.offset_commit import OffsetCommitRequest

PAUSE = 0.005  # seconds between two heartbeats
EVENT_PAUSE = 0.5  # seconds between two commits
READ = 1 << 16
HEARTBEAT = pack(
    encode_request(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4, correlation_id=1, client_id="b")
)


@contextmanager
def broker(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """Run a broker; yield its ready file."""
    ready = folder / name
    words = ["serve", "--port", "0", "--http", "0", "--topic", "t", "--ready-file", str(ready)]
    with subprocess.Popen(
        [sys.executable, "-m", "mockbroker", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            while not ready.exists():
                time.sleep(0.01)
            yield json.loads(ready.read_text())
        finally:
            process.terminate()


class Streams:
    """Idle readers of event streams, in a thread."""

    def __init__(self, url: str, number: int, path: str) -> None:
        self._selector = selectors.DefaultSelector()
        self.received = 0
        port = int(url.rpartition(":")[2])
        for _ in range(number):
            sock = socket.create_connection(("127.0.0.1", port))
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            sock.recv(1)
            self._selector.register(sock, selectors.EVENT_READ)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while self._selector.get_map():
            for key, _ in self._selector.select():
                data = os.read(key.fd, READ)
                self.received += len(data)
                if not data:  # the broker has ended
                    self._selector.unregister(key.fileobj)


def connect(ready: dict[str, Any]) -> socket.socket:
    host, _, port = ready["bootstrap_servers"].rpartition(":")
    sock = socket.create_connection((host, int(port)))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def ask(sock: socket.socket, request: bytes) -> float:
    """Send a request; return the seconds until its response."""
    began = time.perf_counter()
    sock.sendall(request)
    sock.recv(READ)
    return time.perf_counter() - began


def measure(ready: dict[str, Any], seconds: float, *, events: bool) -> tuple[list[float], float]:
    """Return the latencies in ms, sorted, and the broker's share of a CPU in %."""
    partition = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=1)
    topics = [OffsetCommitRequest.Topic(name="t", partitions=[partition])]
    commit = pack(encode_request(OffsetCommitRequest(group_id="g", topics=topics), 8, correlation_id=1, client_id="b"))
    latencies, began, before = [], time.perf_counter(), sum(cpu_times(ready["pid"]))
    next_event = began
    with connect(ready) as sock, connect(ready) as other:
        while (now := time.perf_counter()) - began < seconds:
            if events and now >= next_event:
                next_event = now + EVENT_PAUSE
                ask(other, commit)
            latencies.append(ask(sock, HEARTBEAT) * 1000)
            time.sleep(PAUSE)
    return sorted(latencies), (sum(cpu_times(ready["pid"])) - before) / seconds * 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=35.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--path", default="/v1/events/stream")
    options = parser.parse_args()
    print("| streams | events | heartbeats | p50 ms | p99 | p99.9 | most | CPU % |\n|---|---|---|---|---|---|---|---|")
    with (
        tempfile.TemporaryDirectory() as folder,
        broker(Path(folder), "without") as without,
        broker(Path(folder), "with") as beside,
    ):
        streams = Streams(beside["http"], options.streams, options.path)
        for events in [False] * options.rounds + [True]:
            for number, ready in ((0, without), (options.streams, beside)):
                found, cpu = measure(ready, options.seconds, events=events)
                p50, p99, p999 = (found[int(len(found) * share)] for share in (0.5, 0.99, 0.999))
                what = f"a commit every {EVENT_PAUSE} s" if events else "none"
                print(
                    f"| {number:,} | {what} | {len(found):,} | {p50:.2f} | {p99:.2f} | {p999:.2f} | {found[-1]:.2f} "
                    f"| {cpu:.1f} |",
                    flush=True,
                )
        print(f"\n{streams.received:,} bytes were received by the streams.")


if __name__ == "__main__":
    main()
