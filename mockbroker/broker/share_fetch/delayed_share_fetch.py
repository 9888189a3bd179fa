"""Acquisition of records for ShareFetch requests, and the delay of requests until records are available.

Source: Kafka's DelayedShareFetch, ShareFetchUtils and KafkaApis.handleShareFetchRequest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kwire import ErrorCode
from kwire.messages.share_fetch import ShareFetchResponse
from kwire.records.batch import read_batch
from mockbroker.base.effects import Effects, Reply, Steps, begin
from mockbroker.base.timers import ShareDisconnectDue, ShareFetchDue, ShareLockDue
from mockbroker.broker.broker import Broker
from mockbroker.broker.share_fetch.journal import acquired_note, expired_note
from mockbroker.broker.share_fetch.leaders import EndpointCollector
from mockbroker.broker.share_fetch.pending import PartitionResponse, PendingShareFetch
from mockbroker.broker.share_fetch.release import release_session
from mockbroker.broker.slices import chunks
from mockbroker.share.acquire import AcquireMode, Acquisition, acquire, remove_aborted
from mockbroker.share.sessions import FINAL_EPOCH, PartitionKey, SessionKey
from mockbroker.share.share_partition import SharePartition
from mockbroker.share.state import StateKey
from mockbroker.topics.log import StoredBatch
from mockbroker.topics.model import Partition

NONE = ErrorCode.NONE


class _Acquirable(NamedTuple):
    """A partition from which records may be acquired, and the offset to read from.

    Attributes:
        share: The state of the partition in the share group.
        partition: The partition with its log.
        offset: Offset of the first record to read.
    """

    share: SharePartition
    partition: Partition
    offset: int


def complete_delayed_share_fetches(broker: Broker, partitions: Iterable[Partition], now: float) -> Effects:
    """Complete the delayed share fetches for which a change of partitions, such as an append, provides records.

    Args:
        broker: The state of the cluster.
        partitions: The changed partitions.
        now: The broker's time in seconds.

    Returns: the effects, such as responses and journal events.
    """
    if not broker.share_fetch_purgatory.pending:
        return []
    topics = ((broker.cluster.topics.get(partition.topic), partition.index) for partition in partitions)
    keys = [(topic.topic_id, index) for topic, index in topics if topic is not None]
    return _complete_satisfied(broker, broker.share_fetch_purgatory.watching(keys), now)


def complete_for_share_partitions(broker: Broker, keys: Iterable[StateKey], now: float) -> Effects:
    """Complete the delayed share fetches for which a change of share partitions, such as a release, provides records.

    Args:
        broker: The state of the cluster.
        keys: The changed share partitions, of one group.
        now: The broker's time in seconds.

    Returns: the effects, such as responses and journal events.
    """
    changed = list(keys)
    pending = broker.share_fetch_purgatory.watching((key.topic_id, key.partition) for key in changed)
    return _complete_satisfied(broker, [each for each in pending if each.group_id == changed[0].group_id], now)


def handle_due(broker: Broker, due: ShareLockDue | ShareFetchDue | ShareDisconnectDue, now: float) -> Effects:
    """Handle a due deadline.

    Args:
        broker: The state of the cluster.
        due: Key of the deadline.
        now: The broker's time in seconds.

    Returns: the effects, such as responses and journal events.
    """
    match due:
        case ShareLockDue(key):
            return expire_locks(broker, StateKey(*key), now)
        case ShareFetchDue():
            return complete_expired_share_fetch(broker, due, now)
        case ShareDisconnectDue(number):
            return disconnect(broker, number, now)


def complete_expired_share_fetch(broker: Broker, due: ShareFetchDue, now: float) -> Effects:
    """Answer a share fetch whose maximum wait has expired, with the available records.

    If ``PendingShareFetch.error`` of the request is set, the response is this error. If the request was answered
    already, nothing happens.

    Args:
        broker: The state of the cluster.
        due: Key of the deadline, which contains the request.
        now: The broker's time in seconds.

    Returns: the effects, such as responses and journal events.
    """
    fetch = broker.share_fetch_purgatory.remove(due.ticket)
    if fetch is None:
        return []
    if fetch.error:
        return [Reply(fetch.call.ticket, ShareFetchResponse(error_code=fetch.error))]
    fetch.settings = broker.share_group_settings(fetch.group_id)
    if len(fetch.partitions) > broker.slice_size:
        return begin(fetch.call.ticket, fetch_in_slices(broker, fetch, now, expired=True))
    return _complete(broker, fetch, _acquirable(broker, fetch, fetch.partitions), now)


def expire_locks(broker: Broker, key: StateKey, now: float) -> Effects:
    """Release the records of a share partition whose acquisition locks have expired.

    The share fetches that wait for these records are completed.

    Args:
        broker: The state of the cluster.
        key: The share partition.
        now: The broker's time in seconds.

    Returns: the effects, such as responses and journal events.
    """
    ended = broker.share_partitions.expire_locks(key, now)
    return [*expired_note(broker, key, ended), *complete_for_share_partitions(broker, [key], now)] if ended else []


def disconnect(broker: Broker, connection: int, now: float) -> Effects:
    """End the share session of a closed connection, and release the records that its member has acquired.

    If the group has no more share sessions at the broker, the broker unloads the group's share partitions.

    Source: Kafka's ShareSessionCache.ClientConnectionDisconnectListener.

    Args:
        broker: The state of the cluster.
        connection: Number of the connection.
        now: The broker's time in seconds.

    Returns: the effects, such as responses and journal events.
    """
    effects: Effects = []
    for node, sessions in broker.all_share_sessions():
        session = sessions.disconnect(connection)
        if session is None:
            continue
        if sessions.get(session.key) is session:
            released = release_session(broker, node, session.key, now)
            effects += complete_for_share_partitions(broker, released, now)
        if not sessions.has_group(session.key.group_id):
            broker.unload_shares_of_group(node, session.key.group_id)
    return effects


def begin_fetch(broker: Broker, fetch: PendingShareFetch, now: float) -> Effects:
    """Respond to a ShareFetch, or delay it until records are available.

    Args:
        broker: The state of the cluster.
        fetch: The ShareFetch.
        now: The broker's time in seconds.

    Returns: the effects, such as responses and journal events.
    """
    request = fetch.call.request
    if not fetch.partitions or not request.max_records or not _max_bytes(broker, fetch):
        return _respond(broker, fetch, {}, now)
    if len(fetch.partitions) > broker.slice_size:
        return begin(fetch.call.ticket, fetch_in_slices(broker, fetch, now, expired=request.max_wait_ms <= 0))
    acquirable = _acquirable(broker, fetch, fetch.partitions)
    if request.max_wait_ms <= 0 or _is_satisfied(broker, fetch, acquirable):
        return _complete(broker, fetch, acquirable, now)
    delay(broker, fetch)
    return []


def fetch_in_slices(broker: Broker, fetch: PendingShareFetch, now: float, *, expired: bool) -> Steps:
    """Acquire records for a large ShareFetch, then respond or delay the request.

    The generator handles the request in slices (parts of limited size); the router handles other requests between two
    slices. The generator yields the effects of each slice, such as journal events. It returns the effects of the last
    slice, which include the response unless the request is delayed.

    Whether enough records are available is decided after the last slice, so records that were appended between two
    slices are counted.

    Args:
        broker: the state of the cluster.
        fetch: the request, which is not in the purgatory.
        now: the broker's time in seconds, at the first slice.
        expired: whether the maximum wait has expired: the broker then responds with the available records, even if
            there are none.
    """
    acquirable: list[_Acquirable] = []
    for number, partitions in enumerate(chunks(fetch.partitions, broker.slice_size)):
        if number:
            now = yield []
            if has_ended(broker, fetch):
                return _session_not_found(fetch)
        acquirable += _acquirable(broker, fetch, partitions)
    if not expired and not _is_satisfied(broker, fetch, acquirable):
        delay(broker, fetch)
        return []
    responses: dict[PartitionKey, PartitionResponse] = {}
    moved: list[StateKey] = []
    reader = _Reader(broker, fetch, len(acquirable), now) if acquirable else None
    for some in chunks(acquirable, broker.slice_size):
        now = yield []
        if has_ended(broker, fetch):
            return _session_not_found(fetch)
        assert reader is not None
        reader.read_all(some, responses, moved)
    return _respond(broker, fetch, responses, now) + complete_for_share_partitions(broker, moved, now)


def has_ended(broker: Broker, fetch: PendingShareFetch) -> bool:
    """Return whether the share session of a ShareFetch has ended, for example because its connection was closed.

    Such a request may not acquire records.

    Args:
        broker: The state of the cluster.
        fetch: The ShareFetch.
    """
    request = fetch.call.request
    member = SessionKey(fetch.group_id, request.member_id or "")
    return broker.share_sessions(fetch.call.client.node).get(member) is not fetch.opened


def _session_not_found(fetch: PendingShareFetch) -> Effects:
    return [Reply(fetch.call.ticket, ShareFetchResponse(error_code=ErrorCode.SHARE_SESSION_NOT_FOUND))]


def delay(broker: Broker, fetch: PendingShareFetch) -> None:
    """Add a ShareFetch to the purgatory.

    It stays there until the broker can answer it, or until its maximum wait expires.
    """
    broker.share_fetch_purgatory.add(fetch.call.ticket, fetch, fetch.watched)
    broker.client_deadlines.set(ShareFetchDue(fetch.call.ticket), fetch.expires_at)


def _complete_satisfied(broker: Broker, pending: Sequence[PendingShareFetch], now: float) -> Effects:
    effects: Effects = []
    for fetch in pending:
        ticket = fetch.call.ticket
        if ticket not in broker.share_fetch_purgatory.pending:
            continue
        fetch.settings = broker.share_group_settings(fetch.group_id)
        if len(fetch.partitions) > broker.slice_size:
            broker.share_fetch_purgatory.remove(ticket)
            broker.client_deadlines.forget(ShareFetchDue(ticket))
            late = broker.to_client_time(now) >= fetch.expires_at
            effects += begin(ticket, fetch_in_slices(broker, fetch, now, expired=late))
            continue
        acquirable = _acquirable(broker, fetch, fetch.partitions)
        if _is_satisfied(broker, fetch, acquirable):
            broker.share_fetch_purgatory.remove(ticket)
            broker.client_deadlines.forget(ShareFetchDue(ticket))
            effects += _complete(broker, fetch, acquirable, now)
    return effects


def _acquirable(
    broker: Broker, fetch: PendingShareFetch, partitions: Iterable[tuple[StateKey, Partition]]
) -> list[_Acquirable]:
    """Return the partitions from which records may be acquired, each with the offset to read from.

    Args:
        broker: The state of the cluster.
        fetch: The ShareFetch.
        partitions: The partitions to consider.
    """
    found: list[_Acquirable] = []
    for key, partition in partitions:
        share = broker.share_partitions.loaded.get(key)
        if share is not None and partition.leader == fetch.call.client.node and share.can_acquire():
            found.append(_Acquirable(share, partition, share.next_fetch_offset()))
    return found


def _is_satisfied(broker: Broker, fetch: PendingShareFetch, acquirable: Sequence[_Acquirable]) -> bool:
    """Return whether a ShareFetch can be answered now.

    The result is True if ``min_bytes`` of records are available, or if an offset to read from is not in the log.

    Args:
        broker: The state of the cluster.
        fetch: The ShareFetch.
        acquirable: Partitions from which records may be acquired, each with the offset to read from.
    """
    if not acquirable:
        return False
    committed = fetch.settings.read_committed
    most = _max_bytes(broker, fetch)
    wanted = min(fetch.call.request.min_bytes, most)
    size = 0
    for _, partition, offset in acquirable:
        log = partition.log
        end = partition.last_stable if committed else log.end
        if not log.start <= offset <= end:
            return True
        if offset < end:
            size += min(log.size_from(offset, end), most // len(acquirable))
            if size >= wanted:
                return True
    return size >= wanted


def _complete(broker: Broker, fetch: PendingShareFetch, acquirable: Sequence[_Acquirable], now: float) -> Effects:
    """Acquire records, and respond to a ShareFetch.

    If the start offset of a share partition changes, the delayed share fetches that can now be answered are completed
    too.

    Args:
        broker: The state of the cluster.
        fetch: The request.
        acquirable: Partitions from which records may be acquired.
        now: The broker's time in seconds.

    Returns: the effects, such as responses and journal events.
    """
    responses: dict[PartitionKey, PartitionResponse] = {}
    moved: list[StateKey] = []
    if acquirable:
        _Reader(broker, fetch, len(acquirable), now).read_all(acquirable, responses, moved)
    effects = _respond(broker, fetch, responses, now)
    return effects + complete_for_share_partitions(broker, moved, now)


class _Reader:
    """The reader of a ShareFetch's partitions. It reads the partitions in order, up to the limits of the response.

    Args:
        broker: The broker.
        fetch: The ShareFetch.
        count: Number of partitions to read. Each partition may use an equal part of the maximum size of the response.
        now: Current time in seconds.
    """

    def __init__(self, broker: Broker, fetch: PendingShareFetch, count: int, now: float) -> None:
        request = fetch.call.request
        self._broker = broker
        self._member_id = request.member_id or ""
        self._mode = AcquireMode(request.share_acquire_mode)
        self._batch_size = request.batch_size
        self._committed = fetch.settings.read_committed
        self._locked_until = fetch.settings.lock_end(now)
        self._records_left = request.max_records
        self._bytes_left = _max_bytes(broker, fetch)
        self._bytes_each, self._bytes_over = divmod(self._bytes_left, count)
        self._first = True

    def read_all(
        self,
        acquirable: Iterable[_Acquirable],
        responses: dict[PartitionKey, PartitionResponse],
        moved: list[StateKey],
    ) -> None:
        """Read partitions, and acquire their records.

        Args:
            acquirable: The partitions, each with the offset to read from.
            responses: Dict to which the response of each partition is added.
            moved: List to which share partitions with a new start offset are added.
        """
        for each in acquirable:
            start, key = each.share.start, each.share.key
            responses[key.topic_id, key.partition] = self.read(each)
            if each.share.start > start:
                moved.append(key)

    def read(self, each: _Acquirable) -> PartitionResponse:
        """Read a partition (``each``), acquire records from it, and return its response.

        If the offset is not in the log, no record is acquired. If records were deleted at the start of the log, the
        start offset of the share partition moves to the log start offset.
        """
        share, partition, offset = each
        response = PartitionResponse(partition_index=partition.index, records=b"")
        limit = min(self._bytes_left, self._bytes_each + self._bytes_over)
        self._bytes_over = 0
        end = partition.last_stable if self._committed else partition.log.end
        if not partition.log.start <= offset <= partition.log.end:
            share.move_start_to_log_start(partition.log.start)
            return response
        batches = partition.log.select(
            offset,
            limit,
            max(share.end, offset) + self._records_left,
            at_least_one=self._first,
            before=end,
        )
        self._first &= not batches
        request = Acquisition(self._member_id, self._mode, self._batch_size, self._records_left, self._locked_until)
        acquire(share, request, offset, batches)
        if self._committed and request.acquired and partition.aborted:
            remove_aborted(share, request, _aborted(partition, batches, request))
            if not request.acquired:  # no acknowledgement would move the start offset
                share.move_start()
        self._broker.share_partitions.schedule(share)
        if not request.acquired:
            return response
        response.records = b"".join(_overlapping(batches, request.acquired[0].first, request.acquired[-1].last))
        response.acquired_records = [
            PartitionResponse.AcquiredRecords(first_offset=first, last_offset=last, delivery_count=deliveries)
            for first, last, deliveries in request.acquired
        ]
        self._bytes_left -= len(response.records)
        self._records_left -= request.count
        return response


def _overlapping(batches: Sequence[StoredBatch], first: int, last: int) -> list[bytes]:
    """Return the bytes of the batches that contain an offset from ``first`` to ``last``."""
    return [batch.data for batch in batches if batch.last_offset >= first and batch.base_offset <= last]


def _aborted(partition: Partition, batches: Sequence[StoredBatch], request: Acquisition) -> list[StoredBatch]:
    """Return the acquired batches that belong to aborted transactions.

    Args:
        partition: The partition.
        batches: The batches that were read.
        request: The acquisition of records.
    """
    first, last = request.acquired[0].first, request.acquired[-1].last
    found: list[StoredBatch] = []
    for stored in batches:
        if stored.last_offset >= first and stored.base_offset <= last:
            batch = read_batch(stored.data)
            if not batch.control and not partition.is_committed(batch):
                found.append(stored)
    return found


def _max_bytes(broker: Broker, fetch: PendingShareFetch) -> int:
    return max(0, min(fetch.call.request.max_bytes, broker.settings.fetch_max_bytes))


# --- the response ---


def _respond(
    broker: Broker, fetch: PendingShareFetch, responses: dict[PartitionKey, PartitionResponse], now: float
) -> Effects:
    """Return the effects of the response to a ShareFetch.

    The response contains the partitions that were read, errors, and the results of acknowledgements. If the request
    ends the share session, the records that the member has acquired are released.

    If a later request has used the session, the response has INVALID_SHARE_SESSION_EPOCH and no records. If a topic in
    the response was deleted, the response is UNKNOWN_SERVER_ERROR, and the session does not end.

    Args:
        broker: the state of the cluster.
        fetch: the request.
        responses: the partitions that were read, with their responses.
        now: the broker's time in seconds.
    """
    request, session = fetch.call.request, fetch.session
    responses |= fetch.responses
    response = ShareFetchResponse(acquisition_lock_timeout_ms=fetch.settings.record_lock_duration_ms)
    if session is not None and session.epoch != fetch.epoch:
        response.error_code = ErrorCode.INVALID_SHARE_SESSION_EPOCH
        responses = {}
    elif session is not None:
        responses = {
            key: each
            for key, each in responses.items()
            if session.selects(key, records=bool(each.records), failed=each.error_code != NONE)
        }
    if any(topic_id not in broker.cluster.by_id for topic_id, _ in responses):
        # Kafka fails to build a response with a topic id that it does not know.
        return [Reply(fetch.call.ticket, ShareFetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))]
    effects: Effects = [*acquired_note(broker, fetch.call, responses)]
    for key, result in fetch.acknowledged.items():
        partition = responses.setdefault(key, PartitionResponse(partition_index=key[1], records=b""))
        if result is not None:
            partition.acknowledge_error_code = result.error
            partition.acknowledge_error_message = result.message or None
    endpoints = EndpointCollector(broker, fetch.call.client)
    topics: dict[object, ShareFetchResponse.Topic] = {}
    for (topic_id, index), partition in responses.items():
        leader = endpoints.leader_for(partition.error_code, topic_id, index)
        if leader is not None:
            partition.current_leader = PartitionResponse.Leader(leader_id=leader[0], leader_epoch=leader[1])
        topics.setdefault(topic_id, ShareFetchResponse.Topic(topic_id=topic_id)).partitions.append(partition)
    response.responses = list(topics.values())
    response.node_endpoints = endpoints.endpoints(ShareFetchResponse.NodeEndpoint)
    effects.append(Reply(fetch.call.ticket, response))
    if request.share_session_epoch == FINAL_EPOCH:
        member = SessionKey(fetch.group_id, request.member_id or "")
        released = release_session(broker, fetch.call.client.node, member, now)
        effects += complete_for_share_partitions(broker, released, now)
    return effects
