"""The group events that one call contains.

The events depend on no other call, so calls can be processed in any order and in parallel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kwire.analysis.events import (
    ACKNOWLEDGED,
    CLASSIC,
    CONSUMER,
    SHARE,
    STREAMS,
    GroupEvent,
    error_name,
    host_of,
    partition_name,
)
from kwire.analysis.new_events import new_event
from kwire.analysis.topics import topic_key
from kwire.apikeys import ApiKey
from kwire.blobs import decode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kwire.capture.calls.model import Call
from kwire.errorcodes import ErrorCode
from kwire.errors import WireError

# Error codes after which a KIP-848 member rejoins.
FENCING = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
}


def events_of(call: Call) -> list[GroupEvent]:
    """Return the group events of a call, in order.

    The result is empty if the request was not captured or not decoded, and for an API without group events.
    """
    key = call.api_key
    if key is None or call.request is None or call.request_us is None:
        return []
    if (frequent := _FREQUENT.get(key)) is not None:
        return frequent(call)
    extract = _EXTRACTORS.get(key)
    if extract is None:
        return []
    events = list(extract(_CallEvents(call)))
    for part, event in enumerate(events):
        event.part = part
    return events


class _CallEvents:
    """The builder of the group events of one call.

    Args:
        call: the call; its request was decoded.

    Attributes:
        request: decoded request.
        response: decoded response; None if it was not captured.
        code: top-level error code of the response; None if the response has none.
    """

    def __init__(self, call: Call) -> None:
        self.call = call
        self.request = call.request
        self.response = call.response if call.response_us is not None else None
        self.code: int | None = getattr(self.response, "error_code", None)

    def at_request(self, event: str, group: str, protocol: str | None, **more: Any) -> GroupEvent:
        """Return an event with the time of the request.

        Args:
            event: kind of the event.
            group: group id.
            protocol: group protocol; None if unknown.
            more: values of other fields of the event.
        """
        assert self.call.request_us is not None
        return self._event(self.call.request_us, event, group, protocol, more)

    def at_response(self, event: str, group: str, protocol: str | None, **more: Any) -> GroupEvent:
        """Return an event with the time of the response.

        Args:
            event: kind of the event.
            group: group id.
            protocol: group protocol; None if unknown.
            more: values of other fields of the event.
        """
        assert self.call.response_us is not None
        return self._event(self.call.response_us, event, group, protocol, more)

    def _event(self, ts: int, event: str, group: str, protocol: str | None, more: dict[str, Any]) -> GroupEvent:
        call = self.call
        return GroupEvent(
            ts=ts,
            group_id=group,
            protocol=protocol,
            event=event,
            client_id=call.client_id,
            host=host_of(call.client),
            broker=call.broker,
            conn_id=call.connection,
            number=call.number,
            error_name=error_name(more.get("error_code")),
            **more,
        )


# --- classic ------------------------------------------------------------------------------------------------------


def _join(call_events: _CallEvents) -> Iterator[GroupEvent]:
    request, response, group = call_events.request, call_events.response, call_events.request.group_id
    topics, owned = _subscription(request)
    yield call_events.at_request(
        "join_sent",
        group,
        CLASSIC,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms
        if call_events.call.api_version
        else request.session_timeout_ms,
        protocol_name=",".join(protocol.name for protocol in request.protocols),
        topics=topics,
        partitions=owned,
        reason=request.reason,
    )
    if response is None:
        return
    member = {"member_id": response.member_id or request.member_id, "instance_id": request.group_instance_id}
    if call_events.code:
        event = "member_id_given" if call_events.code == ErrorCode.MEMBER_ID_REQUIRED else "join_error"
        yield call_events.at_response(event, group, CLASSIC, error_code=call_events.code, **member)
        return
    yield call_events.at_response(
        "join_done",
        group,
        CLASSIC,
        generation=response.generation_id,
        protocol_name=response.protocol_name,
        leader=response.leader,
        members=[member.member_id for member in response.members] or None,
        error_code=0,
        **member,
    )


def _subscription(request: Any) -> tuple[list[str] | None, list[str] | None]:
    """Return the topics and the owned partitions of a JoinGroup request.

    Both values come from the first protocol whose metadata can be decoded. Both are None if no metadata can be decoded,
    or if the protocol type is not ``consumer``.
    """
    if request.protocol_type != "consumer":
        return None, None
    for protocol in request.protocols:
        try:
            subscription, _ = decode_stored(ConsumerProtocolSubscription, protocol.metadata)
        except WireError:
            continue
        return sorted(subscription.topics), _partitions(subscription.owned_partitions)
    return None, None


def _partitions(topics: Iterable[Any]) -> list[str]:
    return sorted(partition_name(owned.topic, partition) for owned in topics for partition in owned.partitions)


def _assigned_partitions(protocol_type: str | None, assignment: bytes) -> list[str] | None:
    """Return the partitions in an encoded assignment, as ``topic-partition``.

    The result is None if the assignment cannot be decoded or does not belong to a consumer group.
    """
    if protocol_type not in (None, "consumer"):
        return None
    if not assignment:
        return []
    try:
        message, _ = decode_stored(ConsumerProtocolAssignment, assignment)
    except WireError:
        return None
    return _partitions(message.assigned_partitions)


def _sync(call_events: _CallEvents) -> Iterator[GroupEvent]:
    request, response, group = call_events.request, call_events.response, call_events.request.group_id
    member = {
        "member_id": request.member_id,
        "instance_id": request.group_instance_id,
        "generation": request.generation_id,
    }
    yield call_events.at_request("sync_sent", group, CLASSIC, **member)
    for planned in request.assignments:
        share = _assigned_partitions(request.protocol_type, planned.assignment)
        yield call_events.at_request(
            "planned",
            group,
            CLASSIC,
            member_id=planned.member_id,
            generation=request.generation_id,
            leader=request.member_id,
            partitions=share,
        )
    if response is None:
        return
    if call_events.code:
        yield call_events.at_response("sync_error", group, CLASSIC, error_code=call_events.code, **member)
    else:
        share = _assigned_partitions(response.protocol_type or request.protocol_type, response.assignment)
        yield call_events.at_response("sync_done", group, CLASSIC, error_code=0, partitions=share, **member)


def _heartbeat(call: Call) -> list[GroupEvent]:
    request, code = call.request, None
    ts, event = call.request_us or 0, "heartbeat"
    if call.response is not None and call.response_us is not None:
        ts, code = call.response_us, call.response.error_code
        if code:
            event = "heartbeat_error"
    return [
        new_event(
            ts,
            request.group_id,
            CLASSIC,
            event,
            request.member_id,
            request.group_instance_id,
            call.client_id,
            host_of(call.client),
            request.generation_id,
            code,
            error_name(code),
            None,
            None,
            None,
            None,
            call.broker,
            call.connection,
            call.number,
            0,
        )
    ]


def _leave(call_events: _CallEvents) -> Iterator[GroupEvent]:
    request, response, group = call_events.request, call_events.response, call_events.request.group_id
    if not request.members:
        yield call_events.at_request("leave", group, CLASSIC, member_id=request.member_id, error_code=call_events.code)
        return
    answers = {}
    if response is not None:
        answers = {(one.member_id, one.group_instance_id): one.error_code for one in response.members}
    for leaving in request.members:
        code = call_events.code or answers.get((leaving.member_id, leaving.group_instance_id))
        yield call_events.at_request(
            "leave",
            group,
            CLASSIC,
            member_id=leaving.member_id,
            instance_id=leaving.group_instance_id,
            reason=leaving.reason,
            error_code=code,
        )


# --- KIP-848 and its relatives ------------------------------------------------------------------------------------


def _consumer(call_events: _CallEvents) -> Iterator[GroupEvent]:
    request, response = call_events.request, call_events.response
    topics = None if request.subscribed_topic_names is None else sorted(request.subscribed_topic_names)
    if request.subscribed_topic_regex:
        topics = [*(topics or []), f"/{request.subscribed_topic_regex}/"]
    target = None if response is None or response.assignment is None else response.assignment.topic_partitions
    yield from _epochs(
        call_events,
        CONSUMER,
        topics,
        None if request.topic_partitions is None else _by_id(request.topic_partitions),
        None if target is None else _by_id(target),
    )


def _share_group(call_events: _CallEvents) -> Iterator[GroupEvent]:
    request, response = call_events.request, call_events.response
    topics = None if request.subscribed_topic_names is None else sorted(request.subscribed_topic_names)
    target = None if response is None or response.assignment is None else response.assignment.topic_partitions
    yield from _epochs(call_events, SHARE, topics, None, None if target is None else _by_id(target))


def _streams(call_events: _CallEvents) -> Iterator[GroupEvent]:
    request, response = call_events.request, call_events.response
    topics = None
    if request.topology is not None:
        topics = sorted({topic for part in request.topology.subtopologies for topic in part.source_topics})
    target = None if response is None else response.active_tasks
    standby = None if response is None else _tasks(response.standby_tasks)
    for event in _epochs(call_events, STREAMS, topics, _tasks(request.active_tasks), _tasks(target)):
        if event.event == "assigned":
            event.standby = standby
        yield event


def _by_id(topics: Iterable[Any]) -> list[str]:
    return sorted(
        partition_name(topic_key(None, owned.topic_id), partition) for owned in topics for partition in owned.partitions
    )


def _tasks(tasks: Iterable[Any] | None) -> list[str] | None:
    if tasks is None:
        return None
    return sorted(partition_name(task.subtopology_id, partition) for task in tasks for partition in task.partitions)


def _epochs(
    call_events: _CallEvents,
    protocol: str,
    topics: list[str] | None,
    owned: list[str] | None,
    target: list[str] | None,
) -> Iterator[GroupEvent]:
    request, response, group, epoch = (
        call_events.request,
        call_events.response,
        call_events.request.group_id,
        call_events.request.member_epoch,
    )
    timeout = getattr(request, "rebalance_timeout_ms", -1)
    member = {
        "member_id": request.member_id or (response.member_id if response is not None else None),
        "instance_id": getattr(request, "instance_id", None),
    }
    says = {
        **member,
        "generation": epoch,
        "topics": topics,
        "partitions": owned,
        "rebalance_timeout_ms": timeout if timeout >= 0 else None,
        "protocol_name": getattr(request, "server_assignor", None),
    }
    if epoch < 0:
        yield call_events.at_request("leave", group, protocol, **member, generation=epoch, error_code=call_events.code)
        return
    if epoch == 0:
        yield call_events.at_request("join_sent", group, protocol, **says)
    else:
        if topics is not None:
            yield call_events.at_request("subscribed", group, protocol, **says)
        if owned is not None:
            yield call_events.at_request("owned", group, protocol, **member, generation=epoch, partitions=owned)
    if response is None:
        if epoch and topics is None and owned is None:
            yield call_events.at_request("heartbeat", group, protocol, **member, generation=epoch)
        return
    if call_events.code:
        event = "join_error" if epoch == 0 else "fenced" if call_events.code in FENCING else "heartbeat_error"
        yield call_events.at_response(event, group, protocol, **member, generation=epoch, error_code=call_events.code)
        return
    now = {
        **member,
        "generation": response.member_epoch,
        "interval_ms": response.heartbeat_interval_ms,
        "error_code": 0,
    }
    if epoch == 0:
        yield call_events.at_response("join_done", group, protocol, **now)
    elif response.member_epoch != epoch:
        yield call_events.at_response("epoch_change", group, protocol, **now)
    elif target is None:
        yield call_events.at_response("heartbeat", group, protocol, **now)
    if target is not None:
        yield call_events.at_response("assigned", group, protocol, **now, partitions=target)


# --- records of share groups ---------------------------------------------------------------------------------------


def _share_fetch(call_events: _CallEvents) -> Iterator[GroupEvent]:
    request, response = call_events.request, call_events.response
    yield from _acknowledgements(call_events, "acknowledge_error_code")
    if call_events.code or response is None:
        return
    for topic in response.responses:
        for partition in topic.partitions:
            if partition.acquired_records:
                yield call_events.at_response(
                    "acquired",
                    request.group_id,
                    SHARE,
                    member_id=request.member_id,
                    topic=topic_key(None, topic.topic_id),
                    partition=partition.partition_index,
                    first_offset=partition.acquired_records[0].first_offset,
                    records=sum(each.last_offset - each.first_offset + 1 for each in partition.acquired_records),
                    deliveries=max(each.delivery_count for each in partition.acquired_records),
                    error_code=0,
                )


def _share_acknowledge(call_events: _CallEvents) -> Iterator[GroupEvent]:
    yield from _acknowledgements(call_events, "error_code")


def _acknowledgements(call_events: _CallEvents, error_field: str) -> Iterator[GroupEvent]:
    """Yield an event for each partition and each type of acknowledgement in a request.

    ``error_field``: name of the field, in each partition of the response, with the error code of the acknowledgements.
    """
    request, response = call_events.request, call_events.response
    codes = {
        (topic.topic_id, partition.partition_index): getattr(partition, error_field)
        for topic in (response.responses if response is not None else ())
        for partition in topic.partitions
    }
    for topic in request.topics:
        for partition in topic.partitions:
            code = codes.get((topic.topic_id, partition.partition_index))
            for kind, (first, count) in _by_type(partition.acknowledgement_batches).items():
                yield call_events.at_request(
                    kind,
                    request.group_id,
                    SHARE,
                    member_id=request.member_id,
                    topic=topic_key(None, topic.topic_id),
                    partition=partition.partition_index,
                    first_offset=first,
                    records=count,
                    error_code=call_events.code or code,
                )


def _by_type(batches: Iterable[Any]) -> dict[str, tuple[int, int]]:
    """Return the first offset and the number of offsets of each type of acknowledgement. Unknown types are ignored.

    The key is the kind of event, such as ``accepted``.

    ``batches``: acknowledgement batches of one partition, from the request.
    """
    ranges: dict[str, tuple[int, int]] = {}
    for batch in batches:
        types = batch.acknowledge_types
        runs = (
            [(types[0], batch.first_offset, batch.last_offset - batch.first_offset + 1)]
            if len(types) == 1
            else [(kind, offset, 1) for offset, kind in enumerate(types, batch.first_offset)]
        )
        for kind, offset, count in runs:
            if 0 <= kind < len(ACKNOWLEDGED):
                first, before = ranges.get(ACKNOWLEDGED[kind], (offset, 0))
                ranges[ACKNOWLEDGED[kind]] = first, before + count
    return ranges


# --- offsets and coordinators -------------------------------------------------------------------------------------


def _commit(call: Call) -> list[GroupEvent]:
    return _commits(call, "commit", call.request.generation_id_or_member_epoch)


def _txn_commit(call: Call) -> list[GroupEvent]:
    request = call.request
    events = _commits(call, "txn_commit", request.generation_id)
    for event in events:
        event.transactional_id = request.transactional_id
        event.producer_id, event.producer_epoch = request.producer_id, request.producer_epoch
    return events


def _commits(call: Call, kind: str, generation: int) -> list[GroupEvent]:
    """Return an event for each partition in the request.

    Args:
        call: call of an OffsetCommit or TxnOffsetCommit request.
        kind: kind of the events of successful commits.
        generation: generation or epoch in the request.
    """
    request, ts = call.request, call.request_us or 0
    group, member, instance = request.group_id, request.member_id, request.group_instance_id
    client, host, broker, connection, number = (
        call.client_id,
        host_of(call.client),
        call.broker,
        call.connection,
        call.number,
    )
    codes: dict[str, dict[int, int]] = {}
    if call.response is not None and call.response_us is not None:
        for topic in call.response.topics:
            answers = {partition.partition_index: partition.error_code for partition in topic.partitions}
            codes.setdefault(_topic_of(topic), answers).update(answers)
    events: list[GroupEvent] = []
    for topic in request.topics:
        name = _topic_of(topic)
        code_of = codes.get(name, _NO_CODES).get
        for partition in topic.partitions:
            index = partition.partition_index
            code = code_of(index)
            events.append(
                new_event(
                    ts,
                    group,
                    None,
                    f"{kind}_error" if code else kind,
                    member,
                    instance,
                    client,
                    host,
                    generation,
                    code,
                    error_name(code),
                    name,
                    index,
                    partition.committed_offset,
                    partition.committed_metadata,
                    broker,
                    connection,
                    number,
                    len(events),
                )
            )
    return events


_NO_CODES: Mapping[int, int] = {}


def _topic_of(topic: Any) -> str:
    return topic_key(topic.name, getattr(topic, "topic_id", None))


def _coordinator(call_events: _CallEvents) -> Iterator[GroupEvent]:
    request, response = call_events.request, call_events.response
    if request.key_type != 0 or response is None:
        return
    for coordinator in response.coordinators or [response]:
        group = getattr(coordinator, "key", request.key)
        if not group:
            continue
        if coordinator.error_code:
            yield call_events.at_response("coordinator_error", group, None, error_code=coordinator.error_code)
        else:
            where = f"{coordinator.host}:{coordinator.port}"
            node_id = coordinator.node_id
            yield call_events.at_response("coordinator_found", group, None, leader=where, node_id=node_id, error_code=0)


_FREQUENT: Mapping[int, Callable[[Call], list[GroupEvent]]] = {
    ApiKey.HEARTBEAT: _heartbeat,
    ApiKey.OFFSET_COMMIT: _commit,
    ApiKey.TXN_OFFSET_COMMIT: _txn_commit,
}
_EXTRACTORS: Mapping[int, Callable[[_CallEvents], Iterator[GroupEvent]]] = {
    ApiKey.FIND_COORDINATOR: _coordinator,
    ApiKey.JOIN_GROUP: _join,
    ApiKey.LEAVE_GROUP: _leave,
    ApiKey.SYNC_GROUP: _sync,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _consumer,
    ApiKey.SHARE_GROUP_HEARTBEAT: _share_group,
    ApiKey.SHARE_FETCH: _share_fetch,
    ApiKey.SHARE_ACKNOWLEDGE: _share_acknowledge,
    ApiKey.STREAMS_GROUP_HEARTBEAT: _streams,
}
