"""UpdateFeatures (key 57): change the finalized level of cluster features (KIP-584).

v1 adds the upgrade type and the flag validate_only (KIP-778); v2 returns no results for single features.
"""

from kwire.schema import Api, Array, Bool, Int8, Int16, Int32, String, request, response, struct

UPDATE_FEATURES = Api(57, versions="0-2", flexible="0+")


@request(UPDATE_FEATURES)
class UpdateFeaturesRequest:
    @struct
    class FeatureUpdate:
        feature: str = String()
        max_version_level: int = Int16()
        allow_downgrade: bool = Bool("0")
        upgrade_type: int = Int8("1+", default=1)

    timeout_ms: int = Int32(default=60000)
    feature_updates: list[FeatureUpdate] = Array(FeatureUpdate)
    validate_only: bool = Bool("1+")


@response(UPDATE_FEATURES)
class UpdateFeaturesResponse:
    @struct
    class Result:
        feature: str = String()
        error_code: int = Int16()
        error_message: str | None = String(null=True)

    throttle_time_ms: int = Int32()
    error_code: int = Int16()
    error_message: str | None = String(null=True)
    results: list[Result] = Array(Result, "0-1", ignorable=True)
