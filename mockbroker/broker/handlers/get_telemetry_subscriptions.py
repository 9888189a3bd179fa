"""The handler of GetTelemetrySubscriptions v0 (KIP-714).

The response contains the names of the metrics that the client has to push. They are the metrics in all subscriptions
that match the client.

Source: Kafka's ClientMetricsManager.processGetTelemetrySubscriptionRequest. The API is served only with
``mockbroker.client.telemetry.enable``, as Kafka serves it only with a plugin that receives the metrics.
"""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.telemetry.client_metrics import ACCEPTED_COMPRESSION


def handle(broker: Broker, call: Call[GetTelemetrySubscriptionsRequest], now: float) -> Effects:
    attributes = broker.client_attributes(call.client, call.ticket.connection)
    requested = call.request.client_instance_id
    instance, error = broker.client_metrics.get(call.client.node, requested, attributes, now)
    if error != ErrorCode.NONE:
        return [Reply(call.ticket, GetTelemetrySubscriptionsResponse(error_code=error))]
    response = GetTelemetrySubscriptionsResponse(
        client_instance_id=instance.instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=list(ACCEPTED_COMPRESSION),
        push_interval_ms=instance.push_interval_ms,
        telemetry_max_bytes=broker.settings.telemetry_max_bytes,
        delta_temporality=True,
        requested_metrics=list(instance.metrics),
    )
    return [Reply(call.ticket, response)]
