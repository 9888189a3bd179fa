"""The common base of group types with epochs and server-side assignment: consumer, share and streams groups.

Source: Kafka's ModernGroup and GroupMetadataManager (4.2).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, TypeVar
from uuid import UUID

from kwire import ErrorCode
from kwire.java import map_order
from mockbroker.base.effects import Note
from mockbroker.base.event_kinds import EventKind
from mockbroker.groups.coordinated import CoordinatedGroup, GroupEffects, GroupMember
from mockbroker.groups.events import AdminEvent, Evict, Rebalance
from mockbroker.groups.group_type import Context, GroupType, GroupView, Refused
from mockbroker.groups.partition_sets import PartitionSet, by_topic_name, existing_topics, topic_metadata
from mockbroker.topics.model import ClusterState

M = TypeVar("M", bound=GroupMember)
MAX_SUBSCRIPTION = 10_000  # topic names of a member, so that a heartbeat takes a few milliseconds


class EpochGroup(CoordinatedGroup):
    """A group whose target assignments are numbered by a group epoch.

    Attributes:
        FIRST_EPOCH: group epoch that follows epoch 0 of a new group.
        epoch: group epoch, which is incremented when a new target assignment is necessary.
    """

    FIRST_EPOCH: ClassVar[int] = 1
    __slots__ = ()
    epoch: int

    def bump_epoch(self, reason: str) -> Note:
        """Increment the group epoch, so that a target assignment is computed. Return the journal event.

        ``reason``: why a new epoch starts.
        """
        self.epoch = self.epoch + 1 if self.epoch else self.FIRST_EPOCH
        return Note(event=EventKind.REBALANCE, group=self.group_id, generation=self.epoch, reason=reason)

    @property
    def generation(self) -> int:
        """The group epoch."""
        return self.epoch

    @property
    def protocol_type(self) -> str:
        """The protocol type, which is the name of the group type."""
        return self.type_name


class SubscribedGroup(EpochGroup):
    """A group with an epoch whose members subscribe to topics.

    Attributes:
        topic_metadata: Topic ids and partition counts of the existing subscribed topics at the last read, by name.
        metadata_version: Version of the cluster metadata at the last read; -1 before the first read.
        metadata_refresh_at: Time in seconds at which the metadata is read again at the latest.
    """

    __slots__ = ()
    topic_metadata: Mapping[str, tuple[UUID, int]]
    metadata_version: int
    metadata_refresh_at: float

    @abstractmethod
    def subscribed_topics(self) -> Iterable[str]:
        """Return the names of all subscribed topics."""

    def subscribed_metadata(self, cluster: ClusterState) -> Mapping[str, tuple[UUID, int]]:
        """Return the ids and partition counts of the existing subscribed topics, by name."""
        return topic_metadata(self.subscribed_topics(), cluster)

    def refresh_metadata(self, cluster: ClusterState, now: float, interval: float) -> bool:
        """Read the metadata of the subscribed topics, and return whether it changed.

        Args:
            cluster: Cluster that has the topics.
            now: The current time in seconds.
            interval: Maximum time in seconds until the next refresh.
        """
        metadata = self.subscribed_metadata(cluster)
        changed = metadata != self.topic_metadata
        if changed:
            self.topic_metadata = metadata
        self.metadata_version, self.metadata_refresh_at = cluster.epoch, now + interval
        return changed


E = TypeVar("E", bound=EpochGroup)


class EpochGroupType(GroupType[E]):
    """The base class of the group types with epochs."""

    @abstractmethod
    def evict(self, group: E, member: Any, reason: str, context: Context, now: float) -> GroupEffects:
        """Remove a member, and start a new group epoch.

        Return the effects: responses, journal events, and new groups to register.

        Args:
            group: the group.
            member: the member.
            reason: why the member is evicted.
            context: data and functions shared by all groups.
            now: the current time in seconds.
        """

    def administer(self, group: E, event: AdminEvent, context: Context, now: float) -> GroupEffects:
        """Evict a member, or start a new group epoch, as the control API requests.

        Return the effects: responses, journal events, and new groups to register.

        The next heartbeat computes the target assignment. If the member is unknown, or the group of a rebalance has no
        members, nothing changes, and the result is empty.

        Args:
            group: the group.
            event: the eviction or the rebalance.
            context: data and functions shared by all groups.
            now: the current time in seconds.
        """
        match event:
            case Evict(member_id, reason):
                member = group.members.get(member_id)
                return [] if member is None else self.evict(group, member, reason, context, now)
            case Rebalance(reason):
                return [group.bump_epoch(reason)] if group.members else []


def check_subscription(names: Sequence[str] | None) -> None:
    """Check the number of topic names in a heartbeat.

    Args:
        names: The names to which the member subscribes; None if the subscription is not in the request.

    Raises: Refused if there are more than MAX_SUBSCRIPTION names. Kafka has no such limit.
    """
    if names is not None and len(names) > MAX_SUBSCRIPTION:
        text = f"The subscription has {len(names)} topic names, the maximum is {MAX_SUBSCRIPTION}: use several groups."
        raise Refused(ErrorCode.INVALID_REQUEST, text)


@lru_cache(maxsize=8)  # the members of a group mostly have the same subscription
def described_subscription(names: frozenset[str]) -> tuple[str, ...]:
    """Return the topic names of a subscription in the order in which Kafka describes them, that of Java's HashMap."""
    return tuple(map_order(sorted(names)))


def described_assignment(kind: Any, assigned: PartitionSet, cluster: ClusterState) -> Any:
    """Return an assignment without deleted topics, as a struct of a Describe response.

    Args:
        kind: The struct ``Assignment`` of the response.
        assigned: Assigned partitions.
        cluster: The topics that exist.
    """
    return kind(
        topic_partitions=[
            kind.TopicPartition(topic_id=topic.topic_id, topic_name=topic.name, partitions=partitions)
            for topic, partitions in existing_topics(assigned, cluster)
        ]
    )


def assigned_view(members: Mapping[str, Any], assignor: str, cluster: ClusterState) -> GroupView:
    """Return the fields of a group snapshot that depend on the group type, for members with partitions.

    Args:
        members: the members by id.
        assignor: the assignor, which the field ``protocol`` contains.
        cluster: the topics that exist.
    """
    return GroupView(
        protocol=assignor,
        assignments={member_id: by_topic_name(member.assigned, cluster) for member_id, member in members.items()},
    )


def check_size(group: CoordinatedGroup, max_size: int, member_id: str | None = None) -> None:
    """Check that a group is not full. Raises: Refused if the group is full.

    Args:
        group: The group.
        max_size: Maximum number of members.
        member_id: A member that may rejoin a full group; None for no member.
    """
    if len(group.members) >= max_size and member_id not in group.members:
        raise Refused(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The {group.type_name} group has reached its maximum capacity of {max_size} members.",
        )


def find_member(members: Mapping[str, M], group_id: str, member_id: str) -> M:
    """Return the member with a given member id. Raises: Refused if the group has no such member.

    Args:
        members: Members of the group by member id.
        group_id: Group id, for the error message.
        member_id: The member id.
    """
    member = members.get(member_id)
    if member is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}.")
    return member


def fenced_epoch(group_type: str, epoch: int, member_epoch: int) -> Refused:
    """Return the FENCED_MEMBER_EPOCH error for a member that sends a wrong epoch.

    Args:
        group_type: Name of the group type.
        epoch: Member epoch in the request.
        member_epoch: Current epoch of the member.
    """
    size = "greater" if epoch > member_epoch else "smaller"
    return Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The {group_type} group member has a {size} member epoch ({epoch}) than the one known by the group"
        f" coordinator ({member_epoch}). The member must abandon all its partitions and rejoin.",
    )
