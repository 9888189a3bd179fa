"""The topic configurations that apply to partition logs: segments, retention, compaction and compression.

Source: Kafka's LogConfig.
"""

from __future__ import annotations

from kwire.lazy_dataclass import dataclass
from mockbroker.base.release import Release
from mockbroker.base.settings import Settings
from mockbroker.topics.configs import COMPACT, Configs, Value, effective
from mockbroker.topics.log_segments import SegmentLimits

DELETE = "delete"


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The effective configurations of a topic's logs. Durations are in milliseconds.

    Attributes:
        limits: limits of a segment (segment.bytes, segment.ms).
        delete: whether retention deletes segments (cleanup.policy).
        compact: whether the log is compacted (cleanup.policy).
        retention_ms: maximum age of a segment (retention.ms); -1 for no limit.
        retention_bytes: size in bytes below which retention does not shrink the log (retention.bytes); -1 for no limit.
        min_dirty_ratio: ratio of cleanable bytes above which compaction starts (min.cleanable.dirty.ratio).
        min_lag_ms: minimum age of compacted records (min.compaction.lag.ms).
        max_lag_ms: maximum age of records that are not compacted (max.compaction.lag.ms).
        delete_retention_ms: time for which tombstones and transaction markers are retained after compaction
            (delete.retention.ms).
    """

    limits: SegmentLimits
    delete: bool
    compact: bool
    retention_ms: int
    retention_bytes: int
    min_dirty_ratio: float
    min_lag_ms: int
    max_lag_ms: int
    delete_retention_ms: int

    @classmethod
    def of(cls, configs: Configs, settings: Settings, release: Release) -> LogConfig:
        """Return the effective configurations of a topic.

        Args:
            configs: Configurations that are set on the topic itself.
            settings: The settings of the brokers.
            release: The emulated Kafka release.
        """

        def value(name: str) -> Value:
            return effective(configs, name, settings, release)

        def number(name: str) -> int:
            found = value(name)
            assert isinstance(found, int)
            return found

        policies, ratio = value("cleanup.policy"), value("min.cleanable.dirty.ratio")
        assert isinstance(policies, list)
        assert isinstance(ratio, float)
        compact, max_lag_ms = COMPACT in policies, number("max.compaction.lag.ms")
        duration_ms = number("segment.ms")
        return cls(
            limits=SegmentLimits(number("segment.bytes"), min(duration_ms, max_lag_ms) if compact else duration_ms),
            delete=DELETE in policies,
            compact=compact,
            retention_ms=number("retention.ms"),
            retention_bytes=number("retention.bytes"),
            min_dirty_ratio=ratio,
            min_lag_ms=number("min.compaction.lag.ms"),
            max_lag_ms=max_lag_ms,
            delete_retention_ms=number("delete.retention.ms"),
        )
