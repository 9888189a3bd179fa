"""Descriptions of a consumer group: for ConsumerGroupDescribe, snapshots and ``mockbroker import``."""

from __future__ import annotations

from typing import Any

from kwire.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from mockbroker.base.settings import Settings
from mockbroker.groups.consumer.state import ConsumerGroup, ConsumerMember
from mockbroker.groups.consumer.target import effective_assignor
from mockbroker.groups.group_type import Context, GroupView, MemberDescription, TopicNames
from mockbroker.groups.modern_group import assigned_view, described_assignment, described_subscription
from mockbroker.groups.partition_sets import by_known_name
from mockbroker.topics.model import ClusterState

Described = ConsumerGroupDescribeResponse.Group
Assignment = Described.Member.Assignment
CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1  # member types


# --- ConsumerGroupDescribe ----------------------------------------------------------------------------------------


def describe(group: ConsumerGroup, context: Context) -> Described:
    """Return the group as an element of ConsumerGroupDescribeResponse, without authorized operations.

    Args:
        group: The group.
        context: Data and functions shared by all groups.
    """
    return Described(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=effective_assignor(group, context.settings),
        members=[_describe_member(group, member, context.cluster) for member in group.in_map_order()],
    )


def _describe_member(group: ConsumerGroup, member: ConsumerMember, cluster: ClusterState) -> Described.Member:
    return Described.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(described_subscription(member.topics)),
        subscribed_topic_regex=member.regex,
        assignment=described_assignment(Assignment, member.assigned, cluster),
        target_assignment=described_assignment(Assignment, group.target_of(member.member_id), cluster),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


# --- snapshots ----------------------------------------------------------------------------------------------------


def view(group: ConsumerGroup, context: Context) -> GroupView:
    """Return the fields of a group snapshot that each group type computes in its own way.

    The field ``protocol`` contains the assignor.

    Args:
        group: The group.
        context: Data and functions shared by all groups.
    """
    return assigned_view(group.members, effective_assignor(group, context.settings), context.cluster)


# --- control API --------------------------------------------------------------------------------------------------


def member_description(member: ConsumerMember, topics: TopicNames, session_timeout_ms: int) -> MemberDescription:
    """Return a member as the control API shows it.

    Args:
        member: The member.
        topics: Topic names by topic id.
        session_timeout_ms: Session timeout of the group in milliseconds; ignored for a classic member, which has its
            own timeout.
    """
    classic = member.classic
    return MemberDescription(
        member_id=member.member_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=session_timeout_ms if classic is None else round(classic.session_timeout * 1000),
        instance_id=member.instance_id,
        subscription=sorted(member.topics),
        assignment=by_known_name(member.assigned, topics),
        regex=member.regex,
        epoch=member.epoch,
        state=member.state.name,
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
        "assignment": by_known_name(member.assigned, topics),
        "pending_revocation": by_known_name(member.pending_revocation, topics),
        "target": by_known_name(group.target_of(member.member_id), topics),
    }
