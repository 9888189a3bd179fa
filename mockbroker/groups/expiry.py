"""Which committed offsets have outlived their use.

Source: Kafka's OffsetMetadataManager.cleanupExpiredOffsets and ClassicGroup.offsetExpirationCondition.
"""

from __future__ import annotations

from math import inf

from mockbroker.groups.classic.state import ClassicGroup, State
from mockbroker.groups.classic.subscription import CONSUMER, subscribed_topics
from mockbroker.groups.consumer.state import ConsumerGroup
from mockbroker.groups.offsets import Committed


def expire(group: ClassicGroup | ConsumerGroup, now: float, retention: float) -> list[tuple[str, int]]:
    """Drop what has expired at ``now``; topics and partitions of it. ``retention``: seconds."""
    subscribed = _subscribed(group)
    gone = [
        (topic, partition)
        for (topic, partition), committed in group.offsets.committed.items()
        if not group.offsets.is_unstable(topic, partition)
        and _expired(_counts_from(group, topic, committed, subscribed), committed, now, retention)
    ]
    for topic, partition in gone:
        group.offsets.forget(topic, partition)
    return gone


def next_expiry(group: ClassicGroup | ConsumerGroup, retention: float) -> float:
    """When the first offset expires, or could, if nothing else happens in the group; inf if none does."""
    subscribed, first = _subscribed(group), inf
    for (topic, _), committed in group.offsets.committed.items():
        since = _counts_from(group, topic, committed, subscribed)
        if since is not None:
            first = min(first, since + retention if committed.expires is None else committed.expires)
    return first


def _subscribed(group: ClassicGroup | ConsumerGroup) -> set[str] | None:
    return subscribed_topics(group) if isinstance(group, ClassicGroup) and group.state is State.STABLE else None


def _expired(since: float | None, committed: Committed, now: float, retention: float) -> bool:
    if since is None:
        return False
    return now >= committed.expires if committed.expires is not None else now - since >= retention


def _counts_from(
    group: ClassicGroup | ConsumerGroup, topic: str, committed: Committed, subscribed: set[str] | None
) -> float | None:
    """From when on the retention runs; None while the group still needs the offset."""
    if isinstance(group, ConsumerGroup):
        return None if group.reads(topic) else committed.at
    if not group.protocol_type:
        return committed.at  # nobody ever joined: offsets of a simple consumer
    if group.state is State.EMPTY:
        return max(group.since, committed.at)
    if group.state is State.STABLE and group.protocol_type == CONSUMER and subscribed is not None:
        return None if topic in subscribed else committed.at
    return None


def is_over(group: ClassicGroup | ConsumerGroup) -> bool:
    """True if nothing is left of the group: no members, no offsets, not even in an open transaction."""
    pending = isinstance(group, ClassicGroup) and bool(group.pending)
    return group.empty and not group.offsets.committed and not group.offsets.pending and not pending
