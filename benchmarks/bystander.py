"""Heartbeat latency of a client during an attack, on real sockets: a row for each attack.

    python benchmarks/bystander.py [--seconds 10] [NAME ...]

Each attack gets a new broker. One process sends a heartbeat every 5 ms and waits for its response, another process
attacks. The figures are valid only if each has a core of its own. CPU time of the broker comes from /proc.
"""

from __future__ import annotations

import argparse
import re
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import Process
from pathlib import Path
from typing import Any

from processes import cpu_times

from kwire import encode_request
from kwire.frames import pack
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.create_topics import CreateTopicsRequest
from kwire.messages.delete_topics import DeleteTopicsRequest
from kwire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.list_offsets import ListOffsetsRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.produce import ProduceRequest
from kwire.records import Record, build_batch
from kwire.records.compression import ZSTD

ROOT = Path(__file__).parent.parent
PAUSE = 0.005  # seconds between two heartbeats
WARM_UP = 1.0  # seconds of heartbeats before the attack
READ = 1 << 20
GOAL = 0.1  # seconds: the highest latency at p99.9


def framed(request: Any, version: int) -> bytes:
    return pack(encode_request(request, version, correlation_id=1, client_id="attack"))


def commits() -> bytes:
    kind = OffsetCommitRequest.Topic
    placed = [kind.Partition(partition_index=n, committed_offset=n, committed_metadata="") for n in range(45_000)]
    return framed(OffsetCommitRequest(group_id="g", topics=[kind(name="t", partitions=placed)]), 5)


def heartbeats() -> bytes:
    return framed(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4) * 2_000_000


def batches(topic: str) -> bytes:
    kind = ProduceRequest.Topic
    data = build_batch([Record(value=bytes(1_000_000))])
    placed = [kind.Partition(index=n, records=data) for n in range(100)]
    return framed(ProduceRequest(acks=-1, topic_data=[kind(name=topic, partition_data=placed)]), 9)


def small_batches() -> bytes:
    kind = ProduceRequest.Topic
    data = build_batch([Record(value=b"v")])
    placed = [kind.Partition(index=n, records=data) for n in range(20_000)]
    return framed(ProduceRequest(acks=-1, topic_data=[kind(name="t", partition_data=placed)]), 9)


def fetches(wait_ms: int) -> bytes:
    kind = FetchRequest.Topic
    wanted = [kind.Partition(partition=n, fetch_offset=0, partition_max_bytes=1 << 20) for n in range(20_000)]
    topics = [kind(topic="t", partitions=wanted)]
    return framed(FetchRequest(max_wait_ms=wait_ms, min_bytes=1 << 20, max_bytes=1 << 20, topics=topics), 11)


def creations(names: Sequence[str], *, validate_only: bool) -> bytes:
    kind = CreateTopicsRequest.Topic
    topics = [kind(name=name, num_partitions=1, replication_factor=1) for name in names]
    return framed(CreateTopicsRequest(topics=topics, validate_only=validate_only), 2)


def questions(*, create: bool) -> bytes:
    topics = [MetadataRequest.Topic(name=f"unknown{number}") for number in range(20_000)]
    return framed(MetadataRequest(topics=topics, allow_auto_topic_creation=create), 4)


def one_topic() -> bytes:
    return framed(MetadataRequest(topics=[MetadataRequest.Topic(name="big")] * 60), 4)


def changing() -> bytes:
    """Return a request whose cached response is outdated each time, because the cluster has changed."""
    deletion = framed(DeleteTopicsRequest(topic_names=["n"], timeout_ms=1_000), 1)
    return b"".join([one_topic(), creations(["n"], validate_only=False), one_topic(), deletion])


def deletions() -> bytes:
    names = [f"n{number}" for number in range(5_000)]
    return creations(names, validate_only=False) + framed(DeleteTopicsRequest(topic_names=names, timeout_ms=1_000), 1)


def all_offsets() -> bytes:
    return framed(OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id="g", topics=None)] * 100), 8)


def one_partition() -> bytes:
    kind = ListOffsetsRequest.Topic
    asked = kind.Partition(partition_index=0, timestamp=1_700_000_000_000)
    return framed(ListOffsetsRequest(replica_id=-1, topics=[kind(name="t", partitions=[asked] * 400)]), 5)


def packed_records() -> bytes:
    kind = ProduceRequest.Topic
    data = build_batch([Record(timestamp=1_700_000_000_000, value=b"") for _ in range(99_000)], codec=ZSTD)
    placed = [kind.Partition(index=0, records=data)]
    return framed(ProduceRequest(acks=-1, topic_data=[kind(name="t", partition_data=placed)]), 9)


def users() -> bytes:
    kind = DescribeUserScramCredentialsRequest.User
    named = [kind(name=f"u{number}") for number in range(40_000)]
    return framed(DescribeUserScramCredentialsRequest(users=named), 0)


def expressions() -> bytes:
    """Return the requests of 176 members that join with a different regular expression each, and leave."""
    joins = [
        ConsumerGroupHeartbeatRequest(
            group_id="x",
            member_id=f"m{number}",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_regex=f"n.*|{number}",
            topic_partitions=[],
        )
        for number in range(176)
    ]
    leaves = [
        ConsumerGroupHeartbeatRequest(group_id="x", member_id=f"m{number}", member_epoch=-1) for number in range(176)
    ]
    return b"".join(framed(request, 1) for request in [*joins, *leaves])


def malformed() -> bytes:
    """Return a truncated request, after which the broker closes the connection and the attacker connects again."""
    names = [f"topic-{number:05}" for number in range(5_000)]
    frame = encode_request(
        DeleteTopicsRequest(topic_names=names, timeout_ms=1_000), 1, correlation_id=1, client_id="attack"
    )
    return pack(frame[:-6])


@dataclass(frozen=True)
class Attack:
    """The bytes that the connections of an attacker repeat.

    Attributes:
        what: description of the attack, for its row of the table.
        connections: number of connections.
        data: bytes that each connection sends.
        reads: whether the attacker reads the responses.
        before: requests that are sent and answered once before the attack.
    """

    what: str
    connections: int
    data: Callable[[], bytes]
    reads: bool = True
    before: Callable[[], Sequence[bytes]] = tuple


def created() -> Sequence[bytes]:
    return [creations([f"n{number}" for number in range(10_000)], validate_only=False)]


def committed() -> Sequence[bytes]:
    return [commits()]


ATTACKS = {
    "quiet": Attack("none", 0, bytes),
    "commits": Attack("20 connections commit 45,000 partitions each", 20, commits),
    "pipelined": Attack("50 connections pipeline 110 MB each and read nothing", 50, heartbeats, reads=False),
    "frames": Attack("2 connections produce 100 batches of 1 MB in a request", 2, lambda: batches("t")),
    "unknown": Attack("the same to a topic that does not exist", 2, lambda: batches("unknown")),
    "small": Attack("5 connections produce to 20,000 partitions each", 5, small_batches),
    "fetches": Attack("10 connections fetch from 20,000 partitions each", 10, lambda: fetches(0)),
    "parked": Attack("10 connections wait for 20,000 partitions each", 10, lambda: fetches(300)),
    "creations": Attack(
        "10 connections have 5,000 topics validated each",
        10,
        lambda: creations([f"n{number}" for number in range(5_000)], validate_only=True),
    ),
    "duplicates": Attack(
        "10 connections create 12,500 topics, each named twice",
        10,
        lambda: creations([f"n{number % 12_500}" for number in range(25_000)], validate_only=False),
    ),
    "deletions": Attack("a connection creates 5,000 topics and deletes them", 1, deletions),
    "questions": Attack("10 connections ask for 20,000 unknown topics each", 10, lambda: questions(create=False)),
    "auto": Attack("10 connections have 20,000 unknown topics created each", 10, lambda: questions(create=True)),
    "large": Attack("10 connections ask for a topic of 50,000 partitions", 10, one_topic),
    "changing": Attack("the same, and the cluster changes each time", 1, changing),
    "offsets": Attack("5 connections fetch 45,000 offsets 100 times each", 5, all_offsets, before=committed),
    "timestamps": Attack(
        "10 connections list one partition 400 times by timestamp", 10, one_partition, before=lambda: [packed_records()]
    ),
    "users": Attack("10 connections describe 40,000 users each", 10, users),
    "expressions": Attack("176 members with an expression each over 10,000 topics", 1, expressions, before=created),
    "malformed": Attack("10 connections send 70 KB that are malformed", 10, malformed),
}


def attack(port: int, connections: int, data: bytes, *, reads: bool) -> None:
    """Send the same bytes on all connections until the process is killed."""
    selector = selectors.DefaultSelector()
    events = selectors.EVENT_WRITE | (selectors.EVENT_READ if reads else 0)

    def connect() -> None:
        sock = socket.create_connection(("127.0.0.1", port))
        sock.setblocking(False)
        selector.register(sock, events, [0])

    def connect_again(sock: socket.socket) -> None:
        selector.unregister(sock)
        sock.close()
        connect()

    for _ in range(connections):
        connect()
    view = memoryview(data)
    while selector.get_map():
        for key, ready in selector.select():
            at, sock = key.data, key.fileobj
            assert isinstance(sock, socket.socket)
            try:
                if ready & selectors.EVENT_READ and not sock.recv(READ):
                    connect_again(sock)
                elif ready & selectors.EVENT_WRITE:
                    at[0] = (at[0] + sock.send(view[at[0] : at[0] + READ])) % len(data)
            except BlockingIOError:
                pass
            except OSError:
                connect_again(sock)


def prepare(port: int, requests: Sequence[bytes]) -> None:
    """Send each request and wait for its response."""
    with socket.create_connection(("127.0.0.1", port)) as sock, sock.makefile("rb") as answers:
        for request in requests:
            sock.sendall(request)
            answers.read(int.from_bytes(answers.read(4), "big"))


def beats(sock: socket.socket, seconds: float) -> Iterator[float]:
    """Send heartbeats; return the latency of each in seconds."""
    data = framed(HeartbeatRequest(group_id="b", generation_id=1, member_id="m"), 4)
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        sock.sendall(data)
        sock.recv(READ)
        yield time.perf_counter() - began
        time.sleep(PAUSE)


@contextmanager
def serving(*topics: str) -> Iterator[tuple[int, int]]:
    """Run a broker; yield its process id and port. Raises: RuntimeError if it does not start.

    ``topics``: topics as ``mockbroker serve --topic`` expects them.
    """
    command = [sys.executable, "-m", "mockbroker", "serve", "--port", "0"]
    command += [part for topic in topics for part in ("--topic", topic)]
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT) as broker,
    ):
        try:
            assert broker.stdout is not None
            found = (re.search(r"127\.0\.0\.1:(\d+)", line) for line in broker.stdout)
            match = next(filter(None, found), None)
            if match is None:
                log.seek(0)
                raise RuntimeError(f"mockbroker did not start: {log.read().strip()}")
            yield broker.pid, int(match[1])
        finally:
            broker.kill()


@contextmanager
def attacking(port: int, chosen: Attack) -> Iterator[None]:
    """Run an attack on a port in another process."""
    arguments = port, chosen.connections, chosen.data()
    attacker = Process(target=attack, args=arguments, kwargs={"reads": chosen.reads})
    attacker.start()
    try:
        yield
    finally:
        attacker.kill()
        attacker.join()


def measure(name: str, seconds: float) -> str:
    """Return the row of an attack. ``seconds``: duration of the attack."""
    chosen = ATTACKS[name]
    topics = ["t:45000", *(["big:50000"] if name in ("large", "changing") else [])]
    with serving(*topics) as (pid, port), socket.create_connection(("127.0.0.1", port)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        prepare(port, chosen.before())
        list(beats(sock, WARM_UP))
        with attacking(port, chosen):
            before = sum(cpu_times(pid))
            latencies = sorted(beats(sock, seconds))
            used = sum(cpu_times(pid)) - before
    figures = [at(latencies, share) * 1e3 for share in (0.5, 0.99, 0.999, 1.0)]
    verdict = "ok" if at(latencies, 0.999) < GOAL else "above the goal"
    return (
        f"| {chosen.what} | {len(latencies):,} | "
        + " | ".join(f"{figure:,.1f}" for figure in figures)
        + (f" | {used / seconds * 100:.0f} % | {verdict} |")
    )


def at(values: Sequence[float], share: float) -> float:
    """Return a quantile: the value that this share of all values does not exceed."""
    return values[min(int(len(values) * share), len(values) - 1)]


def add_names(parser: argparse.ArgumentParser) -> None:
    """Add an argument with the names of attacks. Without a name, all attacks run."""
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ATTACKS))


def check_names(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """Exit with an error if an attack does not exist."""
    if unknown := set(names) - set(ATTACKS):
        parser.error(f"unknown attacks: {', '.join(sorted(unknown))} (possible: {', '.join(ATTACKS)})")


def main() -> None:
    parser = argparse.ArgumentParser()
    add_names(parser)
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    check_names(parser, given.names)
    print(
        "| attack | heartbeats | p50 ms | p99 | p99.9 | most | CPU of the broker | |\n|---|---|---|---|---|---|---|---|"
    )
    for name in given.names or ATTACKS:
        print(measure(name, given.seconds), flush=True)


if __name__ == "__main__":
    main()
