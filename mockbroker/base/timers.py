"""The keys of the broker's deadlines. The type of a key determines what happens at the deadline.

The next deadline of a group has a plain string as key, the group id, because that is faster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias
from uuid import UUID

from mockbroker.base.effects import Dismiss, Ticket


@dataclass(frozen=True, slots=True)
class FetchDue:
    """The key of the deadline of a pending Fetch, the end of its maximum wait (``max_wait_ms``)."""

    ticket: Ticket


@dataclass(frozen=True, slots=True)
class SweepDue:
    """The key of the next check for expired offsets (``offsets.retention.check.interval.ms``)."""


@dataclass(frozen=True, slots=True)
class TokenSweepDue:
    """The key of the next check for expired delegation tokens (``delegation.token.expiry.check.interval.ms``)."""


@dataclass(frozen=True, slots=True)
class DismissDue:
    """The key of the delayed response to a failed authentication (``connection.failed.authentication.delay.ms``).

    Attributes:
        ticket: Identity of the request.
        what: The response and the reason for closing the connection; None in a key that only serves to look up the
            deadline.
    """

    ticket: Ticket
    what: Dismiss | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TransactionDue:
    """The key of the deadline of a transaction: its timeout, or the time to write its markers."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class LoadDue:
    """Deadline key: a coordinator has loaded its partition of ``__consumer_offsets``.

    Attributes:
        index: Index of the partition.
    """

    index: int


@dataclass(frozen=True, slots=True)
class LossDue:
    """The key of the time at which the cluster detects the loss of a broker and other brokers take over its partitions.

    Attributes:
        node: Id of the lost broker.
    """

    node: int


@dataclass(frozen=True, slots=True)
class StageDue:
    """Deadline key: a request-processing stage has work, such as the end of a delay.

    Attributes:
        ticket: Identity of the request.
    """

    ticket: Ticket


@dataclass(frozen=True, slots=True)
class ScriptDue:
    """The key of the next step of a script, such as the next restart of a rolling restart.

    Attributes:
        name: Name of the script.
        run: Function that does the step, called with the broker's time in seconds; None in a key that only serves to
            look up the deadline.
    """

    name: str
    run: Callable[[float], None] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class _ReplicaDue:
    """The key of a time that concerns a replica of a partition.

    Attributes:
        topic_id: Topic id.
        partition: Partition number.
        node: Broker id of the replica.
    """

    topic_id: UUID
    partition: int
    node: int


class CatchUpDue(_ReplicaDue):
    """The key of the time at which a new replica of a partition is in sync (``mockbroker.replica.catch.up.ms``)."""

    __slots__ = ()


class MoveDue(_ReplicaDue):
    """The key of the time at which a replica is in its new log directory (``mockbroker.replica.catch.up.ms``)."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ConnectionDue:
    """The key of the end of a new connection's delay, after which the connection is accepted or closed.

    Attributes:
        number: Number of the delayed connection.
        run: Function that is called with the broker's time at the deadline; None in a key that only serves to look up
            the deadline.
    """

    number: int
    run: Callable[[float], None] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ShareLockDue:
    """Deadline key: the next acquisition lock of a share partition ends.

    Attributes:
        key: Group id, topic id and partition number (``StateKey`` of share/state.py).
    """

    key: tuple[str, UUID, int]


@dataclass(frozen=True, slots=True)
class ShareFetchDue:
    """Deadline key: the maximum wait (``max_wait_ms``) of a pending ShareFetch ends."""

    ticket: Ticket


@dataclass(frozen=True, slots=True)
class ShareDisconnectDue:
    """The key of the time at which the share session of a closed connection ends.

    Attributes:
        connection: Number of the connection.
    """

    connection: int


@dataclass(frozen=True, slots=True)
class RetentionDue:
    """The key of the next check of a partition for segments that retention deletes.

    Attributes:
        topic_id: Topic id.
        partition: Partition number.
    """

    topic_id: UUID
    partition: int


@dataclass(frozen=True, slots=True)
class CompactionDue:
    """The key of the next check of a partition by the log cleaner, or of the next step of a compaction.

    Attributes:
        topic_id: Topic id.
        partition: Partition number.
    """

    topic_id: UUID
    partition: int


@dataclass(frozen=True, slots=True)
class ProducersDue:
    """The key of the next check of a partition for expired producers (``producer.id.expiration.check.interval.ms``).

    Attributes:
        topic_id: Topic id.
        partition: Partition number.
    """

    topic_id: UUID
    partition: int


@dataclass(frozen=True, slots=True)
class TransactionalIdsDue:
    """The key of the next check for expired transactional ids."""


Due: TypeAlias = (
    str
    | FetchDue
    | SweepDue
    | TokenSweepDue
    | TransactionDue
    | DismissDue
    | LoadDue
    | LossDue
    | StageDue
    | ScriptDue
    | ConnectionDue
    | CatchUpDue
    | MoveDue
    | ShareLockDue
    | ShareFetchDue
    | ShareDisconnectDue
    | RetentionDue
    | CompactionDue
    | ProducersDue
    | TransactionalIdsDue
)
SWEEP = SweepDue()
TOKEN_SWEEP = TokenSweepDue()
OF_LOGS = RetentionDue, CompactionDue, ProducersDue  # the types of keys that belong to a partition's log
TRANSACTIONAL_IDS = TransactionalIdsDue()
