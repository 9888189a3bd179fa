"""CPU time of reading captures in one process, beside tshark where it is installed.

    python benchmarks/capture.py [FOLDER [CAPTURE...]]

Makes three traces in FOLDER, unless they exist: *bulk*, 300 MB of Produce and Fetch with a group beside them;
*control*, 20 MB of heartbeats, commits, metadata and joins; *lossy*, the control trace with 0.1 % of its segments lost,
1 % out of order, 0.5 % twice. kwire builds their frames, in segments of 1448 bytes. Figures are CPU seconds of the
process, the best of three, for tshark as well; the garbage collector runs as rarely as in ``kwire capture``. Prints a
table for benchmarks/results/capture.md.

Then the commands ``kwire capture`` and ``tshark -T json`` write JSON lines of the named captures of real clients, or of
those in fixtures/captures, start-up included. benchmarks/clients.py records larger captures.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from uuid import UUID

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from tools.pcap import Segment, Talk, packets, pcap, prefixed, shaken

import kwire
from kwire import blobs
from kwire.analysis.run import analyse
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kwire.capture import Call, Connection, read
from kwire.capture.rows import json_lines
from kwire.cli.lines import rare_garbage_collection
from kwire.json.expanded import Context
from kwire.messages import APIS
from kwire.messages.fetch import FetchRequest, FetchResponse
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from kwire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kwire.messages.produce import ProduceRequest, ProduceResponse
from kwire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kwire.records import Record, build_batch

BULK, CONTROL = 300_000_000, 20_000_000
TOPIC = UUID(int=7)
GROUP_APIS = frozenset({3, 8, 9, 10, 11, 12, 13, 14, 68})
ROUNDS = 3
FIXTURES = Path(__file__).parent.parent / "fixtures" / "captures"


class Client:
    """A client with one connection, and its correlation ids."""

    def __init__(self, number: int) -> None:
        self.talk = Talk(
            client=(f"10.0.{number // 250}.{number % 250 + 1}", 40_000 + number), isn=(number * 77, number * 99)
        )
        self.name = f"consumer-orders-{number}"
        self.ids = count(1)

    def ask(self, version: int, request: object, response: object) -> list[Segment]:
        """Return the segments of a request and its response."""
        number = next(self.ids)
        frame = kwire.encode_request(request, version, correlation_id=number, client_id=self.name)
        answer = kwire.encode_response(response, version, correlation_id=number)
        return self.talk.say(True, prefixed(frame)) + self.talk.say(False, prefixed(answer))


def control(client: Client, turn: int) -> list[Segment]:
    """Return the requests and responses of a member of a classic group, without its fetches."""
    member = f"{client.name}-0b9d3a5e-8f5c-4a39-9d7c-1d6a3f3f7a11"
    if turn % 100 == 0:
        topics = [MetadataResponse.Topic(name="orders", topic_id=TOPIC, partitions=[partition(n) for n in range(6)])]
        nodes = [MetadataResponse.Broker(node_id=n, host=f"broker-{n}.example", port=9092) for n in range(3)]
        made = client.ask(
            12, MetadataRequest(topics=None), MetadataResponse(brokers=nodes, topics=topics, controller_id=1)
        )
        metadata = blobs.encode_stored(ConsumerProtocolSubscription(topics=["orders"]), 3)
        protocols = [JoinGroupRequest.Protocol(name="range", metadata=metadata)]
        ask = JoinGroupRequest(
            group_id="orders",
            session_timeout_ms=45_000,
            member_id=member,
            protocol_type="consumer",
            protocols=protocols,
        )
        members = [JoinGroupResponse.Member(member_id=member, metadata=metadata)]
        answer = JoinGroupResponse(
            generation_id=turn,
            protocol_type="consumer",
            protocol_name="range",
            leader=member,
            member_id=member,
            members=members,
        )
        made += client.ask(9, ask, answer)
        parts = [ConsumerProtocolAssignment.TopicPartition(topic="orders", partitions=list(range(6)))]
        assigned = blobs.encode_stored(ConsumerProtocolAssignment(assigned_partitions=parts), 3)
        wish = [SyncGroupRequest.Assignment(member_id=member, assignment=assigned)]
        sync = SyncGroupRequest(
            group_id="orders",
            generation_id=turn,
            member_id=member,
            protocol_type="consumer",
            protocol_name="range",
            assignments=wish,
        )
        return made + client.ask(
            5, sync, SyncGroupResponse(protocol_type="consumer", protocol_name="range", assignment=assigned)
        )
    if turn % 3 == 0:
        done = [
            OffsetCommitRequest.Topic.Partition(partition_index=n, committed_offset=turn * 10 + n) for n in range(3)
        ]
        commit = OffsetCommitRequest(
            group_id="orders",
            generation_id_or_member_epoch=5,
            member_id=member,
            topics=[OffsetCommitRequest.Topic(name="orders", partitions=done)],
        )
        stored = [OffsetCommitResponse.Topic.Partition(partition_index=n) for n in range(3)]
        return client.ask(
            8, commit, OffsetCommitResponse(topics=[OffsetCommitResponse.Topic(name="orders", partitions=stored)])
        )
    return client.ask(4, HeartbeatRequest(group_id="orders", generation_id=5, member_id=member), HeartbeatResponse())


def partition(number: int) -> MetadataResponse.Topic.Partition:
    replicas = [0, 1, 2]
    return MetadataResponse.Topic.Partition(
        partition_index=number, leader_id=number % 3, leader_epoch=4, replica_nodes=replicas, isr_nodes=replicas
    )


def bulk(client: Client, turn: int, batch: bytes) -> list[Segment]:
    """Return the requests and responses of a producer and a consumer of large batches, and sometimes of their group."""
    if turn % 8 == 0:
        return control(client, turn // 8)
    if turn % 2:
        data = ProduceRequest.Topic.Partition(index=turn % 6, records=batch)
        topic = ProduceRequest.Topic(name="orders", partition_data=[data])
        return client.ask(11, ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic]), ProduceResponse())
    partition = FetchResponse.Topic.Partition(partition_index=turn % 6, high_watermark=turn, records=batch * 4)
    return client.ask(
        17,
        FetchRequest(max_wait_ms=500),
        FetchResponse(responses=[FetchResponse.Topic(topic_id=TOPIC, partitions=[partition])]),
    )


def trace(size: int, clients: int, turn_of: Callable[[Client, int], list[Segment]]) -> Iterator[Segment]:
    """Return a trace of this size with concurrent conversations."""
    members = [Client(number) for number in range(clients)]
    for client in members:
        yield from client.talk.open()
    now = members[0].talk.time_us
    written = 0
    for turn in count():
        for client in members:
            client.talk.time_us = now
            for segment in turn_of(client, turn):
                written += 98 + len(segment.payload)
                yield segment
            now = client.talk.time_us
            if written >= size:
                return


def make(folder: Path) -> dict[str, Path]:
    """Return the paths of the traces, and write those that do not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {name: folder / f"{name}.pcap" for name in ("bulk", "control", "lossy")}
    batch = build_batch([Record(timestamp=1_700_000_000_000, key=b"key%05d" % n, value=b"v" * 200) for n in range(70)])
    if not paths["bulk"].exists():
        paths["bulk"].write_bytes(pcap(packets(trace(BULK, 12, lambda client, turn: bulk(client, turn, batch)))))
    if not paths["control"].exists():
        paths["control"].write_bytes(pcap(packets(trace(CONTROL, 40, control))))
        kept = shaken(list(trace(CONTROL, 40, control)), 1, lost=0.001, moved=0.01, again=0.005)
        paths["lossy"].write_bytes(pcap(packets(kept)))
    return paths


def objects(path: Path, bodies: frozenset[int] | None) -> int:
    """Read a capture as pairs of objects."""
    return sum(1 for item in read(path, bodies=bodies) if isinstance(item, Call) and item.response_us is not None)


def as_json(path: Path, bodies: frozenset[int] | None) -> int:
    """Read a capture as pairs in JSON lines."""
    reading = read(path, bodies=bodies, as_json=True)
    return sum(b', "direction": "response", ' in line for line in json_lines(reading, Context(reading.name_of)))


def as_tables(path: Path, *, bodies: bool) -> int:
    """Read a capture as all tables. ``bodies``: with the bodies as JSON in the table of frames."""
    reading = read(path)
    connections: list[Connection] = []

    def calls() -> Iterator[Call]:
        for item in reading:
            if isinstance(item, Call):
                yield item
            elif isinstance(item, Connection):
                connections.append(item)

    return len(analyse(calls(), connections, path.name, bodies=bodies)["frames"])


def measured(work: Callable[[], int]) -> tuple[float, int]:
    """Return the best CPU time of several rounds, and the result of the work."""
    best, given = float("inf"), 0
    for _ in range(ROUNDS):
        before = process_time()
        with rare_garbage_collection():
            given = work()
        best = min(best, process_time() - before)
    return best, given


def tshark(path: Path, form: str, ports: Iterable[int] = (9092,)) -> float | None:
    """Return the CPU seconds of tshark; None if it is not installed."""
    if shutil.which("tshark") is None:
        return None
    fields = ["-T", "json"] if form == "json" else ["-T", "fields", "-e", "kafka.api_key", "-e", "kafka.correlation_id"]
    decode = [word for port in ports for word in ("-d", f"tcp.port=={port},kafka")]
    return command_seconds(["tshark", "-r", str(path), *decode, *fields])


def command_seconds(command: list[str]) -> float:
    """Return the CPU seconds of a command, start-up included: the best of several rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        # a capture without packets is exit code 1
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def broker_ports(path: Path) -> list[int]:
    """Return the ports of the brokers in a capture."""
    brokers = {item.broker for item in read(path) if isinstance(item, Connection)}
    return sorted({int(broker.rpartition(":")[2]) for broker in brokers})


def of_clients(paths: Iterable[Path]) -> None:
    """Measure the commands with captures of real clients, and with an empty capture."""
    kwire_capture = [sys.executable, "-m", "kwire", "capture"]
    print("\n| capture | MB | pairs | JSON lines, in a process that has started | `kwire capture` | `tshark -T json` |")
    print("|---|---|---|---|---|---|")
    with TemporaryDirectory() as folder:
        empty = Path(folder) / "empty.pcap"
        empty.write_bytes(pcap([]))
        for path in [empty, *paths]:
            seconds, pairs = measured(lambda path=path: as_json(path, None))  # type: ignore[misc]
            whole, other = command_seconds([*kwire_capture, str(path)]), tshark(path, "json", broker_ports(path))
            name = "none: what it takes to start" if path == empty else path.name.partition(".pcap")[0]
            shown = "" if other is None else f"{other:.2f}"
            print(
                f"| {name} | {path.stat().st_size / 1e6:.2f} | {pairs} | {seconds:.2f} | {whole:.2f} | {shown} |",
                flush=True,
            )


def main(folder: Path, captures: Iterable[Path]) -> None:
    paths = make(folder)
    everything = frozenset(APIS)
    print("| trace | what | CPU s | MB/CPU-s | pairs | pairs/CPU-s |")
    print("|---|---|---|---|---|---|")
    for name, what, work in (
        ("bulk", "headers, bodies of groups", lambda: objects(paths["bulk"], GROUP_APIS)),
        ("bulk", "all bodies, as objects", lambda: objects(paths["bulk"], None)),
        ("control", "headers", lambda: objects(paths["control"], frozenset())),
        ("control", "all bodies, as objects", lambda: objects(paths["control"], everything)),
        ("control", "all bodies, as JSON lines", lambda: as_json(paths["control"], None)),
        ("control", "every table, without bodies", lambda: as_tables(paths["control"], bodies=False)),
        ("control", "every table, bodies as JSON", lambda: as_tables(paths["control"], bodies=True)),
        ("lossy", "all bodies, as JSON lines", lambda: as_json(paths["lossy"], None)),
    ):
        seconds, pairs = measured(work)
        size = paths[name].stat().st_size / 1e6
        print(
            f"| {name} | {what} | {seconds:.2f} | {size / seconds:.0f} | {pairs} | {pairs / seconds:.0f} |", flush=True
        )
    for form in ("fields", "json"):
        seconds_or_none = tshark(paths["control"], form)
        if seconds_or_none is not None:
            print(f"| control | tshark -T {form} | {seconds_or_none:.2f} | | | |", flush=True)
    of_clients(captures)
    print(f"\nlargest resident set: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    real = map(Path, sys.argv[2:]) if len(sys.argv) > 2 else sorted(FIXTURES.glob("*.pcap*"))
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(".cache") / "traces", real)
