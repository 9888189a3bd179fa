"""The settings of a share group that partition leaders use."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.lazy_dataclass import dataclass
from mockbroker.base.settings import Settings
from mockbroker.topics.group_configs import (
    AUTO_OFFSET_RESET,
    ISOLATION_LEVEL,
    READ_COMMITTED,
    RECORD_LOCK_DURATION,
    effective,
    number,
)


@dataclass(frozen=True, slots=True)
class ShareGroupSettings:
    """The settings of a share group, combined from the group's configuration and the settings of the brokers.

    Attributes:
        record_lock_duration_ms: Duration of an acquisition lock in milliseconds (``share.record.lock.duration.ms``).
        auto_offset_reset: ``earliest``, ``latest``, or ``by_duration:`` followed by an ISO 8601 duration
            (``share.auto.offset.reset``).
        read_committed: True if records of aborted transactions are not delivered (``share.isolation.level``).
    """

    record_lock_duration_ms: int
    auto_offset_reset: str = "latest"
    read_committed: bool = False

    def lock_end(self, now: float) -> float:
        """Return the end of a lock that is acquired at ``now``; both are the broker's time in seconds."""
        return now + self.record_lock_duration_ms / 1000


def group_settings(configs: Mapping[str, str] | None, settings: Settings) -> ShareGroupSettings:
    """Return the settings of a share group.

    Args:
        configs: The configurations of the group; None if none are set.
        settings: The settings of the brokers.
    """
    return ShareGroupSettings(
        record_lock_duration_ms=number(configs, RECORD_LOCK_DURATION, settings),
        auto_offset_reset=str(effective(configs, AUTO_OFFSET_RESET, settings)),
        read_committed=effective(configs, ISOLATION_LEVEL, settings) == READ_COMMITTED,
    )
