"""Broker configurations, compared with those that real brokers with the same settings returned."""

from __future__ import annotations

import pytest
from broker_configs import RELEASES, recorded

from mockbroker.base.kafka_settings import kafka_settings
from mockbroker.base.live_settings import BrokerSettings
from mockbroker.base.release import RELEASES as ALL
from mockbroker.base.settings import Settings
from mockbroker.broker.broker_configs import UNKNOWN, broker_configs
from mockbroker.topics.model import Node

STATIC = 4  # config_source; 3 is a cluster-wide default, not a configuration of a broker
NODE = Node(1, "127.0.0.1", 19120)
OUR_OWN = {  # configurations with another default in mockbroker
    "advertised.listeners",
    "group.consumer.assignors",
    "group.consumer.migration.policy",
    "group.coordinator.rebalance.protocols",
    "group.share.partition.max.record.locks",
    "listener.security.protocol.map",
    "listeners",
    "log.message.timestamp.after.max.ms",
    "queued.max.request.bytes",
    "sasl.enabled.mechanisms",
}


def all_of(release: str, **given: object) -> dict[str, object]:
    settings = Settings.parse({name.replace("_", "."): value for name, value in given.items()})
    return {one.name: one for one in broker_configs(settings, ALL[release], NODE)}


@pytest.mark.parametrize("release", RELEASES)
def test_configs_equal_those_of_a_recorded_broker(release: str) -> None:
    names = {name for name, configs in kafka_settings().items() if release in configs}
    response = {config["name"]: config for config in recorded(release) if config["name"] in names}
    given = {name: config["value"] for name, config in response.items() if config["config_source"] == STATIC}
    settings = Settings.parse({name: value for name, value in given.items() if name not in OUR_OWN})
    live = BrokerSettings(settings, {}, keeps_min_in_sync=release == "4.2")
    configs = {one.name: one for one in broker_configs(live.of(1), ALL[release], NODE)}
    assert set(response) <= set(configs)
    for name, config in response.items():
        one = configs[name]
        shown = one.type, one.read_only, one.is_sensitive
        assert shown == (config["config_type"], config["read_only"], config["is_sensitive"]), name
        if name not in OUR_OWN:
            assert one.value == config["value"], name
            assert one.source == config["config_source"], name
            synonyms = [[each.name, None if one.is_sensitive else each.value, each.source] for each in one.sources]
            assert synonyms == config["synonyms"], name


def test_configs_of_mockbroker_are_described() -> None:
    configs = all_of("4.2", mockbroker_users="alice:secret", ssl_key_password="secret", log_retention_ms=5)
    assert {name for name in configs if name.startswith("mockbroker.")} == {
        name for name in Settings().by_name() if name.startswith("mockbroker.")
    }
    for name in ("mockbroker.users", "ssl.key.password"):
        assert (configs[name].value, configs[name].is_sensitive, configs[name].source) == (None, True, STATIC)
    assert configs["log.retention.ms"].value == "5"
    assert [each.name for each in configs["log.retention.ms"].sources] == ["log.retention.ms", "log.retention.hours"]


@pytest.mark.parametrize("release", RELEASES)
def test_settings_of_the_authorizer_are_sensitive(release: str) -> None:
    """A Kafka broker does not define them. Source: ConfigHelper.createBrokerConfigEntry."""
    given: dict[str, object] = {"super.users": "User:admin", "allow.everyone.if.no.acl.found": True}
    configs = all_of(release, **given)
    for name in given:
        one = configs[name]
        assert (one.value, one.is_sensitive, one.type, one.source) == (None, True, UNKNOWN, STATIC)
    assert not given.keys() & all_of(release).keys()


def test_setting_of_another_release_is_described_only_if_set() -> None:
    assert "zookeeper.connect" not in all_of("4.2")
    assert all_of("4.2", zookeeper_connect="localhost")["zookeeper.connect"].value == "localhost"
