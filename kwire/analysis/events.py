"""One call into what it says of groups: events, as plain rows that any runner can carry and sort.

An event depends on its call alone, so calls may be taken in any order, anywhere. What depends on more than one call -
who owned what, what set off a rebalance - is for ``history``. Topics of which a call has only the id stand as
``id:...`` until ``name_topics`` is given the names that other calls told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from kwire.analysis.tables import Row
from kwire.blobs import decode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kwire.capture.call import Call
from kwire.errorcodes import ErrorCode
from kwire.errors import WireError
from kwire.jsonform import uuid_text

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"

EVENTS: Mapping[str, str] = {
    "join_sent": "a JoinGroup, or a first heartbeat (epoch 0): `topics` subscribed, `partitions` still owned",
    "member_id_given": "the answer MEMBER_ID_REQUIRED: a member id to join with (KIP-394)",
    "join_done": "the answer: `generation`; classic also `leader`, `protocol_name`, and to the leader `members`",
    "join_error": "the answer refuses",
    "sync_sent": "a SyncGroup",
    "planned": "what the leader's SyncGroup gives to one member: `partitions`",
    "sync_done": "the answer: `partitions` of the member",
    "sync_error": "the answer refuses, often with REBALANCE_IN_PROGRESS",
    "heartbeat": "a heartbeat that was answered without news; at the time of its request if no answer was seen",
    "heartbeat_error": "a heartbeat was answered with an error; REBALANCE_IN_PROGRESS asks to rejoin",
    "leave": "a member leaves by itself (or is removed by an admin); `generation` -2: a static one that will come back",
    "subscribed": "KIP-848: a heartbeat that says what is subscribed",
    "owned": "KIP-848: a heartbeat that says what the member owns: how it acknowledges a revocation",
    "epoch_change": "KIP-848: the member is told another epoch",
    "assigned": "KIP-848: the member is told what it should own",
    "fenced": "KIP-848: the member is not known, or its epoch is not right: it starts over",
    "commit": "an offset of a partition is committed",
    "commit_error": "the same, refused",
    "txn_commit": "an offset is committed in a transaction",
    "txn_commit_error": "the same, refused",
    "coordinator_found": "FindCoordinator: `leader` is where the coordinator is",
    "coordinator_error": "FindCoordinator is refused",
    "coordinator_moved": "inferred: the coordinator is not where it was",
    "member_silent": "inferred: a member is not heard of for its session timeout, and the group goes on without it",
    "static_restart": "inferred: a static member came back; `reason` says which id it had, and if a rebalance followed",
    "revocation_acknowledged": "inferred: a member does not own any more what it was told to give up",
}

# KIP-848 answers after which a member starts over.
FENCING = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
}


@dataclass(slots=True, kw_only=True)
class GroupEvent:
    """A row of ``group_events``; the columns say what each field is. Its capture, cluster and life are not its own."""

    ts: int
    group_id: str
    protocol: str | None
    event: str
    inferred: bool = False
    member_id: str | None = None
    instance_id: str | None = None
    client_id: str | None = None
    host: str | None = None
    generation: int | None = None
    error_code: int | None = None
    error_name: str | None = None
    reason: str | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    interval_ms: int | None = None
    protocol_name: str | None = None
    leader: str | None = None
    members: list[str] | None = None
    topics: list[str] | None = None
    partitions: list[str] | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    metadata: str | None = None
    broker: str | None = None
    conn_id: str | None = None
    number: int = 0
    part: int = 0

    def row(self, capture_id: str, cluster: str | None = None, life: int | None = None) -> Row:
        """The row."""
        ts, group_id, *rest = _values(self)
        return dict(zip(_COLUMNS, (capture_id, ts, group_id, cluster, life, *rest), strict=True))

    @property
    def key(self) -> tuple[int, str, int, int]:
        """What events of a group are sorted by."""
        return self.ts, self.conn_id or "", self.number, self.part


_FIELDS = tuple(GroupEvent.__slots__)
_COLUMNS = ("capture_id", *_FIELDS[:2], "cluster", "life", *_FIELDS[2:])
_values = attrgetter(*_FIELDS)


def event_of(row: Mapping[str, Any]) -> GroupEvent:
    """The event of a row, whatever else the row has."""
    return GroupEvent(**{name: row[name] for name in _FIELDS})


def error_name(code: int | None) -> str | None:
    """Kafka's name of an error code, or its number if it is none of Kafka's."""
    if code is None:
        return None
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def partition_name(topic: str, partition: int) -> str:
    """``orders-3``, as Kafka writes it."""
    return f"{topic}-{partition}"


def split_partition(name: str) -> tuple[str, int]:
    """The topic and the partition of ``orders-3``."""
    topic, _, partition = name.rpartition("-")
    return topic, int(partition)


def events_of(call: Call) -> list[GroupEvent]:
    """What a call says of groups, in order; nothing for most calls."""
    extract = _EXTRACTORS.get(call.api_key if call.api_key is not None else -1)
    if extract is None or call.request is None or call.request_us is None:
        return []
    found = list(extract(_Said(call)))
    for part, event in enumerate(found):
        event.part = part
    return found


def topic_names(call: Call) -> dict[str, str]:
    """Names by topic id, ``id:...``, that a call tells."""
    if call.api_key not in _NAMING or call.response is None:
        return {}
    found = {}
    for topic in call.response.topics:
        if topic.topic_id.int and topic.name:
            found[topic_key("", topic.topic_id)] = topic.name
    return found


def topic_key(name: str | None, topic_id: Any) -> str:
    """The name, or ``id:...`` where only the id is there."""
    return name or f"id:{uuid_text(topic_id)}"


def name_topics(event: GroupEvent, names: Mapping[str, str]) -> GroupEvent:
    """The event, with the names of the topics that it has by id."""
    if event.topic is not None and event.topic in names:
        event = replace(event, topic=names[event.topic])
    if event.partitions and any(partition.startswith("id:") for partition in event.partitions):
        event = replace(event, partitions=sorted(_named(partition, names) for partition in event.partitions))
    return event


def _named(partition: str, names: Mapping[str, str]) -> str:
    topic, number = split_partition(partition)
    return partition_name(names.get(topic, topic), number)


@dataclass(slots=True, frozen=True)
class Watermark:
    """The end of a partition as an answer told it, and who did."""

    ts: int
    conn_id: str
    broker: str
    topic: str
    partition: int
    offset: int


def watermarks(call: Call) -> Iterator[Watermark]:
    """High watermarks in answers to Fetch, and to ListOffsets for the latest offset."""
    if call.response is None or call.response_us is None:
        return
    who = call.response_us, call.connection, call.broker
    if call.api_key == _FETCH:
        for topic in call.response.responses:
            for partition in topic.partitions:
                if not partition.error_code and partition.high_watermark >= 0:
                    name = topic_key(topic.topic, topic.topic_id)
                    yield Watermark(*who, name, partition.partition_index, partition.high_watermark)
    elif call.api_key == _LIST_OFFSETS and call.request is not None and call.request.isolation_level == 0:
        latest = {
            (topic.name, partition.partition_index)
            for topic in call.request.topics
            for partition in topic.partitions
            if partition.timestamp == _LATEST
        }
        for topic in call.response.topics:
            for partition in topic.partitions:
                known = not partition.error_code and partition.offset >= 0
                if known and (topic.name, partition.partition_index) in latest:
                    yield Watermark(*who, topic.name, partition.partition_index, partition.offset)


class _Said:
    """A call, and events of it: ``asked`` at the time of the request, ``told`` at that of the response."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.request = call.request
        self.response = call.response if call.response_us is not None else None
        self.code: int | None = getattr(self.response, "error_code", None)

    def asked(self, event: str, group: str, protocol: str | None, **more: Any) -> GroupEvent:
        assert self.call.request_us is not None
        return self._event(self.call.request_us, event, group, protocol, more)

    def told(self, event: str, group: str, protocol: str | None, **more: Any) -> GroupEvent:
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
    yield said.asked(
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
        yield said.told(event, group, CLASSIC, error_code=said.code, **who)
        return
    yield said.told(
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
    yield said.asked("sync_sent", group, CLASSIC, **who)
    for planned in request.assignments:
        share = _share(request.protocol_type, planned.assignment)
        yield said.asked(
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
        yield said.told("sync_error", group, CLASSIC, error_code=said.code, **who)
    else:
        share = _share(response.protocol_type or request.protocol_type, response.assignment)
        yield said.told("sync_done", group, CLASSIC, error_code=0, partitions=share, **who)


def _heartbeat(said: _Said) -> Iterator[GroupEvent]:
    request, group = said.request, said.request.group_id
    who = {
        "member_id": request.member_id,
        "instance_id": request.group_instance_id,
        "generation": request.generation_id,
    }
    if said.response is None:
        yield said.asked("heartbeat", group, CLASSIC, **who)
    else:
        event = "heartbeat_error" if said.code else "heartbeat"
        yield said.told(event, group, CLASSIC, error_code=said.code, **who)


def _leave(said: _Said) -> Iterator[GroupEvent]:
    request, response, group = said.request, said.response, said.request.group_id
    if not request.members:
        yield said.asked("leave", group, CLASSIC, member_id=request.member_id, error_code=said.code)
        return
    answers = {}
    if response is not None:
        answers = {(one.member_id, one.group_instance_id): one.error_code for one in response.members}
    for leaving in request.members:
        code = said.code or answers.get((leaving.member_id, leaving.group_instance_id))
        yield said.asked(
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
        yield said.asked("leave", group, protocol, **who, generation=epoch, error_code=said.code)
        return
    if epoch == 0:
        yield said.asked("join_sent", group, protocol, **says)
    else:
        if topics is not None:
            yield said.asked("subscribed", group, protocol, **says)
        if owned is not None:
            yield said.asked("owned", group, protocol, **who, generation=epoch, partitions=owned)
    if response is None:
        if epoch and topics is None and owned is None:
            yield said.asked("heartbeat", group, protocol, **who, generation=epoch)
        return
    if said.code:
        event = "join_error" if epoch == 0 else "fenced" if said.code in FENCING else "heartbeat_error"
        yield said.told(event, group, protocol, **who, generation=epoch, error_code=said.code)
        return
    now = {**who, "generation": response.member_epoch, "interval_ms": response.heartbeat_interval_ms, "error_code": 0}
    if epoch == 0:
        yield said.told("join_done", group, protocol, **now)
    elif response.member_epoch != epoch:
        yield said.told("epoch_change", group, protocol, **now)
    elif told is None:
        yield said.told("heartbeat", group, protocol, **now)
    if told is not None:
        yield said.told("assigned", group, protocol, **now, partitions=told)


# --- offsets and coordinators -------------------------------------------------------------------------------------


def _commit(said: _Said) -> Iterator[GroupEvent]:
    request = said.request
    yield from _commits(said, "commit", request.generation_id_or_member_epoch)


def _txn_commit(said: _Said) -> Iterator[GroupEvent]:
    yield from _commits(said, "txn_commit", said.request.generation_id)


def _commits(said: _Said, event: str, generation: int) -> Iterator[GroupEvent]:
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
            yield said.asked(
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
            yield said.told("coordinator_error", group, None, error_code=found.error_code)
        else:
            where = f"{found.host}:{found.port}"
            yield said.told("coordinator_found", group, None, leader=where, error_code=0)


_FETCH, _LIST_OFFSETS, _LATEST = 1, 2, -1
_NAMING = {3, 19, 75}  # Metadata, CreateTopics, DescribeTopicPartitions: topics with name and id
_EXTRACTORS: Mapping[int, Callable[[_Said], Iterator[GroupEvent]]] = {
    8: _commit,
    10: _coordinator,
    11: _join,
    12: _heartbeat,
    13: _leave,
    14: _sync,
    28: _txn_commit,
    68: _consumer,
    76: _share_group,
    88: _streams,
}
