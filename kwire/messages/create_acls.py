"""CreateAcls (key 30): add access rules (KIP-140).

v1 adds the pattern type (KIP-290); since v1, brokers send the response before they throttle the client (KIP-219); v2 is
flexible; v3 adds rules for the resource type USER (KIP-373).
"""

from kwire.schema import Api, Array, Int8, Int16, Int32, String, request, response, struct

CREATE_ACLS = Api(30, versions="0-3", flexible="2+")


@request(CREATE_ACLS)
class CreateAclsRequest:
    @struct
    class Creation:
        resource_type: int = Int8()
        resource_name: str = String()
        resource_pattern_type: int = Int8("1+", default=3)
        principal: str = String()
        host: str = String()
        operation: int = Int8()
        permission_type: int = Int8()

    creations: list[Creation] = Array(Creation)


@response(CREATE_ACLS)
class CreateAclsResponse:
    @struct
    class Result:
        error_code: int = Int16()
        error_message: str | None = String(null=True)

    throttle_time_ms: int = Int32()
    results: list[Result] = Array(Result)
