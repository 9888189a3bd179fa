"""Heartbeat (key 12): renew the session of a group member.

The error REBALANCE_IN_PROGRESS in the response requests the member to rejoin. v1 adds the throttle time; v3 adds static
members (KIP-345); v4 is flexible.
"""

from kwire.schema import Api, Int16, Int32, String, request, response

HEARTBEAT = Api(12, versions="0-4", flexible="4+")


@request(HEARTBEAT)
class HeartbeatRequest:
    group_id: str = String(entity="groupId")
    generation_id: int = Int32()
    member_id: str = String()
    group_instance_id: str | None = String("3+", null=True, default=None)


@response(HEARTBEAT)
class HeartbeatResponse:
    throttle_time_ms: int = Int32("1+", ignorable=True)
    error_code: int = Int16()
