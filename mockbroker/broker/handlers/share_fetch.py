"""The handler of ShareFetch v1-2, which acquires records for a member of a share group.

Not modelled: the byte quotas of consumers do not apply. Source: Kafka's KafkaApis.handleShareFetchRequest and
SharePartitionManager.newContext.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kwire import ErrorCode
from kwire.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin, refused_partitions
from mockbroker.broker.broker import Broker
from mockbroker.broker.share_fetch.acknowledgements import RENEW_SINCE, acknowledge_all
from mockbroker.broker.share_fetch.delayed_share_fetch import (
    begin_fetch,
    complete_for_share_partitions,
    delay,
    has_ended,
)
from mockbroker.broker.share_fetch.journal import acknowledged_note
from mockbroker.broker.share_fetch.pending import PartitionResponse, PendingShareFetch
from mockbroker.broker.slices import chunks
from mockbroker.share.acquire import AcquireMode
from mockbroker.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, PartitionKey, SessionKey
from mockbroker.share.share_partition import SharePartition
from mockbroker.share.state import StateKey

ACQUIRE_MODES = frozenset(AcquireMode)
MAX_MEMBER_ID = 36  # characters of a member id, the length of a UUID


def handle(broker: Broker, call: Call[ShareFetchRequest], now: float) -> Effects:
    request = call.request
    member = SessionKey(request.group_id or "", request.member_id or "")
    if not is_member_id(member.member_id) or _has_invalid_renewal(call):
        return _refuse(call, ErrorCode.INVALID_REQUEST)
    settings = broker.share_group_settings(member.group_id)
    fetch = PendingShareFetch(call, settings, expires_at=broker.to_client_time(now) + request.max_wait_ms / 1000)
    error = _open_session(broker, fetch, member)
    if error == ErrorCode.SHARE_SESSION_LIMIT_REACHED:
        fetch.error = error
        delay(broker, fetch)
        return []
    if error:
        return _refuse(call, error)
    effects: Effects = []
    if _has_acknowledgements(request):
        node, renew = call.client.node, request.is_renew_ack
        fetch.acknowledged, changed = acknowledge_all(
            broker,
            request.topics,
            member,
            node,
            lock_end=settings.lock_end(now),
            renew=renew,
            version=call.version,
            now=now,
        )
        effects = [
            *acknowledged_note(broker, call, request.topics, fetch.acknowledged),
            *complete_for_share_partitions(broker, changed, now),
        ]
    named = _partitions_to_read(fetch)
    if len(named) > broker.slice_size:
        return begin(call.ticket, _handle_slices(broker, fetch, named, effects, now))
    _resolve(broker, fetch, named, now)
    return effects + _begin(broker, fetch, now)


def _handle_slices(
    broker: Broker, fetch: PendingShareFetch, named: Sequence[PartitionKey], effects: Effects, now: float
) -> Steps:
    """Find and read the partitions of a large ShareFetch, then respond to the request or delay it.

    The generator handles the request in slices (parts of limited size); the router handles other requests between two
    slices. The generator yields the effects of each slice, such as journal events. It returns the effects of the last
    slice, which include the response unless the request is delayed.

    Args:
        broker: The state of the cluster.
        fetch: The ShareFetch.
        named: The partitions in the request.
        effects: Effects of the request so far, such as journal events.
        now: The broker's time in seconds.
    """
    for number, some in enumerate(chunks(named, broker.slice_size)):
        if number:
            now = yield effects
            effects = []
            if has_ended(broker, fetch):
                return _refuse(fetch.call, ErrorCode.SHARE_SESSION_NOT_FOUND)
        _resolve(broker, fetch, some, now)
    now = yield effects
    if has_ended(broker, fetch):
        return _refuse(fetch.call, ErrorCode.SHARE_SESSION_NOT_FOUND)
    return _begin(broker, fetch, now)


def _begin(broker: Broker, fetch: PendingShareFetch, now: float) -> Effects:
    if fetch.partitions and fetch.call.request.share_acquire_mode not in ACQUIRE_MODES:
        return _refuse(fetch.call, ErrorCode.UNKNOWN_SERVER_ERROR)
    return begin_fetch(broker, fetch, now)


def is_member_id(member_id: str | None) -> bool:
    """Return whether a member id is valid in a share request. Source: Kafka's KafkaApis.isMemberIdValid."""
    return bool(member_id) and len(member_id or "") <= MAX_MEMBER_ID


def _has_invalid_renewal(call: Call[ShareFetchRequest]) -> bool:
    """Return whether a request is invalid because it both renews acquisition locks and fetches records."""
    request = call.request
    fetches = request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms
    return call.version >= RENEW_SINCE and request.is_renew_ack and bool(fetches)


def _has_acknowledgements(request: ShareFetchRequest) -> bool:
    return any(partition.acknowledgement_batches for topic in request.topics for partition in topic.partitions)


def _refuse(call: Call[ShareFetchRequest], error: ErrorCode) -> Effects:
    return [Reply(call.ticket, ShareFetchResponse(error_code=error))]


def _open_session(broker: Broker, fetch: PendingShareFetch, member: SessionKey) -> ErrorCode:
    """Find or create the share session of a request, check the session epoch, and store the session in ``fetch``.

    The error is SHARE_SESSION_LIMIT_REACHED if there are too many sessions, INVALID_REQUEST for acknowledgements in
    the first request of a session, INVALID_SHARE_SESSION_EPOCH for a wrong epoch, and SHARE_SESSION_NOT_FOUND
    without a session.

    If the request ends the session, the session is not stored.

    Args:
        broker: the state of the cluster.
        fetch: the ShareFetch.
        member: group id and member id.

    Returns: the error code; NONE if the session is valid.
    """
    request = fetch.call.request
    sessions = broker.share_sessions(fetch.call.client.node)
    epoch = request.share_session_epoch
    if epoch == INITIAL_EPOCH:
        if _has_acknowledgements(request):
            return ErrorCode.INVALID_REQUEST
        created = sessions.create(member, _named(request), fetch.call.ticket.connection)
        fetch.opened = created
        return ErrorCode.NONE if created is not None else ErrorCode.SHARE_SESSION_LIMIT_REACHED
    session = sessions.find(member, epoch)
    if isinstance(session, ErrorCode):
        return session
    if epoch != FINAL_EPOCH:
        forgotten = [(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions]
        session.update(_named(request), forgotten)
        session.next_request()
        fetch.session = fetch.opened = session
        fetch.epoch = session.epoch
    return ErrorCode.NONE


def _named(request: ShareFetchRequest) -> list[PartitionKey]:
    """Return the partitions that a request names."""
    return [(topic.topic_id, partition.partition_index) for topic in request.topics for partition in topic.partitions]


def _partitions_to_read(fetch: PendingShareFetch) -> list[PartitionKey]:
    """Return the partitions of the share session in the order in which a ShareFetch reads them.

    The first partition changes with each request, so that every partition is read. The list is empty if the request
    renews acquisition locks or ends the session.
    """
    request = fetch.call.request
    if request.is_renew_ack or request.share_session_epoch == FINAL_EPOCH:
        return []
    named = list(dict.fromkeys(_named(request) if fetch.session is None else fetch.session.partitions))
    turn = request.share_session_epoch % len(named) if named else 0
    return named[turn:] + named[:turn]


def _resolve(broker: Broker, fetch: PendingShareFetch, named: Iterable[PartitionKey], now: float) -> None:
    """Find the partitions of a ShareFetch and their share partitions.

    The partitions, or their errors, are stored in ``fetch``.

    Args:
        broker: The state of the cluster.
        fetch: The ShareFetch.
        named: The partitions in the request.
        now: The broker's time in seconds.
    """
    request, refused = fetch.call.request, refused_partitions(fetch.call)
    for topic_id, index in named:
        topic = broker.cluster.by_id.get(topic_id)
        partition = None if topic is None else topic.partition(index)
        error = refused.get((topic_id, index))
        if error is None:
            node = fetch.call.client.node
            error = ErrorCode.UNKNOWN_TOPIC_ID if topic is None else broker.leader_error(partition, node)
        if partition is not None and not error:
            key = StateKey(request.group_id or "", topic_id, index)
            share = broker.share_partitions.get_or_load(key, partition, now)
            fetch.partitions.append((key, partition))
            error = ErrorCode.NONE if isinstance(share, SharePartition) else share
        if error:
            fetch.responses[topic_id, index] = PartitionResponse(partition_index=index, error_code=error, records=b"")
