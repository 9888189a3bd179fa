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
from mockbroker.broker.fetch.session_cache import UNKNOWN as NOT_SENT
from mockbroker.broker.fetch.session_cache import FetchContext, FetchPartition, Key
from mockbroker.broker.slices import chunks
from mockbroker.topics import message_sets
from mockbroker.topics.epochs import UNKNOWN
from mockbroker.topics.log import PartitionLog
from mockbroker.topics.model import Partition
from mockbroker.transactions.registry import Ended

Answer = FetchResponse.Topic.Partition
NONE = ErrorCode.NONE
READ_COMMITTED = 1
MAGIC_1_SINCE = 2  # the version that has messages with timestamps
DIVERGING_EPOCH_SINCE = 12  # the version whose readers say which leader wrote what they read last
LARGE_FIRST_BATCH_SINCE = 3  # the version from which on the first batch comes even if it is larger than asked for
MISSING = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


@dataclass(slots=True)
class FetchResult:
    """``answers``: of a session without what is the same as before. ``size``: bytes of records found.

    ``failed``: whether to answer at once, for an error or for a reader of another log. ``watched``: partitions that
    could have more.
    """

    answers: list[tuple[Key, FetchPartition, Answer]] = field(default_factory=list)
    size: int = 0
    failed: bool = False
    watched: list[tuple[str, int]] = field(default_factory=list)


def complete_delayed_fetches(broker: Broker, partitions: Iterable[Partition]) -> Effects:
    """Answer the parked fetches that have enough now that these partitions have grown; each is read once."""
    if not broker.fetch_purgatory.pending:
        return []
    effects: Effects = []
    for call, context in broker.fetch_purgatory.watching(partitions):
        if len(context.wanted) > broker.slice_size:
            broker.fetch_purgatory.remove(call.ticket)
            effects += begin(call.ticket, fetch_in_slices(broker, call, context))
            continue
        result = read(broker, call, context)
        if is_satisfied(call, result):
            broker.fetch_purgatory.remove(call.ticket)
            broker.client_deadlines.forget(FetchDue(call.ticket))
            effects.append(reply(broker, call, context, result))
    return effects


def complete_transaction(broker: Broker, end: Ended) -> Effects:
    """What the end of a transaction brings: it is told of, and fetches may go on that waited for it."""
    return [*end.notes, *complete_delayed_fetches(broker, end.appended)]


def complete_expired_fetch(broker: Broker, due: FetchDue) -> Effects:
    """Answer a parked fetch with what there is."""
    parked = broker.fetch_purgatory.remove(due.ticket)
    if parked is None:
        return []
    call, context = parked
    if len(context.wanted) > broker.slice_size:
        context.expires_at = -inf
        return begin(call.ticket, fetch_in_slices(broker, call, context))
    return [reply(broker, call, context, read(broker, call, context))]


def fetch_in_slices(broker: Broker, call: Call[FetchRequest], context: FetchContext) -> Steps:
    """Read many partitions, and answer the fetch or park it.

    What comes in while they are read wakes no parked fetch, so before it is parked they are read again.
    """
    while True:
        epoch = broker.cluster.epoch
        result = FetchResult()
        reader = _Reader(broker, call, context, result)
        seen: list[tuple[PartitionLog, int, int]] = []
        now = -inf
        for number, part in enumerate(chunks(list(context.wanted.items()), broker.slice_size)):
            if number:
                now = yield []
            reader.read(part)
            logs = [wanted.place.log for _, wanted in part if wanted.place is not None]
            seen += [(log, log.start, log.end) for log in logs]
        if responds_at_once(call, context, result) or broker.to_client_time(now) >= context.expires_at:
            broker.client_deadlines.forget(FetchDue(call.ticket))
            return (yield from _reply_in_slices(broker, call, context, result))
        if broker.cluster.epoch == epoch and all((log.start, log.end) == (start, end) for log, start, end in seen):
            delay(broker, call, context, result)
            return []


def responds_at_once(call: Call[FetchRequest], context: FetchContext, result: FetchResult) -> bool:
    """True if the fetch has enough, or does not wait. Its first context decides which partitions are missing."""
    if context.unknown is None:
        context.unknown = {key for key, _, answer in result.answers if answer.error_code in MISSING}
    return is_satisfied(call, result) or call.request.max_wait_ms <= 0 or not result.watched


def delay(broker: Broker, call: Call[FetchRequest], context: FetchContext, result: FetchResult) -> None:
    """Wait for more."""
    broker.fetch_purgatory.add(call, context, result.watched)
    broker.client_deadlines.set(FetchDue(call.ticket), context.expires_at)


def is_satisfied(call: Call[FetchRequest], result: FetchResult) -> bool:
    return result.failed or result.size >= call.request.min_bytes


def reply(broker: Broker, call: Call[FetchRequest], context: FetchContext, result: FetchResult) -> Reply:
    """The answer, and what the session keeps of it."""
    if context.is_stale:
        return _stale_session(call, context)
    builder = _ResponseBuilder(context)
    builder.add(result.answers)
    return builder.reply(broker, call, result)


def _reply_in_slices(broker: Broker, call: Call[FetchRequest], context: FetchContext, result: FetchResult) -> Steps:
    """The same for many partitions. If another request uses the session meanwhile, it is told everything again."""
    builder = _ResponseBuilder(context)
    for number, part in enumerate(chunks(result.answers, broker.slice_size)):
        if number:
            yield []
        if context.is_stale:
            for _, wanted, _ in result.answers[: number * broker.slice_size]:
                wanted.high_watermark = NOT_SENT
            return [_stale_session(call, context)]
        builder.add(part)
    return [builder.reply(broker, call, result)]


def _stale_session(call: Call[FetchRequest], context: FetchContext) -> Reply:
    """The answer to a fetch whose session another request has used meanwhile."""
    assert context.session is not None
    error = ErrorCode.INVALID_FETCH_SESSION_EPOCH
    return Reply(call.ticket, FetchResponse(error_code=error, session_id=context.session.session_id))


class _ResponseBuilder:
    """A response as it grows."""

    def __init__(self, context: FetchContext) -> None:
        session = context.session
        self._context = context
        self._response = FetchResponse(session_id=session.session_id if session else 0)

    def add(self, answers: Iterable[tuple[Key, FetchPartition, Answer]]) -> None:
        """Add partitions, except those in a session of which the client knows everything."""
        in_session, by_id = self._context.session is not None, self._context.by_id
        topics = self._response.responses
        last = topics[-1] if topics else None
        for _, wanted, answer in answers:
            failed = answer.error_code != NONE
            news = wanted.update_response_data(answer.high_watermark, answer.log_start_offset, failed=failed)
            if in_session and not news and not answer.records and not _diverges(answer):
                continue
            name = "" if by_id else wanted.topic
            if last is None or (last.topic, last.topic_id) != (name, wanted.topic_id):
                last = FetchResponse.Topic(topic=name, topic_id=wanted.topic_id)
                topics.append(last)
            last.partitions.append(answer)

    def reply(self, broker: Broker, call: Call[FetchRequest], result: FetchResult) -> Reply:
        """The answer, with all that was added."""
        context = self._context
        if context.session is not None:
            context.session.move_to_end([key for key, _, answer in result.answers if answer.records])
        elif context.begins:
            self._response.session_id = broker.fetch_sessions(call.client.node).begin(context)
        return Reply(call.ticket, self._response)


def read(broker: Broker, call: Call[FetchRequest], context: FetchContext) -> FetchResult:
    result = FetchResult()
    _Reader(broker, call, context, result).read(context.wanted.items())
    return result


class _Reader:
    """Reads the partitions of a fetch, one after the other."""

    def __init__(self, broker: Broker, call: Call[FetchRequest], context: FetchContext, result: FetchResult) -> None:
        self._broker = broker
        self._call = call
        self._context = context
        self._result = result
        self._left = max(0, min(call.request.max_bytes, broker.settings.fetch_max_bytes))

    def read(self, partitions: Iterable[tuple[Key, FetchPartition]]) -> None:
        """Add what there is of some partitions to the result."""
        broker, context, result = self._broker, self._context, self._result
        for key, wanted in partitions:
            if wanted.cluster_epoch != broker.cluster.epoch:
                wanted.find(broker.cluster)
            place = wanted.place
            if context.session is not None and place is not None and _is_unchanged(wanted, place):
                result.watched.append((place.topic, place.index))
                continue
            answer = _read_partition(broker, self._call, wanted, self._left, first=result.size == 0)
            size = len(answer.records or b"")
            self._left -= size
            result.size += size
            result.failed |= _diverges(answer) or (
                answer.error_code != NONE
                and not (answer.error_code in MISSING and (context.unknown is None or key in context.unknown))
            )
            result.answers.append((key, wanted, answer))
            if place is not None:
                result.watched.append((place.topic, place.index))


def _diverges(answer: Answer) -> bool:
    return answer.diverging_epoch.end_offset >= 0


def _is_unchanged(wanted: FetchPartition, place: Partition) -> bool:
    """True if there is nothing to read and nothing to tell; most partitions of most fetches are like that."""
    asked, log = wanted.asked, place.log
    return (
        asked.fetch_offset == log.end == wanted.high_watermark
        and wanted.log_start == log.start
        and asked.current_leader_epoch in (-1, place.leader_epoch)
        and asked.last_fetched_epoch in (-1, place.leader_epoch)
    )


def _read_partition(
    broker: Broker, call: Call[FetchRequest], found: FetchPartition, left: int, *, first: bool
) -> Answer:
    partition, wanted = found.place, found.asked
    error = found.error or broker.leader_error(partition, call.client.node, wanted.current_leader_epoch)
    if error or partition is None:
        answer = Answer(partition_index=wanted.partition, error_code=error, high_watermark=-1, records=b"")
        if error not in MISSING:
            answer.aborted_transactions = None
        return answer
    log = partition.log
    parts = None
    if call.version >= DIVERGING_EPOCH_SINCE and wanted.last_fetched_epoch >= 0:
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
    least = first and call.version >= LARGE_FIRST_BATCH_SINCE
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
