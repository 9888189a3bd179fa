"""The state of a consumer group (KIP-848) and its members.

Members are immutable: a change replaces the member, so a request that is rejected changes nothing. Source: Kafka's
ConsumerGroup, ConsumerGroupMember and ModernGroup (4.2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from math import inf
from typing import ClassVar
from uuid import UUID

from kwire.assignors import GroupAssignment
from kwire.assignors.uniform_incremental import UniformTarget
from kwire.java import map_order
from kwire.lazy_dataclass import dataclass
from mockbroker.base.deadlines import Deadlines
from mockbroker.groups.consumer.declaration import ASSIGNING, CONSUMER, EMPTY, RECONCILING, STABLE
from mockbroker.groups.coordinated import Timer
from mockbroker.groups.modern_group import SubscribedGroup
from mockbroker.groups.offsets import Offsets
from mockbroker.groups.partition_sets import NO_PARTITIONS, PartitionSet, TopicIdPartition
from mockbroker.topics.model import ClusterState

JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH = (
    0,
    -1,
    -2,
)  # special member epochs in requests

REGEX_TIMER: Timer = ("regex", "")


def rebalance_timer(member_id: str) -> Timer:
    """Return the timer key for a member's rebalance timeout: the member must revoke partitions within this timeout."""
    return ("rebalance", member_id)


def join_timer(member_id: str) -> Timer:
    """Return the timer key for the deadline by which a member of the classic protocol has to rejoin."""
    return ("join", member_id)


def sync_timer(member_id: str) -> Timer:
    """Return the timer key for the deadline by which a member of the classic protocol has to send SyncGroup."""
    return ("sync", member_id)


class MemberState(Enum):
    """The state of a member's reconciliation, with the numbers in Kafka's records.

    Attributes:
        STABLE: the member has all partitions of the target assignment of its epoch.
        UNREVOKED_PARTITIONS: the member still has to revoke partitions.
        UNRELEASED_PARTITIONS: the member waits for partitions that other members have not released yet.
    """

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


@dataclass(frozen=True, slots=True)
class ClassicMemberMetadata:
    """The fields of a JoinGroup that the coordinator stores for a classic member of a consumer group.

    Attributes:
        session_timeout: Session timeout in seconds.
        protocols: Names and metadata of the supported protocols.
    """

    session_timeout: float
    protocols: Sequence[tuple[str, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """A member of a consumer group.

    Attributes:
        member_id: member id.
        instance_id: ``group.instance.id`` of a static member; None for a dynamic member.
        rack_id: rack of the client; None if unknown.
        client_id: the ``client.id`` of the request header.
        client_host: address of the client.
        rebalance_timeout: maximum time in seconds for revoking partitions.
        topics: names of the subscribed topics.
        regex: subscribed regular expression; "" if the member subscribes to none.
        assignor: server-side assignor that the member requests; None for the group's default.
        classic: metadata of a member that uses the classic protocol (online migration); None for a
            member that uses the consumer protocol.
        epoch: member epoch.
        previous_epoch: member epoch before the latest reconciliation step; -1 before the first step.
        state: state of the reconciliation.
        assigned: assigned partitions.
        pending_revocation: partitions that the member has to revoke.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: float = -1.0
    topics: frozenset[str] = frozenset()
    regex: str = ""
    assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    epoch: int = JOIN_EPOCH
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: PartitionSet = NO_PARTITIONS
    pending_revocation: PartitionSet = NO_PARTITIONS

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Return whether the member has exactly the partitions of its target assignment with this epoch.

        ``assignment_epoch``: epoch of the target assignment.
        """
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The resolution of a regular expression to topics.

    Attributes:
        topics: Names of the matching topics.
        version: Version of the cluster metadata at the resolution.
        at: Time of the resolution in seconds.
    """

    topics: frozenset[str]
    version: int
    at: float


@dataclass(slots=True, kw_only=True)
class ConsumerGroup(SubscribedGroup):
    """The state of a consumer group.

    Attributes:
        group_id: Group id.
        epoch: Group epoch, which is incremented when a new target assignment is necessary.
        assignment_epoch: Group epoch for which the target assignment was computed.
        members: Members by member id.
        static_members: Member ids by instance id. A former instance id of a member is not removed, as in Kafka.
        target: Target assignments by member id.
        partition_epochs: Member epoch of the owner, by owned partition, including partitions pending revocation.
        resolved_regexes: Resolutions by regular expression.
        regex_topics: Number of matching regular expressions by topic name.
        regexes_to_resolve: Regular expressions that the resolution in progress has not resolved yet; None if no
            resolution is in progress.
        resolving_since: Time in seconds when the latest resolution started.
        may_describe: Function that returns whether the client whose request started the resolution may describe a
            topic; None without an authorizer.
        matches_changed: Whether the resolution in progress has changed the matches of a regular expression.
        topic_metadata: Topic ids and partition counts of the existing subscribed topics at the last read, by name.
        metadata_version: Version of the cluster metadata at the last read; -1 before the first read.
        metadata_refresh_at: Time in seconds at which the metadata is read again at the latest.
        peak_member_count: Largest number of members so far, which determines the iteration order of Kafka's hash map.
        subscribed_names: By topic name, the number of members that subscribe to the topic by name.
        subscribed_regexes: By regular expression, the number of members that subscribe to it.
        requested_assignors: By assignor name, the number of members that request it.
        classic_member_count: Number of members that use the classic protocol.
        uniform_target: State for an incremental update of the target assignment by the assignor ``uniform``; None if
            the next target is computed from scratch.
        homogeneous: Whether all members had the same subscription at the last change of a member or of the metadata.
        timers: Deadlines of the group and its members.
        offsets: Committed offsets.
    """

    type_name: ClassVar[str] = CONSUMER
    TRANSIENT: ClassVar[frozenset[str]] = frozenset(
        {
            "static_members",
            "partition_epochs",
            "regex_topics",
            "regexes_to_resolve",
            "resolving_since",
            "may_describe",
            "matches_changed",
            "metadata_version",
            "metadata_refresh_at",
            "peak_member_count",
            "subscribed_names",
            "subscribed_regexes",
            "requested_assignors",
            "classic_member_count",
            "homogeneous",
            "uniform_target",
            "timers",
            "offsets",
        }
    )
    group_id: str
    epoch: int = 0
    assignment_epoch: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)  # pyright: ignore[reportIncompatibleMethodOverride]
    static_members: dict[str, str] = field(default_factory=dict)
    target: GroupAssignment = field(default_factory=dict)
    partition_epochs: dict[TopicIdPartition, int] = field(default_factory=dict)
    resolved_regexes: dict[str, ResolvedRegex] = field(default_factory=dict)
    regex_topics: Counter[str] = field(default_factory=Counter)
    regexes_to_resolve: list[str] | None = None
    resolving_since: float = -inf
    may_describe: Callable[[str], bool] | None = None
    matches_changed: bool = False
    topic_metadata: Mapping[str, tuple[UUID, int]] = field(default_factory=dict)
    metadata_version: int = -1
    metadata_refresh_at: float = inf
    peak_member_count: int = 0
    subscribed_names: Counter[str] = field(default_factory=Counter)
    subscribed_regexes: Counter[str] = field(default_factory=Counter)
    requested_assignors: Counter[str] = field(default_factory=Counter)
    classic_member_count: int = 0
    homogeneous: bool = True
    uniform_target: UniformTarget | None = None
    timers: Deadlines[Timer] = field(default_factory=Deadlines)
    offsets: Offsets = field(default_factory=Offsets)

    # --- description ---

    @property
    def state_name(self) -> str:
        """The name of the state, as ListGroups reports it. Source: Kafka's ConsumerGroup.ConsumerGroupState."""
        if not self.members:
            return EMPTY
        if self.epoch > self.assignment_epoch:
            return ASSIGNING
        reconciled = all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values())
        return STABLE if reconciled else RECONCILING

    def in_map_order(self) -> list[ConsumerMember]:
        """Return the members in the iteration order of Kafka's hash map."""
        return [self.members[member_id] for member_id in map_order(self.members, self.peak_member_count)]

    def preferred_assignor(self, default: str) -> str:
        """Return the assignor that most members request, or ``default`` if no member requests an assignor.

        If several assignors are requested equally often, the first one in the order of a Java HashMap is returned.
        """
        names = map_order(self.requested_assignors)
        return max(names, key=lambda name: self.requested_assignors[name]) if names else default

    def supports_classic_protocols(self, names: Iterable[str]) -> bool:
        """Return whether a protocol among ``names`` is supported by all members that use the classic protocol."""
        supported = [{name for name, _ in metadata.protocols} for metadata in self._classic_metadata()]
        return any(all(name in each for each in supported) for name in names)

    def _classic_metadata(self) -> list[ClassicMemberMetadata]:
        return [member.classic for member in self.members.values() if member.classic is not None]

    # --- subscriptions ---

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Return the names of the topics that a member subscribes to: by name, or by its regular expression.

        A regular expression that is not resolved yet adds no topics.
        """
        resolved = self.resolved_regexes.get(member.regex) if member.regex else None
        if resolved is None:
            return member.topics
        return (
            member.topics | resolved.topics if member.topics else resolved.topics
        )  # the same set object for all members with this regular expression

    def ids_of(self, member: ConsumerMember, cluster: ClusterState) -> frozenset[UUID]:
        """Return the ids of the existing topics to which a member subscribes.

        Args:
            member: The member.
            cluster: Cluster that has the topics.
        """
        topics = (cluster.topics.get(name) for name in self.topics_of(member))
        return frozenset(topic.topic_id for topic in topics if topic is not None)

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member subscribes to the topic, by name or regular expression."""
        return topic in self.subscribed_names or topic in self.regex_topics

    def subscribed_topics(self) -> set[str]:
        """Return the names of all subscribed topics."""
        return self.subscribed_names.keys() | self.regex_topics.keys()

    def refresh_metadata(self, cluster: ClusterState, now: float, interval: float) -> bool:
        """Read the metadata of the subscribed topics, and update ``homogeneous``. Return whether the metadata changed.

        Args:
            cluster: Cluster that has the topics.
            now: The current time in seconds.
            interval: Maximum time in seconds until the metadata is read again.
        """
        changed = super(ConsumerGroup, self).refresh_metadata(cluster, now, interval)  # noqa: UP008 - slots
        self.homogeneous = self._is_homogeneous()
        return changed

    def put_resolved_regex(self, regex: str, resolved: ResolvedRegex) -> None:
        """Store the topics that match a regular expression.

        The number of matching expressions of each topic is updated.

        Args:
            regex: the regular expression.
            resolved: the matching topics.
        """
        old = self.resolved_regexes.get(regex)
        if old is None or old.topics is not resolved.topics:
            self.remove_resolved_regex(regex)
            self.regex_topics.update(resolved.topics)
        self.resolved_regexes[regex] = resolved

    def remove_resolved_regex(self, regex: str) -> None:
        """Remove the stored topics of a regular expression.

        The number of matching expressions of each topic is updated.

        ``regex``: the regular expression; if it is not resolved, nothing changes.
        """
        old = self.resolved_regexes.pop(regex, None)
        if old is None:
            return
        for topic in old.topics:
            self.regex_topics[topic] -= 1
            if not self.regex_topics[topic]:
                del self.regex_topics[topic]

    def target_of(self, member_id: str) -> PartitionSet:
        """Return the target assignment of a member, or an empty set of partitions if the member has none."""
        topics = self.target.get(member_id, {})
        return frozenset((topic_id, index) for topic_id, indexes in topics.items() for index in indexes)

    # --- members ---

    def put_member(self, member: ConsumerMember) -> None:
        """Add a member, or replace the member with the same id.

        If the member epoch changes, cancel the rebalance timeout. Resolved regular expressions without a subscriber are
        removed.
        """
        old = self.members.get(member.member_id)
        if old is not None:
            self._count(old, -1)
            self._remove_partition_epochs(old)
            if old.epoch != member.epoch:
                self.timers.forget(rebalance_timer(member.member_id))
        elif self.uniform_target is not None:
            self.uniform_target.add(member.member_id)
        self.members[member.member_id] = member
        self._count(member, 1)
        for partition in member.assigned | member.pending_revocation:
            self.partition_epochs[partition] = member.epoch
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.peak_member_count = max(self.peak_member_count, len(self.members))
        for regex in [regex for regex in self.resolved_regexes if not self.subscribed_regexes[regex]]:
            self.remove_resolved_regex(regex)
        self.homogeneous = self._is_homogeneous()

    def remove_member(self, member: ConsumerMember) -> None:
        """Remove a member and its target assignment from the group, and release its partitions.

        If no remaining member subscribes to the member's regular expression, the resolved topics of this expression are
        removed.
        """
        del self.members[member.member_id]
        self._count(member, -1)
        self._remove_partition_epochs(member)
        target = self.target.pop(member.member_id, None)
        if self.uniform_target is not None:
            self.uniform_target.remove(member.member_id, target)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]
        if member.regex and not self.subscribed_regexes[member.regex]:
            self.remove_resolved_regex(member.regex)
        self.homogeneous = self._is_homogeneous()

    def replace_static_member(self, old: ConsumerMember, new: ConsumerMember) -> None:
        """Replace a static member that returned with a new member id.

        The new member gets the target assignment of the old one. ``uniform_target`` becomes None.

        Args:
            old: The member to replace.
            new: The member that takes its place.
        """
        target, resolved = self.target.get(old.member_id, {}), self.resolved_regexes.get(old.regex)
        self.uniform_target = None
        self.remove_member(old)
        if resolved is not None:
            self.put_resolved_regex(old.regex, resolved)
        self.put_member(new)
        self.target[new.member_id] = target

    def _is_homogeneous(self) -> bool:
        """Return whether all members have the same subscription. Source: Kafka's ModernGroup.subscriptionType."""
        member_count = len(self.members)
        return (
            all(count == member_count for count in self.subscribed_names.values())
            and self.regex_topics.keys() <= self.subscribed_names.keys()
        )

    def _count(self, member: ConsumerMember, by: int) -> None:
        for counter, keys in (
            (self.subscribed_names, member.topics),
            (self.subscribed_regexes, [member.regex] if member.regex else []),
            (self.requested_assignors, [member.assignor] if member.assignor else []),
        ):
            for key in keys:
                counter[key] += by
                if not counter[key]:
                    del counter[key]
        self.classic_member_count += by * (member.classic is not None)

    def _remove_partition_epochs(self, member: ConsumerMember) -> None:
        for partition in member.assigned | member.pending_revocation:
            self.partition_epochs.pop(partition, None)
