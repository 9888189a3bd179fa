"""Expiration of committed offsets (``offsets.retention.minutes``).

Source: Kafka's OffsetMetadataManager.cleanupExpiredOffsets.
"""

from __future__ import annotations

from math import inf

from mockbroker.groups.group_type import RetentionStart
from mockbroker.groups.offsets import Committed, Offsets


def delete_expired(
    offsets: Offsets, retention_start: RetentionStart, now: float, retention: float
) -> list[tuple[str, int]]:
    """Delete the offsets that have expired at ``now``, and return their topics and partitions.

    An offset with a pending transactional offset does not expire.

    Args:
        offsets: The committed offsets of a group.
        retention_start: Function that returns the start of the retention time of an offset in seconds, or None for an
            offset that does not expire. Its arguments are the topic and the committed offset.
        now: The current time in seconds.
        retention: The retention time in seconds.
    """
    expired = [
        (topic, partition)
        for (topic, partition), committed in offsets.committed.items()
        if not offsets.is_unstable(topic, partition)
        and _is_expired(retention_start(topic, committed), committed, now, retention)
    ]
    for topic, partition in expired:
        offsets.delete(topic, partition)
    return expired


def next_expiry(offsets: Offsets, retention_start: RetentionStart, retention: float) -> float:
    """Return the time in seconds at which the next offset of a group expires, or inf if no offset expires.

    The result is valid as long as the group does not change.

    Args:
        offsets: The committed offsets of a group.
        retention_start: Function that returns the start of the retention time of an offset in seconds, or None for an
            offset that does not expire. Its arguments are the topic and the committed offset.
        retention: The retention time in seconds.
    """
    first = inf
    for (topic, _), committed in offsets.committed.items():
        start = retention_start(topic, committed)
        if start is not None:
            first = min(first, start + retention if committed.expires is None else committed.expires)
    return first


def _is_expired(start: float | None, committed: Committed, now: float, retention: float) -> bool:
    if start is None:
        return False
    return now >= committed.expires if committed.expires is not None else now - start >= retention
