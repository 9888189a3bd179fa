"""The checks of ``assert_delivered`` and ``assert_acknowledged``, for the records of share groups (KIP-932).

Each check returns the message of the failed assertion; "" if the assertion holds. The message shows deliveries,
acknowledgements and events of the group.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any, TypeVar
from uuid import UUID

from kwire import ErrorCode
from kwire.lazy_dataclass import dataclass
from mockbroker.api.wait import event_report
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Event
from mockbroker.broker.request_log import Request
from mockbroker.broker.share_fetch.journal import NAMES
from mockbroker.share.acknowledge import AcknowledgeType
from mockbroker.share.in_flight import TERMINAL
from mockbroker.share.state import UNINITIALIZED, StateKey
from mockbroker.topics.model import ClusterState

PROBLEMS_SHOWN = 10  # maximum number of ranges of records in a message
STEPS_SHOWN = 40  # maximum number of deliveries and acknowledgements in a message
NO_RESPONSE = "no response"
TopicPartition = tuple[str, int]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Step:
    """A delivery of consecutive records to a member, or an acknowledgement of consecutive records.

    Attributes:
        time_ms: Milliseconds since the cluster was started or reset.
        partition: Topic and partition index.
        first: First offset.
        last: Last offset.
        client_id: The ``client.id`` of the member.
        kind: Number of the ``AcknowledgeType``; None for a delivery.
        delivery_count: For a delivery, how many times the records have been delivered; otherwise 0.
        error: Name of the error in the response to the acknowledgement; "" if it succeeded, NO_RESPONSE if the response
            is not known.
        fault: Name of the fault rule that was applied to the request, or None.
    """

    time_ms: int
    partition: TopicPartition
    first: int
    last: int
    client_id: str
    kind: int | None = None
    delivery_count: int = 0
    error: str = ""
    fault: str | None = None

    def __str__(self) -> str:
        details = [f"{self.time_ms / 1000:8.3f} s", _records(self.partition, self.first, self.last)]
        details += [f"client={self.client_id}", self.what()]
        if self.error:
            details.append(f"error={self.error}")
        if self.fault is not None:
            details.append(f"fault={self.fault}")
        return "  ".join(details)

    def what(self) -> str:
        """Return a text that describes this delivery or acknowledgement."""
        if self.kind is None:
            return f"acquired (delivery {self.delivery_count})"
        return NAMES.get(self.kind, f"acknowledged with type {self.kind}")


@dataclass(frozen=True, slots=True)
class _Violation:
    """A failed expectation about consecutive records, such as too many deliveries.

    Attributes:
        partition: Topic and partition number.
        first: Offset of the first record.
        last: Offset of the last record.
        text: What is wrong, for the message.
    """

    partition: TopicPartition
    first: int
    last: int
    text: str

    def overlaps(self, step: Step) -> bool:
        """Return whether ``step`` is a delivery or an acknowledgement of at least one of the records."""
        return step.partition == self.partition and step.first <= self.last and self.first <= step.last

    def __str__(self) -> str:
        return f"{_records(self.partition, self.first, self.last)}: {self.text}"


def repeated_deliveries(
    group_id: str,
    requests: Iterable[Request],
    events: Iterable[Event],
    topics: ClusterState,
    topic: str | None,
    at_most: int,
) -> str:
    """Return the failure message about records that were delivered too many times; "" if no record was.

    If no record was delivered at all, the result is a failure message too.

    Args:
        group_id: id of the share group.
        requests: the ShareFetch and ShareAcknowledge requests.
        events: all events.
        topics: the topics of the cluster, to find the name for a topic id.
        topic: name of the topic to check; None for all topics.
        at_most: the highest allowed number of deliveries.
    """
    steps = _steps(group_id, requests, topics, topic)
    if all(step.kind is not None for step in steps):
        return _message([_nothing_delivered(group_id, topic)], group_id, steps, events)
    problems = [
        _Violation(partition, first, last, f"delivered {count} times, expected at most {at_most}")
        for partition, own in _by_partition(steps)
        for first, last, count in _runs((*each[:2], _deliveries(each[2])) for each in _segments(own))
        if count > at_most
    ]
    return _message(problems, group_id, steps, events) if problems else ""


def unacknowledged(
    group_id: str,
    requests: Iterable[Request],
    events: Iterable[Event],
    broker: Broker,
    topic: str | None,
    rejected: int,
) -> str:
    """Return the failure message about records that were not accepted; "" if the assertion holds.

    The assertion fails if a record is not completed yet, if the number of records that were not accepted differs from
    ``rejected``, or if no record was delivered.

    Args:
        group_id: id of the share group.
        requests: the ShareFetch and ShareAcknowledge requests.
        events: all events.
        broker: the state of the cluster.
        topic: name of the topic to check; None for all topics.
        rejected: the expected number of records that were rejected by a member, or archived after the last allowed
            delivery.
    """
    steps = _steps(group_id, requests, broker.cluster, topic)
    own = {
        (name, key.partition): key
        for key in broker.share_states.of_group(group_id)
        if topic in (None, name := _name(key.topic_id, broker.cluster))
    }
    if not own or not any(step.kind is None for step in steps):
        return _message([_nothing_delivered(group_id, topic)], group_id, steps, events)
    of_partition = dict(_by_partition(steps))
    remaining: list[_Violation] = []
    dropped: list[_Violation] = []
    for partition, key in sorted(own.items()):
        segments = list(_segments(of_partition.get(partition, [])))
        incomplete = list(_incomplete(key, broker))
        remaining += [_Violation(partition, *each, _last_step(segments, each[0])) for each in incomplete]
        complete = (each for each in segments if not any(low <= each[0] <= high for low, high in incomplete))
        outcomes = _runs((first, last, _dropped(own_steps)) for first, last, own_steps in complete)
        dropped += [_Violation(partition, *each) for each in outcomes if each[2]]
    problems: list[_Violation | str] = [*remaining]
    count = sum(each.last - each.first + 1 for each in dropped)
    if count != rejected:
        problems += [f"{count} records were rejected or archived, expected {rejected}", *dropped]
    return _message(problems, group_id, steps, events) if problems else ""


def _nothing_delivered(group_id: str, topic: str | None) -> str:
    of_topic = "" if topic is None else f" of topic {topic}"
    return f"no record{of_topic} was delivered to share group {group_id!r}"


# --- the history of the records ---


def _steps(group_id: str, requests: Iterable[Request], topics: ClusterState, topic: str | None) -> list[Step]:
    """Return the deliveries and acknowledgements of a group in the order of time.

    Args:
        group_id: Id of the share group.
        requests: The ShareFetch and ShareAcknowledge requests.
        topics: The topics of the cluster, to find the name for a topic id.
        topic: Only the records of this topic; None for all.
    """
    own = (request for request in requests if request.body.group_id == group_id)
    steps = [step for request in own for step in (*_acknowledged(request, topics), *_delivered(request, topics))]
    return sorted((step for step in steps if topic in (None, step.partition[0])), key=lambda step: step.time_ms)


def _acknowledged(request: Request, topics: ClusterState) -> Iterator[Step]:
    """Yield the acknowledgements in a ShareFetch or ShareAcknowledge request."""
    errors = _errors(request)
    for topic in request.body.topics:
        name = _name(topic.topic_id, topics)
        for each in topic.partitions:
            error = NO_RESPONSE if errors is None else errors(topic.topic_id, each.partition_index)
            for batch in each.acknowledgement_batches:
                for first, last, kind in _ranges_by_type(batch):
                    partition = name, each.partition_index
                    yield Step(
                        request.time_ms,
                        partition,
                        first,
                        last,
                        request.client_id,
                        kind,
                        error=error,
                        fault=request.fault,
                    )


def _ranges_by_type(batch: Any) -> Iterator[tuple[int, int, int]]:
    """Divide an acknowledgement batch into ranges with one acknowledgement type.

    Yield first offset, last offset and type of each range. Adjacent ranges have different types.
    """
    types = batch.acknowledge_types
    if len(types) == 1:
        yield batch.first_offset, batch.last_offset, types[0]
        return
    first = batch.first_offset
    for kind, same in groupby(types):
        count = len(list(same))
        yield first, first + count - 1, kind
        first += count


def _errors(request: Request) -> Callable[[UUID, int], str] | None:
    """Return a function that returns the error name of an acknowledgement, or "" if it succeeded.

    The arguments of the function are topic id and partition index. The result is None instead of a function if the
    response to ``request`` is not known.
    """
    response = request.response
    if response is None:
        return None
    field = "acknowledge_error_code" if request.api == "ShareFetch" else "error_code"
    codes = {
        (topic.topic_id, each.partition_index): getattr(each, field)
        for topic in response.responses
        for each in topic.partitions
    }

    def error(topic_id: UUID, index: int) -> str:
        code = response.error_code or codes.get((topic_id, index), ErrorCode.NONE)
        return ErrorCode(code).name if code else ""

    return error


def _delivered(request: Request, topics: ClusterState) -> Iterator[Step]:
    """Yield the deliveries in the response to a ShareFetch."""
    if request.response is None or request.api != "ShareFetch":
        return
    time_ms = request.time_ms + (request.latency_ms or 0)
    for topic in request.response.responses:
        for each in topic.partitions:
            partition = _name(topic.topic_id, topics), each.partition_index
            for run in each.acquired_records:
                yield Step(
                    time_ms,
                    partition,
                    run.first_offset,
                    run.last_offset,
                    request.client_id,
                    delivery_count=run.delivery_count,
                    fault=request.fault,
                )


def _name(topic_id: UUID, topics: ClusterState) -> str:
    """Return the name of a topic; the id if the topic does not exist."""
    topic = topics.by_id.get(topic_id)
    return str(topic_id) if topic is None else topic.name


def _by_partition(steps: Iterable[Step]) -> Iterator[tuple[TopicPartition, list[Step]]]:
    for partition, own in groupby(sorted(steps, key=_partition), key=_partition):
        yield partition, list(own)


_partition = attrgetter("partition")


def _segments(steps: Sequence[Step]) -> Iterator[tuple[int, int, list[Step]]]:
    """Divide offsets into ranges. All offsets of a range have the same deliveries and acknowledgements.

    Yield first offset, last offset, and the deliveries and acknowledgements of each range. Offsets without any are left
    out.

    ``steps``: deliveries and acknowledgements of one partition, in the order of time.
    """
    edges = sorted({edge for step in steps for edge in (step.first, step.last + 1)})
    covering: list[list[Step]] = [[] for _ in edges]
    for step in steps:
        for index in range(bisect_left(edges, step.first), bisect_left(edges, step.last + 1)):
            covering[index].append(step)
    for (first, end), own in zip(pairwise(edges), covering, strict=False):
        if own:
            yield first, end - 1, own


def _runs(segments: Iterable[tuple[int, int, T]]) -> Iterator[tuple[int, int, T]]:
    """Merge adjacent offset ranges with equal values. Yield first offset, last offset and value of each resulting
    range.

    ``segments``: tuples of first offset, last offset and value, in the order of offsets.
    """
    run: tuple[int, int, T] | None = None
    for first, last, value in segments:
        if run is not None and (run[1] + 1, run[2]) == (first, value):
            run = run[0], last, value
            continue
        if run is not None:
            yield run
        run = first, last, value
    if run is not None:
        yield run


def _deliveries(steps: Iterable[Step]) -> int:
    """Return how many times a record was delivered. ``steps``: deliveries and acknowledgements of the record."""
    counts = [step.delivery_count for step in steps if step.kind is None]
    return max(len(counts), max(counts, default=0))


def _dropped(steps: Sequence[Step]) -> str:
    """Return a text that describes why a delivered record was not accepted.

    The result is "" if the record was accepted, if its offset is a gap, or if it was not delivered.

    ``steps``: deliveries and acknowledgements of a record whose delivery is complete.
    """
    kinds = {step.kind: step for step in steps if step.error in ("", NO_RESPONSE)}
    if AcknowledgeType.ACCEPT in kinds or AcknowledgeType.GAP in kinds or None not in kinds:
        return ""
    if (step := kinds.get(AcknowledgeType.REJECT)) is not None:
        return f"rejected by {step.client_id} at {step.time_ms / 1000:g} s"
    return f"archived after {_deliveries(steps)} deliveries"


def _incomplete(key: StateKey, broker: Broker) -> Iterator[tuple[int, int]]:
    """Yield first and last offset of each range of records whose delivery is not complete.

    Args:
        key: The share partition. Its topic must exist.
        broker: The state of the cluster.
    """
    state = broker.share_states.state(key)
    partition = broker.cluster.by_id[key.topic_id].partition(key.partition)
    if state is None or partition is None:
        return
    offset = (
        partition.log.start if state.start_offset == UNINITIALIZED else max(state.start_offset, partition.log.start)
    )
    for batch in state.batches:
        if batch.state in TERMINAL:
            if batch.first > offset:
                yield offset, batch.first - 1
            offset = max(offset, batch.last + 1)
    if offset < partition.log.end:
        yield offset, partition.log.end - 1


def _last_step(segments: Iterable[tuple[int, int, Sequence[Step]]], offset: int) -> str:
    for first, last, steps in segments:
        if first <= offset <= last:
            return f"not acknowledged; {steps[-1].what()} by {steps[-1].client_id} at {steps[-1].time_ms / 1000:g} s"
    return "never delivered"


# --- the message ---


def _message(
    problems: Sequence[_Violation | str], group_id: str, steps: Sequence[Step], events: Iterable[Event]
) -> str:
    """Return the message of a failed assertion.

    Args:
        problems: The problems. For a problem with records, the message shows the deliveries and acknowledgements of
            these records.
        group_id: Id of the share group.
        steps: The deliveries and acknowledgements of the group.
        events: All events.
    """
    ranges = [each for each in problems if isinstance(each, _Violation)]
    shown = [step for step in steps if not ranges or any(each.overlaps(step) for each in ranges[:PROBLEMS_SHOWN])]
    lines = [str(each) for each in problems[:PROBLEMS_SHOWN]]
    if len(problems) > PROBLEMS_SHOWN:
        lines.append(f"... and {len(problems) - PROBLEMS_SHOWN} more")
    title = "deliveries and acknowledgements of these records:"
    if len(shown) > STEPS_SHOWN:
        title = f"last {STEPS_SHOWN} of {len(shown)} {title}"
    if shown:
        lines += [title, *(f"  {step}" for step in shown[-STEPS_SHOWN:])]
    return "\n".join([*lines, *event_report([event for event in events if event.group == group_id])])


def _records(partition: TopicPartition, first: int, last: int) -> str:
    topic, index = partition
    return f"{topic}-{index} offset {first}" if first == last else f"{topic}-{index} offsets {first} to {last}"
