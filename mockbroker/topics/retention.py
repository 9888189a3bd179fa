"""Retention: the deletion of old segments of a partition, and the expiry of its producers. The functions are pure.

Source: Kafka's UnifiedLog.deleteOldSegments and ProducerStateManager.removeExpiredProducers.
"""

from __future__ import annotations

from mockbroker.topics.log_config import LogConfig
from mockbroker.topics.log_segments import expired_segments, next_expiry
from mockbroker.topics.model import Partition


def delete_old_segments(partition: Partition, config: LogConfig, now_ms: int) -> int:
    """Delete the segments that exceed retention.ms or retention.bytes; return their number. Without ``config.delete``,
    delete nothing.

    Args:
        partition: the partition.
        config: the configurations of its topic.
        now_ms: the current time, milliseconds since 1970.
    """
    if not config.delete:
        return 0
    log = partition.log
    count = expired_segments(
        log.segments, now_ms, retention_ms=config.retention_ms, retention_bytes=config.retention_bytes
    )
    if count:
        partition.delete_segments(count)
    return count


def next_deletion(partition: Partition, config: LogConfig, now_ms: int) -> int | None:
    """Return the time at which ``delete_old_segments`` will next delete a segment, in milliseconds since 1970.

    The result is None if that function will delete no segment. The result assumes that no record is appended. For the
    arguments, see ``delete_old_segments``.
    """
    if not config.delete:
        return None
    return next_expiry(
        partition.log.segments, now_ms, retention_ms=config.retention_ms, retention_bytes=config.retention_bytes
    )
