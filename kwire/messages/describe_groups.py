"""DescribeGroups (key 15): request the states, members and assignments of groups.

v1 adds the throttle time; v3 adds authorized operations (KIP-430); v4 adds static members (KIP-345); v5 is flexible.
For an unknown group, v6 returns an error with a message instead of the state Dead (KIP-1043).
"""

from kwire.schema import Api, Array, Bool, Bytes, Int16, Int32, String, request, response, struct

DESCRIBE_GROUPS = Api(15, versions="0-6", flexible="5+")


@request(DESCRIBE_GROUPS)
class DescribeGroupsRequest:
    groups: list[str] = Array(String, entity="groupId")
    include_authorized_operations: bool = Bool("3+")


@response(DESCRIBE_GROUPS)
class DescribeGroupsResponse:
    @struct
    class Group:
        @struct
        class Member:
            member_id: str = String()
            group_instance_id: str | None = String("4+", null=True, default=None, ignorable=True)
            client_id: str = String()
            client_host: str = String()
            member_metadata: bytes = Bytes()
            member_assignment: bytes = Bytes()

        error_code: int = Int16()
        error_message: str | None = String("6+", null=True, default=None)
        group_id: str = String(entity="groupId")
        group_state: str = String()
        protocol_type: str = String()
        protocol_data: str = String()
        members: list[Member] = Array(Member)
        authorized_operations: int = Int32("3+", default=-2147483648)

    throttle_time_ms: int = Int32("1+", ignorable=True)
    groups: list[Group] = Array(Group)
