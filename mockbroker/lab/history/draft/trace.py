"""The trace of a draft cluster: its events, and the intervals of partition ownership."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from mockbroker.lab.history.draft.messages import Error, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """An event: an action of a broker, or a state change of a broker or a consumer.

    Attributes:
        time: seconds.
        kind: received, noticed, became, watched, wrote, kept, cut, answered, failed or recovered.
        what: name of a message, a cause, or a state.
        node: broker id, None for a state change of a consumer.
        consumer: sender or receiver of the message.
        error: error of the response.
        generation: generation in the message.
    """

    time: float
    kind: str
    what: str = ""
    node: int | None = None
    consumer: str | None = None
    error: Error = Error.NONE
    generation: int | None = None

    def __str__(self) -> str:
        node = "      " if self.node is None else f"node {self.node}"
        error = "" if self.error is Error.NONE else f" {self.error.value}"
        generation = "" if self.generation is None else f" generation {self.generation}"
        return (
            f"{self.time:9.3f}  {node}  {self.consumer or '':3}  {self.kind:9} {self.what}{error}{generation}".rstrip()
        )


@dataclass(frozen=True, slots=True)
class Span:
    """An interval in which a consumer believes to own a partition; ``until`` is inf if it still does."""

    group: str
    partition: TopicPartition
    consumer: str
    since: float
    until: float = inf

    def covers(self, time: float) -> bool:
        return self.since <= time < self.until


def owners(spans: Iterable[Span], group: str, time: float) -> dict[TopicPartition, list[str]]:
    """Return the owners of each partition at a time; partitions without an owner are omitted."""
    owners: dict[TopicPartition, list[str]] = {}
    for span in spans:
        if span.group == group and span.covers(time):
            owners.setdefault(span.partition, []).append(span.consumer)
    return owners


def overlaps(spans: Iterable[Span]) -> list[tuple[Span, Span]]:
    """Return the pairs of spans in which two consumers of a group own a partition at the same time."""
    by_partition: dict[tuple[str, TopicPartition], list[Span]] = {}
    for span in sorted(spans, key=lambda span: span.since):
        by_partition.setdefault((span.group, span.partition), []).append(span)
    return [
        (one, other)
        for listed in by_partition.values()
        for number, one in enumerate(listed)
        for other in listed[number + 1 :]
        if other.since < one.until and one.consumer != other.consumer
    ]


def unowned(spans: Iterable[Span], group: str, partition: TopicPartition, begin: float, end: float) -> float:
    """Return the seconds between ``begin`` and ``end`` in which the partition had no owner."""
    held = sorted(
        (max(span.since, begin), min(span.until, end))
        for span in spans
        if (span.group, span.partition) == (group, partition) and span.since < end and span.until > begin
    )
    free, at = 0.0, begin
    for since, until in held:
        free += max(0.0, since - at)
        at = max(at, until)
    return free + max(0.0, end - at)
