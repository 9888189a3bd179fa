"""The table of bytes fields that contain an encoded message, with the name of that message."""

from __future__ import annotations

from collections.abc import Mapping

CONSUMER = "consumer"  # protocol type of the groups that use the messages below

# Stored message by field of bytes, for groups with protocol type CONSUMER.
INSIDE: Mapping[str, str] = {
    "JoinGroupRequest.Protocol.metadata": "ConsumerProtocolSubscription",
    "JoinGroupResponse.Member.metadata": "ConsumerProtocolSubscription",
    "SyncGroupRequest.Assignment.assignment": "ConsumerProtocolAssignment",
    "SyncGroupResponse.assignment": "ConsumerProtocolAssignment",
    "DescribeGroupsResponse.Group.Member.member_metadata": "ConsumerProtocolSubscription",
    "DescribeGroupsResponse.Group.Member.member_assignment": "ConsumerProtocolAssignment",
}
