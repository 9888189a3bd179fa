"""The kinds of events in the journal of groups, transactions and clients."""

from __future__ import annotations

from enum import StrEnum


class EventKind(StrEnum):
    """A kind of event, the ``event`` of a journal entry. A kind is a string and equals its name, such as ``"join"``."""

    # A member's value is its name alone: pyright would not compare one that ``__new__`` makes of a tuple with a text.
    ID_GIVEN = "id_given"
    JOIN = "join"
    REJOIN = "rejoin"
    REBALANCE = "rebalance"
    GENERATION = "generation"
    SYNC = "sync"
    ASSIGN = "assign"
    LEAVE = "leave"
    AWAY = "away"
    EXPIRE = "expire"
    EMPTY = "empty"
    COMMIT = "commit"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    OFFSET_EXPIRE = "offset_expire"
    DELETE = "delete"
    TXN_BEGIN = "txn_begin"
    TXN_PREPARE = "txn_prepare"
    TXN_COMMIT = "txn_commit"
    TXN_ABORT = "txn_abort"
    TXN_EXPIRE = "txn_expire"
    TXN_FENCE = "txn_fence"
    UNLOAD = "unload"
    LOAD = "load"
    FAULT = "fault"
    TELEMETRY = "telemetry"
    SHARE_RECORDS = "share_records"
    RELEASE = "release"
    DEPARTURE = "departure"

    @property
    def meaning(self) -> str:
        """One sentence in Markdown that describes when the journal gets an event of this kind."""
        return _MEANINGS[self]


_MEANINGS = {
    EventKind.ID_GIVEN: "The coordinator rejects a first JoinGroup and returns a member id for the next one (KIP-394).",
    EventKind.JOIN: "A new member joins.",
    EventKind.REJOIN: "A member joins again, or a static member returns with a new member id.",
    EventKind.REBALANCE: "A rebalance begins; `reason` names its cause.",
    EventKind.GENERATION: (
        "The join phase ends and a generation begins; in a group of the consumer protocol, the coordinator "
        "has made the target assignment of an epoch."
    ),
    EventKind.SYNC: "A member sends a SyncGroup.",
    EventKind.ASSIGN: (
        "A member is assigned partitions; in a group of the consumer protocol, a member reaches an epoch, or "
        "its assignment changes before it reaches the epoch."
    ),
    EventKind.LEAVE: "A member leaves, or an administrator removes it.",
    EventKind.AWAY: (
        "A static member of a group of the consumer protocol leaves temporarily and keeps its assignment (epoch -2)."
    ),
    EventKind.EXPIRE: (
        "A member, or a member id that was never used, is evicted; `reason` names the timeout, the limit, the"
        " fault rule or the administrator's reason."
    ),
    EventKind.EMPTY: "The last member has left or was evicted.",
    EventKind.COMMIT: "Offsets are committed, by a client or at the end of a transaction.",
    EventKind.UPGRADE: "A classic group becomes a group of the consumer protocol.",
    EventKind.DOWNGRADE: "A group of the consumer protocol becomes a classic group.",
    EventKind.OFFSET_EXPIRE: "A committed offset is deleted because its retention time is over.",
    EventKind.DELETE: "The group is deleted.",
    EventKind.TXN_BEGIN: "A transaction begins, with the first partition or group that the producer adds to it.",
    EventKind.TXN_PREPARE: (
        "The transaction coordinator decides the end of a transaction; `reason` is `commit` or `abort`."
    ),
    EventKind.TXN_COMMIT: "All markers are written, and the transaction is committed.",
    EventKind.TXN_ABORT: "All markers are written, and the transaction is aborted.",
    EventKind.TXN_EXPIRE: (
        "A transaction exceeds its timeout: its producer is fenced, and the transaction is aborted."
    ),
    EventKind.TXN_FENCE: "A producer is fenced: another producer calls InitProducerId with the same transactional id.",
    EventKind.UNLOAD: "The broker that coordinated the group unloads it, because its partition gets another leader.",
    EventKind.LOAD: "A new coordinator has read the group from the offsets topic.",
    EventKind.FAULT: (
        "A fault rule is applied to a request or a connection, or a preset changes the cluster; `fault` is "
        "the name of the rule or the preset, `reason` the API and the action, or the change."
    ),
    EventKind.TELEMETRY: (
        "A client pushes its metrics (KIP-714); `telemetry` contains them, or their size if they cannot be decoded."
    ),
    EventKind.SHARE_RECORDS: (
        "A member of a share group acquires or acknowledges records, or their acquisition locks end; "
        "`records` has the numbers by topic and partition: `acquired`, `accepted`, `released`, `rejected`, "
        "`renewed`, `gap`, `archived`."
    ),
    EventKind.RELEASE: "Requests that a fault rule has held are released; `fault` names the rule.",
    EventKind.DEPARTURE: (
        "A request is not in the recording that `mockbroker replay` replays; `reason` is the first difference."
    ),
}

FREQUENT = frozenset(
    {
        EventKind.COMMIT,
        EventKind.OFFSET_EXPIRE,
        EventKind.TXN_BEGIN,
        EventKind.TXN_PREPARE,
        EventKind.TXN_COMMIT,
        EventKind.TXN_ABORT,
        EventKind.FAULT,
        EventKind.TELEMETRY,
        EventKind.SHARE_RECORDS,
        EventKind.RELEASE,
        EventKind.DEPARTURE,
    }
)  # the kinds that an application causes all the time; the others are changes of groups, and fenced producers


def event_table() -> str:
    """Return all kinds of events as a Markdown table."""
    rows = [f"| `{kind}` | {kind.meaning} |" for kind in EventKind]
    return "\n".join(["| event | what happened |", "|---|---|", *rows]) + "\n"
