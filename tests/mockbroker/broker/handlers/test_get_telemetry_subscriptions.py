"""GetTelemetrySubscriptions. Kafka's behaviour: the conversations telemetry_*."""

from __future__ import annotations

from uuid import UUID

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.apikeys import ApiKey
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest

ID = UUID(int=5 << 64)


@pytest.mark.parametrize("on", [False, True])
def test_apis_are_served_if_telemetry_is_enabled(on: bool) -> None:
    harness = BrokerHarness(config={"mockbroker.client.telemetry.enable": on})
    keys = {each.api_key for each in harness.ask(ApiVersionsRequest(), 0).api_keys}
    assert ({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY} <= keys) is on


def test_client_is_matched_by_its_software() -> None:
    harness = BrokerHarness(config={"mockbroker.client.telemetry.enable": True, "telemetry.max.bytes": 500})
    match = "client_software_name=lib.*,client_software_version=2"
    harness.broker.cluster.configure_client_metrics("s", {"metrics": "a.,b.", "interval.ms": "700", "match": match})
    sent = harness.send(ApiVersionsRequest(client_software_name="librdkafka", client_software_version="2"), 3)
    client_metrics = harness.broker.client_metrics
    assert client_metrics.software(sent.ticket.connection) == ("librdkafka", "2")
    client_metrics.record_software(sent.ticket.connection + 1, "librdkafka", "2")
    response = harness.ask(GetTelemetrySubscriptionsRequest(client_instance_id=ID), 0)
    assert (response.error_code, response.client_instance_id) == (E.NONE, ID)
    assert (response.requested_metrics, response.push_interval_ms) == (["b.", "a."], 700)
    assert (response.telemetry_max_bytes, response.delta_temporality) == (500, True)
