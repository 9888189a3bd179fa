"""The state of a share group (KIP-932) and its members.

Members are immutable: a change replaces the member, so a request that is rejected changes nothing. Source: Kafka's
ShareGroup, ShareGroupMember and ModernGroup (4.2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field
from math import inf
from typing import ClassVar, NamedTuple
from uuid import UUID

from kwire.assignors import GroupAssignment
from kwire.java import map_order
from kwire.lazy_dataclass import dataclass
from mockbroker.base.deadlines import Deadlines
from mockbroker.groups.coordinated import Timer
from mockbroker.groups.modern_group import SubscribedGroup
from mockbroker.groups.offsets import Offsets
from mockbroker.groups.partition_sets import NO_PARTITIONS, PartitionSet
from mockbroker.groups.share.declaration import EMPTY, SHARE, STABLE

JOIN_EPOCH, LEAVE_EPOCH = 0, -1  # special member epochs in requests

INITIALIZE_TIMER: Timer = ("initialize", "")


class SharedTopic(NamedTuple):
    """A topic of a share group.

    Attributes:
        name: Topic name.
        partitions: Partitions of the topic whose share state is being initialized, or is initialized.
    """

    name: str
    partitions: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMember:
    """A member of a share group.

    Attributes:
        member_id: Member id.
        rack_id: Rack of the client; None if unknown.
        client_id: The ``client.id`` of the request header.
        client_host: Address of the client.
        topics: Names of the subscribed topics.
        epoch: Member epoch.
        previous_epoch: Member epoch before the latest change; -1 before the first change.
        assigned: Assigned partitions.
    """

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    epoch: int = JOIN_EPOCH
    previous_epoch: int = -1
    assigned: PartitionSet = NO_PARTITIONS

    @property
    def instance_id(self) -> str | None:
        """Always None: share groups have no static members."""
        return None


@dataclass(slots=True, kw_only=True)
class ShareGroup(SubscribedGroup):
    """The state of a share group.

    Attributes:
        group_id: Group id.
        epoch: Group epoch, which is incremented when a new target assignment is necessary.
        assignment_epoch: Group epoch for which the target assignment was computed.
        members: Members by member id.
        target: Target assignments by member id.
        initializing: Topics with partitions whose share state is being initialized, by topic id.
        initialized: Topics with partitions whose share state is initialized, by topic id.
        deleting: Names of topics whose share state is being deleted, by topic id.
        topic_metadata: Topic ids and partition counts of the existing subscribed topics at the last read, by name.
        metadata_version: Version of the cluster metadata at the last read; -1 before the first read.
        metadata_refresh_at: Latest time in seconds of the next read of the metadata.
        target_is_checked: Whether the target assignment was checked to contain all initialized partitions of subscribed
            topics.
        peak_member_count: Largest number of members so far, which determines the iteration order of Kafka's hash map.
        subscribed_names: Number of members that subscribe to a topic, by topic name.
        timers: Deadlines of the group and its members.
        offsets: Always empty: share groups commit no offsets.
    """

    type_name: ClassVar[str] = SHARE
    replaced_by: ClassVar[frozenset[str]] = frozenset()
    TRANSIENT: ClassVar[frozenset[str]] = frozenset(
        {
            "metadata_version",
            "metadata_refresh_at",
            "target_is_checked",
            "peak_member_count",
            "subscribed_names",
            "timers",
            "offsets",
        }
    )
    group_id: str
    epoch: int = 0
    assignment_epoch: int = 0
    members: dict[str, ShareMember] = field(default_factory=dict)  # pyright: ignore[reportIncompatibleMethodOverride]
    target: GroupAssignment = field(default_factory=dict)
    initializing: dict[UUID, SharedTopic] = field(default_factory=dict)
    initialized: dict[UUID, SharedTopic] = field(default_factory=dict)
    deleting: dict[UUID, str] = field(default_factory=dict)
    topic_metadata: Mapping[str, tuple[UUID, int]] = field(default_factory=dict)
    metadata_version: int = -1
    metadata_refresh_at: float = inf
    target_is_checked: bool = False
    peak_member_count: int = 0
    subscribed_names: Counter[str] = field(default_factory=Counter)
    timers: Deadlines[Timer] = field(default_factory=Deadlines)
    offsets: Offsets = field(default_factory=Offsets)

    # --- description ---

    @property
    def state_name(self) -> str:
        """Name of the state, as ListGroups reports it. Source: Kafka's ShareGroup.ShareGroupState."""
        return STABLE if self.members else EMPTY

    @property
    def is_deletable(self) -> bool:
        """Always False: a share group is deleted only by an administrator. Source: Kafka's ShareGroup.shouldExpire."""
        return False

    def in_map_order(self) -> list[ShareMember]:
        """Return the members in the iteration order of Kafka's hash map."""
        return [self.members[member_id] for member_id in map_order(self.members, self.peak_member_count)]

    # --- subscriptions ---

    @property
    def homogeneous(self) -> bool:
        """Whether all members subscribe to the same topics. Source: Kafka's ModernGroup.subscriptionType."""
        member_count = len(self.members)
        return all(count == member_count for count in self.subscribed_names.values())

    def subscribed_topics(self) -> Iterable[str]:
        """Return the names of all subscribed topics."""
        return self.subscribed_names

    def set_shared_topics(
        self,
        *,
        initializing: Mapping[UUID, SharedTopic] | None = None,
        initialized: Mapping[UUID, SharedTopic] | None = None,
        deleting: Mapping[UUID, str] | None = None,
    ) -> None:
        """Replace the topics by status of their share state. None leaves a status unchanged.

        Args:
            initializing: Topics with partitions whose share state is being initialized, by topic id.
            initialized: Topics with partitions whose share state is initialized, by topic id.
            deleting: Names of topics whose share state is being deleted, by topic id.
        """
        if initializing is not None:
            self.initializing = dict(initializing)
        if initialized is not None:
            self.initialized = dict(initialized)
            self.target_is_checked = False
        if deleting is not None:
            self.deleting = dict(deleting)

    # --- members ---

    def put_member(self, member: ShareMember) -> None:
        """Add a member, or replace the member with the same id."""
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if old is None or old.topics != member.topics:
            self._count(() if old is None else old.topics, -1)
            self._count(member.topics, 1)
        self.peak_member_count = max(self.peak_member_count, len(self.members))

    def remove_member(self, member: ShareMember) -> None:
        """Remove a member and its target assignment."""
        del self.members[member.member_id]
        self._count(member.topics, -1)
        self.target.pop(member.member_id, None)

    def _count(self, topics: frozenset[str] | tuple[()], by: int) -> None:
        self.target_is_checked = False
        for topic in topics:
            self.subscribed_names[topic] += by
            if not self.subscribed_names[topic]:
                del self.subscribed_names[topic]
