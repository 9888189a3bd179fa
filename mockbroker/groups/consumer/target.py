"""The target assignment of a consumer group, computed by a server-side assignor (KIP-848).

Source: Kafka's TargetAssignmentBuilder and ConsumerGroup.computePreferredServerAssignor (4.2).
"""

from __future__ import annotations

from uuid import UUID

from kwire import assignors
from kwire.assignors import MemberSubscription
from kwire.assignors.uniform_incremental import UniformTarget
from mockbroker.base.effects import Note
from mockbroker.base.settings import Settings
from mockbroker.groups.consumer.state import ConsumerGroup, ConsumerMember
from mockbroker.groups.coordinated import generation_note
from mockbroker.topics.model import ClusterState

INCREMENTAL_RELEASE = "4.2"  # the release whose ``uniform`` assignor UniformTarget computes


def effective_assignor(group: ConsumerGroup, settings: Settings) -> str:
    """Return the name of the assignor that most members request, else the first of ``group.consumer.assignors``.

    Args:
        group: The group.
        settings: The settings of the brokers.
    """
    return group.preferred_assignor(default=settings.group_consumer_assignors.split(",")[0])


def compute_target(
    group: ConsumerGroup, cluster: ClusterState, settings: Settings, *, homogeneous: bool, uniform_release: str
) -> Note:
    """Compute the target assignment of all members for the group epoch, and return the journal event.

    Args:
        group: The group.
        cluster: Cluster that has the topics.
        settings: The settings of the brokers.
        homogeneous: Whether all members have the same subscription. If True, the subscription of the first member is
            used for all members.
        uniform_release: The release whose ``uniform`` assignor is used.
    """
    name = effective_assignor(group, settings)
    is_uniform = name == "uniform" and uniform_release == INCREMENTAL_RELEASE and homogeneous
    if not (is_uniform and _update_uniform(group, cluster)):
        _compute_for_all(group, cluster, name, homogeneous=homogeneous, uniform_release=uniform_release)
        if is_uniform and group.members:
            counts = _partition_counts(group, group.in_map_order()[0], cluster)
            group.uniform_target = UniformTarget.of(group.target, list(group.members), group.peak_member_count, counts)
    group.assignment_epoch = group.epoch
    return generation_note(group, name)


def _update_uniform(group: ConsumerGroup, cluster: ClusterState) -> bool:
    """Update the target assignment for the members that joined or left, with the assignor ``uniform``.

    These are the members that joined or left since the last computation of the target assignment.

    Return False if this is not possible: then the caller must compute the target assignment of all members.

    Args:
        group: The group.
        cluster: Cluster that has the topics.
    """
    uniform = group.uniform_target
    if uniform is None or not group.members:
        return False
    counts = _partition_counts(group, group.members[uniform.first_member], cluster)
    if not uniform.is_for(counts, group.peak_member_count):
        return False
    uniform.update()
    return True


def _partition_counts(group: ConsumerGroup, member: ConsumerMember, cluster: ClusterState) -> dict[UUID, int]:
    """Return the number of partitions of the topics that a member subscribes to, by topic id.

    Args:
        group: The group.
        member: The member.
        cluster: Cluster that has the topics.
    """
    return {topic_id: len(cluster.by_id[topic_id].partitions) for topic_id in group.ids_of(member, cluster)}


def _compute_for_all(
    group: ConsumerGroup, cluster: ClusterState, name: str, *, homogeneous: bool, uniform_release: str
) -> None:
    """Compute the target assignment of all members from their subscriptions and their current targets.

    Args:
        group: The group.
        cluster: Cluster that has the topics.
        name: Name of the assignor.
        homogeneous: Whether all members have the same subscription.
        uniform_release: The release whose ``uniform`` assignor is used.
    """
    group.uniform_target = None
    ids: dict[frozenset[str], frozenset[UUID]] = {}
    members: dict[str, MemberSubscription] = {}
    for member in group.in_map_order():
        topics = group.topics_of(member)
        if topics not in ids:
            ids[topics] = group.ids_of(member, cluster)
        members[member.member_id] = _member_subscription(group, member, ids[topics])
    partitions = {topic.topic_id: len(topic.partitions) for topic in cluster.topics.values()}
    group.target = assignors.assign(name, members, partitions, homogeneous=homogeneous, release=uniform_release)


def _member_subscription(
    group: ConsumerGroup, member: ConsumerMember, topic_ids: frozenset[UUID]
) -> MemberSubscription:
    return MemberSubscription(
        topic_ids=topic_ids,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        assigned=group.target.get(member.member_id, {}),
    )
