"""The handler of PushTelemetry v0 (KIP-714), which writes the metrics of a client to the journal as an event.

Source: Kafka's ClientMetricsManager.processPushTelemetryRequest. Without the package opentelemetry-proto, the event
contains only the size of the metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kwire import ErrorCode, WireError
from kwire.json.objects import uuid_text
from kwire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from kwire.records.compression import decompress
from mockbroker.base.effects import Call, Effects, Note, Reply
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.broker import Broker
from mockbroker.telemetry.client_metrics import UNCOMPRESSED
from mockbroker.telemetry.otlp import decode

MAX_DECOMPRESSED = 16 << 20  # bytes of the metrics of one push; Kafka has no limit


def handle(broker: Broker, call: Call[PushTelemetryRequest], now: float) -> Effects:
    request = call.request
    error = broker.client_metrics.push(
        call.client.node,
        request.client_instance_id,
        broker.client_attributes(call.client, call.ticket.connection),
        now,
        subscription_id=request.subscription_id,
        terminating=request.terminating,
        compression=request.compression_type,
        size=len(request.metrics),
        max_size=broker.settings.telemetry_max_bytes,
    )
    pushed: Mapping[str, Any] | None = None
    if error == ErrorCode.NONE and request.metrics:
        try:
            pushed = _decoded(request)
        except WireError:  # the metrics cannot be decompressed
            error = ErrorCode.INVALID_RECORD
    effects: Effects = [Reply(call.ticket, PushTelemetryResponse(error_code=error))]
    if pushed is not None:
        effects.append(Note(event=EventKind.TELEMETRY, group="", client_id=call.client.client_id, telemetry=pushed))
    return effects


def _decoded(request: PushTelemetryRequest) -> Mapping[str, Any]:
    """Return the fields of the journal event for the metrics that a client has pushed.

    The fields are the client instance id, whether the client is terminating, and the decompressed size in bytes. A
    further field contains the decoded metrics, or the reason why the metrics cannot be decoded.

    Raises:
        WireError: The metrics cannot be decompressed.
    """
    data = bytes(request.metrics)
    if request.compression_type != UNCOMPRESSED:
        data = decompress(request.compression_type, data, limit=MAX_DECOMPRESSED)
    content: dict[str, Any] = {
        "client_instance_id": uuid_text(request.client_instance_id),
        "terminating": request.terminating,
        "bytes": len(data),
    }
    try:
        return content | dict(decode(data))
    except (ValueError, ModuleNotFoundError) as error:
        return {**content, "not_decoded": str(error)}
