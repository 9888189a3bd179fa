"""Group configurations. Kafka's behaviour: the conversations group_configs_described and group_configs_validated."""

from __future__ import annotations

import pytest
from tools.consumer_group_harness import ConsumerGroupHarness

from mockbroker.base.settings import Settings
from mockbroker.topics.configs import DEFAULT, OF_GROUP
from mockbroker.topics.group_configs import GROUP_CONFIGS, MAX_GROUPS, TYPES, configs_error, effective, source

RESET, SESSION = "share.auto.offset.reset", "share.session.timeout.ms"


def test_the_defaults_are_the_settings_of_the_broker() -> None:
    settings = Settings(group_share_session_timeout_ms=50_000)
    assert effective(None, SESSION, settings) == 50_000
    assert effective({RESET: "earliest"}, SESSION, settings) == 50_000
    assert effective({SESSION: " 46000 "}, SESSION, settings) == 46_000
    assert (source(None, SESSION, settings).source, source({SESSION: "1"}, SESSION, settings).source) == (
        DEFAULT,
        OF_GROUP,
    )
    assert source({RESET: "earliest"}, SESSION, settings).source == DEFAULT


def test_defaults_are_valid() -> None:
    assert configs_error({}, Settings()) is None
    assert configs_error({name: config.default for name, config in GROUP_CONFIGS.items()}, Settings()) is None


@pytest.mark.parametrize(
    ("name", "value", "valid"),
    [
        (RESET, "by_duration:PT1H", True),
        (RESET, "by_duration:-PT1H", False),
        (RESET, "by_duration:1h", False),
        (RESET, "Latest", False),
        (SESSION, "44999", False),
        (SESSION, "60001", False),
        ("share.record.lock.duration.ms", "60001", False),
        ("share.isolation.level", "read_committed", True),
        ("share.isolation.level", "serializable", False),
        ("streams.num.standby.replicas", "3", False),
        ("retention.ms", "1", False),
    ],
)
def test_values_are_checked_against_the_limits(name: str, value: str, valid: bool) -> None:
    assert (configs_error({name: value}, Settings()) is None) is valid


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_the_session_timeout_exceeds_the_heartbeat_interval(kind: str) -> None:
    limits = {f"group.{kind}.min.session.timeout.ms": 1, f"group.{kind}.min.heartbeat.interval.ms": 1}
    configs = {f"{kind}.session.timeout.ms": "9", f"{kind}.heartbeat.interval.ms": "9"}
    error = f"{kind}.session.timeout.ms must be greater than {kind}.heartbeat.interval.ms"
    assert configs_error(configs, Settings.parse(limits)) == error


def test_configurations_of_a_consumer_group_take_effect() -> None:
    harness = ConsumerGroupHarness()
    harness.broker.cluster.configure_group(
        "g", {"consumer.session.timeout.ms": "1000", "consumer.heartbeat.interval.ms": "7"}
    )
    assert harness.join("a").answer.heartbeat_interval_ms == 7
    harness.wait(1)
    assert harness.group.members == {}


LIMITS = [  # name, lowest and highest valid value with the default limits of the brokers
    *[(f"{kind}.session.timeout.ms", 45_000, 60_000) for kind in ("consumer", "share", "streams")],
    *[(f"{kind}.heartbeat.interval.ms", 5_000, 15_000) for kind in ("consumer", "share", "streams")],
    ("share.record.lock.duration.ms", 15_000, 60_000),
]


@pytest.mark.parametrize(("name", "least", "most"), LIMITS)
def test_value_is_within_the_limits_of_the_broker(name: str, least: int, most: int) -> None:
    texts = [configs_error({name: str(value)}, Settings()) for value in (least - 1, least, most, most + 1)]
    kind, _, rest = name.partition(".")
    assert texts == [
        f"{name} must be greater than or equal to group.{kind}.min.{rest}",
        None,
        None,
        f"{name} must be less than or equal to group.{kind}.max.{rest}",
    ]


@pytest.mark.parametrize(
    ("name", "least"),
    [
        *[(f"{kind}.{rest}", 1) for kind in TYPES for rest in ("session.timeout.ms", "heartbeat.interval.ms")],
        ("share.record.lock.duration.ms", 1_000),
        ("streams.num.standby.replicas", 0),
        ("streams.initial.rebalance.delay.ms", 0),
    ],
)
def test_value_is_at_least_kafkas_minimum(name: str, least: int) -> None:
    error = f"Invalid value {least - 1} for configuration {name}: Value must be at least {least}"
    assert configs_error({name: str(least - 1)}, Settings()) == error
    config = GROUP_CONFIGS[name]
    assert config.check is not None
    config.check(name, least)


@pytest.mark.parametrize(("replicas", "valid"), [("0", True), ("2", True), ("3", False)])
def test_standby_replicas_are_at_most_those_of_the_broker(replicas: str, valid: bool) -> None:
    assert (configs_error({"streams.num.standby.replicas": replicas}, Settings()) is None) is valid


def test_first_of_several_errors_is_that_of_kafka() -> None:
    lock = {"share.record.lock.duration.ms": "60001"}
    for other, expected in (
        ("share.session.timeout.ms", "share.session"),
        ("streams.session.timeout.ms", "share.record"),
    ):
        error = configs_error({**lock, other: "60001"}, Settings())
        assert error is not None
        assert error.startswith(expected)


def test_other_values_of_a_consumer_group_are_the_brokers() -> None:
    """The session timeout of the group is compared with the heartbeat interval of the broker, and vice versa."""
    broker = {
        "group.consumer.heartbeat.interval.ms": 14_000,
        "group.consumer.min.session.timeout.ms": 1,
        "group.consumer.session.timeout.ms": 50_000,
    }
    error = "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms"
    for timeout, expected in (("14000", error), ("14001", None)):
        assert configs_error({"consumer.session.timeout.ms": timeout}, Settings.parse(broker)) == expected
    broker = {"group.consumer.session.timeout.ms": 10_000, "group.consumer.min.session.timeout.ms": 1}
    for interval, expected in (("10000", error), ("9999", None)):
        assert configs_error({"consumer.heartbeat.interval.ms": interval}, Settings.parse(broker)) == expected


@pytest.mark.parametrize(
    ("value", "valid"), [("by_duration:PT0S", True), ("earliest", True), ("latest", True), ("PT1H", False), ("", False)]
)
def test_share_offset_is_reset_to_an_end_or_a_time(value: str, valid: bool) -> None:
    assert (configs_error({RESET: value}, Settings()) is None) is valid


def test_defaults_of_groups_are_kafkas() -> None:
    assert {name: effective({}, name, Settings()) for name in GROUP_CONFIGS} == {
        **{f"{kind}.session.timeout.ms": 45_000 for kind in TYPES},
        **{f"{kind}.heartbeat.interval.ms": 5_000 for kind in TYPES},
        "share.record.lock.duration.ms": 30_000,
        "share.auto.offset.reset": "latest",
        "share.isolation.level": "read_uncommitted",
        "streams.num.standby.replicas": 0,
        "streams.initial.rebalance.delay.ms": 3_000,
    }
    assert MAX_GROUPS == 10_000
