"""Which committed offsets have outlived their use.

Source: Kafka's OffsetMetadataManager.cleanupExpiredOffsets.
"""

from __future__ import annotations

from math import inf

from mockbroker.groups.group_type import RetentionStart
from mockbroker.groups.offsets import Committed, Offsets


def expire(offsets: Offsets, starts: RetentionStart, now: float, retention: float) -> list[tuple[str, int]]:
    """Drop what has expired at ``now``; topics and partitions of it. ``retention``: seconds."""
    gone = [
        (topic, partition)
        for (topic, partition), committed in offsets.committed.items()
        if not offsets.is_unstable(topic, partition) and _expired(starts(topic, committed), committed, now, retention)
    ]
    for topic, partition in gone:
        offsets.forget(topic, partition)
    return gone


def next_expiry(offsets: Offsets, starts: RetentionStart, retention: float) -> float:
    """When the first offset expires, or could, if nothing else happens in the group; inf if none does."""
    first = inf
    for (topic, _), committed in offsets.committed.items():
        since = starts(topic, committed)
        if since is not None:
            first = min(first, since + retention if committed.expires is None else committed.expires)
    return first


def _expired(since: float | None, committed: Committed, now: float, retention: float) -> bool:
    if since is None:
        return False
    return now >= committed.expires if committed.expires is not None else now - since >= retention
