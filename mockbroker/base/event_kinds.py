"""The kinds of events in the journal of groups, transactions and clients."""

from __future__ import annotations

from enum import StrEnum


class EventKind(StrEnum):
    """A kind of event, the ``event`` of a journal entry. A kind is equal to its name, such as ``"join"``.

    Attributes:
        meaning: One sentence that describes the kind, in Markdown.
    """

    _value_: str
    meaning: str

    def __new__(cls, value: str, meaning: str) -> EventKind:
        kind = str.__new__(cls, value)
        kind._value_ = value
        kind.meaning = meaning
        return kind

    ID_GIVEN = (
        "id_given",
        "The coordinator rejects a first JoinGroup and returns a member id for the next one (KIP-394).",
    )
    JOIN = "join", "A new member joins."
    REJOIN = "rejoin", "A member joins again, or a static member returns with a new member id."
    REBALANCE = "rebalance", "A rebalance begins; `reason` names its cause."
    GENERATION = (
        "generation",
        "The join phase ends and a generation begins; in a group of the consumer protocol, the coordinator has made "
        "the target assignment of an epoch.",
    )
    SYNC = "sync", "A member sends a SyncGroup."
    ASSIGN = (
        "assign",
        "A member is assigned partitions; in a group of the consumer protocol, a member reaches an epoch, or its "
        "assignment changes before it reaches the epoch.",
    )
    LEAVE = "leave", "A member leaves, or an administrator removes it."
    AWAY = (
        "away",
        "A static member of a group of the consumer protocol leaves temporarily and keeps its assignment (epoch -2).",
    )
    EXPIRE = (
        "expire",
        "A member, or a member id that was never used, is evicted; `reason` names the timeout, the limit, the fault "
        "rule or the administrator's reason.",
    )
    EMPTY = "empty", "The last member has left or was evicted."
    COMMIT = "commit", "Offsets are committed, by a client or at the end of a transaction."
    UPGRADE = "upgrade", "A classic group becomes a group of the consumer protocol."
    DOWNGRADE = "downgrade", "A group of the consumer protocol becomes a classic group."
    OFFSET_EXPIRE = "offset_expire", "A committed offset is deleted because its retention time is over."
    DELETE = "delete", "The group is deleted."
    TXN_BEGIN = "txn_begin", "A transaction begins, with the first partition or group that the producer adds to it."
    TXN_PREPARE = (
        "txn_prepare",
        "The transaction coordinator decides the end of a transaction; `reason` is `commit` or `abort`.",
    )
    TXN_COMMIT = "txn_commit", "All markers are written, and the transaction is committed."
    TXN_ABORT = "txn_abort", "All markers are written, and the transaction is aborted."
    TXN_EXPIRE = (
        "txn_expire",
        "A transaction exceeds its timeout, so that its producer is fenced and the transaction aborted.",
    )
    TXN_FENCE = "txn_fence", "A producer is fenced, because another one calls InitProducerId with its transactional id."
    UNLOAD = "unload", "The broker that coordinated the group unloads it, because its partition gets another leader."
    LOAD = "load", "A new coordinator has read the group from the offsets topic."
    FAULT = (
        "fault",
        "A fault rule is applied to a request or a connection, or a preset changes the cluster; `fault` is the name of "
        "the rule or the preset, `reason` the API and the action, or the change.",
    )
    TELEMETRY = (
        "telemetry",
        "A client pushes its metrics (KIP-714); `telemetry` contains them, or their size if they cannot be decoded.",
    )
    SHARE_RECORDS = (
        "share_records",
        "A member of a share group acquires or acknowledges records, or their acquisition locks end; `records` has the "
        "numbers by topic and partition: `acquired`, `accepted`, `released`, `rejected`, `renewed`, `gap`, `archived`.",
    )
    RELEASE = "release", "Requests that a fault rule has held are released; `fault` names the rule."


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
    }
)  # the kinds that an application causes all the time; the others are changes of groups, and fenced producers


def event_table() -> str:
    """Return all kinds of events as a Markdown table."""
    rows = [f"| `{kind}` | {kind.meaning} |" for kind in EventKind]
    return "\n".join(["| event | what happened |", "|---|---|", *rows]) + "\n"
