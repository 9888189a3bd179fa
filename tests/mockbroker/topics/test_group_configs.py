"""Group configurations. Kafka's behaviour: the conversations group_configs_described and group_configs_validated."""

from __future__ import annotations

import pytest
from tools.consumer_group_harness import ConsumerGroupHarness

from mockbroker.base.settings import Settings
from mockbroker.topics.configs import DEFAULT, OF_GROUP
from mockbroker.topics.group_configs import GROUP_CONFIGS, configs_error, effective, source

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
