"""A group of the consumer protocol as ConsumerGroupDescribe, snapshots and ``mockbroker import`` show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from kwire.java import map_order
from kwire.json.objects import uuid_text
from kwire.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from mockbroker.base.settings import Settings
from mockbroker.groups.consumer.machine import named
from mockbroker.groups.consumer.state import ConsumerGroup, ConsumerMember, Share, by_topic
from mockbroker.groups.consumer.target import assignor_of
from mockbroker.groups.group_type import Context, GroupView, Topics
from mockbroker.topics.model import Cluster

Described = ConsumerGroupDescribeResponse.Group
Assignment = Described.Member.Assignment
CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1  # member types


# --- ConsumerGroupDescribe ----------------------------------------------------------------------------------------


def described(group: ConsumerGroup, context: Context) -> Described:
    """Return the group, without authorized operations."""
    return Described(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=assignor_of(group, context.settings),
        members=[_described(group, member, context.cluster) for member in group.in_map_order()],
    )


def _described(group: ConsumerGroup, member: ConsumerMember, cluster: Cluster) -> Described.Member:
    return Described.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=map_order(sorted(member.topics)),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(member.assigned, cluster),
        target_assignment=_assignment(group.target_of(member.member_id), cluster),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(share: Share, cluster: Cluster) -> Assignment:
    """Topics that are gone are left out."""
    found = ((cluster.by_id.get(topic_id), partitions) for topic_id, partitions in by_topic(share).items())
    line = Assignment.TopicPartition
    lines = [line(topic_id=t.topic_id, topic_name=t.name, partitions=indexes) for t, indexes in found if t is not None]
    return Assignment(topic_partitions=lines)


# --- snapshots ----------------------------------------------------------------------------------------------------


def view(group: ConsumerGroup, context: Context) -> GroupView:
    """Return what snapshots show. The strategy is the assignor; there is no leader."""
    return GroupView(
        protocol=assignor_of(group, context.settings),
        assignments={member_id: named(member.assigned, context.cluster) for member_id, member in group.members.items()},
    )


# --- mockbroker import --------------------------------------------------------------------------------------------


def to_json(group: ConsumerGroup, topics: Topics, settings: Settings) -> dict[str, Any]:
    """Return the group without id and offsets. A topic of which the name is not known has its id."""
    return {
        "type": "consumer",
        "state": group.state_name,
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor": assignor_of(group, settings),
        "members": [_member(group, member, topics) for member in group.members.values()],
    }


def _member(group: ConsumerGroup, member: ConsumerMember, topics: Topics) -> dict[str, Any]:
    classic = member.classic
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rack_id": member.rack_id,
        "session_timeout_ms": None if classic is None else round(classic.session_timeout * 1000),
        "rebalance_timeout_ms": round(member.rebalance_timeout * 1000),
        "subscribed_topics": sorted(member.topics),
        "subscribed_regex": member.regex or None,
        "server_assignor": member.assignor,
        "speaks": "consumer" if classic is None else "classic",
        "member_epoch": member.epoch,
        "previous_member_epoch": member.previous_epoch,
        "state": member.state.name,
        "assignment": _named(member.assigned, topics),
        "pending_revocation": _named(member.revoking, topics),
        "target": _sorted(
            {_name(topic, topics): which for topic, which in group.target.get(member.member_id, {}).items()}
        ),
    }


def _name(topic_id: UUID, topics: Topics) -> str:
    return topics.get(topic_id) or uuid_text(topic_id)


def _named(share: Share, topics: Topics) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic_id, index in share:
        found.setdefault(_name(topic_id, topics), []).append(index)
    return _sorted(found)


def _sorted(assignment: Mapping[str, list[int]]) -> dict[str, list[int]]:
    return {topic: sorted(which) for topic, which in sorted(assignment.items())}
