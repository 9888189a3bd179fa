"""PushTelemetry and its event. Kafka's behaviour: the conversations telemetry_*."""

from __future__ import annotations

import gzip
from typing import Any
from uuid import UUID

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kwire.messages.push_telemetry import PushTelemetryRequest
from mockbroker.broker.handlers import push_telemetry

ID = UUID(int=5 << 64)


def push(harness: BrokerHarness, metrics: bytes, *, codec: int = 0) -> tuple[E, list[Any]]:
    subscription = harness.ask(GetTelemetrySubscriptionsRequest(client_instance_id=ID), 0).subscription_id
    request = PushTelemetryRequest(
        client_instance_id=ID, subscription_id=subscription, compression_type=codec, metrics=metrics
    )
    error = E(harness.ask(request, 0).error_code)
    return error, [event.telemetry for event in harness.journal.events if event.event == "telemetry"]


@pytest.fixture
def harness() -> BrokerHarness:
    return BrokerHarness(config={"mockbroker.client.telemetry.enable": True})


def test_pushed_metrics_are_an_event(harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_telemetry, "decode", lambda data: {"points": len(data)})
    error, (event,) = push(harness, gzip.compress(b"abc"), codec=1)
    assert error == E.NONE
    assert event == {"client_instance_id": "AAAAAAAAAAUAAAAAAAAAAA", "terminating": False, "bytes": 3, "points": 3}


def test_metrics_that_cannot_be_decoded_are_an_event(harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(data: bytes) -> Any:
        raise ModuleNotFoundError("No module named 'opentelemetry'")

    monkeypatch.setattr(push_telemetry, "decode", missing)
    _, (event,) = push(harness, b"abc")
    assert (event["bytes"], event["not_decoded"]) == (3, "No module named 'opentelemetry'")


@pytest.mark.parametrize("data", [b"abc", gzip.compress(bytes(push_telemetry.MAX_DECOMPRESSED + 1))])
def test_metrics_that_cannot_be_decompressed_are_refused(harness: BrokerHarness, data: bytes) -> None:
    assert push(harness, data, codec=1) == (E.INVALID_RECORD, [])


def test_nothing_is_recorded_without_metrics(harness: BrokerHarness) -> None:
    assert push(harness, b"") == (E.NONE, [])
