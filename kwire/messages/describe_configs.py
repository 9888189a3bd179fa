"""DescribeConfigs (key 32): request the configuration of topics, brokers, and other resources.

v1 replaces the flag for default values by the source of each value, and adds synonyms (KIP-226); v3 adds documentation
and types (KIP-569); v4 is flexible.
"""

from kwire.schema import Api, Array, Bool, Int8, Int16, Int32, String, request, response, struct

DESCRIBE_CONFIGS = Api(32, versions="0-4", flexible="4+")


@request(DESCRIBE_CONFIGS)
class DescribeConfigsRequest:
    @struct
    class Resource:
        resource_type: int = Int8()
        resource_name: str = String()
        configuration_keys: list[str] | None = Array(String, null=True)

    resources: list[Resource] = Array(Resource)
    include_synonyms: bool = Bool("1+")
    include_documentation: bool = Bool("3+")


@response(DESCRIBE_CONFIGS)
class DescribeConfigsResponse:
    @struct
    class Result:
        @struct
        class Config:
            @struct
            class Synonym:
                name: str = String()
                value: str | None = String(null=True)
                source: int = Int8()

            name: str = String()
            value: str | None = String(null=True)
            read_only: bool = Bool()
            is_default: bool = Bool("0")
            config_source: int = Int8("1+", default=-1, ignorable=True)
            is_sensitive: bool = Bool()
            synonyms: list[Synonym] = Array(Synonym, "1+", ignorable=True)
            config_type: int = Int8("3+", ignorable=True)
            documentation: str | None = String("3+", null=True, ignorable=True)

        error_code: int = Int16()
        error_message: str | None = String(null=True)
        resource_type: int = Int8()
        resource_name: str = String()
        configs: list[Config] = Array(Config)

    throttle_time_ms: int = Int32()
    results: list[Result] = Array(Result)
