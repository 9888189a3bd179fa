"""The handler of StreamsGroupHeartbeat v0.

As in Kafka 4.2, static members, task offsets, owned warm-up tasks and regular expressions are rejected. Source: Kafka's
KafkaApis.handleStreamsGroupHeartbeat and GroupCoordinatorService.streamsGroupHeartbeat.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kwire import ErrorCode
from kwire.assignors.sticky_tasks import Tasks
from kwire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from mockbroker.base.effects import AuthorizedCall, Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.groups.events import StreamsHeartbeat
from mockbroker.groups.group_type import Refused
from mockbroker.groups.streams.machine import heartbeat_error
from mockbroker.groups.streams.state import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
)
from mockbroker.groups.streams.tasks import task_set
from mockbroker.topics.configs import JAVA_SPACE
from mockbroker.topics.model import INTERNAL, legal_topic_name

UNCHANGED = -1  # rebalance timeout of a request that does not change the timeout
MAX_SUBTOPOLOGIES = 1_000  # so that a request takes a few milliseconds; applications have some dozens
MAX_TOPICS = 10_000  # names of topics in a topology, for the same reason
Topology = StreamsGroupHeartbeatRequest.Topology


def handle(broker: Broker, call: Call[StreamsGroupHeartbeatRequest], now: float) -> Effects:
    request = call.request
    if not broker.serves_streams_protocol:
        return [_error(call, ErrorCode.UNSUPPORTED_VERSION)]
    try:
        if request.topology is not None:
            _check_topics(request.topology)
        _check_supported(request)
        _check(request)
        if error := broker.coordinator_error(request.group_id, call.client.node):
            return [_error(call, error)]
        return broker.groups.receive(request.group_id, _event(call), now)
    except Refused as refused:
        return [heartbeat_error(call.ticket, refused)]


def _error(call: Call[StreamsGroupHeartbeatRequest], error: ErrorCode) -> Reply:
    return Reply(call.ticket, StreamsGroupHeartbeatResponse(error_code=error))


def _check_topics(topology: Topology) -> None:
    """Validate the number and the names of the topics in a topology.

    Raises: Refused, with the error response, if the topology is not valid.
    """
    names = list(dict.fromkeys(topic_names(topology)))
    if len(topology.subtopologies) > MAX_SUBTOPOLOGIES or len(names) > MAX_TOPICS:
        text = (
            f"The topology has {len(topology.subtopologies)} subtopologies with {len(names)} topics, the maximum is "
            f"{MAX_SUBTOPOLOGIES} with {MAX_TOPICS}: divide the application."
        )
        raise Refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
    if prohibited := [name for name in names if name in INTERNAL]:
        text = f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited."
        raise Refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
    if invalid := [name for name in names if not legal_topic_name(name)]:
        text = f"Topic names {','.join(invalid)} are not valid topic names."
        raise Refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)


def topic_names(topology: Topology) -> Iterator[str]:
    """Yield the names of the topics in a topology."""
    for each in topology.subtopologies:
        yield from each.source_topics
        yield from each.repartition_sink_topics
        yield from (topic.name for topic in each.repartition_source_topics)
        yield from (topic.name for topic in each.state_changelog_topics)


def _check_supported(request: StreamsGroupHeartbeatRequest) -> None:
    """Check that a request uses only features that Kafka 4.2 supports.

    Raises: Refused, with the error response, if the request uses a feature that Kafka 4.2 does not support.

    Source: Kafka's GroupCoordinatorService.throwIfStreamsGroupHeartbeatRequestIsUsingUnsupportedFeatures.
    """
    if request.instance_id is not None:
        raise _invalid("Static membership is not yet supported.")
    if request.task_offsets is not None:
        raise _invalid("TaskOffsets are not supported yet.")
    if request.task_end_offsets is not None:
        raise _invalid("TaskEndOffsets are not supported yet.")
    if request.warmup_tasks:
        raise _invalid("WarmupTasks are not supported yet.")
    if request.topology is not None and any(each.source_topic_regex for each in request.topology.subtopologies):
        raise _invalid("Regular expressions for source topics are not supported yet.")


def _check(request: StreamsGroupHeartbeatRequest) -> None:
    """Validate the fields of a StreamsGroupHeartbeat in Kafka's order.

    Raises: Refused if a field is not valid.
    Source: Kafka's GroupCoordinatorService.throwIfStreamsGroupHeartbeatRequestIsInvalid.
    """
    for value, field in ((request.member_id, "MemberId"), (request.group_id, "GroupId"), (request.rack_id, "RackId")):
        if value is not None and not value.strip(JAVA_SPACE):
            raise _invalid(f"{field} can't be empty.")
    owned = request.active_tasks, request.standby_tasks, request.warmup_tasks
    if request.member_epoch == JOIN_EPOCH:
        _check_join(request, owned)
    elif request.member_epoch == STATIC_LEAVE_EPOCH:
        raise _invalid("InstanceId can't be null.")
    elif request.member_epoch < STATIC_LEAVE_EPOCH:
        raise _invalid(f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2.")
    if any(tasks is not None for tasks in owned) and any(tasks is None for tasks in owned):
        raise _invalid("If one task-type is non-null, all must be non-null.")
    if request.member_epoch != JOIN_EPOCH and request.topology is not None:
        raise _invalid("Topology can only be provided when (re-)joining.")


def _check_join(request: StreamsGroupHeartbeatRequest, owned: Sequence[object]) -> None:
    """Validate the fields of a StreamsGroupHeartbeat with which a member joins.

    Args:
        request: The heartbeat.
        owned: The owned tasks in the request.

    Raises: Refused if a field is not valid.
    """
    if request.rebalance_timeout_ms == UNCHANGED:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    for tasks, field in zip(owned, ("ActiveTasks", "StandbyTasks", "WarmupTasks"), strict=True):
        if tasks is None or tasks:
            raise _invalid(f"{field} must be empty when (re-)joining.")
    if request.topology is None:
        raise _invalid("Topology must be non-null when (re-)joining.")
    for subtopology in request.topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions:
                text = (
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                    f"{topic.partitions}."
                )
                raise Refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)


def _invalid(text: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, text)


def _event(call: Call[StreamsGroupHeartbeatRequest]) -> StreamsHeartbeat:
    request = call.request
    timeout_ms, endpoint, tags = request.rebalance_timeout_ms, request.user_endpoint, request.client_tags
    active, standby, warmup = request.active_tasks, request.standby_tasks, request.warmup_tasks
    complete = active is not None and standby is not None and warmup is not None
    return StreamsHeartbeat(
        ticket=call.ticket,
        member_id=request.member_id,
        epoch=request.member_epoch,
        endpoint_epoch=request.endpoint_information_epoch,
        rack_id=request.rack_id,
        client_id=call.client.client_id,
        client_host=call.client.host,
        rebalance_timeout=None if timeout_ms == UNCHANGED else timeout_ms / 1000,
        topology=request.topology,
        process_id=request.process_id,
        endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
        client_tags=None if tags is None else {tag.key: tag.value for tag in tags},
        owned_tasks=Tasks(task_set(active or ()), task_set(standby or ()), task_set(warmup or ()))
        if complete
        else None,
        shutdown_application=request.shutdown_application,
        may_create=call.may_create if isinstance(call, AuthorizedCall) else None,
    )
