"""The handler of ShareAcknowledge v1-2, with which a share group member acknowledges records that it has acquired.

Source: Kafka's KafkaApis.handleShareAcknowledgeRequest and SharePartitionManager.acknowledgeSessionUpdate.
"""

from __future__ import annotations

from uuid import UUID

from kwire import ErrorCode
from kwire.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.share_fetch import is_member_id
from mockbroker.broker.share_fetch.acknowledgements import Acknowledgements, acknowledge_all
from mockbroker.broker.share_fetch.delayed_share_fetch import complete_for_share_partitions
from mockbroker.broker.share_fetch.journal import acknowledged_note
from mockbroker.broker.share_fetch.leaders import EndpointCollector
from mockbroker.broker.share_fetch.release import release_session
from mockbroker.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, SessionKey

PartitionResponse = ShareAcknowledgeResponse.Topic.Partition


def handle(broker: Broker, call: Call[ShareAcknowledgeRequest], now: float) -> Effects:
    request = call.request
    member = SessionKey(request.group_id or "", request.member_id or "")
    error = _use_session(broker, call, member) if is_member_id(member.member_id) else ErrorCode.INVALID_REQUEST
    if error:
        return [Reply(call.ticket, ShareAcknowledgeResponse(error_code=error))]
    settings = broker.share_group_settings(member.group_id)
    results, changed = acknowledge_all(
        broker,
        request.topics,
        member,
        call.client.node,
        lock_end=settings.lock_end(now),
        renew=request.is_renew_ack,
        version=call.version,
        now=now,
    )
    if request.share_session_epoch == FINAL_EPOCH:
        changed = [*changed, *release_session(broker, call.client.node, member, now)]
    reply = Reply(call.ticket, _response(broker, call, results, settings.record_lock_duration_ms))
    note = acknowledged_note(broker, call, request.topics, results)
    return [*note, reply, *complete_for_share_partitions(broker, changed, now)]


def _use_session(broker: Broker, call: Call[ShareAcknowledgeRequest], member: SessionKey) -> ErrorCode:
    """Check the share session epoch of a request, and advance the epoch of the session.

    The error is INVALID_SHARE_SESSION_EPOCH for a wrong epoch, and SHARE_SESSION_NOT_FOUND without a session.

    Args:
        broker: the state of the cluster.
        call: the request, its client, and its ticket (the object that identifies the request).
        member: group id and member id.

    Returns: the error code; NONE if the epoch is valid.
    """
    epoch = call.request.share_session_epoch
    if epoch == INITIAL_EPOCH:
        return ErrorCode.INVALID_SHARE_SESSION_EPOCH
    session = broker.share_sessions(call.client.node).find(member, epoch)
    if isinstance(session, ErrorCode):
        return session
    if epoch != FINAL_EPOCH:
        session.next_request()
    return ErrorCode.NONE


def _response(
    broker: Broker, call: Call[ShareAcknowledgeRequest], results: Acknowledgements, lock_duration_ms: int
) -> ShareAcknowledgeResponse:
    endpoints = EndpointCollector(broker, call.client)
    topics: dict[UUID, ShareAcknowledgeResponse.Topic] = {}
    for (topic_id, index), result in results.items():
        partition = PartitionResponse(partition_index=index)
        if result is not None:
            partition.error_code, partition.error_message = result.error, result.message or None
        leader = endpoints.leader_for(partition.error_code, topic_id, index)
        if leader is not None:
            partition.current_leader = PartitionResponse.Leader(leader_id=leader[0], leader_epoch=leader[1])
        topics.setdefault(topic_id, ShareAcknowledgeResponse.Topic(topic_id=topic_id)).partitions.append(partition)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=lock_duration_ms,
        responses=list(topics.values()),
        node_endpoints=endpoints.endpoints(ShareAcknowledgeResponse.NodeEndpoint),
    )
