"""PushTelemetry (key 72): a client sends its metrics, in OTLP and optionally compressed (KIP-714)."""

from uuid import UUID

from kwire.schema import Api, Bool, Bytes, Int8, Int16, Int32, Uuid, request, response

PUSH_TELEMETRY = Api(72, versions="0", flexible="0+")


@request(PUSH_TELEMETRY)
class PushTelemetryRequest:
    client_instance_id: UUID = Uuid()
    subscription_id: int = Int32()
    terminating: bool = Bool()
    compression_type: int = Int8()
    metrics: bytes = Bytes()


@response(PUSH_TELEMETRY)
class PushTelemetryResponse:
    throttle_time_ms: int = Int32()
    error_code: int = Int16()
