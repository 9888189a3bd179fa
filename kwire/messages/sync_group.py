"""SyncGroup (key 14): the leader sends the assignment of a generation, and each member receives its own partitions.

v1 adds the throttle time; v3 adds static members (KIP-345); v4 is flexible; v5 adds the protocol type and name, which
the coordinator checks.
"""

from kwire.schema import Api, Array, Bytes, Int16, Int32, String, request, response, struct

SYNC_GROUP = Api(14, versions="0-5", flexible="4+")


@request(SYNC_GROUP)
class SyncGroupRequest:
    @struct
    class Assignment:
        member_id: str = String()
        assignment: bytes = Bytes()

    group_id: str = String(entity="groupId")
    generation_id: int = Int32()
    member_id: str = String()
    group_instance_id: str | None = String("3+", null=True, default=None)
    protocol_type: str | None = String("5+", null=True, default=None, ignorable=True)
    protocol_name: str | None = String("5+", null=True, default=None, ignorable=True)
    assignments: list[Assignment] = Array(Assignment)


@response(SYNC_GROUP)
class SyncGroupResponse:
    throttle_time_ms: int = Int32("1+", ignorable=True)
    error_code: int = Int16()
    protocol_type: str | None = String("5+", null=True, default=None, ignorable=True)
    protocol_name: str | None = String("5+", null=True, default=None, ignorable=True)
    assignment: bytes = Bytes()
