"""What a client notices while others attack: the latency of its heartbeats, on real sockets, a row for each attack.

    python benchmarks/bystander.py [--seconds 10] [NAME ...]

For each attack a broker is started; one process sends a heartbeat every 5 ms and waits for its answer, another one
attacks. Both need cores of their own for figures that mean anything. CPU of the broker is from /proc.
"""

from __future__ import annotations

import argparse
import os
import re
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import Process
from pathlib import Path
from typing import Any

from kwire import encode_request
from kwire.frames import pack
from kwire.messages.create_topics import CreateTopicsRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.produce import ProduceRequest
from kwire.records import Record, build_batch

ROOT = Path(__file__).parent.parent
PAUSE = 0.005  # seconds between two heartbeats
WARM_UP = 1.0  # seconds of heartbeats before the attack
READ = 1 << 20
GOAL = 0.1  # seconds: what the bystander may notice at p99.9


def framed(request: Any, version: int) -> bytes:
    return pack(encode_request(request, version, correlation_id=1, client_id="attack"))


def commits() -> bytes:
    kind = OffsetCommitRequest.Topic
    placed = [kind.Partition(partition_index=n, committed_offset=n, committed_metadata="") for n in range(45_000)]
    return framed(OffsetCommitRequest(group_id="g", topics=[kind(name="t", partitions=placed)]), 5)


def heartbeats() -> bytes:
    return framed(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4) * 2_000_000


def batches() -> bytes:
    kind = ProduceRequest.Topic
    data = build_batch([Record(value=bytes(1_000_000))])
    placed = [kind.Partition(index=n, records=data) for n in range(100)]
    return framed(ProduceRequest(acks=-1, topic_data=[kind(name="unknown", partition_data=placed)]), 9)


def creations() -> bytes:
    kind = CreateTopicsRequest.Topic
    topics = [kind(name=f"n{number}", num_partitions=1, replication_factor=1) for number in range(5_000)]
    return framed(CreateTopicsRequest(topics=topics, validate_only=True), 2)


def questions() -> bytes:
    topics = [MetadataRequest.Topic(name=f"unknown{number}") for number in range(20_000)]
    return framed(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 4)


ATTACKS: dict[str, tuple[str, int, Callable[[], bytes], bool]] = {  # what, connections, bytes, answers are read
    "quiet": ("none", 0, heartbeats, True),
    "commits": ("20 connections commit 45,000 partitions each", 20, commits, True),
    "pipelined": ("50 connections pipeline 110 MB each and read nothing", 50, heartbeats, False),
    "frames": (
        "2 connections produce 100 batches of 1 MB in a request, to a topic that does not exist",
        2,
        batches,
        True,
    ),
    "creations": ("10 connections create 5,000 topics each", 10, creations, True),
    "questions": ("10 connections ask for 20,000 topics each", 10, questions, True),
}


def attack(port: int, connections: int, data: bytes, *, reads: bool) -> None:
    """Send, again and again, until this process is ended."""
    selector = selectors.DefaultSelector()
    events = selectors.EVENT_WRITE | (selectors.EVENT_READ if reads else 0)
    for _ in range(connections):
        sock = socket.create_connection(("127.0.0.1", port))
        sock.setblocking(False)
        selector.register(sock, events, [0])
    view = memoryview(data)
    while selector.get_map():
        for key, ready in selector.select():
            at, sock = key.data, key.fileobj
            assert isinstance(sock, socket.socket)
            try:
                if ready & selectors.EVENT_READ and not sock.recv(READ):
                    selector.unregister(sock)
                elif ready & selectors.EVENT_WRITE:
                    at[0] = (at[0] + sock.send(view[at[0] : at[0] + READ])) % len(data)
            except BlockingIOError:
                pass
            except OSError:
                selector.unregister(sock)


def beats(sock: socket.socket, seconds: float) -> Iterator[float]:
    """Send heartbeats; the latency of each, in seconds."""
    data = framed(HeartbeatRequest(group_id="b", generation_id=1, member_id="m"), 4)
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        sock.sendall(data)
        sock.recv(READ)
        yield time.perf_counter() - began
        time.sleep(PAUSE)


def measure(name: str, seconds: float) -> str:
    says, connections, made, reads = ATTACKS[name]
    command = [sys.executable, "-m", "mockbroker", "serve", "--port", "0", "--topic", "t:45000"]
    broker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)
    attacker: Process | None = None
    try:
        assert broker.stdout is not None
        found = next(found for line in broker.stdout if (found := re.search(r"127\.0\.0\.1:(\d+)", line)))
        port = int(found[1])
        with socket.create_connection(("127.0.0.1", port)) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            list(beats(sock, WARM_UP))
            attacker = Process(target=attack, args=(port, connections, made()), kwargs={"reads": reads})
            attacker.start()
            before = cpu(broker.pid)
            latencies = sorted(beats(sock, seconds))
            used = cpu(broker.pid) - before
    finally:
        if attacker is not None:
            attacker.kill()
        broker.kill()
    figures = [at(latencies, share) * 1e3 for share in (0.5, 0.99, 0.999, 1.0)]
    verdict = "ok" if at(latencies, 0.999) < GOAL else "above the goal"
    return (
        f"| {says} | {len(latencies):,} | "
        + " | ".join(f"{figure:,.1f}" for figure in figures)
        + (f" | {used / seconds * 100:.0f} % | {verdict} |")
    )


def at(values: Sequence[float], share: float) -> float:
    """The value that this share of all does not exceed."""
    return values[min(int(len(values) * share), len(values) - 1)]


def cpu(pid: int) -> float:
    """Seconds of CPU of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", choices=[*ATTACKS, []])
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    print(
        "| attack | heartbeats | p50 ms | p99 | p99.9 | most | CPU of the broker | |\n|---|---|---|---|---|---|---|---|"
    )
    for name in given.names or ATTACKS:
        print(measure(name, given.seconds), flush=True)


if __name__ == "__main__":
    main()
