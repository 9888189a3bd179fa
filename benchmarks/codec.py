"""kwire's codec, its reference engine and other libraries on the same bytes, in turn in one process.

    make bench

Each library decodes the bytes of a message body (no header) to its own objects, and encodes those to the same bytes,
which is checked. Rounds are interleaved, so that other load on the machine affects all libraries equally. A figure is
the median CPU time of ROUNDS rounds, with live objects excluded from garbage collection. Compare ratios, not times.
"""

from __future__ import annotations

import gc
import statistics
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

from kwire import codec
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment
from kwire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.messages.metadata import MetadataResponse
from kwire.messages.offset_commit import OffsetCommitRequest

ROUNDS = 15
ROUND = 0.02  # seconds of CPU of one library in one round, about

GOALS = {  # library: lowest multiple of kwire's time for decoding, and for encoding
    "reference": (10.0, 20.0),
    "kafka-python": (1.4, 5.0),
    "kio": (0.25, 8.0),
}
GEOMETRIC_MEAN = {"kafka-python": 2.0}  # of all decodings

Job = Callable[[], object]


@dataclass
class Case:
    """A message of the comparison. ``kio``, ``kafka``: name of the same message in those libraries."""

    name: str
    value: Any
    version: int
    kio: str | None = None
    kafka: tuple[str, str] | None = None
    data: bytes = b""
    decoders: dict[str, Job] = field(default_factory=dict)
    encoders: dict[str, Job] = field(default_factory=dict)


def member(number: int) -> str:
    return f"consumer-orders-{number:03}-{UUID(int=number * 7919)}"


def cases() -> list[Case]:
    """Return the messages of the comparison: small and large messages of groups."""
    subscription = struct.pack(">hih6sii", 3, 1, 6, b"orders", -1, 0) + bytes(160)
    return [
        Case(
            "Heartbeat v4 request",
            HeartbeatRequest(group_id="orders-group", generation_id=7, member_id=member(1)),
            4,
            "heartbeat.v4.request:HeartbeatRequest",
            ("consumer.group", "HeartbeatRequest"),
        ),
        Case(
            "FindCoordinator v4 request",
            FindCoordinatorRequest(key_type=0, coordinator_keys=["orders-group"]),
            4,
            "find_coordinator.v4.request:FindCoordinatorRequest",
            ("metadata", "FindCoordinatorRequest"),
        ),
        Case(
            "FindCoordinator v4 response",
            FindCoordinatorResponse(
                coordinators=[
                    FindCoordinatorResponse.Coordinator(
                        key="orders-group", node_id=1, host="broker-1.example.com", port=9092, error_message=""
                    )
                ]
            ),
            4,
            "find_coordinator.v4.response:FindCoordinatorResponse",
            ("metadata", "FindCoordinatorResponse"),
        ),
        Case(
            "JoinGroup v9 request, 3 protocols",
            JoinGroupRequest(
                group_id="orders-group",
                session_timeout_ms=45000,
                rebalance_timeout_ms=300000,
                member_id=member(1),
                protocol_type="consumer",
                protocols=[
                    JoinGroupRequest.Protocol(name=name, metadata=subscription)
                    for name in ("range", "roundrobin", "cooperative-sticky")
                ],
                reason="rebalance enforced by user",
            ),
            9,
            "join_group.v9.request:JoinGroupRequest",
            ("consumer.group", "JoinGroupRequest"),
        ),
        Case(
            "JoinGroup v9 response, 20 members",
            JoinGroupResponse(
                generation_id=7,
                protocol_type="consumer",
                protocol_name="range",
                leader=member(0),
                member_id=member(0),
                members=[
                    JoinGroupResponse.Member(member_id=member(number), metadata=subscription) for number in range(20)
                ],
            ),
            9,
            "join_group.v9.response:JoinGroupResponse",
            ("consumer.group", "JoinGroupResponse"),
        ),
        Case(
            "Metadata v12 response, 200 x 6",
            MetadataResponse(
                cluster_id="kwire-benchmark-cluster",
                controller_id=1,
                brokers=[
                    MetadataResponse.Broker(node_id=n, host=f"broker-{n}.example.com", port=9092) for n in range(3)
                ],
                topics=[
                    MetadataResponse.Topic(
                        name=f"topic-{topic:04}",
                        topic_id=UUID(int=0x1234_5678_9ABC_DEF0_0000 + topic),
                        partitions=[
                            MetadataResponse.Topic.Partition(
                                partition_index=n,
                                leader_id=n % 3,
                                leader_epoch=5,
                                replica_nodes=[0, 1, 2],
                                isr_nodes=[0, 1, 2],
                            )
                            for n in range(6)
                        ],
                    )
                    for topic in range(200)
                ],
            ),
            12,
            "metadata.v12.response:MetadataResponse",
            ("metadata", "MetadataResponse"),
        ),
        Case(
            "OffsetCommit v8 request, 500 partitions",
            OffsetCommitRequest(
                group_id="orders-group",
                generation_id_or_member_epoch=7,
                member_id=member(1),
                topics=[
                    OffsetCommitRequest.Topic(
                        name="orders",
                        partitions=[
                            OffsetCommitRequest.Topic.Partition(
                                partition_index=n,
                                committed_offset=123456789 + n,
                                committed_leader_epoch=5,
                                committed_metadata="",
                            )
                            for n in range(500)
                        ],
                    )
                ],
            ),
            8,
            "offset_commit.v8.request:OffsetCommitRequest",
            ("consumer.group", "OffsetCommitRequest"),
        ),
        Case(
            "consumer assignment v3, 1000 partitions",
            ConsumerProtocolAssignment(
                assigned_partitions=[
                    ConsumerProtocolAssignment.TopicPartition(
                        topic=f"topic-{topic:02}", partitions=list(range(topic * 100, topic * 100 + 100))
                    )
                    for topic in range(10)
                ]
            ),
            3,
            "consumer_protocol_assignment.v3.data:ConsumerProtocolAssignment",
            ("consumer.metadata", "ConsumerProtocolAssignment"),
        ),
    ]


def enter(case: Case) -> Case:
    """Add the jobs of every installed library to a case, after a check that it gives the same bytes."""
    message = type(case.value)
    case.data = data = codec.encode(case.value, case.version)
    case.decoders["kwire"] = partial(codec.decode, message, data, case.version)
    case.encoders["kwire"] = partial(codec.encode, case.value, case.version)
    case.decoders["reference"] = partial(codec.decode, message, data, case.version, engine="reference")
    case.encoders["reference"] = partial(codec.encode, case.value, case.version, engine="reference")
    if case.kafka:
        _enter_kafka(case, *case.kafka)
    if case.kio:
        _enter_kio(case, case.kio)
    for name, encoder in case.encoders.items():
        given = encoder()
        assert given is None or given == data, f"{name} writes other bytes for {case.name}"
    return case


def _enter_kafka(case: Case, module: str, name: str) -> None:
    try:
        message = getattr(__import__(f"kafka.protocol.{module}", fromlist=[name]), name)
    except ImportError:
        return
    if module == "consumer.metadata":  # these data classes take the version first
        stored = struct.pack(">h", case.version) + case.data
        value = message.decode(stored)
        assert value.encode(version=case.version) == stored
        case.decoders["kafka-python"] = partial(message.decode, stored)
        case.encoders["kafka-python"] = partial(_ignoring_head, value, case.version)
        return
    versioned = message[case.version]
    value = versioned.decode(case.data)
    value._header = None  # unset by decoding without a header, but read by encoding
    case.decoders["kafka-python"] = partial(versioned.decode, case.data)
    case.encoders["kafka-python"] = partial(value.encode, case.version)


def _ignoring_head(value: Any, version: int) -> None:
    value.encode(version=version)


def _enter_kio(case: Case, where: str) -> None:
    try:
        from kio.serial import entity_reader, entity_writer
    except ImportError:
        return
    module, _, name = where.partition(":")
    entity = getattr(__import__(f"kio.schema.{module}", fromlist=[name]), name)
    read, write = entity_reader(entity), entity_writer(entity)
    value, _ = read(case.data, 0)

    def encode() -> bytes:
        out: Any = bytearray()
        write(out, value)
        return bytes(out)

    try:
        encode()
    except (TypeError, AttributeError):
        import io

        def encode() -> bytes:
            out = io.BytesIO()
            write(out, value)
            return out.getvalue()

    case.decoders["kio"] = partial(read, case.data, 0)
    case.encoders["kio"] = encode


def measure(jobs: dict[str, Job], rounds: int = ROUNDS) -> dict[str, float]:
    """Return the CPU time of one call of each job in microseconds: the median of interleaved rounds."""
    counts = {name: _calls(job) for name, job in jobs.items()}
    times: dict[str, list[float]] = {name: [] for name in jobs}
    gc.collect()
    gc.freeze()
    for _ in range(rounds):
        for name, job in jobs.items():
            times[name].append(_time(job, counts[name]))
    gc.unfreeze()
    return {name: statistics.median(each) * 1e6 for name, each in times.items()}


def _calls(job: Job) -> int:
    """Return how many calls take a round; the code generated on first use exists afterwards."""
    for _ in range(40):
        job()
    return max(1, round(ROUND / max(_time(job, 3), 1e-9)))


def _time(job: Job, count: int) -> float:
    begin = time.thread_time()
    for _ in range(count):
        job()
    return (time.thread_time() - begin) / count


def table(title: str, rows: dict[str, dict[str, float]], goal: int) -> Iterator[str]:
    """Return the lines of a table: kwire's microseconds, then other times as multiples of it, * if below the goal."""
    contenders = list(dict.fromkeys(name for row in rows.values() for name in row if name != "kwire"))
    yield f"| {title} | kwire, us | {' | '.join(contenders)} |"
    yield f"|{'---|' * (len(contenders) + 2)}"
    for case, row in rows.items():
        cells = [cell(name, row, goal) for name in contenders]
        yield f"| {case} | {row['kwire']:.2f} | {' | '.join(cells)} |"
    means = [
        f"{statistics.geometric_mean([row[name] / row['kwire'] for row in rows.values() if name in row]):.2f}"
        for name in contenders
    ]
    yield f"| geometric mean | | {' | '.join(means)} |"
    goals = [f">= {GOALS[name][goal]}" if name in GOALS else "" for name in contenders]
    yield f"| goal | | {' | '.join(goals)} |"


def cell(name: str, row: dict[str, float], goal: int) -> str:
    if name not in row:
        return "-"
    ratio = row[name] / row["kwire"]
    return f"{ratio:.2f}{'' if name not in GOALS or ratio >= GOALS[name][goal] else ' *'}"


def main() -> None:
    entered = [enter(case) for case in cases()]
    for title, goal, jobs in (("decode", 0, "decoders"), ("encode", 1, "encoders")):
        rows = {f"{case.name}, {len(case.data)} B": measure(getattr(case, jobs)) for case in entered}
        print("\n".join(table(title, rows, goal)), end="\n\n")


if __name__ == "__main__":
    main()
