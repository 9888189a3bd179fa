"""Descriptions of a share group: for ShareGroupDescribe, snapshots and ``mockbroker import``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from kwire.json.objects import uuid_text
from kwire.messages.share_group_describe import ShareGroupDescribeResponse
from mockbroker.groups.group_type import Context, GroupView, MemberDescription, TopicNames
from mockbroker.groups.modern_group import assigned_view, described_assignment, described_subscription
from mockbroker.groups.partition_sets import by_known_name
from mockbroker.groups.share.declaration import SHARE
from mockbroker.groups.share.state import SharedTopic, ShareGroup, ShareMember
from mockbroker.groups.share.target import ASSIGNOR
from mockbroker.topics.model import ClusterState

Described = ShareGroupDescribeResponse.Group
Assignment = Described.Member.Assignment


def describe(group: ShareGroup, context: Context) -> Described:
    """Return the group as an element of ShareGroupDescribeResponse, without authorized operations.

    Args:
        group: The group.
        context: Data and functions shared by all groups.
    """
    return Described(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[_describe_member(member, context.cluster) for member in group.in_map_order()],
    )


def _describe_member(member: ShareMember, cluster: ClusterState) -> Described.Member:
    return Described.Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(described_subscription(member.topics)),
        assignment=described_assignment(Assignment, member.assigned, cluster),
    )


def view(group: ShareGroup, context: Context) -> GroupView:
    """Return the fields of a group snapshot that each group type computes in its own way.

    The field ``protocol`` contains the assignor.

    Args:
        group: The group.
        context: Data and functions shared by all groups.
    """
    return assigned_view(group.members, ASSIGNOR, context.cluster)


def member_description(member: ShareMember, topics: TopicNames, session_timeout_ms: int) -> MemberDescription:
    """Return a member as the control API shows it.

    Args:
        member: The member.
        topics: Topic names by topic id.
        session_timeout_ms: Session timeout of the group in milliseconds.
    """
    return MemberDescription(
        member_id=member.member_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=session_timeout_ms,
        subscription=sorted(member.topics),
        assignment=by_known_name(member.assigned, topics),
        epoch=member.epoch,
    )


def to_json(group: ShareGroup, topics: TopicNames) -> dict[str, Any]:
    """Return the JSON object that ``mockbroker import`` prints for a group, without group id and offsets.

    Args:
        group: The group.
        topics: Topic names by topic id; a topic id without a name is printed instead of the name.
    """
    return {
        "type": SHARE,
        "state": group.state_name,
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor": ASSIGNOR,
        "members": [_member_to_json(group, member, topics) for member in group.members.values()],
        "initializing": _shared_to_json(group.initializing),
        "initialized": _shared_to_json(group.initialized),
        "deleting": sorted(name or uuid_text(topic_id) for topic_id, name in group.deleting.items()),
    }


def _member_to_json(group: ShareGroup, member: ShareMember, topics: TopicNames) -> dict[str, Any]:
    target = group.target.get(member.member_id, {})
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rack_id": member.rack_id,
        "session_timeout_ms": None,
        "subscribed_topics": sorted(member.topics),
        "member_epoch": member.epoch,
        "previous_member_epoch": member.previous_epoch,
        "assignment": by_known_name(member.assigned, topics),
        "target": by_known_name(
            frozenset((topic_id, index) for topic_id, indexes in target.items() for index in indexes), topics
        ),
    }


def _shared_to_json(topics: Mapping[UUID, SharedTopic]) -> dict[str, list[int]]:
    named = {shared.name or uuid_text(topic_id): sorted(shared.partitions) for topic_id, shared in topics.items()}
    return dict(sorted(named.items()))
