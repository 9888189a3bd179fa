"""ListConfigResources (key 74): list the names of configurable resources (KIP-1142).

v0 lists only client metrics (KIP-714), and was named ListClientMetricsResources; v1 adds resource types.
"""

from kwire.schema import Api, Array, Int8, Int16, Int32, String, request, response, struct

LIST_CONFIG_RESOURCES = Api(74, versions="0-1", flexible="0+")


@request(LIST_CONFIG_RESOURCES)
class ListConfigResourcesRequest:
    resource_types: list[int] = Array(Int8, "1+")


@response(LIST_CONFIG_RESOURCES)
class ListConfigResourcesResponse:
    @struct
    class ConfigResource:
        resource_name: str = String()
        resource_type: int = Int8("1+", default=16, ignorable=True)

    throttle_time_ms: int = Int32()
    error_code: int = Int16()
    config_resources: list[ConfigResource] = Array(ConfigResource)
