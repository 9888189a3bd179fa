"""Group events: the rows of ``group_events``, and the names of the kinds of events.

An event depends on one call only (a request with its response). Facts that depend on several calls, such as owners of
partitions and triggers of rebalances, are computed in ``groups.history``. If a call contains a topic id without the
topic name, the topic of the event is the text ``id:`` followed by the topic id. ``name_topics`` replaces this text by
the topic name.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby, pairwise, repeat
from operator import attrgetter
from typing import Annotated, Any, get_type_hints

from kwire.analysis.columns import (
    CAPTURE_ID,
    CLIENT,
    CLUSTER,
    CONNECTION,
    GENERATION,
    GROUP,
    INSTANCE,
    LIFE,
    MEMBER,
    PROTOCOL,
    Column,
    ColumnRows,
    Row,
    flag,
    integer,
    long,
    moment,
    text,
    texts,
)
from kwire.analysis.native import new_columns
from kwire.errorcodes import ErrorCode
from kwire.lazy_dataclass import dataclass

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"
ACKNOWLEDGED = ("gaps", "accepted", "released", "rejected", "renewed")  # events by Kafka's acknowledge type
SHARE_RECORDS = frozenset({"acquired", *ACKNOWLEDGED})
FEW = 1_000  # maximum number of events that are inserted one by one into a sorted list

EVENTS: Mapping[str, str] = {
    "join_sent": "JoinGroup, or a first heartbeat (epoch 0); `topics`: subscription, `partitions`: owned partitions",
    "member_id_given": "the response MEMBER_ID_REQUIRED, with the member id for the next JoinGroup (KIP-394)",
    "join_done": "response to a join: `generation`; classic also `leader`, `protocol_name`; to the leader `members`",
    "join_error": "response to a join with an error",
    "sync_sent": "SyncGroup",
    "planned": "assignment of one member in the leader's SyncGroup: `partitions`",
    "sync_done": "response to SyncGroup: `partitions` of the member",
    "sync_error": "response to SyncGroup with an error, often REBALANCE_IN_PROGRESS",
    "heartbeat": "heartbeat whose response changes nothing; without a response, at the time of the request",
    "heartbeat_error": "response to a heartbeat with an error; after REBALANCE_IN_PROGRESS the member rejoins",
    "leave": "a member leaves, or an admin client removes it; `generation` -2: a static member leaves temporarily",
    "subscribed": "KIP-848: a heartbeat with a subscription",
    "owned": "KIP-848: a heartbeat with the owned partitions, which acknowledges a revocation",
    "epoch_change": "KIP-848: the member receives another epoch",
    "assigned": "KIP-848: the member receives its assignment",
    "fenced": "KIP-848: the member id is unknown or the epoch is wrong, so the member rejoins",
    "commit": "an offset of a partition is committed",
    "commit_error": "an offset commit is rejected",
    "txn_commit": "an offset is committed in a transaction; `offset_commits.outcome` is its outcome",
    "txn_commit_error": "an offset commit in a transaction is rejected",
    "acquired": "share groups: a member acquires `records` offsets from `first_offset` on with a ShareFetch",
    "accepted": "share groups: a member acknowledges records as processed",
    "released": "share groups: a member releases records, which are then delivered again",
    "rejected": "share groups: a member rejects records, which are not delivered again",
    "renewed": "share groups: a member renews the locks of records",
    "gaps": "share groups: a member acknowledges offsets without records",
    "coordinator_found": "FindCoordinator; `leader`: host:port of the coordinator",
    "coordinator_error": "FindCoordinator returns an error",
    "coordinator_moved": "inferred: the coordinator moved to another broker",
    "member_silent": "inferred: a member expired: it sends no more requests, and the group continues without it",
    "static_restart": "inferred: a static member rejoined; `reason`: old member id, and whether a rebalance followed",
    "revocation_acknowledged": "inferred: a member no longer owns partitions that it had to revoke",
}


@dataclass(slots=True, kw_only=True)
class GroupEvent:
    """An event of a group: a row of ``group_events`` without the columns ``capture_id``, ``cluster`` and ``life``.

    The annotation of each field contains the description of the column with the same name.
    """

    ts: Annotated[
        int,
        moment(
            "ts",
            "time of the request for events that a member causes, time of the response for events that a broker causes",
        ),
    ]
    group_id: Annotated[str, GROUP]
    protocol: Annotated[str | None, PROTOCOL]
    event: Annotated[str, text("event", "kind of the event, see below")]
    inferred: Annotated[
        bool,
        flag(
            "inferred",
            "true if no frame contains the event: it follows from missing requests, or from a difference between two "
            "responses",
        ),
    ] = False
    member_id: Annotated[str | None, MEMBER] = None
    instance_id: Annotated[str | None, INSTANCE] = None
    client_id: Annotated[str | None, CLIENT] = None
    host: Annotated[str | None, text("host", "IP address of the client")] = None
    generation: Annotated[int | None, GENERATION] = None
    error_code: Annotated[
        int | None, integer("error_code", "error code in the response, for this member or partition")
    ] = None
    error_name: Annotated[str | None, text("error_name", "Kafka's name of the error code")] = None
    reason: Annotated[
        str | None, text("reason", "reason in the request; of an inferred event, the observation from which it follows")
    ] = None
    session_timeout_ms: Annotated[int | None, integer("session_timeout_ms", "of a JoinGroup", "ms")] = None
    rebalance_timeout_ms: Annotated[
        int | None, integer("rebalance_timeout_ms", "of a JoinGroup or a full heartbeat", "ms")
    ] = None
    interval_ms: Annotated[int | None, integer("interval_ms", "heartbeat interval in a KIP-848 response", "ms")] = None
    protocol_name: Annotated[
        str | None,
        text("protocol_name", "assignor: of the group in a JoinGroup response, of the member in a heartbeat"),
    ] = None
    leader: Annotated[
        str | None, text("leader", "member id of the leader; in events about the coordinator, its host:port")
    ] = None
    node_id: Annotated[
        int | None, integer("node_id", "broker id of the coordinator, in events about the coordinator")
    ] = None
    members: Annotated[list[str] | None, texts("members", "member ids in the JoinGroup response to the leader")] = None
    topics: Annotated[
        list[str] | None, texts("topics", "subscription; a regular expression is written as `/regex/`")
    ] = None
    partitions: Annotated[
        list[str] | None,
        texts(
            "partitions",
            "owned, received or planned partitions, as `topic-partition`; null if the message contains none",
        ),
    ] = None
    topic: Annotated[str | None, text("topic", "of a commit")] = None
    partition: Annotated[int | None, integer("partition", "of a commit")] = None
    offset: Annotated[int | None, long("offset", "of a commit", "records")] = None
    metadata: Annotated[str | None, text("metadata", "of a commit")] = None
    transactional_id: Annotated[str | None, text("transactional_id", "of a TxnOffsetCommit")] = None
    producer_id: Annotated[int | None, long("producer_id", "of a TxnOffsetCommit")] = None
    producer_epoch: Annotated[int | None, integer("producer_epoch", "of a TxnOffsetCommit")] = None
    first_offset: Annotated[int | None, long("first_offset", "of acquired or acknowledged records")] = None
    records: Annotated[int | None, long("records", "acquired or acknowledged offsets", "count")] = None
    deliveries: Annotated[
        int | None, integer("deliveries", "largest delivery count of the acquired records", "count")
    ] = None
    standby: Annotated[
        list[str] | None,
        texts("standby", "standby tasks of a member of a streams group; its active tasks are in `partitions`"),
    ] = None
    broker: Annotated[str | None, text("broker", "host:port")] = None
    conn_id: Annotated[str | None, CONNECTION] = None
    number: Annotated[int, long("number", "number of the call on its connection, as in `frames`", "count")] = 0
    part: Annotated[int, integer("part", "index of the event among the events of its call", "count")] = 0

    def row(self, capture_id: str, cluster: str | None = None, life: int | None = None) -> Row:
        """Return the event as a row of ``group_events``.

        Args:
            capture_id: id of the capture.
            cluster: cluster of the broker; None if unknown.
            life: number of the life of the group, from 1; None if unknown. A life ends when the group is deleted,
                expires or loses its state. A later group with the same id is the next life.
        """
        return {
            "capture_id": capture_id,
            "ts": self.ts,
            "group_id": self.group_id,
            "cluster": cluster,
            "life": life,
            "protocol": self.protocol,
            "event": self.event,
            "inferred": self.inferred,
            "member_id": self.member_id,
            "instance_id": self.instance_id,
            "client_id": self.client_id,
            "host": self.host,
            "generation": self.generation,
            "error_code": self.error_code,
            "error_name": self.error_name,
            "reason": self.reason,
            "session_timeout_ms": self.session_timeout_ms,
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "interval_ms": self.interval_ms,
            "protocol_name": self.protocol_name,
            "leader": self.leader,
            "node_id": self.node_id,
            "members": self.members,
            "topics": self.topics,
            "partitions": self.partitions,
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "metadata": self.metadata,
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
            "first_offset": self.first_offset,
            "records": self.records,
            "deliveries": self.deliveries,
            "standby": self.standby,
            "broker": self.broker,
            "conn_id": self.conn_id,
            "number": self.number,
            "part": self.part,
        }

    @property
    def coordinator(self) -> int | str | None:
        """The coordinator in an event about it: its broker id; its host:port if the event has no broker id.

        A broker has an address for each listener, so two addresses can be those of one broker.
        """
        return self.leader if self.node_id is None else self.node_id

    @property
    def key(self) -> tuple[int, str, int, int]:
        """The sort key of an event: time, connection id, number of the call, and index of the event in the call."""
        return self.ts, self.conn_id or "", self.number, self.part


def _declared() -> Iterator[Column]:
    for name, hint in get_type_hints(GroupEvent, include_extras=True).items():
        (column,) = hint.__metadata__
        assert column.name == name, f"field {name} is declared with column {column.name}"
        yield column


_ts, _group_id, *_others = _declared()
EVENT_COLUMNS = (_ts, _group_id, CLUSTER, LIFE, *_others)
"""The columns of ``group_events``, without ``capture_id``."""
_COLUMNS = (CAPTURE_ID, *EVENT_COLUMNS)
_SLOTS = [column.name if column.name in GroupEvent.__slots__ else None for column in _COLUMNS]


class EventRows(ColumnRows):
    """Rows of ``group_events``. They are created when they are read, because a row takes three times the memory of its
    event.

    Args:
        capture_id: id of the capture.
        parts: events in the order of the rows, as triples: events, their cluster (None if unknown), and the number of
            their life. A life ends when the group is deleted, expires or loses its state.

    Attributes:
        parts: the triples.
    """

    def __init__(
        self, capture_id: str, parts: Iterable[tuple[Sequence[GroupEvent], str | None, int | None]] = ()
    ) -> None:
        self._capture_id = capture_id
        self.parts = [*parts]

    def __len__(self) -> int:
        return sum(len(events) for events, _, _ in self.parts)

    def __iter__(self) -> Iterator[Row]:
        capture_id = self._capture_id
        return (event.row(capture_id, cluster, life) for events, cluster, life in self.parts for event in events)

    def packed(self) -> Any:
        columns = new_columns([column.type for column in _COLUMNS], _SLOTS, GroupEvent)
        if columns is not None:
            for events, cluster, life in self.parts:
                columns.add_all([*events], (self._capture_id, cluster, life))
        return columns

    def row(self, number: int) -> Row:
        place, part = number, 0
        while place >= len(self.parts[part][0]):
            place -= len(self.parts[part][0])
            part += 1
        events, cluster, life = self.parts[part]
        return events[place].row(self._capture_id, cluster, life)

    def column(self, name: str) -> list[Any]:
        if name == "capture_id":
            return [self._capture_id] * len(self)
        values: list[Any] = []
        read: Callable[[GroupEvent], Any] = attrgetter(name)
        for events, cluster, life in self.parts:
            if name in ("cluster", "life"):
                values += repeat(cluster if name == "cluster" else life, len(events))
            else:
                values += map(read, events)
        return values


_KEY = attrgetter("ts", "conn_id", "number", "part")


def by_key(events: Iterable[GroupEvent]) -> list[GroupEvent]:
    """Return the events, sorted by ``key``."""
    kept = [*events]
    try:
        return sorted(kept, key=_KEY)  # in half the time; it fails only if None is compared with a connection id
    except TypeError:
        return sorted(kept, key=lambda event: event.key)


def in_order(parts: Sequence[tuple[Sequence[GroupEvent], int]]) -> list[tuple[Sequence[GroupEvent], int]]:
    """Return the events of one group in the order of ``group_events``.

    ``parts``: for each life of the group, in order, its sorted events and its number. If lives overlap in time, the
    result has several pairs for a life: each contains consecutive events of the life, and its number.
    """
    if all(before[-1].key <= after[0].key for (before, _), (after, _) in pairwise(parts)):
        return [*parts]
    every = sorted(((event, life) for events, life in parts for event in events), key=lambda one: one[0].key)
    return [([event for event, _ in run], life) for life, run in groupby(every, key=lambda one: one[1])]


def merged(events: Sequence[GroupEvent], more: Sequence[GroupEvent]) -> Sequence[GroupEvent]:
    """Return the events of both arguments, sorted by ``key``. ``events`` must be sorted; ``more`` usually is short."""
    if len(more) > FEW:
        return by_key([*events, *more])
    if not more:
        return events
    ordered = [*events]
    for event in more:
        insort(ordered, event, key=lambda event: event.key)
    return ordered


@lru_cache(256)
def error_name(code: int | None) -> str | None:
    """Return Kafka's name of an error code; the number as text for an unknown code, and None for None."""
    if code is None:
        return None
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


@lru_cache(256)
def host_of(endpoint: str) -> str:
    """Return the host of an endpoint of the form ``host:port``, or of a frame log of mockbroker, which has no port."""
    host, colon, _ = endpoint.rpartition(":")
    return host if colon else endpoint


def partition_name(topic: str, partition: int) -> str:
    """Return a partition in Kafka's notation: ``orders-3``."""
    return f"{topic}-{partition}"


def split_partition(name: str) -> tuple[str, int]:
    """Return the topic and the partition number of a name such as ``orders-3``."""
    topic, _, partition = name.rpartition("-")
    return topic, int(partition)


def name_topics(event: GroupEvent, names: Mapping[str, str]) -> GroupEvent:
    """Return the event with topic names in place of topic ids. A topic id whose name is unknown is not replaced.

    ``names``: topic names; a key is the text ``id:`` followed by the topic id.
    """
    if event.topic is not None and event.topic in names:
        event = replace(event, topic=names[event.topic])
    if event.partitions and any(partition.startswith("id:") for partition in event.partitions):
        event = replace(event, partitions=sorted(_named(partition, names) for partition in event.partitions))
    return event


def _named(partition: str, names: Mapping[str, str]) -> str:
    topic, number = split_partition(partition)
    return partition_name(names.get(topic, topic), number)
