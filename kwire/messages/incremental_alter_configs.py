"""IncrementalAlterConfigs (key 44): change individual entries of a configuration (KIP-339).

Operations: 0 set, 1 delete, 2 append, 3 subtract. v1 is flexible.
"""

from kwire.schema import Api, Array, Bool, Int8, Int16, Int32, String, request, response, struct

INCREMENTAL_ALTER_CONFIGS = Api(44, versions="0-1", flexible="1+")


@request(INCREMENTAL_ALTER_CONFIGS)
class IncrementalAlterConfigsRequest:
    @struct
    class Resource:
        @struct
        class Config:
            name: str = String()
            config_operation: int = Int8()
            value: str | None = String(null=True)

        resource_type: int = Int8()
        resource_name: str = String()
        configs: list[Config] = Array(Config)

    resources: list[Resource] = Array(Resource)
    validate_only: bool = Bool()


@response(INCREMENTAL_ALTER_CONFIGS)
class IncrementalAlterConfigsResponse:
    @struct
    class Resource:
        error_code: int = Int16()
        error_message: str | None = String(null=True)
        resource_type: int = Int8()
        resource_name: str = String()

    throttle_time_ms: int = Int32()
    responses: list[Resource] = Array(Resource)
