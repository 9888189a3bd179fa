"""UpdateFeatures takes effect at once. Kafka's behaviour: the conversation features_updated."""

from __future__ import annotations

from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.update_features import UpdateFeaturesRequest
from mockbroker.base.live_settings import ALL_BROKERS, MIN_IN_SYNC

Update = UpdateFeaturesRequest.FeatureUpdate


def update(harness: BrokerHarness, name: str, level: int, *, validate_only: bool = False) -> E:
    change = Update(feature=name, max_version_level=level, upgrade_type=2)
    request = UpdateFeaturesRequest(feature_updates=[change], validate_only=validate_only)
    return E(harness.ask(request, 2).error_code)


def test_features_enable_group_protocols() -> None:
    broker = (harness := BrokerHarness()).broker
    served = {
        "group.version": lambda: broker.serves_consumer_protocol,
        "share.version": lambda: broker.serves_share_groups,
        "streams.version": lambda: broker.serves_streams_protocol,
    }
    for name, is_served in served.items():
        assert update(harness, name, 0, validate_only=True) == E.NONE
        assert is_served(), name
        assert update(harness, name, 0) == E.NONE
        assert not is_served(), name
        assert update(harness, name, 1) == E.NONE
        assert is_served(), name


def test_min_in_sync_remains_without_eligible_replicas() -> None:
    brokers = (harness := BrokerHarness(config={MIN_IN_SYNC: 2})).broker.broker_settings
    for level in (1, 0, 0, 1):
        assert update(harness, "eligible.leader.replicas.version", level) == E.NONE
        assert brokers.set_on(ALL_BROKERS) == {MIN_IN_SYNC: "2"}
        assert brokers.keeps_min_in_sync is (level == 1)


def test_unknown_feature_changes_nothing() -> None:
    harness = BrokerHarness()
    assert update(harness, "nope", 1) == E.INVALID_UPDATE_VERSION
    assert harness.broker.cluster.features_epoch == 0
