"""Configurations of client metrics. Kafka's behaviour: the conversation client_metrics_configs."""

from __future__ import annotations

import pytest

from mockbroker.topics.client_metrics_configs import (
    MAX_SIZE,
    MAX_SUBSCRIPTIONS,
    configs_error,
    interval_ms,
    limit_error,
    matches,
    metrics,
)

CLIENT = {"client_id": "app-1", "client_software_name": "librdkafka", "client_source_address": "127.0.0.1"}


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        ("", True),
        ("client_id=app-.*", True),
        ("client_id=app", False),
        ("client_id=app-1,client_software_name=apache.*", False),
        ("client_id=x,client_id=app-1", True),
        ("client_source_port=.+", False),
        (" client_id = app-1 ", True),
    ],
)
def test_subscription_matches_a_client_by_all_patterns(match: str, expected: bool) -> None:
    assert configs_error("s", {"match": match}) is None
    assert matches({"match": match}, CLIENT) is expected


def test_defaults_of_a_subscription() -> None:
    assert (interval_ms({}), metrics({}), metrics({"metrics": "a., b."})) == (300_000, [], ["a.", "b."])


def test_number_and_size_of_subscriptions_are_limited() -> None:
    full = {str(number): {"metrics": "*"} for number in range(MAX_SUBSCRIPTIONS)}
    assert limit_error("new", {}, full) == "100 client metrics subscriptions exist, the maximum: delete one first."
    assert limit_error("1", {}, full) is None
    assert "maximum is 65536" in (limit_error("s", {"metrics": "x" * MAX_SIZE}, {}) or "")
