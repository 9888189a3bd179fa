"""DeleteGroups (key 42): delete groups that have no members, with their offsets.

Since v1, brokers send the response before they throttle the client (KIP-219); v2 is flexible.
"""

from kwire.schema import Api, Array, Int16, Int32, String, request, response, struct

DELETE_GROUPS = Api(42, versions="0-2", flexible="2+")


@request(DELETE_GROUPS)
class DeleteGroupsRequest:
    groups_names: list[str] = Array(String, entity="groupId")


@response(DELETE_GROUPS)
class DeleteGroupsResponse:
    @struct
    class Result:
        group_id: str = String(entity="groupId")
        error_code: int = Int16()

    throttle_time_ms: int = Int32()
    results: list[Result] = Array(Result)
