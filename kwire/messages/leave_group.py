"""LeaveGroup (key 13): leave a group immediately, without waiting for the session timeout.

v1 adds the throttle time; v3 removes several members with one request, by member id or instance id (KIP-345); v4 is
flexible; v5 adds the reason (KIP-800).
"""

from kwire.schema import Api, Array, Int16, Int32, String, request, response, struct

LEAVE_GROUP = Api(13, versions="0-5", flexible="4+")


@request(LEAVE_GROUP)
class LeaveGroupRequest:
    @struct
    class Member:
        member_id: str = String()
        group_instance_id: str | None = String(null=True, default=None)
        reason: str | None = String("5+", null=True, default=None, ignorable=True)

    group_id: str = String(entity="groupId")
    member_id: str = String("0-2")
    members: list[Member] = Array(Member, "3+")


@response(LEAVE_GROUP)
class LeaveGroupResponse:
    @struct
    class Member:
        member_id: str = String()
        group_instance_id: str | None = String(null=True)
        error_code: int = Int16()

    throttle_time_ms: int = Int32("1+", ignorable=True)
    error_code: int = Int16()
    members: list[Member] = Array(Member, "3+")
