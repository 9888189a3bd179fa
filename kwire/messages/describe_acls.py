"""DescribeAcls (key 29): list the access rules that match a filter (KIP-140).

v1 adds the pattern type (KIP-290); since v1, brokers send the response before they throttle the client (KIP-219); v2 is
flexible; v3 adds rules for the resource type USER (KIP-373).
"""

from kwire.schema import Api, Array, Int8, Int16, Int32, String, request, response, struct

DESCRIBE_ACLS = Api(29, versions="0-3", flexible="2+")


@request(DESCRIBE_ACLS)
class DescribeAclsRequest:
    resource_type_filter: int = Int8()
    resource_name_filter: str | None = String(null=True)
    pattern_type_filter: int = Int8("1+", default=3)
    principal_filter: str | None = String(null=True)
    host_filter: str | None = String(null=True)
    operation: int = Int8()
    permission_type: int = Int8()


@response(DESCRIBE_ACLS)
class DescribeAclsResponse:
    @struct
    class Resource:
        @struct
        class Acl:
            principal: str = String()
            host: str = String()
            operation: int = Int8()
            permission_type: int = Int8()

        resource_type: int = Int8()
        resource_name: str = String()
        pattern_type: int = Int8("1+", default=3)
        acls: list[Acl] = Array(Acl)

    throttle_time_ms: int = Int32()
    error_code: int = Int16()
    error_message: str | None = String(null=True)
    resources: list[Resource] = Array(Resource)
