"""Fields of messages whose bytes hold a blob."""

from __future__ import annotations

from collections.abc import Mapping

CONSUMER = "consumer"  # the protocol type of groups whose members use the blobs below

# The blob, behind its version, in a field of bytes, if the protocol type of the group is CONSUMER.
INSIDE: Mapping[str, str] = {
    "JoinGroupRequest.Protocol.metadata": "ConsumerProtocolSubscription",
    "JoinGroupResponse.Member.metadata": "ConsumerProtocolSubscription",
    "SyncGroupRequest.Assignment.assignment": "ConsumerProtocolAssignment",
    "SyncGroupResponse.assignment": "ConsumerProtocolAssignment",
    "DescribeGroupsResponse.Group.Member.member_metadata": "ConsumerProtocolSubscription",
    "DescribeGroupsResponse.Group.Member.member_assignment": "ConsumerProtocolAssignment",
}
