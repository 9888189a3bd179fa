"""Stable groups of the draft of 0.9, and queries of their traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mockbroker.lab.history.draft import DraftCluster, DraftSettings, Error, Moment, Options, owners
from mockbroker.lab.history.draft.messages import HeartbeatRequest, JoinGroupRequest, OffsetCommitRequest
from mockbroker.lab.history.draft.rules import Cause

GROUP, TOPIC, WARM = "g", "orders", 20.0
ILLEGAL = Error.ILLEGAL_GENERATION


def settled(
    members: int = 2,
    partitions: int = 4,
    *,
    options: Options | Sequence[Options] | None = None,
    settings: DraftSettings | None = None,
    delays: Mapping[str, float] | None = None,
) -> DraftCluster:
    """Return a cluster whose consumers c1, c2 ... are in a stable group at WARM. ``delays``: delays of heartbeats."""
    cluster = DraftCluster({TOPIC: partitions}, settings=settings)
    cluster.delays.update(delays or {})
    listed = list(options) if isinstance(options, Sequence) else [options] * members
    for one in listed:
        cluster.add(GROUP, [TOPIC], one)
    cluster.run(WARM)
    assert cluster.is_settled(GROUP)
    return cluster


def moments(
    cluster: DraftCluster,
    kind: str | None = None,
    what: str | None = None,
    consumer: str | None = None,
    *,
    error: Error | None = None,
    since: float = WARM,
) -> list[Moment]:
    """Return the moments of the trace since a time that match all filters."""
    return [
        moment
        for moment in cluster.trace
        if moment.time >= since
        and kind in (None, moment.kind)
        and what in (None, moment.what)
        and consumer in (None, moment.consumer)
        and error in (None, moment.error)
    ]


def noticed(cluster: DraftCluster, cause: Cause, since: float = WARM) -> list[float]:
    """Return the times at which a cause of a rebalance was noticed."""
    return [moment.time for moment in moments(cluster, "noticed", cause.value, since=since)]


def became(cluster: DraftCluster, consumer: str, since: float = WARM) -> list[str]:
    """Return the states of a consumer, in order."""
    return [moment.what for moment in moments(cluster, "became", consumer=consumer, since=since)]


def generation(cluster: DraftCluster) -> int:
    return cluster.store.read(GROUP).generation


def last_heartbeat(cluster: DraftCluster, consumer: str) -> float:
    """Return the time of the last heartbeat of a consumer at the coordinator."""
    return moments(cluster, "received", "Heartbeat", consumer, since=0.0)[-1].time


def reads(cluster: DraftCluster, consumer: str, since: float = WARM, until: float = float("inf")) -> list[float]:
    """Return the times at which a consumer read records."""
    return sorted({time for time, who, _, _ in cluster.records if who == consumer and since <= time <= until})


def assert_shared(
    cluster: DraftCluster, partitions: int, consumers: set[str], topics: Sequence[str] = (TOPIC,)
) -> None:
    """Check that each partition has one owner, and that exactly these consumers own partitions."""
    owners_by_partition = owners(cluster.spans, GROUP, cluster.now)
    assert sorted(owners_by_partition) == sorted((topic, number) for topic in topics for number in range(partitions))
    assert all(len(who) == 1 for who in owners_by_partition.values())
    assert {who for (who,) in owners_by_partition.values()} == consumers


def beat(consumer_id: str | None, of: int) -> HeartbeatRequest:
    return HeartbeatRequest(group=GROUP, consumer_id=consumer_id, generation=of)


def commit(consumer_id: str | None, of: int, offset: int = 1) -> OffsetCommitRequest:
    return OffsetCommitRequest(group=GROUP, consumer_id=consumer_id, generation=of, offsets={(TOPIC, 0): offset})


def join(consumer_id: str | None = None, strategy: str = "range", session: float = 6.0) -> JoinGroupRequest:
    return JoinGroupRequest(
        group=GROUP, consumer_id=consumer_id, host="host", topics=(TOPIC,), strategy=strategy, session_timeout=session
    )
