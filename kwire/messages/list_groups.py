"""ListGroups (key 16): list the groups that a broker coordinates.

v1 adds the throttle time; v3 is flexible; v4 adds states, in the response and as a filter (KIP-518); v5 adds types,
in the response and as a filter (KIP-848).
"""

from kwire.schema import Api, Array, Int16, Int32, String, request, response, struct

LIST_GROUPS = Api(16, versions="0-5", flexible="3+")


@request(LIST_GROUPS)
class ListGroupsRequest:
    states_filter: list[str] = Array(String, "4+")
    types_filter: list[str] = Array(String, "5+")


@response(LIST_GROUPS)
class ListGroupsResponse:
    @struct
    class Group:
        group_id: str = String(entity="groupId")
        protocol_type: str = String()
        group_state: str = String("4+", ignorable=True)
        group_type: str = String("5+", ignorable=True)

    throttle_time_ms: int = Int32("1+", ignorable=True)
    error_code: int = Int16()
    groups: list[Group] = Array(Group)
