"""The one mutable cell below the shell: groups, cluster, settings, and what waits.

One ``Broker`` is all brokers of the cluster; which of them was asked is in the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from kwire import ErrorCode
from kwire.jsonform import uuid_text
from kwire.limits import MAX_TEXT
from kwire.messages.fetch import FetchRequest
from kwire.schema import Versions
from mockbroker.answers import Answer, Answers
from mockbroker.calls import Call, Effect, Effects, Note, Ticket
from mockbroker.cluster.model import OFFSETS_TOPIC, Cluster, Node, Partition, Topic
from mockbroker.deadlines import Deadlines
from mockbroker.group import classic, consumer, migration, mixed
from mockbroker.group.consumer import Refused, World, refused_heartbeat
from mockbroker.group.consumer_state import JOINING, ConsumerGroup
from mockbroker.group.events import Commit, ConsumerHeartbeat, Event, Join
from mockbroker.group.expiry import expire, is_over
from mockbroker.group.migration import Becomes
from mockbroker.group.state import Group
from mockbroker.java import partition_for
from mockbroker.release import KAFKA_4_2, Release
from mockbroker.settings import Settings

AnyGroup: TypeAlias = Group | ConsumerGroup
G = TypeVar("G", bound=Group | ConsumerGroup)


class GroupDue(NamedTuple):
    """A group has something to do."""

    group_id: str


@dataclass(frozen=True, slots=True)
class FetchDue:
    """A parked Fetch has waited long enough."""

    ticket: Ticket


@dataclass(frozen=True, slots=True)
class SweepDue:
    """It is time to look for expired offsets."""


Due = GroupDue | FetchDue | SweepDue
SWEEP = SweepDue()


@dataclass(slots=True)
class ParkedFetches:
    """Fetches that wait for records, and who waits for which partition."""

    calls: dict[Ticket, Call[FetchRequest]] = field(default_factory=dict)
    by_partition: dict[tuple[str, int], dict[Ticket, None]] = field(default_factory=dict)
    wanted: dict[Ticket, set[tuple[str, int]]] = field(default_factory=dict)

    def park(self, call: Call[FetchRequest], partitions: Iterable[tuple[str, int]]) -> None:
        """Wait for these partitions; a client may name one twice."""
        self.calls[call.ticket] = call
        self.wanted[call.ticket] = set(partitions)
        for partition in self.wanted[call.ticket]:
            self.by_partition.setdefault(partition, {})[call.ticket] = None

    def take(self, ticket: Ticket) -> Call[FetchRequest] | None:
        """Stop waiting; None if it did not wait."""
        for partition in self.wanted.pop(ticket, ()):
            tickets = self.by_partition[partition]
            del tickets[ticket]
            if not tickets:
                del self.by_partition[partition]
        return self.calls.pop(ticket, None)

    def of(self, partition: Partition) -> list[Call[FetchRequest]]:
        """Calls that wait for this partition, oldest first."""
        return [self.calls[ticket] for ticket in self.by_partition.get((partition.topic, partition.index), ())]


class Broker:
    """``new_uuid``: where ids come from; ``served``: what ApiVersions tells, set by the router."""

    def __init__(
        self, nodes: list[Node], settings: Settings, new_uuid: Callable[[], UUID], release: Release = KAFKA_4_2
    ) -> None:
        self.settings = settings
        self.release = release
        self.cluster = Cluster(nodes, new_uuid)
        self.groups: dict[str, AnyGroup] = {}
        self.waits: Deadlines[Due] = Deadlines()
        self.fetches = ParkedFetches()
        self.metadata = Answers()
        self.served: Mapping[int, Versions] = {}
        self.api_versions: Answer | None = None  # what says it, once somebody asked
        self.producer_ids = count()
        self._new_uuid = new_uuid
        replicas = min(3, len(nodes))
        self.cluster.create_topic(OFFSETS_TOPIC, self.cluster.place(settings.offsets_topic_num_partitions, replicas))

    @property
    def serves_consumer_protocol(self) -> bool:
        """True if groups of the consumer protocol are allowed (KIP-848). Before 4.0 they are not, unless told so."""
        name = "group.coordinator.rebalance.protocols"
        allowed = self.release.java_coordinator or name in self.settings.given
        return allowed and "consumer" in self.settings.group_coordinator_rebalance_protocols.split(",")

    def new_member_id(self, client_id: str) -> str:
        """A member id that nobody had before. It must fit into a string, however long the client's name is."""
        uuid = str(self._new_uuid())
        name = client_id.encode("utf-8", "surrogateescape")[: MAX_TEXT - len(uuid) - 1]
        return f"{name.decode('utf-8', 'ignore')}-{uuid}"

    def coordinator(self, group_id: str) -> int:
        """Id of the broker that leads the group's partition of the offsets topic."""
        partitions = self.cluster.topics[OFFSETS_TOPIC].partitions
        return partitions[partition_for(group_id, len(partitions))].leader

    def coordinator_error(self, group_id: str, node: int) -> ErrorCode:
        """NOT_COORDINATOR if this broker is not the group's, else NONE."""
        return ErrorCode.NONE if self.coordinator(group_id) == node else ErrorCode.NOT_COORDINATOR

    def group_error(self, group_id: str, node: int) -> ErrorCode:
        """What stops a request for this group at this broker: an empty id, or another coordinator."""
        return ErrorCode.INVALID_GROUP_ID if not group_id else self.coordinator_error(group_id, node)

    def leader_error(self, partition: Partition | None, node: int, leader_epoch: int = -1) -> ErrorCode:
        """What stops reading or writing a partition at this broker; ``leader_epoch`` -1 is not checked."""
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if partition.leader != node:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if leader_epoch in (-1, partition.leader_epoch):
            return ErrorCode.NONE
        newer = leader_epoch > partition.leader_epoch
        return ErrorCode.UNKNOWN_LEADER_EPOCH if newer else ErrorCode.FENCED_LEADER_EPOCH

    def tell_group(self, group_id: str, event: Event, now: float) -> Effects:
        """What an event of the classic protocol does to a group; a JoinGroup without member id makes the group."""
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            if not (group.empty and isinstance(event, Join)):
                return self._tell_consumer_group(group, event, now)
            if not event.member_id:
                offsets = group.offsets
                group = self.make_group(group_id)
                group.offsets = offsets
        if not isinstance(group, Group):
            if not isinstance(event, Join) or event.member_id:
                return classic.absent(event)
            group = self.make_group(group_id)
        effects = classic.step(group, event, now)
        self._schedule(group)
        return effects

    def _tell_consumer_group(self, group: ConsumerGroup, event: Event, now: float) -> Effects:
        if isinstance(event, Join) and not event.member_id:
            event = replace(event, fresh_id=uuid_text(self._new_uuid()))  # not in the form of classic groups
        return self._settle(group, mixed.step(group, event, self._world(), now))

    def consumer_heartbeat(self, group_id: str, event: ConsumerHeartbeat, now: float) -> Effects:
        """What a heartbeat of the consumer protocol does. Raises: consumer.Refused."""
        group = self.groups.get(group_id)
        if event.epoch < 0:
            if group is None:
                raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
            if not isinstance(group, ConsumerGroup):
                raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
            return self._settle(group, consumer.leave(group, event, self._world(), now))
        if not event.member_id:
            event = replace(event, member_id=uuid_text(self._new_uuid()))
        before: Effects = []
        if not isinstance(group, ConsumerGroup):
            group, before = self._consumer_group(group_id, group, event, now)
        try:
            effects = consumer.heartbeat(group, event, self._world(), now)
        except Refused as refused:
            if self.groups.get(group_id) is group:
                raise
            return [*before, refused_heartbeat(event.ticket, refused)]  # the group that it would have been is forgotten
        if self.groups.get(group_id) is not group:
            self._put(group)
        return before + self._settle(group, effects)

    def _consumer_group(
        self, group_id: str, group: Group | None, event: ConsumerHeartbeat, now: float
    ) -> tuple[ConsumerGroup, Effects]:
        """The group that a member of the consumer protocol finds or makes, not yet kept. Raises: Refused."""
        if event.epoch != JOINING:
            text = (
                f"Consumer group {group_id} not found."
                if group is None
                else f"Group {group_id} is not a consumer group."
            )
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, text)
        if group is None:
            return ConsumerGroup(group_id=group_id, since=now), []
        if group.empty:
            return ConsumerGroup(group_id=group_id, since=now, offsets=group.offsets), []
        try:
            new = migration.upgraded(group, self.cluster, self.settings, now)
        except migration.NoUpgrade as why:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, str(why)) from None
        told = Note(event="upgrade", group=group_id, generation=new.epoch, members=tuple(new.members))
        return new, [*migration.interrupted(group), told]

    def _settle(self, group: AnyGroup, effects: Iterable[Effect | Becomes]) -> Effects:
        """Keep what a group has become, and when it is due; the effects for the others."""
        found: Effects = []
        for effect in effects:
            if isinstance(effect, Becomes):
                group = self._put(effect.group)
            else:
                found.append(effect)
        self._schedule(group)
        return found

    def _world(self) -> World:
        return World(self.cluster, self.settings)

    def _put(self, group: G) -> G:
        self.groups[group.group_id] = group
        return group

    def make_group(self, group_id: str) -> Group:
        """A new Empty group of the classic protocol."""
        return self._put(Group.configured(group_id, self.settings, java_coordinator=self.release.java_coordinator))

    def drop_group(self, group_id: str) -> None:
        """A group is gone, with its offsets; it must have no members."""
        del self.groups[group_id]
        self.waits.forget(GroupDue(group_id))

    def drop_topic(self, topic: Topic) -> None:
        """A topic is gone, with its records and all offsets committed for it."""
        self.cluster.delete_topic(topic)
        for group in self.groups.values():
            group.offsets.forget_topic(topic.name)

    def sweep(self, now: float) -> Effects:
        """Drop offsets that have expired, and groups of which nothing is left; the next sweep is set."""
        effects: Effects = []
        retention = self.settings.offsets_retention_minutes * 60.0
        for group in list(self.groups.values()):
            for topic, partition in expire(group, now, retention):
                reason = f"offset of {topic} {partition} expired"
                effects.append(Note(event="offset_expire", group=group.group_id, reason=reason))
            if is_over(group):
                self.drop_group(group.group_id)
                effects.append(Note(event="delete", group=group.group_id, reason="empty and without offsets"))
        self.schedule_sweep(now)
        return effects

    def schedule_sweep(self, now: float) -> None:
        self.waits.set(SWEEP, now + self.settings.offsets_retention_check_interval_ms / 1000)

    def may_commit(self, group: AnyGroup, event: Commit, now: float) -> ErrorCode:
        """Whether the group takes a commit from this client."""
        if isinstance(group, ConsumerGroup):
            return mixed.commit_error(group, event)
        error = classic.commit(group, event, now)
        self._schedule(group)
        return error

    def tick_group(self, group_id: str, now: float) -> Effects:
        """Everything that is due in a group."""
        group = self.groups[group_id]
        if isinstance(group, ConsumerGroup):
            return self._settle(group, consumer.tick(group, self._world(), now))
        return self._settle(group, classic.tick(group, now))

    def _schedule(self, group: AnyGroup) -> None:
        self.waits.set(GroupDue(group.group_id), group.waits.next())
