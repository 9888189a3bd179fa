"""Settings that change while the cluster runs. Kafka's behaviour is recorded in the conversations broker_configs_*."""

from __future__ import annotations

from mockbroker.base.live_settings import ALL_BROKERS, MIN_IN_SYNC, BrokerSettings, layers
from mockbroker.base.settings import Settings

LARGEST = "message.max.bytes"


def test_setting_of_a_broker_overrides_cluster_wide_one() -> None:
    configs = {ALL_BROKERS: {LARGEST: "20", "log.retention.ms": "7"}, "1": {LARGEST: "30"}, "01": {LARGEST: "40"}}
    brokers = BrokerSettings(Settings.parse({LARGEST: 10}), configs)
    assert [brokers.of(node).message_max_bytes for node in (0, 1)] == [20, 30]
    texts = [[layer.text(LARGEST) for layer in layers(brokers.of(node))] for node in (0, 1)]
    assert texts == [[None, "20", "10"], ["30", "20", "10"]]
    assert brokers.of(1).text("log.retention.ms") == "7"


def test_holders_of_the_settings_see_changes_at_once() -> None:
    configs: dict[str, dict[str, str]] = {}
    brokers = BrokerSettings(Settings(), configs)  # type: ignore[arg-type]
    held = brokers.cluster
    configs[ALL_BROKERS] = {LARGEST: "20"}
    brokers.refresh()
    assert held.message_max_bytes == 20
    del configs[ALL_BROKERS]
    brokers.refresh()
    assert held.message_max_bytes == 1_048_588


def test_value_that_mockbroker_cannot_use_is_ignored() -> None:
    brokers = BrokerSettings(Settings(), {ALL_BROKERS: {"sasl.enabled.mechanisms": "GSSAPI"}})
    assert brokers.cluster.sasl_enabled_mechanisms == Settings().sasl_enabled_mechanisms


def test_cluster_wide_min_in_sync_is_static_until_it_is_set() -> None:
    configs: dict[str, dict[str, str]] = {}
    static = Settings.parse({MIN_IN_SYNC: 2})
    brokers = BrokerSettings(static, configs, keeps_min_in_sync=True)  # type: ignore[arg-type]
    assert brokers.set_on(ALL_BROKERS) == {MIN_IN_SYNC: "2"}
    assert brokers.without_static_min_in_sync({MIN_IN_SYNC: "2", LARGEST: "1"}) == {LARGEST: "1"}
    configs[ALL_BROKERS] = {MIN_IN_SYNC: "1"}
    brokers.refresh()
    assert (brokers.set_on(ALL_BROKERS), brokers.cluster.min_insync_replicas) == ({MIN_IN_SYNC: "1"}, 1)
    assert BrokerSettings(static, {}).set_on(ALL_BROKERS) == {}
