"""DeleteAcls (key 31): remove and return the access rules that match a filter (KIP-140).

v1 adds the pattern type (KIP-290); since v1, brokers send the response before they throttle the client (KIP-219); v2 is
flexible; v3 adds rules for the resource type USER (KIP-373).
"""

from kwire.schema import Api, Array, Int8, Int16, Int32, String, request, response, struct

DELETE_ACLS = Api(31, versions="0-3", flexible="2+")


@request(DELETE_ACLS)
class DeleteAclsRequest:
    @struct
    class Filter:
        resource_type_filter: int = Int8()
        resource_name_filter: str | None = String(null=True)
        pattern_type_filter: int = Int8("1+", default=3)
        principal_filter: str | None = String(null=True)
        host_filter: str | None = String(null=True)
        operation: int = Int8()
        permission_type: int = Int8()

    filters: list[Filter] = Array(Filter)


@response(DELETE_ACLS)
class DeleteAclsResponse:
    @struct
    class FilterResult:
        @struct
        class MatchingAcl:
            error_code: int = Int16()
            error_message: str | None = String(null=True)
            resource_type: int = Int8()
            resource_name: str = String()
            pattern_type: int = Int8("1+", default=3)
            principal: str = String()
            host: str = String()
            operation: int = Int8()
            permission_type: int = Int8()

        error_code: int = Int16()
        error_message: str | None = String(null=True)
        matching_acls: list[MatchingAcl] = Array(MatchingAcl)

    throttle_time_ms: int = Int32()
    filter_results: list[FilterResult] = Array(FilterResult)
