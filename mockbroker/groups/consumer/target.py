"""The target assignment of a consumer group, computed by a server-side assignor (KIP-848).

Source: Kafka's TargetAssignmentBuilder and ConsumerGroup.computePreferredServerAssignor (4.2).
"""

from __future__ import annotations

from uuid import UUID

from kwire import assignors
from kwire.assignors import MemberSubscription
from mockbroker.base.effects import Note
from mockbroker.base.event_kinds import EventKind
from mockbroker.base.settings import Settings
from mockbroker.groups.consumer.state import ConsumerGroup, ConsumerMember
from mockbroker.topics.model import Cluster


def effective_assignor(group: ConsumerGroup, settings: Settings) -> str:
    """Return the name of the assignor that most members request, else the first of ``group.consumer.assignors``."""
    return group.preferred_assignor(default=settings.group_consumer_assignors.split(",")[0])


def compute_target(
    group: ConsumerGroup, cluster: Cluster, settings: Settings, *, homogeneous: bool, uniform_release: str
) -> Note:
    """Compute the target assignment of all members for the group epoch; return the journal event.

    Args:
        group: The group.
        cluster: The topics.
        settings: The settings of the brokers.
        homogeneous: Whether all members have the same subscription; then that of the first member is used for all.
        uniform_release: The release whose ``uniform`` assignor is used.
    """
    name = effective_assignor(group, settings)
    ids: dict[frozenset[str], frozenset[UUID]] = {}
    members: dict[str, MemberSubscription] = {}
    for member in group.in_map_order():
        topics = group.topics_of(member)
        if topics not in ids:
            ids[topics] = group.ids_of(member, cluster)
        members[member.member_id] = _member_subscription(group, member, ids[topics])
    partitions = {topic.topic_id: len(topic.partitions) for topic in cluster.topics.values()}
    group.target = assignors.assign(name, members, partitions, homogeneous=homogeneous, release=uniform_release)
    group.assignment_epoch = group.epoch
    return Note(
        event=EventKind.GENERATION,
        group=group.group_id,
        generation=group.epoch,
        protocol=name,
        protocol_type="consumer",
        members=tuple(group.members),
    )


def _member_subscription(
    group: ConsumerGroup, member: ConsumerMember, topic_ids: frozenset[UUID]
) -> MemberSubscription:
    return MemberSubscription(
        topic_ids=topic_ids,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        assigned=group.target.get(member.member_id, {}),
    )
