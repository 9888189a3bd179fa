"""Reading of partitions for Fetch requests, and the delay of requests until enough records are available.

In responses up to v3, record batches are converted to message sets. Source: Kafka's DelayedFetch and ReplicaManager.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from math import inf

from kwire import ErrorCode
from kwire.lazy_dataclass import dataclass
from kwire.messages.fetch import FetchRequest, FetchResponse
from kwire.records.message_set import FETCH_BATCHES_SINCE
from mockbroker.base.effects import AuthorizedCall, Call, Reply, Steps
from mockbroker.base.timers import FetchDue
from mockbroker.broker.broker import Broker
from mockbroker.broker.fetch.session_cache import UNKNOWN as NOT_SENT
from mockbroker.broker.fetch.session_cache import FetchContext, FetchPartition, Key
from mockbroker.broker.slices import chunks
from mockbroker.topics import message_sets
from mockbroker.topics.epochs import UNKNOWN
from mockbroker.topics.log import PartitionLog
from mockbroker.topics.model import Partition

PartitionResponse = FetchResponse.Topic.Partition
NONE = ErrorCode.NONE
READ_COMMITTED = 1
ISOLATION_LEVELS = (0, READ_COMMITTED)
MAGIC_1_SINCE = 2  # first version of message sets with timestamps
ANY_REPLICA_SINCE = 11  # first version with which consumers read from followers (KIP-392)
DIVERGING_EPOCH_SINCE = 12  # first version with last_fetched_epoch, for truncation detection (KIP-595)
LARGE_FIRST_BATCH_SINCE = 3  # first version that returns the first batch even if it exceeds max_bytes
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
# Errors of partitions that are not read; the fetch waits for records in the other partitions.
NOT_READ = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, DENIED})


@dataclass(slots=True)
class FetchResult:
    """The result of reading the partitions of a Fetch.

    Attributes:
        responses: The partitions that were read, each with its response; unchanged partitions of a session are omitted.
        not_read: The partitions that do not exist or that the client may not read, each with its error response.
        size: Total size of the records in bytes.
        failed: Whether the broker must respond immediately, because of an error, a diverging epoch, a preferred replica
            or the end of a segment.
        watched: Topic name and index of the partitions that the fetch waits for if it is delayed.
    """

    responses: list[tuple[Key, FetchPartition, PartitionResponse]] = field(default_factory=list)
    not_read: list[tuple[Key, FetchPartition, PartitionResponse]] = field(default_factory=list)
    size: int = 0
    failed: bool = False
    watched: list[tuple[str, int]] = field(default_factory=list)

    @property
    def ordered(self) -> list[tuple[Key, FetchPartition, PartitionResponse]]:
        """All partitions with their responses, in the order of Kafka's response."""
        return [*self.responses, *self.not_read] if self.not_read else self.responses


def fetch_in_slices(broker: Broker, call: Call[FetchRequest], context: FetchContext) -> Steps:
    """Read the partitions of a large Fetch, then respond to the fetch or delay it.

    The generator handles the request in slices (parts of limited size); the router handles other requests between two
    slices. The generator yields the effects of each slice, such as journal events. It returns the effects of the last
    slice: they include the response, or are empty if the fetch is delayed.

    While the slices are read, the fetch is not in the purgatory, so an append does not complete it. Therefore the fetch
    is delayed only if no partition has changed since it was read. If a partition has changed, all partitions are read
    again.

    Args:
        broker: The state of the cluster.
        call: The Fetch request.
        context: Partitions and session of the request.
    """
    while True:
        epoch = broker.cluster.epoch
        result = FetchResult()
        reader = _Reader(broker, call, context, result)
        log_offsets: list[tuple[PartitionLog, int, int]] = []  # log, and its start and end offsets when it was read
        now = -inf
        for number, chunk in enumerate(chunks(list(context.partitions.items()), broker.slice_size)):
            if number:
                now = yield []
            reader.read(chunk)
            logs = [fetched.partition.log for _, fetched in chunk if fetched.partition is not None]
            log_offsets += [(log, log.start, log.end) for log in logs]
        if responds_at_once(call, context, result) or broker.to_client_time(now) >= context.expires_at:
            broker.client_deadlines.forget(FetchDue(call.ticket))
            return (yield from _reply_in_slices(broker, call, context, result))
        unchanged = all((log.start, log.end) == (start, end) for log, start, end in log_offsets)
        if unchanged and broker.cluster.epoch == epoch:
            delay(broker, call, context, result)
            return []


def responds_at_once(call: Call[FetchRequest], context: FetchContext, result: FetchResult) -> bool:
    """Return whether a fetch is answered without delay.

    This is so if it has enough records or an error, if its maximum wait is 0, or if there is no partition for which it
    can wait.

    The first call for a fetch sets ``context.not_read``.

    Args:
        call: The Fetch request.
        context: Partitions and session of the request.
        result: The result of reading the partitions.
    """
    if context.not_read is None:
        context.not_read = {key for key, _, _ in result.not_read}
    return is_satisfied(call, result) or call.request.max_wait_ms <= 0 or not result.watched


def delay(broker: Broker, call: Call[FetchRequest], context: FetchContext, result: FetchResult) -> None:
    """Add a fetch to the purgatory, until there are enough records for the fetch or its maximum wait expires.

    Args:
        broker: The state of the cluster.
        call: The Fetch request.
        context: Partitions and session of the request.
        result: The result of reading the partitions.
    """
    broker.fetch_purgatory.add(call.ticket, (call, context), result.watched)
    broker.client_deadlines.set(FetchDue(call.ticket), context.expires_at)


def is_satisfied(call: Call[FetchRequest], result: FetchResult) -> bool:
    return result.failed or result.size >= call.request.min_bytes


def reply(broker: Broker, call: Call[FetchRequest], context: FetchContext, result: FetchResult) -> Reply:
    """Return the response to a fetch, and update its fetch session.

    If a later request has used the session, the response is INVALID_FETCH_SESSION_EPOCH.

    Args:
        broker: The state of the cluster.
        call: The Fetch request.
        context: Partitions and session of the request.
        result: The result of reading the partitions.
    """
    if context.is_stale:
        return _stale_session(call, context)
    builder = _ResponseBuilder(context)
    builder.add(result.ordered)
    return builder.reply(broker, call, result)


def _reply_in_slices(broker: Broker, call: Call[FetchRequest], context: FetchContext, result: FetchResult) -> Steps:
    """Build the response of a fetch with many partitions, and update the session.

    The generator handles the request in slices (parts of limited size); the router handles other requests between two
    slices. The generator yields the effects of each slice, such as journal events. It returns the effects of the last
    slice, which include the response.

    If a second request of the client uses the session before the last slice, the response is
    INVALID_FETCH_SESSION_EPOCH. The next response of the session then contains the partitions of the finished slices
    again, because the client has not received them.

    Args:
        broker: The state of the cluster.
        call: The Fetch request.
        context: Partitions and session of the request.
        result: The result of reading the partitions.
    """
    builder = _ResponseBuilder(context)
    ordered = result.ordered
    for number, chunk in enumerate(chunks(ordered, broker.slice_size)):
        if number:
            yield []
        if context.is_stale:
            for _, fetched, _ in ordered[: number * broker.slice_size]:
                fetched.high_watermark = NOT_SENT
            return [_stale_session(call, context)]
        builder.add(chunk)
    return [builder.reply(broker, call, result)]


def _stale_session(call: Call[FetchRequest], context: FetchContext) -> Reply:
    """Return INVALID_FETCH_SESSION_EPOCH as the response to a fetch.

    Its session was used by a later request before this response was complete.

    Args:
        call: The Fetch request.
        context: Partitions and session of the request.
    """
    assert context.session is not None
    error = ErrorCode.INVALID_FETCH_SESSION_EPOCH
    return Reply(call.ticket, FetchResponse(error_code=error, session_id=context.session.session_id))


class _ResponseBuilder:
    """The builder of the response to a fetch. The builder also creates or updates the fetch session.

    Args:
        context: The partitions and the session of the request.
    """

    def __init__(self, context: FetchContext) -> None:
        session = context.session
        self._context = context
        self._response = FetchResponse(session_id=session.session_id if session else 0)

    def add(self, responses: Iterable[tuple[Key, FetchPartition, PartitionResponse]]) -> None:
        """Add partitions to the response, except unchanged partitions of a session without new records.

        ``responses``: key, session entry and response of each partition.

        A partition is never omitted if the client must act before its next fetch (``_redirects``).
        """
        in_session, by_id = self._context.session is not None, self._context.by_id
        topics = self._response.responses
        last = topics[-1] if topics else None
        for _, fetched, response in responses:
            failed = response.error_code != NONE
            changed = fetched.update_response_data(response.high_watermark, response.log_start_offset, failed=failed)
            if in_session and not changed and not response.records and not _redirects(response):
                continue
            name = "" if by_id else fetched.topic
            if last is None or (last.topic, last.topic_id) != (name, fetched.topic_id):
                last = FetchResponse.Topic(topic=name, topic_id=fetched.topic_id)
                topics.append(last)
            last.partitions.append(response)

    def reply(self, broker: Broker, call: Call[FetchRequest], result: FetchResult) -> Reply:
        """Return the response with the added partitions.

        If the request uses a fetch session, the session is updated. If the request asks for a session, a session is
        created.

        Args:
            broker: The state of the cluster.
            call: The Fetch request.
            result: The result of reading the partitions.
        """
        context = self._context
        if context.session is not None:
            context.session.move_to_end([key for key, _, response in result.responses if response.records])
        elif context.creates_session:
            self._response.session_id = broker.fetch_sessions(call.client.node).create(context)
        return Reply(call.ticket, self._response)


def read(broker: Broker, call: Call[FetchRequest], context: FetchContext) -> FetchResult:
    result = FetchResult()
    _Reader(broker, call, context, result).read(context.partitions.items())
    return result


class _Reader:
    """The reader of a fetch's partitions. It reads the partitions in order, up to the maximum size of the response.

    Args:
        broker: The broker.
        call: The Fetch request.
        context: The partitions and the session of the request.
        result: The result. The reader adds the records of each partition.
    """

    def __init__(self, broker: Broker, call: Call[FetchRequest], context: FetchContext, result: FetchResult) -> None:
        self._broker = broker
        self._call = call
        self._context = context
        self._result = result
        self._remaining = max(0, min(call.request.max_bytes, broker.settings.fetch_max_bytes))
        self._may_read = call.may_read if isinstance(call, AuthorizedCall) else None

    def read(self, partitions: Iterable[tuple[Key, FetchPartition]]) -> None:
        """Read the records of partitions in order, and add the response of each partition to the result.

        ``partitions``: key and session entry of each partition.

        In a session, partitions without new records or changed offsets are skipped, unless the request has a rack.
        """
        broker, context, result, rack = self._broker, self._context, self._result, self._call.request.rack_id
        cluster, watched, may_read = broker.cluster, result.watched, self._may_read
        for key, fetched in partitions:
            if fetched.cluster_epoch != cluster.epoch:
                fetched.resolve(cluster)
            partition = fetched.partition
            if may_read is not None and fetched.topic and not may_read(fetched.topic):
                self._add_error(key, fetched, _error_response(fetched, DENIED))
                continue
            if partition is not None:
                watched.append((partition.topic, partition.index))
                if context.session is not None and not rack and _is_unchanged(fetched, partition):
                    continue
            response = _read_partition(broker, self._call, fetched, self._remaining, first=result.size == 0)
            if response.error_code:
                self._add_error(key, fetched, response)
                continue
            result.responses.append((key, fetched, response))
            if response.records:
                size = len(response.records)
                self._remaining -= size
                result.size += size
                assert partition is not None
                if len(partition.log.segments) > 1 and self._is_on_older_segment(fetched, partition):
                    result.failed = True
            elif _redirects(response):
                result.failed = True

    def _add_error(self, key: Key, fetched: FetchPartition, response: PartitionResponse) -> None:
        """Add the response of a partition that has an error.

        After an error, the broker responds to the fetch immediately. There is one exception: if the partition did not
        exist, or was denied to the client, when the fetch arrived, its error does not end the wait.

        Args:
            key: Key of the partition.
            fetched: The partition in the request or session.
            response: The response with the error.
        """
        known = self._context.not_read
        if response.error_code in NOT_READ and (known is None or key in known):
            self._result.not_read.append((key, fetched, response))
        else:
            self._result.responses.append((key, fetched, response))
            self._result.failed = True

    def _is_on_older_segment(self, fetched: FetchPartition, partition: Partition) -> bool:
        """Return whether a fetch reads from a segment that is not the newest.

        The broker responds to such a fetch at once, and the response ends with this segment. Source: Kafka's
        DelayedFetch.tryComplete.

        Args:
            fetched: The partition in the request or session.
            partition: The partition of the cluster.
        """
        committed = self._call.request.isolation_level == READ_COMMITTED
        end = partition.last_stable if committed else partition.log.end
        return partition.log.spans_segments(fetched.request.fetch_offset, end)


def _redirects(response: PartitionResponse) -> bool:
    """Return whether the client must act before it fetches again: truncate its log, or change to another replica.

    ``response``: response of one partition.
    """
    return response.diverging_epoch.end_offset >= 0 or response.preferred_read_replica != -1


def _is_unchanged(fetched: FetchPartition, partition: Partition) -> bool:
    """Return whether a partition of a fetch session is omitted from the response.

    This is so if the client has all records, the offsets are unchanged, and the epochs in the request are current.

    Args:
        fetched: The partition in the session.
        partition: The partition of the cluster.
    """
    request, log = fetched.request, partition.log
    return (
        request.fetch_offset == log.end == fetched.high_watermark
        and fetched.log_start == log.start
        and request.current_leader_epoch in (-1, partition.leader_epoch)
        and request.last_fetched_epoch in (-1, partition.leader_epoch)
    )


def _read_partition(
    broker: Broker, call: Call[FetchRequest], fetched: FetchPartition, remaining: int, *, first: bool
) -> PartitionResponse:
    partition, request = fetched.partition, fetched.request
    replica_error = broker.replica_error if call.version >= ANY_REPLICA_SINCE else broker.leader_error
    error = fetched.error or replica_error(partition, call.client.node, request.current_leader_epoch)
    if error or partition is None:
        return _error_response(fetched, error)
    log, node, version = partition.log, call.client.node, call.ticket.version
    end = log.end if partition.leader == node else partition.end_at(node)
    end_of_epoch = None  # the largest epoch up to the reader's last fetched epoch, and its end offset
    if version >= DIVERGING_EPOCH_SINCE and request.last_fetched_epoch >= 0:
        end_of_epoch = partition.epochs.end_of(request.last_fetched_epoch, end)
    if request.fetch_offset < log.start or (end_of_epoch == UNKNOWN if end_of_epoch else request.fetch_offset > end):
        return PartitionResponse(
            partition_index=request.partition,
            error_code=ErrorCode.OFFSET_OUT_OF_RANGE,
            high_watermark=-1,
            aborted_transactions=None,
            records=b"",
        )
    stable = min(partition.last_stable, end)
    if call.request.rack_id and partition.leader == node:
        preferred = broker.preferred_replica(partition, call.request.rack_id)
        if preferred != -1:
            return PartitionResponse(
                partition_index=request.partition,
                high_watermark=end,
                last_stable_offset=stable,
                log_start_offset=log.start,
                preferred_read_replica=preferred,
                aborted_transactions=None,
                records=b"",
            )
    if end_of_epoch and (end_of_epoch[0] < request.last_fetched_epoch or end_of_epoch[1] < request.fetch_offset):
        return PartitionResponse(
            partition_index=request.partition,
            high_watermark=end,
            last_stable_offset=stable,
            log_start_offset=log.start,
            diverging_epoch=PartitionResponse.EpochEndOffset(epoch=end_of_epoch[0], end_offset=end_of_epoch[1]),
            records=b"",
        )
    committed = call.request.isolation_level == READ_COMMITTED
    limit = max(0, min(remaining, request.partition_max_bytes))
    before = stable if committed else None if end == log.end else end
    at_least_one = first and version >= LARGE_FIRST_BATCH_SINCE
    records = log.read(request.fetch_offset, limit, at_least_one=at_least_one, before=before)
    if version < FETCH_BATCHES_SINCE:
        converted = message_sets.from_batches(records, request.fetch_offset, int(version >= MAGIC_1_SINCE))
        if isinstance(converted, ErrorCode):
            return PartitionResponse(partition_index=request.partition, error_code=converted, high_watermark=-1)
        records = converted
    return PartitionResponse(
        partition_index=request.partition,
        high_watermark=end,
        last_stable_offset=stable,
        log_start_offset=log.start,
        aborted_transactions=_aborted(partition, request.fetch_offset, len(records)) if committed else None,
        records=records,
    )


def _error_response(fetched: FetchPartition, error: ErrorCode) -> PartitionResponse:
    index = fetched.request.partition
    response = PartitionResponse(partition_index=index, error_code=error, high_watermark=-1, records=b"")
    if error not in NOT_READ:
        response.aborted_transactions = None
    return response


def _aborted(partition: Partition, offset: int, size: int) -> list[PartitionResponse.AbortedTransaction]:
    aborted = partition.aborted_from(offset, size) if size and partition.aborted else []
    return [
        PartitionResponse.AbortedTransaction(producer_id=each.producer_id, first_offset=each.first) for each in aborted
    ]
