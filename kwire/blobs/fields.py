"""A table of the bytes fields that contain a message of their own: the name of the field, and the name of the
message.
"""

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

# Field with the name of the group's assignor, by struct; in other structs it is ``protocol_name``.
ASSIGNORS: Mapping[str, str] = {
    "JoinGroupRequest.Protocol": "name",
    "DescribeGroupsResponse.Group": "protocol_data",
}
