"""Settings of a share group, with and without configurations."""

from __future__ import annotations

from mockbroker.base.settings import Settings
from mockbroker.share.group_settings import ShareGroupSettings, group_settings


def test_defaults_are_those_of_the_brokers():
    settings = group_settings(None, Settings(group_share_record_lock_duration_ms=20_000))
    assert settings == ShareGroupSettings(20_000, "latest", read_committed=False)


def test_configurations_of_the_group_come_first():
    configs = {
        "share.record.lock.duration.ms": "15000",
        "share.auto.offset.reset": "by_duration:PT1H",
        "share.isolation.level": "read_committed",
    }
    settings = group_settings(configs, Settings(group_share_record_lock_duration_ms=20_000))
    assert settings == ShareGroupSettings(15_000, "by_duration:PT1H", read_committed=True)
