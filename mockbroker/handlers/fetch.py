"""Fetch: v4-18. Not modelled: fetch sessions (every answer says there are none), fetching from followers,
quotas.

A fetch that finds less than min_bytes is parked until records come or max_wait is over.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kwire import ErrorCode
from kwire.messages.fetch import FetchRequest, FetchResponse
from kwire.schema import Versions
from mockbroker.broker import Broker
from mockbroker.calls import Call, Effects, Reply
from mockbroker.cluster.model import Partition, Topic
from mockbroker.due import FetchDue
from mockbroker.handlers.handler import Handler

Answer = FetchResponse.Topic.Partition
READ_COMMITTED = 1


@dataclass(slots=True)
class _Result:
    """``size``: bytes of records found. ``waits_for``: partitions that could have more."""

    response: FetchResponse
    size: int
    failed: bool
    waits_for: list[tuple[str, int]]


def handle(broker: Broker, call: Call[FetchRequest], now: float) -> Effects:
    request = call.request
    if request.session_epoch > 0:  # goes on with a session, and there are none
        return [Reply(call.ticket, FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))]
    result = _read(broker, call)
    if _enough(call, result) or request.max_wait_ms <= 0 or not result.waits_for:
        return [Reply(call.ticket, result.response)]
    broker.fetches.park(call, result.waits_for)
    broker.waits.set(FetchDue(call.ticket), now + request.max_wait_ms / 1000)
    return []


def appended(broker: Broker, partition: Partition) -> Effects:
    """Answer the parked fetches that have enough now that this partition has grown."""
    effects: Effects = []
    for call in broker.fetches.of(partition):
        result = _read(broker, call)
        if _enough(call, result):
            broker.fetches.take(call.ticket)
            broker.waits.forget(FetchDue(call.ticket))
            effects.append(Reply(call.ticket, result.response))
    return effects


def all_appended(broker: Broker, partitions: Iterable[Partition]) -> Effects:
    """The same for several partitions."""
    if not broker.fetches.calls:
        return []
    return [effect for partition in partitions for effect in appended(broker, partition)]


def waited(broker: Broker, due: FetchDue) -> Effects:
    """Answer a parked fetch with what there is."""
    call = broker.fetches.take(due.ticket)
    return [Reply(call.ticket, _read(broker, call).response)] if call else []


def _enough(call: Call[FetchRequest], result: _Result) -> bool:
    return result.failed or result.size >= call.request.min_bytes


def _read(broker: Broker, call: Call[FetchRequest]) -> _Result:
    result = _Result(FetchResponse(), 0, failed=False, waits_for=[])
    left = max(0, min(call.request.max_bytes, broker.settings.fetch_max_bytes))
    for asked in call.request.topics:
        topic = broker.cluster.find(asked.topic, asked.topic_id, by_id=call.version >= 13)
        partitions: list[Answer] = []
        for wanted in asked.partitions:
            answer = _read_partition(broker, call, topic, wanted, left, first=result.size == 0)
            size = len(answer.records or b"")
            left -= size
            result.size += size
            result.failed |= answer.error_code != ErrorCode.NONE
            partitions.append(answer)
            if topic is not None:
                result.waits_for.append((topic.name, wanted.partition))
        result.response.responses.append(
            FetchResponse.Topic(topic=asked.topic, topic_id=asked.topic_id, partitions=partitions)
        )
    return result


def _read_partition(
    broker: Broker,
    call: Call[FetchRequest],
    topic: Topic | None,
    wanted: FetchRequest.Topic.Partition,
    left: int,
    *,
    first: bool,
) -> Answer:
    partition = topic.partition(wanted.partition) if topic else None
    error = broker.leader_error(partition, call.client.node, wanted.current_leader_epoch)
    if topic is None and call.version >= 13:
        error = ErrorCode.UNKNOWN_TOPIC_ID
    if error or partition is None:
        return Answer(partition_index=wanted.partition, error_code=error, high_watermark=-1, records=b"")
    log = partition.log
    if not log.start <= wanted.fetch_offset <= log.end:
        return Answer(
            partition_index=wanted.partition,
            error_code=ErrorCode.OFFSET_OUT_OF_RANGE,
            high_watermark=-1,
            aborted_transactions=None,
            records=b"",
        )
    committed = call.request.isolation_level == READ_COMMITTED
    stable = partition.last_stable
    limit = max(0, min(left, wanted.partition_max_bytes))
    before = stable if committed else None
    records = log.read(wanted.fetch_offset, limit, at_least_one=first, before=before)
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
    found = partition.aborted_from(offset, size) if partition.aborted else []
    return [kind(producer_id=each.producer_id, first_offset=each.first) for each in found]


HANDLER = Handler(Versions.parse("4-18"), handle)
