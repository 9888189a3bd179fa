"""The groups of a real cluster, learned from requests and responses, as the control API shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, ClassVar, cast
from uuid import UUID

from kwire.lazy_dataclass import dataclass
from mockbroker.base.deadlines import Deadlines
from mockbroker.base.effects import Note
from mockbroker.base.event_kinds import EventKind
from mockbroker.groups.classic.subscription import decode_assignment
from mockbroker.groups.coordinated import CoordinatedGroup, GroupEffects, Timer, session_timer
from mockbroker.groups.group_type import (
    Context,
    GroupSummary,
    GroupType,
    GroupTypes,
    GroupView,
    MemberDescription,
    TopicNames,
)
from mockbroker.groups.group_types import GROUP_TYPES
from mockbroker.groups.offsets import Offsets

CLASSIC, CONSUMER, SHARE, STREAMS = TYPES = ("classic", "consumer", "share", "streams")
EMPTY, PREPARING, COMPLETING, STABLE, RECONCILING = (
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Reconciling",
)


@dataclass(slots=True, kw_only=True)
class ObservedMember:
    """A member of an observed group, learned from its requests and the responses.

    Attributes:
        member_id: member id.
        client_id: the ``client.id`` in the member's last request.
        client_host: address of the client, after a slash as Kafka writes it.
        instance_id: the ``group.instance.id``; None for a dynamic member.
        session_timeout: session timeout in seconds.
        subscription: subscribed topics; None if unknown.
        regex: subscribed regular expression; None if the member subscribes to none.
        encoded: assignment of a member of a classic group, as the group leader encoded it; None before a SyncGroup.
        assigned: assigned partitions by topic id, for a member of a group that is not classic.
        epoch: member epoch; None in a classic group.
        tasks: tasks of a member of a streams group; None in other groups.
        task_partitions: partitions that the active tasks of a member of a streams group read, by topic.
        process_id: id of the process of a member of a streams group; None in other groups.
    """

    member_id: str
    client_id: str = ""
    client_host: str = ""
    instance_id: str | None = None
    session_timeout: float = 45.0
    subscription: list[str] | None = None
    regex: str | None = None
    encoded: bytes | None = None
    assigned: Mapping[UUID, list[int]] = field(default_factory=dict)
    epoch: int | None = None
    tasks: dict[str, dict[str, list[int]]] | None = None
    task_partitions: dict[str, list[int]] = field(default_factory=dict)
    process_id: str | None = None

    def assignment(self, group: ObservedGroup, names: TopicNames) -> Mapping[str, list[int]] | None:
        """Return the assigned partitions of this member by topic; None if they are unknown.

        Args:
            group: the group of the member.
            names: topic names by topic id.
        """
        if group.type_name == CLASSIC:
            return None if self.encoded is None else decode_assignment(group.protocol_type, self.encoded)
        if self.tasks is not None:
            return self.task_partitions
        return {names.get(topic_id, str(topic_id)): partitions for topic_id, partitions in self.assigned.items()}


@dataclass(slots=True, kw_only=True)
class ObservedGroup(CoordinatedGroup):
    """A group of the real cluster, learned from the traffic of the proxy.

    Attributes:
        state: state of a classic group.
        generation: generation of a classic group; for every other group type, the highest member epoch.
        protocol: the selected assignment strategy or assignor; None before it is known.
        leader: member id of the leader of a classic group; "" if the group has no leader.
        joined: ids of the members whose JoinGroup of the current generation has got a response.
        sources: topics that the tasks of a streams group read, by subtopology id: source topics and repartition topics.
            Empty until a member sends the topology.
    """

    TRANSIENT: ClassVar[frozenset[str]] = frozenset(
        {
            "type_name",
            "group_id",
            "state",
            "generation",
            "protocol_type",
            "protocol",
            "leader",
            "members",
            "joined",
            "sources",
            "timers",
            "offsets",
        }
    )
    type_name: str = CLASSIC  # type: ignore[misc]
    group_id: str
    state: str = EMPTY
    generation: int = 0  # pyright: ignore[reportIncompatibleMethodOverride]
    protocol_type: str = ""  # pyright: ignore[reportIncompatibleMethodOverride]
    protocol: str | None = None
    leader: str = ""
    members: dict[str, ObservedMember] = field(default_factory=dict)  # pyright: ignore[reportIncompatibleMethodOverride]
    joined: set[str] = field(default_factory=set)
    sources: dict[str, list[str]] = field(default_factory=dict)
    timers: Deadlines[Timer] = field(default_factory=Deadlines)
    offsets: Offsets = field(default_factory=Offsets)

    @property
    def has_unwritten_changes(self) -> bool:
        """Always False, because the real coordinator writes the records of the group."""
        return False

    @property
    def state_name(self) -> str:
        if not self.members:
            return EMPTY
        if self.type_name == CLASSIC:
            return self.state
        return STABLE if all(each.epoch == self.generation for each in self.members.values()) else RECONCILING

    def remove(self, member_id: str, event: EventKind, reason: str) -> list[Note]:
        """Remove a member, and return the events for the journal; an empty list if the member is unknown.

        If a classic group still has members, a rebalance begins. If it has none, the group becomes Empty.

        Args:
            member_id: id of the member.
            event: kind of the event, such as LEAVE.
            reason: reason for the journal.
        """
        member = self.members.pop(member_id, None)
        self.timers.forget(session_timer(member_id))
        if member is None:
            return []
        self.joined.discard(member_id)
        notes = [
            Note(
                event=event,
                group=self.group_id,
                member_id=member_id,
                client_id=member.client_id,
                generation=self.generation,
                reason=reason,
            )
        ]
        if not self.members:
            self.state, self.leader = EMPTY, ""
            return [*notes, Note(event=EventKind.EMPTY, group=self.group_id, generation=self.generation)]
        return notes + self.begin_rebalance(reason)

    def begin_rebalance(self, reason: str) -> list[Note]:
        """Record that a rebalance of a classic group begins, and return the event for the journal.

        The list is empty if a rebalance is already in progress or the group is not a classic group. ``reason``: reason
        for the journal.
        """
        if self.type_name != CLASSIC or self.state == PREPARING:
            return []
        self.state = PREPARING
        return [Note(event=EventKind.REBALANCE, group=self.group_id, generation=self.generation, reason=reason)]


class ObservedType:
    """The implementation of GroupType for observed groups: it describes groups of all types for the control API."""

    def summary(self, group: ObservedGroup, context: Context) -> GroupSummary:  # noqa: ARG002
        """Return the group summary for the control API, without members."""
        epoch = None if group.type_name == CLASSIC else group.generation
        return GroupSummary(protocol=group.protocol, leader=group.leader, epoch=epoch)

    def view(self, group: ObservedGroup, context: Context) -> GroupView:
        """Return the protocol, the leader and the assignments of a group, for a snapshot of the group."""
        names = {topic_id: topic.name for topic_id, topic in context.cluster.by_id.items()}
        assignments = {each.member_id: each.assignment(group, names) for each in group.members.values()}
        return GroupView(protocol=group.protocol, leader=group.leader, assignments=assignments)

    def describe_members(
        self,
        group: ObservedGroup,
        member_ids: Iterable[str],
        topics: TopicNames,
        context: Context,  # noqa: ARG002
    ) -> list[MemberDescription]:
        """Return some members of a group as the control API shows them.

        Args:
            group: the group whose members are described.
            member_ids: ids of the members; an id without a member is omitted.
            topics: topic names by topic id.
            context: data and functions shared by all groups.
        """
        return [
            MemberDescription(
                member_id=each.member_id,
                client_id=each.client_id,
                client_host=each.client_host,
                session_timeout_ms=round(each.session_timeout * 1000),
                instance_id=each.instance_id,
                subscription=each.subscription,
                assignment=each.assignment(group, topics),
                regex=(each.regex or "") if group.type_name == CONSUMER else None,
                epoch=each.epoch,
                process_id=each.process_id,
                tasks=each.tasks,
            )
            for member_id in member_ids
            if (each := group.members.get(member_id)) is not None
        ]

    def tick(self, group: ObservedGroup, context: Context, now: float) -> GroupEffects:  # noqa: ARG002
        """Remove the members whose session has expired, as the real coordinator does, and return the events for the
        journal.

        Args:
            group: the group whose members are checked.
            context: data and functions shared by all groups.
            now: the current time in seconds.
        """
        effects: list[Any] = []
        while timer := group.timers.pop_due(now):
            effects += group.remove(timer[1], EventKind.EXPIRE, "no heartbeat has passed within the session timeout")
        return effects


class ObservedTypes(GroupTypes):
    """The group types of a proxy: every group has the type ObservedType."""

    def __init__(self) -> None:
        super().__init__(GROUP_TYPES.types)
        self._observed = cast("GroupType[Any]", ObservedType())

    def of(self, group: CoordinatedGroup) -> GroupType[Any]:  # noqa: ARG002
        """Return the ObservedType, which describes groups of any type."""
        return self._observed
