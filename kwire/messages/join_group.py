"""JoinGroup (key 11): join a group. The coordinator sends the response when the join phase ends.

v1 adds the rebalance timeout; v2 adds the throttle time; v4 fails the first join with MEMBER_ID_REQUIRED (KIP-394);
v5 adds static members (KIP-345); v6 is flexible; v7 adds the protocol type to the response; v8 adds the reason
(KIP-800); v9 adds the flag skip_assignment (KIP-814).
"""

from kwire.schema import Api, Array, Bool, Bytes, Int16, Int32, String, request, response, struct

JOIN_GROUP = Api(11, versions="0-9", flexible="6+")


@request(JOIN_GROUP)
class JoinGroupRequest:
    @struct
    class Protocol:
        name: str = String()
        metadata: bytes = Bytes()

    group_id: str = String(entity="groupId")
    session_timeout_ms: int = Int32()
    rebalance_timeout_ms: int = Int32("1+", default=-1, ignorable=True)
    member_id: str = String()
    group_instance_id: str | None = String("5+", null=True, default=None)
    protocol_type: str = String()
    protocols: list[Protocol] = Array(Protocol)
    reason: str | None = String("8+", null=True, default=None, ignorable=True)


@response(JOIN_GROUP)
class JoinGroupResponse:
    @struct
    class Member:
        member_id: str = String()
        group_instance_id: str | None = String("5+", null=True, default=None, ignorable=True)
        metadata: bytes = Bytes()

    throttle_time_ms: int = Int32("2+", ignorable=True)
    error_code: int = Int16()
    generation_id: int = Int32(default=-1)
    protocol_type: str | None = String("7+", null=True, default=None, ignorable=True)
    protocol_name: str | None = String(null="7+")
    leader: str = String()
    skip_assignment: bool = Bool("9+")
    member_id: str = String()
    members: list[Member] = Array(Member)
