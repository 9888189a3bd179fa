"""Sources of settings. Kafka's behaviour is recorded in the conversation broker_configs_are_defaults_of_topics."""

from __future__ import annotations

from mockbroker.base.config_sources import broker_sources, set_values, synonyms_of
from mockbroker.base.live_settings import ALL_BROKERS, BrokerSettings
from mockbroker.base.release import KAFKA_3_9, KAFKA_4_2
from mockbroker.base.settings import Settings

RETENTION = "log.retention.ms"


def test_sources_begin_with_the_setting_itself() -> None:
    settings = Settings.parse({"log.retention.hours": 5})
    assert broker_sources(RETENTION, settings, KAFKA_4_2) == []
    brokers = BrokerSettings(settings, {ALL_BROKERS: {RETENTION: "7"}, "1": {RETENTION: "8"}})
    results = [(one.name, one.value, one.source) for one in broker_sources(RETENTION, brokers.of(1), KAFKA_4_2)]
    assert results == [
        (RETENTION, "8", 2),
        (RETENTION, "7", 3),
        ("log.retention.hours", "5", 4),
        ("log.retention.hours", "168", 5),
    ]


def test_default_is_that_of_the_release() -> None:
    name = "log.message.timestamp.after.max.ms"
    values = [broker_sources(name, Settings(), release)[0].value for release in (KAFKA_3_9, KAFKA_4_2)]
    assert values == [str(2**63 - 1), "3600000"]


def test_values_are_those_that_are_set() -> None:
    settings = Settings.parse({"log.retention.hours": 5})
    assert [one.name for one in set_values(synonyms_of(RETENTION), settings)] == ["log.retention.hours"]
    assert synonyms_of("listener.name.a.max.connections") == ("listener.name.a.max.connections", "max.connections")
