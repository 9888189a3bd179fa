"""Configurations of client metrics. Kafka's behaviour: the conversation client_metrics_configs."""

from __future__ import annotations

import pytest

from kwire import ErrorCode as E
from mockbroker.topics.client_metrics_configs import (
    ATTRIBUTES,
    MAX_REGEX_MEMORY,
    MAX_SIZE,
    MAX_SUBSCRIPTIONS,
    OF_SUBSCRIPTION,
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


@pytest.mark.parametrize(("interval", "valid"), [(99, False), (100, True), (3_600_000, True), (3_600_001, False)])
def test_push_interval_is_a_tenth_of_a_second_to_an_hour(interval: int, valid: bool) -> None:
    error = configs_error("s", {"interval.ms": str(interval)})
    assert (error is None) is valid
    assert error is None or error[0] == E.INVALID_REQUEST


@pytest.mark.parametrize(
    ("name", "configs", "error"),
    [
        ("", {}, (E.INVALID_REQUEST, "Subscription name can't be empty")),
        ("s", {"a": "1"}, (E.INVALID_REQUEST, "Unknown client metrics configuration: a")),
        ("s", {"metrics": "a,,b"}, (E.INVALID_CONFIG, "Configuration 'metrics' values must not be empty.")),
        ("s", {"match": "client_id=a,"}, (E.INVALID_CONFIG, "Configuration 'match' values must not be empty.")),
        ("s", {"match": "client_id"}, (E.INVALID_CONFIG, "Illegal client matching pattern: client_id")),
        ("s", {"match": "client_id="}, (E.INVALID_CONFIG, "Illegal client matching pattern: client_id=")),
        ("s", {"match": "client_id=a=b"}, (E.INVALID_CONFIG, "Illegal client matching pattern: client_id=a=b")),
        ("s", {"match": "user=a"}, (E.INVALID_CONFIG, "Illegal client matching pattern: user=a")),
        ("s", {"match": "client_id=("}, (E.INVALID_CONFIG, "Illegal client matching pattern: client_id=(")),
        ("s", {"match": None, "metrics": None, "interval.ms": "100"}, None),
    ],
)
def test_invalid_subscription_is_refused(
    name: str, configs: dict[str, str | None], error: tuple[E, str] | None
) -> None:
    assert configs_error(name, configs) == error


@pytest.mark.parametrize("attribute", sorted(ATTRIBUTES))
def test_pattern_matches_each_attribute_of_a_client(attribute: str) -> None:
    assert matches({"match": f"{attribute}=x+"}, {attribute: "xx"})
    assert not matches({"match": f"{attribute}=x+"}, {attribute: "xy"})


def test_size_of_a_subscription_counts_name_and_values() -> None:
    fits = {"metrics": "x" * 65_000, "match": "y" * 535}
    assert limit_error("s", fits, {}) is None
    assert limit_error("st", fits, {}) == (
        "the subscription has 65537 characters, the maximum is 65536: use fewer metrics and patterns."
    )


def test_client_pattern_has_limited_memory() -> None:
    assert configs_error("s", {"match": f"client_id={'a' * 500}"}) is None
    for pattern in ("((a{100}){100}){10}", r"\pL{100}"):  # above the limit of RE2 itself; from 1 to 2 MiB
        error = configs_error("s", {"match": f"client_id={pattern}"})
        assert error is not None
        assert error[0] == E.INVALID_CONFIG
    assert (MAX_REGEX_MEMORY, OF_SUBSCRIPTION) == (1 << 20, 7)


def test_invalid_pattern_of_a_client_is_not_logged(capfd: pytest.CaptureFixture[str]) -> None:
    """By default, the library re2 writes to the standard error."""
    assert configs_error("s", {"match": "client_id=(unclosed"}) is not None
    assert capfd.readouterr() == ("", "")
