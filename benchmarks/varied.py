"""The engines of kwire and other libraries on typical and on varied bodies, in turn in one process.

    make native; python benchmarks/varied.py

Typical bodies are those of ``codec.py`` (elements of equal length), and requests and responses of the captured clients
in fixtures/captures. Varied bodies come from a generator with a fixed seed: strings of 1 to 300 bytes, every fourth of
them not ASCII; where the version allows null, every fifth value is null; arrays of 50 to 500 elements of unequal
lengths. A figure is the median CPU time of interleaved rounds, as in ``codec.py``. Prints the tables of
benchmarks/results/varied.md.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from codec import Case, cases, enter, measure

from kwire import codec
from kwire.capture import Call, read
from kwire.engines import compiled, native
from kwire.engines.generated import WriterOptions
from kwire.messages import APIS
from kwire.messages.find_coordinator import FindCoordinatorResponse
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.messages.metadata import MetadataResponse
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_fetch import OffsetFetchResponse
from kwire.messages.sync_group import SyncGroupRequest

ROUNDS = 9
CAPTURES = Path(__file__).parent.parent / "fixtures" / "captures"
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789-._", "äöüßéñøλжяא中文字日本語한국🙂"
KIO = {  # modules of kio and kafka-python that have the message
    "ApiVersions": ("api_versions", "metadata"),
    "FindCoordinator": ("find_coordinator", "metadata"),
    "Heartbeat": ("heartbeat", "consumer.group"),
    "JoinGroup": ("join_group", "consumer.group"),
    "LeaveGroup": ("leave_group", "consumer.group"),
    "Metadata": ("metadata", "metadata"),
    "OffsetCommit": ("offset_commit", "consumer.group"),
    "OffsetFetch": ("offset_fetch", "consumer.group"),
    "SyncGroup": ("sync_group", "consumer.group"),
}


class Source:
    """Values of varied length, from a seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def text(self) -> str:
        letters = LETTERS[self.chance.random() < 0.25]
        size, out = self.chance.randint(1, 300), ""
        while len(out.encode()) < size:
            out += self.chance.choice(letters)
        return out if len(out.encode()) <= 300 else out[:-1]

    def null(self) -> str | None:
        return None if self.chance.random() < 0.2 else self.text()

    def data(self) -> bytes:
        return self.chance.randbytes(self.chance.randint(1, 300))

    def count(self) -> range:
        return range(self.chance.randint(50, 500))

    def numbers(self) -> list[int]:
        return [self.chance.randint(0, 2**31 - 1) for _ in range(self.chance.randint(1, 12))]


def varied() -> Iterator[tuple[Any, int]]:
    """Yield messages of varied content, with a version."""
    s = Source(1)
    member, protocol = JoinGroupResponse.Member, JoinGroupRequest.Protocol
    yield (
        JoinGroupRequest(
            group_id=s.text(),
            member_id=s.text(),
            protocol_type="consumer",
            reason=s.text(),
            protocols=[protocol(name=s.text(), metadata=s.data()) for _ in s.count()],
        ),
        9,
    )
    yield (
        JoinGroupResponse(
            members=[member(member_id=s.text(), group_instance_id=s.null(), metadata=s.data()) for _ in s.count()],
            leader=s.text(),
            member_id=s.text(),
        ),
        9,
    )
    yield (
        SyncGroupRequest(
            group_id=s.text(),
            assignments=[SyncGroupRequest.Assignment(member_id=s.text(), assignment=s.data()) for _ in s.count()],
        ),
        5,
    )
    yield (
        LeaveGroupRequest(
            group_id=s.text(),
            members=[
                LeaveGroupRequest.Member(member_id=s.text(), group_instance_id=s.null(), reason=s.null())
                for _ in s.count()
            ],
        ),
        5,
    )
    coordinator = FindCoordinatorResponse.Coordinator
    yield (
        FindCoordinatorResponse(
            coordinators=[
                coordinator(key=s.text(), node_id=n, host=s.text(), port=9092, error_message=s.null())
                for n in s.count()
            ]
        ),
        4,
    )
    topic, one = OffsetCommitRequest.Topic, OffsetCommitRequest.Topic.Partition
    yield (
        OffsetCommitRequest(
            group_id=s.text(),
            topics=[
                topic(
                    name=s.text(),
                    partitions=[one(partition_index=n, committed_metadata=s.null()) for n in range(9)],
                )
                for _ in s.count()
            ],
        ),
        8,
    )
    part = MetadataResponse.Topic.Partition
    yield (
        MetadataResponse(
            cluster_id=s.text(),
            brokers=[MetadataResponse.Broker(node_id=n, host=s.text(), port=9092, rack=s.null()) for n in range(50)],
            topics=[
                MetadataResponse.Topic(
                    name=s.text(),
                    topic_id=UUID(int=s.chance.getrandbits(128)),
                    partitions=[
                        part(partition_index=n, replica_nodes=s.numbers(), isr_nodes=s.numbers())
                        for n in range(s.chance.randint(1, 12))
                    ],
                )
                for _ in s.count()
            ],
        ),
        12,
    )
    group, found = OffsetFetchResponse.Group, OffsetFetchResponse.Group.Topic
    place = found.Partition
    yield (
        OffsetFetchResponse(
            groups=[
                group(
                    group_id=s.text(),
                    topics=[
                        found(
                            name=s.text(),
                            partitions=[place(partition_index=n, metadata=s.null()) for n in range(7)],
                        )
                        for _ in s.count()
                    ],
                )
            ]
        ),
        8,
    )


def captured() -> Iterator[tuple[Any, int]]:
    """Yield the longest request and response of each API in KIO that a captured client exchanged."""
    longest: dict[type, tuple[int, Any, int]] = {}
    for path in sorted(CAPTURES.glob("*")):
        for call in read(path):
            if (
                not isinstance(call, Call)
                or call.api_key is None
                or call.api_key not in APIS
                or APIS[call.api_key].name not in KIO
            ):
                continue
            for value in (call.request, call.response):
                if value is None or call.api_version is None:
                    continue
                size = len(codec.encode(value, call.api_version))
                if size > longest.get(type(value), (0, None, 0))[0]:
                    longest[type(value)] = (size, value, call.api_version)
    for _, value, version in longest.values():
        yield value, version


def case_of(value: Any, version: int) -> Case:
    """Return the case of a message, with its names in the other libraries."""
    name = type(value).__name__
    kind = "request" if name.endswith("Request") else "response"
    module, package = KIO[name.removesuffix("Request").removesuffix("Response")]
    return Case(
        f"{name.removesuffix(kind.title())} v{version} {kind}",
        value,
        version,
        f"{module}.v{version}.{kind}:{name}",
        (package, name),
    )


def prepared(case: Case) -> Case:
    """Return a case with the jobs of kwire's two fast engines, and of the libraries that have the message."""
    try:
        enter(case)
    except (ImportError, AttributeError, AssertionError, TypeError, ValueError) as error:
        print(f"{case.name}: not all libraries: {error}", file=sys.stderr)
    message: Any = type(case.value)
    for name in ("kwire", "reference"):
        case.decoders.pop(name, None)
        case.encoders.pop(name, None)
    for name, engine in (("native", native), ("compiled", compiled)):
        assert engine.decode(message, case.data, 0, case.version, 2**40)[0] == case.value
        read_body: Any = (
            native.reader_of(message, case.version)
            if engine is native
            else compiled.reader_of(message, case.version, compiled.PLAIN)
        )
        write_body: Any = (
            native.writer_of(message, case.version)
            if engine is native
            else compiled.writer_of(message, case.version, WriterOptions())
        )
        case.decoders[name] = partial(read_body, case.data, 0)
        case.encoders[name] = partial(write_body, case.value)
    return case


def rows(title: str, given: list[Case], kind: str) -> Iterator[str]:
    """Yield the lines of a table: microseconds of the native engine, and ratios of the engines to each library."""
    head = ("compiled / native", "kio / native", "kafka-python / native", "kafka-python / compiled")
    yield f"| {title} | bytes | native, µs | {' | '.join(head)} |"
    yield f"|---|{'---|' * 6}"
    columns: list[list[float]] = [[] for _ in head]
    for case in given:
        times = measure(getattr(case, kind), ROUNDS)
        ratios = [
            times[upper] / times[lower] if upper in times else None
            for upper, lower in (pair.split(" / ") for pair in head)
        ]
        for column, ratio in zip(columns, ratios, strict=True):
            column += [] if ratio is None else [ratio]
        cells = ["-" if ratio is None else f"**{ratio:.2f}**" if ratio < 1 else f"{ratio:.2f}" for ratio in ratios]
        yield f"| {case.name} | {len(case.data)} | {times['native']:.2f} | {' | '.join(cells)} |"
    yield f"| geometric mean | | | {' | '.join(f'{statistics.geometric_mean(c):.2f}' for c in columns)} |"


def main() -> None:
    if not native.package():
        sys.exit("the native engine is not installed: make native")
    kinds = {
        "typical, made": [prepared(case) for case in cases()],
        "typical, captured": [prepared(case_of(*each)) for each in captured()],
        "varied": [prepared(case_of(*each)) for each in varied()],
    }
    for kind in ("decoders", "encoders"):
        for title, given in kinds.items():
            verb = "decode" if kind == "decoders" else "encode"
            print("\n".join(rows(f"{verb}, {title}", given, kind)), end="\n\n")


if __name__ == "__main__":
    main()
