"""ApiVersions (key 18): request the APIs and versions that a broker supports. Clients send this request first.

v1 adds the throttle time; v3 is flexible, and adds the name and version of the client software (KIP-511) and the
features (KIP-584); v4 allows features with a minimum level of 0. A broker responds to an unsupported version with error
35 in a v0 body. The response header is always v0, so that clients can decode this response.
"""

from kwire.schema import Api, Array, Bool, Int16, Int32, Int64, String, request, response, struct

API_VERSIONS = Api(18, versions="0-4", flexible="3+")


@request(API_VERSIONS)
class ApiVersionsRequest:
    client_software_name: str = String("3+", ignorable=True)
    client_software_version: str = String("3+", ignorable=True)


@response(API_VERSIONS)
class ApiVersionsResponse:
    @struct
    class ApiVersion:
        api_key: int = Int16()
        min_version: int = Int16()
        max_version: int = Int16()

    @struct
    class SupportedFeature:
        name: str = String()
        min_version: int = Int16()
        max_version: int = Int16()

    @struct
    class FinalizedFeature:
        name: str = String()
        max_version_level: int = Int16()
        min_version_level: int = Int16()

    error_code: int = Int16()
    api_keys: list[ApiVersion] = Array(ApiVersion)
    throttle_time_ms: int = Int32("1+", ignorable=True)
    supported_features: list[SupportedFeature] = Array(SupportedFeature, "3+", tag=0, ignorable=True)
    finalized_features_epoch: int = Int64("3+", tag=1, default=-1, ignorable=True)
    finalized_features: list[FinalizedFeature] = Array(FinalizedFeature, "3+", tag=2, ignorable=True)
    zk_migration_ready: bool = Bool("3+", tag=3, ignorable=True)
