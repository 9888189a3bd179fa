"""What happens in groups, one thing after the other: rows of ``group_events``, and the words for it.

What depends on more than one call - who owned what, what set off a rebalance - is for ``history``. Topics of which a
call has only the id stand as ``id:...`` until ``name_topics`` is given the names that other calls told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from typing import Any

from kwire.analysis.columns import Row
from kwire.errorcodes import ErrorCode

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"

EVENTS: Mapping[str, str] = {
    "join_sent": "a JoinGroup, or a first heartbeat (epoch 0): `topics` subscribed, `partitions` still owned",
    "member_id_given": "the answer MEMBER_ID_REQUIRED: a member id to join with (KIP-394)",
    "join_done": "the answer: `generation`; classic also `leader`, `protocol_name`, and to the leader `members`",
    "join_error": "the answer refuses",
    "sync_sent": "a SyncGroup",
    "planned": "what the leader's SyncGroup gives to one member: `partitions`",
    "sync_done": "the answer: `partitions` of the member",
    "sync_error": "the answer refuses, often with REBALANCE_IN_PROGRESS",
    "heartbeat": "a heartbeat that was answered without news; at the time of its request if no answer was seen",
    "heartbeat_error": "a heartbeat was answered with an error; REBALANCE_IN_PROGRESS asks to rejoin",
    "leave": "a member leaves by itself (or is removed by an admin); `generation` -2: a static one that will come back",
    "subscribed": "KIP-848: a heartbeat that says what is subscribed",
    "owned": "KIP-848: a heartbeat that says what the member owns: how it acknowledges a revocation",
    "epoch_change": "KIP-848: the member is told another epoch",
    "assigned": "KIP-848: the member is told what it should own",
    "fenced": "KIP-848: the member is not known, or its epoch is not right: it starts over",
    "commit": "an offset of a partition is committed",
    "commit_error": "the same, refused",
    "txn_commit": "an offset is committed in a transaction; `offset_commits.outcome` is its outcome",
    "txn_commit_error": "the same, refused",
    "coordinator_found": "FindCoordinator: `leader` is where the coordinator is",
    "coordinator_error": "FindCoordinator is refused",
    "coordinator_moved": "inferred: the coordinator is not where it was",
    "member_silent": "inferred: a member is not heard of for its session timeout, and the group goes on without it",
    "static_restart": "inferred: a static member came back; `reason` says which id it had, and if a rebalance followed",
    "revocation_acknowledged": "inferred: a member does not own any more what it was told to give up",
}


@dataclass(slots=True, kw_only=True)
class GroupEvent:
    """A row of ``group_events``; the columns say what each field is. Its capture, cluster and life are not its own."""

    ts: int
    group_id: str
    protocol: str | None
    event: str
    inferred: bool = False
    member_id: str | None = None
    instance_id: str | None = None
    client_id: str | None = None
    host: str | None = None
    generation: int | None = None
    error_code: int | None = None
    error_name: str | None = None
    reason: str | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    interval_ms: int | None = None
    protocol_name: str | None = None
    leader: str | None = None
    members: list[str] | None = None
    topics: list[str] | None = None
    partitions: list[str] | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    metadata: str | None = None
    transactional_id: str | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    broker: str | None = None
    conn_id: str | None = None
    number: int = 0
    part: int = 0

    def row(self, capture_id: str, cluster: str | None = None, life: int | None = None) -> Row:
        """The row."""
        ts, group_id, *rest = _values(self)
        return dict(zip(_COLUMNS, (capture_id, ts, group_id, cluster, life, *rest), strict=True))

    @property
    def key(self) -> tuple[int, str, int, int]:
        """What events of a group are sorted by."""
        return self.ts, self.conn_id or "", self.number, self.part


_FIELDS = tuple(GroupEvent.__slots__)
_COLUMNS = ("capture_id", *_FIELDS[:2], "cluster", "life", *_FIELDS[2:])
_values = attrgetter(*_FIELDS)


def event_of(row: Mapping[str, Any]) -> GroupEvent:
    """The event of a row, whatever else the row has."""
    return GroupEvent(**{name: row[name] for name in _FIELDS})


@lru_cache(256)
def error_name(code: int | None) -> str | None:
    """Kafka's name of an error code, or its number if it is none of Kafka's."""
    if code is None:
        return None
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def partition_name(topic: str, partition: int) -> str:
    """``orders-3``, as Kafka writes it."""
    return f"{topic}-{partition}"


def split_partition(name: str) -> tuple[str, int]:
    """The topic and the partition of ``orders-3``."""
    topic, _, partition = name.rpartition("-")
    return topic, int(partition)


def name_topics(event: GroupEvent, names: Mapping[str, str]) -> GroupEvent:
    """The event, with the names of the topics that it has by id."""
    if event.topic is not None and event.topic in names:
        event = replace(event, topic=names[event.topic])
    if event.partitions and any(partition.startswith("id:") for partition in event.partitions):
        event = replace(event, partitions=sorted(_named(partition, names) for partition in event.partitions))
    return event


def _named(partition: str, names: Mapping[str, str]) -> str:
    topic, number = split_partition(partition)
    return partition_name(names.get(topic, topic), number)
