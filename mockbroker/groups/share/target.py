"""The target assignment of a share group, computed by the assignor ``simple``.

Source: Kafka's TargetAssignmentBuilder.ShareTargetAssignmentBuilder (4.2).
"""

from __future__ import annotations

from uuid import UUID

from kwire.assignors import MemberSubscription, simple
from kwire.java import map_order
from mockbroker.base.effects import Note
from mockbroker.groups.coordinated import generation_note
from mockbroker.groups.share.state import ShareGroup
from mockbroker.topics.model import ClusterState

ASSIGNOR = "simple"


def compute_target(group: ShareGroup, cluster: ClusterState) -> Note:
    """Compute the target assignment of all members for the group epoch, and return the journal event.

    Only partitions whose share state is initialized are assigned.

    Args:
        group: The group.
        cluster: The topics.
    """
    ids: dict[frozenset[str], list[UUID]] = {}
    members: dict[str, MemberSubscription] = {}
    for member in group.in_map_order():
        if member.topics not in ids:
            ids[member.topics] = topic_ids(member.topics, cluster)
        members[member.member_id] = MemberSubscription(ids[member.topics], group.target.get(member.member_id, {}))
    group.target = simple.assign(
        members,
        {topic.topic_id: len(topic.partitions) for topic in cluster.topics.values()},
        group.homogeneous,
        assignable={topic_id: shared.partitions for topic_id, shared in group.initialized.items()},
    )
    group.assignment_epoch = group.epoch
    group.target_is_checked = False
    return generation_note(group, ASSIGNOR)


def topic_ids(names: frozenset[str], cluster: ClusterState) -> list[UUID]:
    """Return the ids of the topics that exist, in the order in which Kafka's HashMap iterates over the topic names."""
    existing = sorted(name for name in names if name in cluster.topics)
    return [cluster.topics[name].topic_id for name in map_order(existing, most=len(names))]
