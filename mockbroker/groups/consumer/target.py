"""What each member of a group shall have: the assignor that most members want, run for all of them (KIP-848).

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


def assignor_of(group: ConsumerGroup, settings: Settings) -> str:
    """The name of the assignor in force: the one that most members ask for, else the first that the broker has."""
    return group.preferred_assignor(default=settings.group_consumer_assignors.split(",")[0])


def assign(group: ConsumerGroup, cluster: Cluster, settings: Settings, *, alike: bool, uniform: str) -> Note:
    """Make the target of every member anew, for the epoch of the group. ``alike``: as Kafka believes of the
    subscriptions; then the first member's counts for all. ``uniform``: the release that it is as in."""
    name = assignor_of(group, settings)
    ids: dict[frozenset[str], frozenset[UUID]] = {}
    members: dict[str, MemberSubscription] = {}
    for member in group.in_map_order():
        topics = group.topics_of(member)
        if topics not in ids:
            ids[topics] = group.ids_of(member, cluster)
        members[member.member_id] = _described(group, member, ids[topics])
    partitions = {topic.topic_id: len(topic.partitions) for topic in cluster.topics.values()}
    group.target = assignors.assign(name, members, partitions, homogeneous=alike, release=uniform)
    group.assignment_epoch = group.epoch
    return Note(
        event=EventKind.GENERATION,
        group=group.group_id,
        generation=group.epoch,
        protocol=name,
        protocol_type="consumer",
        members=tuple(group.members),
    )


def _described(group: ConsumerGroup, member: ConsumerMember, topic_ids: frozenset[UUID]) -> MemberSubscription:
    return MemberSubscription(
        topic_ids=topic_ids,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        assigned=group.target.get(member.member_id, {}),
    )
