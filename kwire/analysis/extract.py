"""One call into what it says of groups: events, as plain rows that any runner can carry and sort.

An event depends on its call alone, so calls may be taken in any order, anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kwire.analysis.events import CLASSIC, CONSUMER, SHARE, STREAMS, GroupEvent, error_name, partition_name
from kwire.analysis.topics import topic_key
from kwire.apikeys import ApiKey
from kwire.blobs import decode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kwire.capture.calls.model import Call
from kwire.errorcodes import ErrorCode
from kwire.errors import WireError

# KIP-848 answers after which a member starts over.
FENCING = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
}


def events_of(call: Call) -> list[GroupEvent]:
    """What a call says of groups, in order; nothing for most calls."""
    extract = _EXTRACTORS.get(call.api_key if call.api_key is not None else -1)
    if extract is None or call.request is None or call.request_us is None:
        return []
    found = list(extract(_Said(call)))
    for part, event in enumerate(found):
        event.part = part
    return found


class _Said:
    """A call, and the events of its request and of its response."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.request = call.request
        self.response = call.response if call.response_us is not None else None
        self.code: int | None = getattr(self.response, "error_code", None)

    def request_event(self, event: str, group: str, protocol: str | None, **more: Any) -> GroupEvent:
        assert self.call.request_us is not None
        return self._event(self.call.request_us, event, group, protocol, more)

    def response_event(self, event: str, group: str, protocol: str | None, **more: Any) -> GroupEvent:
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
            host=call.client.rpartition(":")[0],
            broker=call.broker,
            conn_id=call.connection,
            number=call.number,
            error_name=error_name(more.get("error_code")),
            **more,
        )


# --- classic ------------------------------------------------------------------------------------------------------


def _join(said: _Said) -> Iterator[GroupEvent]:
    request, response, group = said.request, said.response, said.request.group_id
    topics, owned = _subscription(request)
    yield said.request_event(
        "join_sent",
        group,
        CLASSIC,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms if said.call.api_version else request.session_timeout_ms,
        protocol_name=",".join(protocol.name for protocol in request.protocols),
        topics=topics,
        partitions=owned,
        reason=request.reason,
    )
    if response is None:
        return
    who = {"member_id": response.member_id or request.member_id, "instance_id": request.group_instance_id}
    if said.code:
        event = "member_id_given" if said.code == ErrorCode.MEMBER_ID_REQUIRED else "join_error"
        yield said.response_event(event, group, CLASSIC, error_code=said.code, **who)
        return
    yield said.response_event(
        "join_done",
        group,
        CLASSIC,
        generation=response.generation_id,
        protocol_name=response.protocol_name,
        leader=response.leader,
        members=[member.member_id for member in response.members] or None,
        error_code=0,
        **who,
    )


def _subscription(request: Any) -> tuple[list[str] | None, list[str] | None]:
    """Topics, and partitions still owned, of the first protocol that can be read."""
    if request.protocol_type != "consumer":
        return None, None
    for protocol in request.protocols:
        try:
            found, _ = decode_stored(ConsumerProtocolSubscription, protocol.metadata)
        except WireError:
            continue
        return sorted(found.topics), _partitions(found.owned_partitions)
    return None, None


def _partitions(found: Iterable[Any]) -> list[str]:
    return sorted(partition_name(owned.topic, partition) for owned in found for partition in owned.partitions)


def _share(protocol_type: str | None, assignment: bytes) -> list[str] | None:
    """The partitions of an assignment; None if they cannot be read."""
    if protocol_type not in (None, "consumer"):
        return None
    if not assignment:
        return []
    try:
        found, _ = decode_stored(ConsumerProtocolAssignment, assignment)
    except WireError:
        return None
    return _partitions(found.assigned_partitions)


def _sync(said: _Said) -> Iterator[GroupEvent]:
    request, response, group = said.request, said.response, said.request.group_id
    who = {
        "member_id": request.member_id,
        "instance_id": request.group_instance_id,
        "generation": request.generation_id,
    }
    yield said.request_event("sync_sent", group, CLASSIC, **who)
    for planned in request.assignments:
        share = _share(request.protocol_type, planned.assignment)
        yield said.request_event(
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
    if said.code:
        yield said.response_event("sync_error", group, CLASSIC, error_code=said.code, **who)
    else:
        share = _share(response.protocol_type or request.protocol_type, response.assignment)
        yield said.response_event("sync_done", group, CLASSIC, error_code=0, partitions=share, **who)


def _heartbeat(said: _Said) -> Iterator[GroupEvent]:
    request, group = said.request, said.request.group_id
    who = {
        "member_id": request.member_id,
        "instance_id": request.group_instance_id,
        "generation": request.generation_id,
    }
    if said.response is None:
        yield said.request_event("heartbeat", group, CLASSIC, **who)
    else:
        event = "heartbeat_error" if said.code else "heartbeat"
        yield said.response_event(event, group, CLASSIC, error_code=said.code, **who)


def _leave(said: _Said) -> Iterator[GroupEvent]:
    request, response, group = said.request, said.response, said.request.group_id
    if not request.members:
        yield said.request_event("leave", group, CLASSIC, member_id=request.member_id, error_code=said.code)
        return
    answers = {}
    if response is not None:
        answers = {(one.member_id, one.group_instance_id): one.error_code for one in response.members}
    for leaving in request.members:
        code = said.code or answers.get((leaving.member_id, leaving.group_instance_id))
        yield said.request_event(
            "leave",
            group,
            CLASSIC,
            member_id=leaving.member_id,
            instance_id=leaving.group_instance_id,
            reason=leaving.reason,
            error_code=code,
        )


# --- KIP-848 and its relatives ------------------------------------------------------------------------------------


def _consumer(said: _Said) -> Iterator[GroupEvent]:
    request, response = said.request, said.response
    topics = None if request.subscribed_topic_names is None else sorted(request.subscribed_topic_names)
    if request.subscribed_topic_regex:
        topics = [*(topics or []), f"/{request.subscribed_topic_regex}/"]
    told = None if response is None or response.assignment is None else response.assignment.topic_partitions
    yield from _epochs(
        said,
        CONSUMER,
        topics,
        None if request.topic_partitions is None else _by_id(request.topic_partitions),
        None if told is None else _by_id(told),
    )


def _share_group(said: _Said) -> Iterator[GroupEvent]:
    request, response = said.request, said.response
    topics = None if request.subscribed_topic_names is None else sorted(request.subscribed_topic_names)
    told = None if response is None or response.assignment is None else response.assignment.topic_partitions
    yield from _epochs(said, SHARE, topics, None, None if told is None else _by_id(told))


def _streams(said: _Said) -> Iterator[GroupEvent]:
    request, response = said.request, said.response
    topics = None
    if request.topology is not None:
        topics = sorted({topic for part in request.topology.subtopologies for topic in part.source_topics})
    told = None if response is None else response.active_tasks
    yield from _epochs(said, STREAMS, topics, _tasks(request.active_tasks), _tasks(told))


def _by_id(found: Iterable[Any]) -> list[str]:
    return sorted(
        partition_name(topic_key(None, owned.topic_id), partition) for owned in found for partition in owned.partitions
    )


def _tasks(found: Iterable[Any] | None) -> list[str] | None:
    if found is None:
        return None
    return sorted(partition_name(task.subtopology_id, partition) for task in found for partition in task.partitions)


def _epochs(
    said: _Said, protocol: str, topics: list[str] | None, owned: list[str] | None, told: list[str] | None
) -> Iterator[GroupEvent]:
    request, response, group, epoch = said.request, said.response, said.request.group_id, said.request.member_epoch
    timeout = getattr(request, "rebalance_timeout_ms", -1)
    who = {
        "member_id": request.member_id or (response.member_id if response is not None else None),
        "instance_id": getattr(request, "instance_id", None),
    }
    says = {
        **who,
        "generation": epoch,
        "topics": topics,
        "partitions": owned,
        "rebalance_timeout_ms": timeout if timeout >= 0 else None,
        "protocol_name": getattr(request, "server_assignor", None),
    }
    if epoch < 0:
        yield said.request_event("leave", group, protocol, **who, generation=epoch, error_code=said.code)
        return
    if epoch == 0:
        yield said.request_event("join_sent", group, protocol, **says)
    else:
        if topics is not None:
            yield said.request_event("subscribed", group, protocol, **says)
        if owned is not None:
            yield said.request_event("owned", group, protocol, **who, generation=epoch, partitions=owned)
    if response is None:
        if epoch and topics is None and owned is None:
            yield said.request_event("heartbeat", group, protocol, **who, generation=epoch)
        return
    if said.code:
        event = "join_error" if epoch == 0 else "fenced" if said.code in FENCING else "heartbeat_error"
        yield said.response_event(event, group, protocol, **who, generation=epoch, error_code=said.code)
        return
    now = {**who, "generation": response.member_epoch, "interval_ms": response.heartbeat_interval_ms, "error_code": 0}
    if epoch == 0:
        yield said.response_event("join_done", group, protocol, **now)
    elif response.member_epoch != epoch:
        yield said.response_event("epoch_change", group, protocol, **now)
    elif told is None:
        yield said.response_event("heartbeat", group, protocol, **now)
    if told is not None:
        yield said.response_event("assigned", group, protocol, **now, partitions=told)


# --- offsets and coordinators -------------------------------------------------------------------------------------


def _commit(said: _Said) -> Iterator[GroupEvent]:
    request = said.request
    yield from _commits(said, "commit", request.generation_id_or_member_epoch)


def _txn_commit(said: _Said) -> Iterator[GroupEvent]:
    request = said.request
    yield from _commits(
        said,
        "txn_commit",
        request.generation_id,
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
    )


def _commits(said: _Said, event: str, generation: int, **producer: Any) -> Iterator[GroupEvent]:
    request, response = said.request, said.response
    codes = {}
    if response is not None:
        codes = {
            (_topic_of(topic), partition.partition_index): partition.error_code
            for topic in response.topics
            for partition in topic.partitions
        }
    for topic in request.topics:
        name = _topic_of(topic)
        for partition in topic.partitions:
            code = codes.get((name, partition.partition_index))
            yield said.request_event(
                f"{event}_error" if code else event,
                request.group_id,
                None,
                member_id=request.member_id,
                instance_id=request.group_instance_id,
                generation=generation,
                topic=name,
                partition=partition.partition_index,
                offset=partition.committed_offset,
                metadata=partition.committed_metadata,
                error_code=code,
                **producer,
            )


def _topic_of(topic: Any) -> str:
    return topic_key(topic.name, getattr(topic, "topic_id", None))


def _coordinator(said: _Said) -> Iterator[GroupEvent]:
    request, response = said.request, said.response
    if request.key_type != 0 or response is None:
        return
    for found in response.coordinators or [response]:
        group = getattr(found, "key", request.key)
        if not group:
            continue
        if found.error_code:
            yield said.response_event("coordinator_error", group, None, error_code=found.error_code)
        else:
            where = f"{found.host}:{found.port}"
            yield said.response_event("coordinator_found", group, None, leader=where, error_code=0)


_EXTRACTORS: Mapping[int, Callable[[_Said], Iterator[GroupEvent]]] = {
    ApiKey.OFFSET_COMMIT: _commit,
    ApiKey.FIND_COORDINATOR: _coordinator,
    ApiKey.JOIN_GROUP: _join,
    ApiKey.HEARTBEAT: _heartbeat,
    ApiKey.LEAVE_GROUP: _leave,
    ApiKey.SYNC_GROUP: _sync,
    ApiKey.TXN_OFFSET_COMMIT: _txn_commit,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _consumer,
    ApiKey.SHARE_GROUP_HEARTBEAT: _share_group,
    ApiKey.STREAMS_GROUP_HEARTBEAT: _streams,
}
