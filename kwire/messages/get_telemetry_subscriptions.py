"""GetTelemetrySubscriptions (key 71): a client requests which metrics it has to push, and how often (KIP-714)."""

from uuid import UUID

from kwire.schema import Api, Array, Bool, Int8, Int16, Int32, String, Uuid, request, response

GET_TELEMETRY_SUBSCRIPTIONS = Api(71, versions="0", flexible="0+")


@request(GET_TELEMETRY_SUBSCRIPTIONS)
class GetTelemetrySubscriptionsRequest:
    client_instance_id: UUID = Uuid()


@response(GET_TELEMETRY_SUBSCRIPTIONS)
class GetTelemetrySubscriptionsResponse:
    throttle_time_ms: int = Int32()
    error_code: int = Int16()
    client_instance_id: UUID = Uuid()
    subscription_id: int = Int32()
    accepted_compression_types: list[int] = Array(Int8)
    push_interval_ms: int = Int32()
    telemetry_max_bytes: int = Int32()
    delta_temporality: bool = Bool()
    requested_metrics: list[str] = Array(String)
