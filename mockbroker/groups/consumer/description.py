"""Descriptions of a consumer group: for ConsumerGroupDescribe, snapshots and ``mockbroker import``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from kwire.java import map_order
from kwire.json.objects import uuid_text
from kwire.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from mockbroker.base.settings import Settings
from mockbroker.groups.consumer.machine import by_topic_name
from mockbroker.groups.consumer.state import ConsumerGroup, ConsumerMember, PartitionSet, by_topic_id
from mockbroker.groups.consumer.target import effective_assignor
from mockbroker.groups.group_type import Context, GroupView, TopicNames
from mockbroker.topics.model import Cluster

Described = ConsumerGroupDescribeResponse.Group
Assignment = Described.Member.Assignment
CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1  # member types


# --- ConsumerGroupDescribe ----------------------------------------------------------------------------------------


def describe(group: ConsumerGroup, context: Context) -> Described:
    """Return the group as an element of ConsumerGroupDescribeResponse, without authorized operations."""
    return Described(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=effective_assignor(group, context.settings),
        members=[_describe_member(group, member, context.cluster) for member in group.in_map_order()],
    )


def _describe_member(group: ConsumerGroup, member: ConsumerMember, cluster: Cluster) -> Described.Member:
    return Described.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=map_order(sorted(member.topics)),
        subscribed_topic_regex=member.regex,
        assignment=_describe_assignment(member.assigned, cluster),
        target_assignment=_describe_assignment(group.target_of(member.member_id), cluster),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _describe_assignment(assigned: PartitionSet, cluster: Cluster) -> Assignment:
    """Return an assignment without the topics that do not exist any more."""
    topics = ((cluster.by_id.get(topic_id), partitions) for topic_id, partitions in by_topic_id(assigned).items())
    element = Assignment.TopicPartition
    return Assignment(
        topic_partitions=[
            element(topic_id=topic.topic_id, topic_name=topic.name, partitions=partitions)
            for topic, partitions in topics
            if topic is not None
        ]
    )


# --- snapshots ----------------------------------------------------------------------------------------------------


def view(group: ConsumerGroup, context: Context) -> GroupView:
    """Return the part of a group snapshot that depends on the group type; the protocol is the server-side assignor."""
    return GroupView(
        protocol=effective_assignor(group, context.settings),
        assignments={
            member_id: by_topic_name(member.assigned, context.cluster) for member_id, member in group.members.items()
        },
    )


# --- mockbroker import --------------------------------------------------------------------------------------------


def to_json(group: ConsumerGroup, topics: TopicNames, settings: Settings) -> dict[str, Any]:
    """Return the JSON object that ``mockbroker import`` prints for a group, without group id and offsets.

    Args:
        group: The group.
        topics: Topic names by topic id; a topic id without a name is printed instead of the name.
        settings: The settings of the brokers.
    """
    return {
        "type": "consumer",
        "state": group.state_name,
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor": effective_assignor(group, settings),
        "members": [_member_to_json(group, member, topics) for member in group.members.values()],
    }


def _member_to_json(group: ConsumerGroup, member: ConsumerMember, topics: TopicNames) -> dict[str, Any]:
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
        "assignment": _by_topic_name(member.assigned, topics),
        "pending_revocation": _by_topic_name(member.pending_revocation, topics),
        "target": _sorted(
            {
                _topic_name(topic_id, topics): partitions
                for topic_id, partitions in group.target.get(member.member_id, {}).items()
            }
        ),
    }


def _topic_name(topic_id: UUID, topics: TopicNames) -> str:
    return topics.get(topic_id) or uuid_text(topic_id)


def _by_topic_name(assigned: PartitionSet, topics: TopicNames) -> dict[str, list[int]]:
    assignment: dict[str, list[int]] = {}
    for topic_id, index in assigned:
        assignment.setdefault(_topic_name(topic_id, topics), []).append(index)
    return _sorted(assignment)


def _sorted(assignment: Mapping[str, list[int]]) -> dict[str, list[int]]:
    return {topic: sorted(partitions) for topic, partitions in sorted(assignment.items())}
