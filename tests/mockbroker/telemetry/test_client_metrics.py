"""Client instances and their subscriptions. Kafka's behaviour: the conversations telemetry_*."""

from __future__ import annotations

from uuid import UUID

import pytest

from kwire import ErrorCode as E
from mockbroker.telemetry import client_metrics
from mockbroker.telemetry.client_metrics import ZERO, ClientMetrics

ID, NEW = UUID(int=7 << 64), UUID(int=9 << 64)
CLIENT = {"client_id": "c"}
NODE = 0


class Clients:
    """The clients of one broker, with one subscription."""

    def __init__(self) -> None:
        self.subscriptions = {"s": {"interval.ms": "1000", "metrics": "a."}}
        self.version = 1
        self.metrics = ClientMetrics(lambda: (self.subscriptions, self.version), lambda: NEW)

    def get(self, now: float, instance: UUID = ID) -> tuple[int, E]:
        found, error = self.metrics.get(NODE, instance, CLIENT, now)
        return found.subscription_id, error

    def push(self, now: float, subscription: int, *, last: bool = False, codec: int = 0, size: int = 5) -> E:
        return self.metrics.push(
            NODE,
            ID,
            CLIENT,
            now,
            subscription_id=subscription,
            terminating=last,
            compression=codec,
            size=size,
            max_size=10,
        )


@pytest.fixture
def clients() -> Clients:
    return Clients()


def test_client_without_an_id_gets_one(clients: Clients) -> None:
    instance, error = clients.metrics.get(NODE, ZERO, CLIENT, 0.0)
    assert (instance.instance_id, error) == (NEW, E.NONE)


def test_requests_before_the_push_interval_are_throttled(clients: Clients) -> None:
    subscription, _ = clients.get(0.0)
    assert clients.get(0.9)[1] == E.THROTTLING_QUOTA_EXCEEDED
    assert [clients.push(now, subscription) for now in (0.1, 1.0, 1.1)] == [
        E.NONE,
        E.THROTTLING_QUOTA_EXCEEDED,
        E.NONE,
    ]
    assert clients.push(1.2, subscription, last=True) == E.NONE


def test_subscriptions_may_be_requested_at_once_after_an_error(clients: Clients) -> None:
    subscription, _ = clients.get(0.0)
    assert clients.push(0.1, subscription + 1) == E.UNKNOWN_SUBSCRIPTION_ID
    assert [clients.get(0.2)[1], clients.get(0.3)[1]] == [E.NONE, E.THROTTLING_QUOTA_EXCEEDED]


def test_push_is_validated(clients: Clients) -> None:
    subscription, _ = clients.get(0.0)
    assert clients.push(2.0, subscription, codec=9) == E.UNSUPPORTED_COMPRESSION_TYPE
    assert clients.push(4.0, subscription, size=11) == E.TELEMETRY_TOO_LARGE
    assert clients.push(6.0, subscription, last=True) == E.NONE
    assert clients.push(8.0, subscription) == E.INVALID_REQUEST


def test_change_of_subscriptions_changes_the_subscription_id(clients: Clients) -> None:
    before, _ = clients.get(0.0)
    clients.subscriptions["s"] = {"metrics": "a.,*"}
    clients.version += 1
    after, error = clients.get(0.1)
    assert after != before
    assert error == E.NONE
    instance, _ = clients.metrics.get(NODE, ID, CLIENT, 0.1)
    assert (instance.metrics, instance.push_interval_ms) == (["*"], 300_000)


def test_number_of_instances_and_connections_is_limited(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_metrics, "MAX_INSTANCES", 2)
    monkeypatch.setattr(client_metrics, "MAX_SOFTWARE", 2)
    first, second, third = (UUID(int=number << 64) for number in (1, 2, 3))
    for instance in (first, second, first, third):
        clients.get(0.0, instance)
    assert clients.get(0.1, first)[1] == E.THROTTLING_QUOTA_EXCEEDED
    assert clients.get(0.1, second)[1] == E.NONE
    for number in range(3):
        clients.metrics.record_software(number, "name", str(number))
    assert [clients.metrics.software(number) for number in (0, 2)] == [("unknown", "unknown"), ("name", "2")]
