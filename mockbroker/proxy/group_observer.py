"""An observer that derives the state and the events of groups from the requests and responses that pass the proxy.

``kwire.analysis`` derives the same facts from captures, after it has read all calls of a group. Here, each response
updates the state immediately. Facts that the coordinator sends to no client, such as the target assignment of a
consumer group, are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, TypeAlias

from kwire import ErrorCode
from kwire.apikeys import ApiKey
from kwire.blobs import body_offset, readable_version, stored_version
from kwire.blobs.consumer_protocol import ConsumerProtocolSubscription
from kwire.codec import decode_in_slices
from kwire.errors import WireError
from mockbroker.base.effects import Note
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.journal import Journal
from mockbroker.groups.coordinated import session_timer
from mockbroker.groups.offsets import Committed
from mockbroker.proxy.observed_broker import ObservedBroker
from mockbroker.proxy.observed_groups import (
    CLASSIC,
    COMPLETING,
    CONSUMER,
    SHARE,
    STABLE,
    STREAMS,
    ObservedGroup,
    ObservedMember,
)
from mockbroker.proxy.observer import SLICE, Exchange, Observer, Steps, decoded_request, decoded_response

LEAVE_EPOCHS = (-1, -2)  # member epochs of a ConsumerGroupHeartbeat that leaves
GROUPS = 10_000  # maximum number that are kept
PRODUCERS = 10_000  # maximum number of producers with an open transaction that are kept
TASKS = {"active": "active_tasks", "standby": "standby_tasks", "warmup": "warmup_tasks"}
CONSUMER_PROTOCOL = "consumer"
Partitions: TypeAlias = Mapping[tuple[str, int], Committed]
Notes: TypeAlias = Generator[Note | None, None, None]  # events for the journal; None between two slices of the work


class GroupObserver(Observer):
    """The observer of the requests that group members send.

    Args:
        broker: the observed state of the real cluster, whose groups are updated.
        journal: the journal, to which the events of groups are added.
        now: function that returns the current time in seconds.
        changed: function that is called when the next deadline of a session may have changed.
    """

    def __init__(
        self, broker: ObservedBroker, journal: Journal, now: Callable[[], float], changed: Callable[[], object]
    ) -> None:
        self._broker = broker
        self._journal = journal
        self._now = now
        self._changed = changed
        self._transactional: dict[int, dict[str, dict[tuple[str, int], Committed]]] = {}  # by producer id and group
        self._handlers: Mapping[int, Callable[[Exchange, Any, Any], Notes]] = {
            ApiKey.FIND_COORDINATOR: self._find_coordinator,
            ApiKey.JOIN_GROUP: self._join,
            ApiKey.SYNC_GROUP: self._sync,
            ApiKey.HEARTBEAT: self._heartbeat,
            ApiKey.LEAVE_GROUP: self._leave,
            ApiKey.OFFSET_COMMIT: self._commit,
            ApiKey.OFFSET_FETCH: self._fetch_offsets,
            ApiKey.TXN_OFFSET_COMMIT: self._commit_in_transaction,
            ApiKey.END_TXN: self._end_transaction,
            ApiKey.DELETE_GROUPS: self._delete,
            ApiKey.CONSUMER_GROUP_HEARTBEAT: self._epoch_heartbeat,
            ApiKey.SHARE_GROUP_HEARTBEAT: self._epoch_heartbeat,
            ApiKey.STREAMS_GROUP_HEARTBEAT: self._epoch_heartbeat,
        }

    def needs(self, api_key: int, version: int) -> bool:  # noqa: ARG002
        return api_key in self._handlers

    def requested(self, exchange: Exchange) -> Steps:
        """If the request is a JoinGroup with a member id, and the group is known, record that a rebalance begins.

        The JoinGroup response would be too late, because the coordinator sends it at the end of the join phase.
        """
        if exchange.api_key != ApiKey.JOIN_GROUP or exchange.forwarded is None:
            return
        request = yield from decoded_request(exchange.forwarded)
        if request is None:
            return
        group = self._groups.get(request.group_id)
        if isinstance(group, ObservedGroup) and request.member_id:
            yield from self._record(group.begin_rebalance("a member joins"))
            self._touch(group)

    def answered(self, exchange: Exchange) -> Steps:
        """Update the groups that a request concerns, from the request and the broker's response.

        An exchange is ignored if the broker has not received the request or has not responded, because of a fault rule,
        or if kwire cannot decode the request or the response.
        """
        if exchange.forwarded is None or exchange.answer is None:
            return  # a fault rule has responded: the coordinator knows nothing of it
        request = yield from decoded_request(exchange.forwarded)
        response = yield from decoded_response(exchange.answer, exchange.api_key, exchange.version)
        if request is None or response is None:
            return
        yield from self._record(self._handlers[exchange.api_key](exchange, request, response))
        self._changed()

    # --- classic groups ---

    def _find_coordinator(self, exchange: Exchange, request: Any, response: Any) -> Notes:  # noqa: ARG002
        if request.key_type == 0:
            for number, each in enumerate(response.coordinators or [response], 1):
                if number % SLICE == 0:
                    yield None
                key = each.key if response.coordinators else request.key
                if each.error_code == ErrorCode.NONE:
                    self._store_coordinator(key, each.node_id)

    def _join(self, exchange: Exchange, request: Any, response: Any) -> Notes:
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            yield _note(EventKind.ID_GIVEN, request.group_id, response.member_id, exchange, -1)
            return
        if response.error_code:
            yield from self._refused(request, response.error_code)
            return
        protocols = {each.name: each.metadata for each in request.protocols}
        subscription = yield from _subscription(request.protocol_type, protocols.get(response.protocol_name or ""))
        group = self._group(request.group_id, CLASSIC)
        member = group.members.get(response.member_id)
        is_new = member is None
        member = self._member(group, response.member_id, exchange)
        member.instance_id = request.group_instance_id
        member.session_timeout = request.session_timeout_ms / 1000
        group.protocol_type = request.protocol_type
        member.subscription = subscription
        yield _note(EventKind.JOIN if is_new else EventKind.REJOIN, group.group_id, member.member_id, exchange, -1)
        if response.generation_id > group.generation or not group.joined:
            group.generation, group.joined = response.generation_id, set()
        group.state = COMPLETING
        group.joined.add(member.member_id)
        group.protocol, group.leader = response.protocol_name, response.leader
        if response.member_id == response.leader and response.members:  # only the leader is sent the members
            group.joined = {each.member_id for each in response.members}
            for gone in [each for each in group.members if each not in group.joined]:
                del group.members[gone]
                group.timers.forget(session_timer(gone))
            yield Note(
                event=EventKind.GENERATION,
                group=group.group_id,
                generation=group.generation,
                leader=group.leader,
                protocol=group.protocol or "",
                members=tuple(sorted(group.joined)),
            )
        self._renew(group, member)

    def _sync(self, exchange: Exchange, request: Any, response: Any) -> Notes:
        if response.error_code:
            yield from self._refused(request, response.error_code)
            return
        group = self._group(request.group_id, CLASSIC)
        member = self._member(group, request.member_id, exchange)
        group.generation = max(group.generation, request.generation_id)
        for each in request.assignments:  # of the leader
            if each.member_id in group.members:
                group.members[each.member_id].encoded = each.assignment
        member.encoded = response.assignment
        if group.state == COMPLETING or not group.joined:
            group.state = STABLE
        note = _note(EventKind.ASSIGN, group.group_id, member.member_id, exchange, request.generation_id)
        note.assignment, note.protocol_type = response.assignment, group.protocol_type or CONSUMER_PROTOCOL
        yield note
        self._renew(group, member)

    def _heartbeat(self, exchange: Exchange, request: Any, response: Any) -> Notes:
        if response.error_code not in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            yield from self._refused(request, response.error_code)
            return
        group = self._group(request.group_id, CLASSIC)
        member = self._member(group, request.member_id, exchange)
        if group.generation < request.generation_id:  # the proxy was started after the group
            group.generation, group.state = request.generation_id, STABLE
            group.protocol_type = group.protocol_type or CONSUMER_PROTOCOL
        if response.error_code:
            yield from group.begin_rebalance("the coordinator has answered a heartbeat with REBALANCE_IN_PROGRESS")
        self._renew(group, member)

    def _leave(self, exchange: Exchange, request: Any, response: Any) -> Notes:  # noqa: ARG002
        group = self._groups.get(request.group_id)
        if response.error_code or not isinstance(group, ObservedGroup):
            return
        by_instance = {each.instance_id: each.member_id for each in group.members.values() if each.instance_id}
        leaving = {request.member_id: ""} if request.member_id else {}
        refused = {(each.member_id, each.group_instance_id) for each in response.members if each.error_code}
        for each in request.members:
            if (each.member_id, each.group_instance_id) not in refused:
                member_id = each.member_id or by_instance.get(each.group_instance_id or "", "")
                leaving[member_id] = each.reason or ""
        for member_id, reason in leaving.items():
            yield from group.remove(member_id, EventKind.LEAVE, reason or "left")
        self._touch(group)

    def _refused(self, request: Any, error: int) -> Iterable[Note]:
        group = self._groups.get(request.group_id)
        if isinstance(group, ObservedGroup) and error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            yield from group.remove(request.member_id, EventKind.EXPIRE, ErrorCode(error).name)
            self._touch(group)

    # --- groups with member epochs ---

    def _epoch_heartbeat(self, exchange: Exchange, request: Any, response: Any) -> Notes:
        types = {ApiKey.CONSUMER_GROUP_HEARTBEAT: CONSUMER, ApiKey.SHARE_GROUP_HEARTBEAT: SHARE}
        if response.error_code:
            yield from self._refused(request, response.error_code)
            return
        group = self._group(request.group_id, types.get(exchange.api_key, STREAMS))  # type: ignore[call-overload]
        member_id = response.member_id or request.member_id
        if request.member_epoch in LEAVE_EPOCHS:
            away = request.member_epoch != LEAVE_EPOCHS[0]
            kind, reason = (EventKind.AWAY, "left temporarily") if away else (EventKind.LEAVE, "left")
            yield from group.remove(member_id, kind, reason)
            self._touch(group)
            return
        is_new = member_id not in group.members
        member = self._member(group, member_id, exchange)
        if is_new:
            member.session_timeout = self._session_timeout(group.type_name)
            yield _note(EventKind.JOIN, group.group_id, member_id, exchange, response.member_epoch)
        _describe(member, request, response)
        self._set_task_partitions(group, member, request)
        before, member.epoch = member.epoch, response.member_epoch
        if response.member_epoch > group.generation:
            group.generation = response.member_epoch
            yield Note(event=EventKind.GENERATION, group=group.group_id, generation=group.generation)
        is_assigned = any(getattr(response, name, None) is not None for name in ("assignment", "active_tasks"))
        if before != member.epoch or is_assigned:
            note = _note(EventKind.ASSIGN, group.group_id, member_id, exchange, response.member_epoch)
            names = {topic_id: self._topic_name(topic_id) for topic_id in member.assigned}
            note.assignment = member.assignment(group, names)
            yield note
        self._renew(group, member)

    def _set_task_partitions(self, group: ObservedGroup, member: ObservedMember, request: Any) -> None:
        """Set the partitions that a member of a streams group reads.

        If the request contains a topology, its topics are stored in the group first. A task reads one partition of each
        source topic of its subtopology: the partition with the number of the task. Partitions that are known not to
        exist are left out. The partitions of a member without tasks are unchanged.
        """
        topology = getattr(request, "topology", None)
        if topology is not None:
            group.sources = {
                each.subtopology_id: [*each.source_topics, *(topic.name for topic in each.repartition_source_topics)]
                for each in topology.subtopologies
            }
        if member.tasks is None:
            return
        topics = self._broker.cluster.topics
        member.task_partitions = partitions = {}
        for subtopology_id, indexes in member.tasks["active"].items():
            for name in group.sources.get(subtopology_id, ()):
                known = topics.get(name)
                own = [index for index in indexes if known is None or known.partition(index) is not None]
                if own:
                    partitions[name] = own

    def _session_timeout(self, type_name: str) -> float:
        """Return Kafka's default session timeout for members of a group type, in seconds.

        The configured session timeout is unknown, because the broker sends it to no client.
        """
        settings = self._broker.settings
        return {
            CONSUMER: settings.group_consumer_session_timeout_ms,
            SHARE: settings.group_share_session_timeout_ms,
            STREAMS: settings.group_streams_session_timeout_ms,
        }[type_name] / 1000

    # --- offsets ---

    def _commit(self, exchange: Exchange, request: Any, response: Any) -> Notes:
        stored = yield from self._accepted(request, response)
        if not stored:
            return
        group = self._group(request.group_id, CLASSIC, is_known=True)
        yield from self._store(group, stored, request.member_id, exchange)
        member = group.members.get(request.member_id)
        if member is not None and group.type_name == CLASSIC:
            self._renew(group, member)

    def _commit_in_transaction(self, exchange: Exchange, request: Any, response: Any) -> Notes:  # noqa: ARG002
        stored = yield from self._accepted(request, response)
        if stored:
            pending = self._transactional.setdefault(request.producer_id, {})
            pending.setdefault(request.group_id, {}).update(stored)
            if len(self._transactional) > PRODUCERS:  # of most of these, the transaction has timed out
                del self._transactional[next(iter(self._transactional))]

    def _end_transaction(self, exchange: Exchange, request: Any, response: Any) -> Notes:
        if response.error_code:
            return
        pending = self._transactional.pop(request.producer_id, {})
        for group_id, stored in pending.items() if request.committed else ():
            yield from self._store(self._group(group_id, CLASSIC, is_known=True), stored, "", exchange)

    def _fetch_offsets(self, exchange: Exchange, request: Any, response: Any) -> Notes:  # noqa: ARG002
        partitions = (
            (each.group_id if response.groups else request.group_id, topic, partition)
            for each in response.groups or [response]
            for topic in each.topics
            for partition in topic.partitions
        )
        group: ObservedGroup | None = None
        for number, (group_id, topic, partition) in enumerate(partitions, 1):
            if number % SLICE == 0:
                group = None  # it may be deleted between two slices
                yield None
            if partition.committed_offset >= 0 and not partition.error_code:
                if group is None or group.group_id != group_id:
                    group = self._group(group_id, CLASSIC, is_known=True)
                    self._touch(group)
                name = topic.name or self._topic_name(topic.topic_id)
                found = Committed(offset=partition.committed_offset, metadata=partition.metadata or "")
                group.offsets.committed[name, partition.partition_index] = found

    def _delete(self, exchange: Exchange, request: Any, response: Any) -> Notes:  # noqa: ARG002
        for number, each in enumerate(response.results, 1):
            if number % SLICE == 0:
                yield None
            if not each.error_code and each.group_id in self._groups:
                self._groups.unload(each.group_id)
                yield Note(event=EventKind.DELETE, group=each.group_id)

    def _accepted(self, request: Any, response: Any) -> Generator[None, None, dict[tuple[str, int], Committed]]:
        """Return the offsets in an OffsetCommit or TxnOffsetCommit that the coordinator has accepted, by topic and
        partition.

        The generator yields between slices of the work.
        """
        refused, stored, now = set(), dict[tuple[str, int], Committed](), self._now()
        for number, (topic, each) in enumerate(_partitions(response), 1):
            if number % SLICE == 0:
                yield
            if each.error_code:
                refused.add((topic.name or getattr(topic, "topic_id", None), each.partition_index))
        for number, (topic, each) in enumerate(_partitions(request), 1):
            if number % SLICE == 0:
                yield
            if (topic.name or getattr(topic, "topic_id", None), each.partition_index) not in refused:
                name = topic.name or self._topic_name(topic.topic_id)
                stored[name, each.partition_index] = Committed(
                    offset=each.committed_offset, metadata=each.committed_metadata or "", at=now
                )
        return stored

    def _store(self, group: ObservedGroup, stored: Partitions, member_id: str, exchange: Exchange) -> Notes:
        """Store committed offsets in a group. Yield None between slices of the work, and the event for the journal at
        the end.
        """
        note = _note(EventKind.COMMIT, group.group_id, member_id, exchange, group.generation)
        note.offsets = offsets = dict[tuple[str, int], int]()
        for number, (partition, each) in enumerate(stored.items(), 1):
            if number % SLICE == 0:
                yield None
            group.offsets.committed[partition] = each
            offsets[partition] = each.offset
        if self._groups.get(group.group_id) is group:  # it may have been deleted between two slices
            self._touch(group)
        yield note

    # --- state ---

    @property
    def _groups(self) -> Any:
        return self._broker.groups

    def _group(self, group_id: str, type_name: str, *, is_known: bool = False) -> ObservedGroup:
        """Return the group with an id; create it if it is unknown. If there are GROUPS groups, the oldest is removed.

        Args:
            group_id: group id.
            type_name: type of the group, such as ``classic``. If a known group has a different type, it is changed to
                this type and loses its members.
            is_known: True to leave a known group's type unchanged.
        """
        group = self._groups.get(group_id)
        if not isinstance(group, ObservedGroup):
            if len(self._groups) >= GROUPS:
                self._groups.unload(next(iter(self._groups)))
            group = ObservedGroup(type_name=type_name, group_id=group_id)
            self._groups.load(group)
        elif group.type_name != type_name and not is_known:
            group.type_name = type_name
            group.members.clear()
            group.joined.clear()
        if type_name != CLASSIC and not is_known:
            group.protocol_type = type_name
        return group

    def _member(self, group: ObservedGroup, member_id: str, exchange: Exchange) -> ObservedMember:
        member = group.members.get(member_id)
        if member is None:
            member = group.members[member_id] = ObservedMember(member_id=member_id)
        member.client_id = exchange.client_id or ""
        member.client_host = f"/{exchange.connection.client.host}"
        if group.group_id not in self._broker.coordinators and exchange.connection.node >= 0:
            self._store_coordinator(group.group_id, exchange.connection.node)
        return member

    def _store_coordinator(self, group_id: str, node: int) -> None:
        """Store the coordinator of a group, which need not exist; remove the oldest one above GROUPS.

        Args:
            group_id: group id.
            node: broker id of the coordinator.
        """
        coordinators = self._broker.coordinators
        coordinators.pop(group_id, None)
        coordinators[group_id] = node
        if len(coordinators) > GROUPS:
            del coordinators[next(iter(coordinators))]

    def _renew(self, group: ObservedGroup, member: ObservedMember) -> None:
        """Restart the session timeout of a member, because the member has sent a request."""
        group.timers.set(session_timer(member.member_id), self._now() + member.session_timeout)
        self._touch(group)

    def _touch(self, group: ObservedGroup) -> None:
        """Record that a group may have changed, so that the control API reads it again."""
        self._groups.load(group)

    def _topic_name(self, topic_id: Any) -> str:
        topic = self._broker.cluster.by_id.get(topic_id)
        return str(topic_id) if topic is None else topic.name

    def _record(self, notes: Iterable[Note | None]) -> Steps:
        """Add events to the journal. The generator yields where ``notes`` has None."""
        for note in notes:
            if note is None:
                yield
            else:
                self._journal.record(note, self._now())


def _partitions(message: Any) -> Iterable[tuple[Any, Any]]:
    """Return the partitions in a message, each with its topic."""
    return ((topic, each) for topic in message.topics for each in topic.partitions)


def _describe(member: ObservedMember, request: Any, response: Any) -> None:
    """Update the attributes of a member from a request and its response.

    An attribute is unchanged if its field is absent from both messages, or is null.
    """
    member.instance_id = getattr(request, "instance_id", None) or member.instance_id
    names = getattr(request, "subscribed_topic_names", None)
    if names is not None:
        member.subscription = list(names)
    member.regex = getattr(request, "subscribed_topic_regex", None) or member.regex
    assignment = getattr(response, "assignment", None)
    if assignment is not None:
        member.assigned = {each.topic_id: list(each.partitions) for each in assignment.topic_partitions}
    member.process_id = getattr(request, "process_id", None) or member.process_id
    tasks = {kind: getattr(response, name, None) for kind, name in TASKS.items()}
    if any(each is not None for each in tasks.values()):
        member.tasks = {
            kind: {each.subtopology_id: list(each.partitions) for each in found or ()} for kind, found in tasks.items()
        }


def _note(event: EventKind, group_id: str, member_id: str, exchange: Exchange, generation: int) -> Note:
    return Note(
        event=event,
        group=group_id,
        member_id=member_id,
        client_id=exchange.client_id or "",
        generation=generation,
    )


def _subscription(protocol_type: str, metadata: bytes | None) -> Generator[None, None, list[str] | None]:
    """Return the subscribed topics of a consumer in a classic group; None if they are unknown.

    The generator yields between slices of a large subscription.

    Args:
        protocol_type: protocol type of the group; subscriptions of other types than ``consumer`` are unknown.
        metadata: the encoded subscription in the JoinGroup; None if the JoinGroup has not been observed.
    """
    if protocol_type != CONSUMER_PROTOCOL or metadata is None:
        return None
    try:
        version = readable_version(ConsumerProtocolSubscription, stored_version(ConsumerProtocolSubscription, metadata))
        begin = body_offset(ConsumerProtocolSubscription)
        found, _ = yield from decode_in_slices(ConsumerProtocolSubscription, metadata, begin, version, SLICE)
    except WireError:
        return None
    return list(found.topics)
