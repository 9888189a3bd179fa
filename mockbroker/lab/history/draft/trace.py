"""The trace of a cluster of the draft protocol: events, and intervals of partition ownership."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from kwire.lazy_dataclass import dataclass
from mockbroker.lab.history.draft.messages import Error, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """An entry of the trace: an action of a broker, or a state change of a broker or a consumer.

    Attributes:
        time: virtual time, seconds.
        kind: ``received`` or ``answered`` (a request), ``noticed`` (a cause of a rebalance), ``became`` (a new state),
            ``watched`` (a topic), ``wrote`` (a group to the store), ``kept`` (committed offsets in the store), ``cut``
            (closed a connection), ``failed`` or ``recovered`` (a broker).
        what: name of the message, cause, state, topic or group, as ``kind`` requires; "" for ``cut``, ``failed`` and
            ``recovered``.
        node: broker id; None for a state change of a consumer.
        consumer: name of the consumer that sends or receives the message; None without a message.
        error: error in the response; NONE without an error.
        generation: generation in the message or record; None if the message or record has no generation.
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
    """An interval in which a consumer regards itself as the owner of a partition.

    Attributes:
        group: group id.
        partition: topic and partition.
        consumer: consumer name.
        since: start of the interval, seconds.
        until: end of the interval, seconds; inf if it has not ended.
    """

    group: str
    partition: TopicPartition
    consumer: str
    since: float
    until: float = inf

    def covers(self, time: float) -> bool:
        return self.since <= time < self.until


def owners(spans: Iterable[Span], group: str, time: float) -> dict[TopicPartition, list[str]]:
    """Return the consumers that own each partition of a group at a time. Partitions without an owner are left out.

    Args:
        spans: intervals of ownership.
        group: group id.
        time: virtual time, seconds.
    """
    owners: dict[TopicPartition, list[str]] = {}
    for span in spans:
        if span.group == group and span.covers(time):
            owners.setdefault(span.partition, []).append(span.consumer)
    return owners


def overlaps(spans: Iterable[Span]) -> list[tuple[Span, Span]]:
    """Return the pairs of spans in which two consumers of one group own the same partition at the same time.

    In each pair, the span that began earlier is the first.

    ``spans``: intervals of ownership, in any order.
    """
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
    """Return the time, in seconds, for which a partition of a group had no owner in a period.

    Args:
        spans: intervals of ownership.
        group: group id.
        partition: topic and partition.
        begin: start of the period, seconds.
        end: end of the period, seconds.
    """
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
