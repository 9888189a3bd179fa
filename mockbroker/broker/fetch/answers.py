"""The answers to fetches: read what they ask for, and complete those in purgatory.

Up to v3 batches are returned as message sets.
Source: Kafka's DelayedFetch and ReplicaManager.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

from kwire import ErrorCode
from kwire.messages.fetch import FetchRequest, FetchResponse
from kwire.records.message_set import FETCH_BATCHES_SINCE
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.base.timers import FetchDue
from mockbroker.broker.broker import Broker
from mockbroker.broker.fetch.sessions import UNKNOWN as NOT_TOLD
from mockbroker.broker.fetch.sessions import Key, Reading, Wanted
from mockbroker.broker.slices import parts
from mockbroker.topics import message_sets
from mockbroker.topics.epochs import UNKNOWN
from mockbroker.topics.log import PartitionLog
from mockbroker.topics.model import Partition
from mockbroker.transactions.registry import Ended

Answer = FetchResponse.Topic.Partition
NONE = ErrorCode.NONE
READ_COMMITTED = 1
MAGIC_1_SINCE = 2  # the version that has messages with timestamps
DIVERGING_SINCE = 12  # the version whose readers say which leader wrote what they read last
LARGE_SINCE = 3  # the version from which on the first batch comes even if it is larger than asked for
NOT_THERE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


@dataclass(slots=True)
class FetchResult:
    """``answers``: of a session without what is the same as before. ``size``: bytes of records found.

    ``failed``: whether to answer at once, for an error or for a reader of another log. ``waits_for``: partitions that
    could have more.
    """

    answers: list[tuple[Key, Wanted, Answer]] = field(default_factory=list)
    size: int = 0
    failed: bool = False
    waits_for: list[tuple[str, int]] = field(default_factory=list)


def complete_appended(broker: Broker, partitions: Iterable[Partition]) -> Effects:
    """Answer the parked fetches that have enough now that these partitions have grown; each is read once."""
    if not broker.fetches.calls:
        return []
    effects: Effects = []
    for call, reading in broker.fetches.of(partitions):
        if len(reading.wanted) > broker.in_a_slice:
            broker.fetches.remove(call.ticket)
            effects += begin(call.ticket, answered_in_slices(broker, call, reading))
            continue
        result = read(broker, call, reading)
        if has_enough(call, result):
            broker.fetches.remove(call.ticket)
            broker.patience.forget(FetchDue(call.ticket))
            effects.append(reply(broker, call, reading, result))
    return effects


def complete_ended(broker: Broker, end: Ended) -> Effects:
    """What the end of a transaction brings: it is told of, and fetches may go on that waited for it."""
    return [*end.notes, *complete_appended(broker, end.appended)]


def complete_expired(broker: Broker, due: FetchDue) -> Effects:
    """Answer a parked fetch with what there is."""
    parked = broker.fetches.remove(due.ticket)
    if parked is None:
        return []
    call, reading = parked
    if len(reading.wanted) > broker.in_a_slice:
        reading.waits_until = -inf
        return begin(call.ticket, answered_in_slices(broker, call, reading))
    return [reply(broker, call, reading, read(broker, call, reading))]


def answered_in_slices(broker: Broker, call: Call[FetchRequest], reading: Reading) -> Steps:
    """Read many partitions, and answer the fetch or park it.

    What comes in while they are read wakes no parked fetch, so before it is parked they are read again.
    """
    while True:
        epoch = broker.cluster.epoch
        result = FetchResult()
        reader = _Reader(broker, call, reading, result)
        seen: list[tuple[PartitionLog, int, int]] = []
        now = -inf
        for number, part in enumerate(parts(list(reading.wanted.items()), broker.in_a_slice)):
            if number:
                now = yield []
            reader.read(part)
            logs = [wanted.place.log for _, wanted in part if wanted.place is not None]
            seen += [(log, log.start, log.end) for log in logs]
        if is_to_be_answered(call, reading, result) or broker.outside(now) >= reading.waits_until:
            broker.patience.forget(FetchDue(call.ticket))
            return (yield from _reply_in_slices(broker, call, reading, result))
        if broker.cluster.epoch == epoch and all((log.start, log.end) == (start, end) for log, start, end in seen):
            park(broker, call, reading, result)
            return []


def is_to_be_answered(call: Call[FetchRequest], reading: Reading, result: FetchResult) -> bool:
    """True if the fetch has enough, or does not wait. Its first reading decides which partitions are missing."""
    if reading.unknown is None:
        reading.unknown = {key for key, _, answer in result.answers if answer.error_code in NOT_THERE}
    return has_enough(call, result) or call.request.max_wait_ms <= 0 or not result.waits_for


def park(broker: Broker, call: Call[FetchRequest], reading: Reading, result: FetchResult) -> None:
    """Wait for more."""
    broker.fetches.park(call, reading, result.waits_for)
    broker.patience.set(FetchDue(call.ticket), reading.waits_until)


def has_enough(call: Call[FetchRequest], result: FetchResult) -> bool:
    return result.failed or result.size >= call.request.min_bytes


def reply(broker: Broker, call: Call[FetchRequest], reading: Reading, result: FetchResult) -> Reply:
    """The answer, and what the session keeps of it."""
    if reading.is_outdated:
        return _outdated(call, reading)
    collected = _Collected(reading)
    collected.add(result.answers)
    return collected.reply(broker, call, result)


def _reply_in_slices(broker: Broker, call: Call[FetchRequest], reading: Reading, result: FetchResult) -> Steps:
    """The same for many partitions. If another request uses the session meanwhile, it is told everything again."""
    collected = _Collected(reading)
    for number, part in enumerate(parts(result.answers, broker.in_a_slice)):
        if number:
            yield []
        if reading.is_outdated:
            for _, wanted, _ in result.answers[: number * broker.in_a_slice]:
                wanted.high_watermark = NOT_TOLD
            return [_outdated(call, reading)]
        collected.add(part)
    return [collected.reply(broker, call, result)]


def _outdated(call: Call[FetchRequest], reading: Reading) -> Reply:
    """The answer to a fetch whose session another request has used meanwhile."""
    assert reading.session is not None
    error = ErrorCode.INVALID_FETCH_SESSION_EPOCH
    return Reply(call.ticket, FetchResponse(error_code=error, session_id=reading.session.session_id))


class _Collected:
    """A response as it grows."""

    def __init__(self, reading: Reading) -> None:
        session = reading.session
        self._reading = reading
        self._response = FetchResponse(session_id=session.session_id if session else 0)

    def add(self, answers: Iterable[tuple[Key, Wanted, Answer]]) -> None:
        """Add partitions, except those in a session of which the client knows everything."""
        in_session, by_id = self._reading.session is not None, self._reading.by_id
        topics = self._response.responses
        last = topics[-1] if topics else None
        for _, wanted, answer in answers:
            failed = answer.error_code != NONE
            news = wanted.record_answer(answer.high_watermark, answer.log_start_offset, failed=failed)
            if in_session and not news and not answer.records and not _diverges(answer):
                continue
            name = "" if by_id else wanted.topic
            if last is None or (last.topic, last.topic_id) != (name, wanted.topic_id):
                last = FetchResponse.Topic(topic=name, topic_id=wanted.topic_id)
                topics.append(last)
            last.partitions.append(answer)

    def reply(self, broker: Broker, call: Call[FetchRequest], result: FetchResult) -> Reply:
        """The answer, with all that was added."""
        reading = self._reading
        if reading.session is not None:
            reading.session.had_records([key for key, _, answer in result.answers if answer.records])
        elif reading.begins:
            self._response.session_id = broker.fetch_sessions(call.client.node).begin(reading)
        return Reply(call.ticket, self._response)


def read(broker: Broker, call: Call[FetchRequest], reading: Reading) -> FetchResult:
    result = FetchResult()
    _Reader(broker, call, reading, result).read(reading.wanted.items())
    return result


class _Reader:
    """Reads the partitions of a fetch, one after the other."""

    def __init__(self, broker: Broker, call: Call[FetchRequest], reading: Reading, result: FetchResult) -> None:
        self._broker = broker
        self._call = call
        self._reading = reading
        self._result = result
        self._left = max(0, min(call.request.max_bytes, broker.settings.fetch_max_bytes))

    def read(self, partitions: Iterable[tuple[Key, Wanted]]) -> None:
        """Add what there is of some partitions to the result."""
        broker, reading, result = self._broker, self._reading, self._result
        for key, wanted in partitions:
            if wanted.cluster_epoch != broker.cluster.epoch:
                wanted.find(broker.cluster)
            place = wanted.place
            if reading.session is not None and place is not None and _is_as_told(wanted, place):
                result.waits_for.append((place.topic, place.index))
                continue
            answer = _read_partition(broker, self._call, wanted, self._left, first=result.size == 0)
            size = len(answer.records or b"")
            self._left -= size
            result.size += size
            result.failed |= _diverges(answer) or (
                answer.error_code != NONE
                and not (answer.error_code in NOT_THERE and (reading.unknown is None or key in reading.unknown))
            )
            result.answers.append((key, wanted, answer))
            if place is not None:
                result.waits_for.append((place.topic, place.index))


def _diverges(answer: Answer) -> bool:
    return answer.diverging_epoch.end_offset >= 0


def _is_as_told(wanted: Wanted, place: Partition) -> bool:
    """True if there is nothing to read and nothing to tell; most partitions of most fetches are like that."""
    asked, log = wanted.asked, place.log
    return (
        asked.fetch_offset == log.end == wanted.high_watermark
        and wanted.log_start == log.start
        and asked.current_leader_epoch in (-1, place.leader_epoch)
        and asked.last_fetched_epoch in (-1, place.leader_epoch)
    )


def _read_partition(broker: Broker, call: Call[FetchRequest], found: Wanted, left: int, *, first: bool) -> Answer:
    partition, wanted = found.place, found.asked
    error = found.error or broker.leader_error(partition, call.client.node, wanted.current_leader_epoch)
    if error or partition is None:
        answer = Answer(partition_index=wanted.partition, error_code=error, high_watermark=-1, records=b"")
        if error not in NOT_THERE:
            answer.aborted_transactions = None
        return answer
    log = partition.log
    parts = None
    if call.version >= DIVERGING_SINCE and wanted.last_fetched_epoch >= 0:
        parts = partition.epochs.end_of(wanted.last_fetched_epoch, log.end)
    if wanted.fetch_offset < log.start or (parts == UNKNOWN if parts else wanted.fetch_offset > log.end):
        return Answer(
            partition_index=wanted.partition,
            error_code=ErrorCode.OFFSET_OUT_OF_RANGE,
            high_watermark=-1,
            aborted_transactions=None,
            records=b"",
        )
    stable = partition.last_stable
    if parts and (parts[0] < wanted.last_fetched_epoch or parts[1] < wanted.fetch_offset):  # another log was read
        return Answer(
            partition_index=wanted.partition,
            high_watermark=log.end,
            last_stable_offset=stable,
            log_start_offset=log.start,
            diverging_epoch=Answer.EpochEndOffset(epoch=parts[0], end_offset=parts[1]),
            records=b"",
        )
    committed = call.request.isolation_level == READ_COMMITTED
    limit = max(0, min(left, wanted.partition_max_bytes))
    before = stable if committed else None
    least = first and call.version >= LARGE_SINCE
    records = log.read(wanted.fetch_offset, limit, at_least_one=least, before=before)
    if call.version < FETCH_BATCHES_SINCE:
        told = message_sets.from_batches(records, wanted.fetch_offset, int(call.version >= MAGIC_1_SINCE))
        if isinstance(told, ErrorCode):
            return Answer(partition_index=wanted.partition, error_code=told, high_watermark=-1)
        records = told
    return Answer(
        partition_index=wanted.partition,
        high_watermark=log.end,
        last_stable_offset=stable,
        log_start_offset=log.start,
        aborted_transactions=_aborted(partition, wanted.fetch_offset, len(records)) if committed else None,
        records=records,
    )


def _aborted(partition: Partition, offset: int, size: int) -> list[Answer.AbortedTransaction]:
    kind = Answer.AbortedTransaction
    found = partition.aborted_from(offset, size) if size and partition.aborted else []
    return [kind(producer_id=each.producer_id, first_offset=each.first) for each in found]
