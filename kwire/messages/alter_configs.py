"""AlterConfigs (key 33): replace the configuration of resources (KIP-133).

Entries that the request omits are reset to their default. Since v1, brokers send the response before they throttle the
client (KIP-219); v2 is flexible. Replaced by IncrementalAlterConfigs.
"""

from kwire.schema import Api, Array, Bool, Int8, Int16, Int32, String, request, response, struct

ALTER_CONFIGS = Api(33, versions="0-2", flexible="2+")


@request(ALTER_CONFIGS)
class AlterConfigsRequest:
    @struct
    class Resource:
        @struct
        class Config:
            name: str = String()
            value: str | None = String(null=True)

        resource_type: int = Int8()
        resource_name: str = String()
        configs: list[Config] = Array(Config)

    resources: list[Resource] = Array(Resource)
    validate_only: bool = Bool()


@response(ALTER_CONFIGS)
class AlterConfigsResponse:
    @struct
    class Resource:
        error_code: int = Int16()
        error_message: str | None = String(null=True)
        resource_type: int = Int8()
        resource_name: str = String()

    throttle_time_ms: int = Int32()
    responses: list[Resource] = Array(Resource)
