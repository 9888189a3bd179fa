"""The effective configurations of logs."""

from __future__ import annotations

import pytest

from mockbroker.base.release import KAFKA_4_2
from mockbroker.base.settings import Settings
from mockbroker.topics.log_config import LogConfig

DAY = 86_400_000


def config(settings: dict[str, object] | None = None, **configs: str) -> LogConfig:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    return LogConfig.of(named, Settings.parse(settings or {}), KAFKA_4_2)


def test_defaults_are_kafkas():
    result = config()
    assert (result.delete, result.compact, result.retention_ms, result.retention_bytes) == (True, False, 7 * DAY, -1)
    assert (result.limits.size, result.limits.duration_ms) == (1 << 30, 7 * DAY)
    assert (result.min_dirty_ratio, result.min_lag_ms, result.delete_retention_ms) == (0.5, 0, DAY)


@pytest.mark.parametrize(
    ("settings", "retention_ms"),
    [
        ({"log.retention.hours": 2}, 7_200_000),
        ({"log.retention.hours": 2, "log.retention.minutes": 3}, 180_000),
        ({"log.retention.hours": 2, "log.retention.minutes": 3, "log.retention.ms": 4}, 4),
    ],
)
def test_smallest_unit_of_a_broker_duration_counts(settings, retention_ms):
    assert config(settings).retention_ms == retention_ms
    assert config(settings, retention_ms="9").retention_ms == 9


def test_topic_config_overrides_the_broker():
    broker = {"log.segment.bytes": 2 << 20, "log.roll.hours": 1, "log.cleaner.min.cleanable.ratio": 0.1}
    assert config(broker).limits.size == 2 << 20
    assert config(broker).limits.duration_ms == 3_600_000
    assert config(broker).min_dirty_ratio == 0.1
    assert config(broker, segment_bytes=str(3 << 20), segment_ms="5").limits.duration_ms == 5


def test_max_compaction_lag_limits_segments_if_compacted():
    assert config(max_compaction_lag_ms="5").limits.duration_ms == 7 * DAY
    assert config(max_compaction_lag_ms="5", cleanup_policy="compact").limits.duration_ms == 5
