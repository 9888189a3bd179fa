"""The keys of the broker's deadlines. The type of a key determines what happens at the deadline.

The deadline of a group has the group id as key, because a plain string is faster than an object.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TypeAlias
from uuid import UUID

from kwire.lazy_dataclass import dataclass
from mockbroker.base.effects import Dismiss, Ticket


@dataclass(frozen=True, slots=True)
class FetchDue:
    """The key of the deadline of a pending Fetch, the end of its maximum wait (``max_wait_ms``).

    ``ticket``: the ticket of the request.
    """

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
        what: The response, with the reason for closing the connection. None in a key that is only used to look up or
            remove the deadline.
    """

    ticket: Ticket
    what: Dismiss | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TransactionDue:
    """The key of the next deadline of a transaction: the end of its timeout, or the time to write its markers.

    ``transactional_id``: transactional id of the producer.
    """

    transactional_id: str


@dataclass(frozen=True, slots=True)
class LoadDue:
    """The key of the time at which a coordinator has loaded its partition of ``__consumer_offsets``.

    Attributes:
        index: Index of the partition of ``__consumer_offsets``.
    """

    index: int


@dataclass(frozen=True, slots=True)
class LossDue:
    """The key of the time at which the cluster detects the loss of a broker, and other brokers become leaders.

    Attributes:
        node: Id of the lost broker.
    """

    node: int


@dataclass(frozen=True, slots=True)
class StageDue:
    """The key of the time at which a stage of request processing (fault rules, quotas) continues a request or a
    connection.

    Attributes:
        ticket: Identity of the request.
    """

    ticket: Ticket


@dataclass(frozen=True, slots=True)
class ScriptDue:
    """The key of the next step of a script (the list of timed cluster changes of a preset).

    Attributes:
        name: Name of the script.
        run: Function that makes the changes that are due, called with the broker time in seconds. None in a key that is
            only used to look up or remove the deadline.
    """

    name: str
    run: Callable[[float], None] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class _ReplicaDue:
    """The base class of the keys of deadlines of one replica of a partition.

    Attributes:
        topic_id: Id of the topic.
        partition: Partition index.
        node: Broker id of the replica.
    """

    topic_id: UUID
    partition: int
    node: int


class CatchUpDue(_ReplicaDue):
    """The key of the time at which a new replica of a partition is in sync (``mockbroker.replica.catch.up.ms``)."""

    __slots__ = ()


class MoveDue(_ReplicaDue):
    """The key of the time at which a replica has moved to its new log directory.

    The move takes ``mockbroker.replica.catch.up.ms``.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ConnectionDue:
    """The key of the end of a new connection's delay, at which the connection is accepted or closed.

    Attributes:
        number: Number of the delayed connection.
        run: Function that is called with the broker time in seconds at the deadline. None in a key that is only used to
            look up or remove the deadline.
    """

    number: int
    run: Callable[[float], None] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ShareLockDue:
    """The key of the time at which the next acquisition lock of a share partition expires.

    Attributes:
        key: Group id, topic id and partition index (``StateKey`` of share/state.py).
    """

    key: tuple[str, UUID, int]


@dataclass(frozen=True, slots=True)
class ShareFetchDue:
    """The key of the deadline of a pending ShareFetch, the end of its maximum wait (``max_wait_ms``).

    ``ticket``: the ticket of the request.
    """

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
        topic_id: Id of the topic.
        partition: Partition index.
    """

    topic_id: UUID
    partition: int


@dataclass(frozen=True, slots=True)
class CompactionDue:
    """The key of the time at which the log cleaner next checks a partition, or continues its compaction.

    Attributes:
        topic_id: Id of the topic.
        partition: Partition index.
    """

    topic_id: UUID
    partition: int


@dataclass(frozen=True, slots=True)
class ProducersDue:
    """The key of the next check of a partition for expired producers (``producer.id.expiration.check.interval.ms``).

    Attributes:
        topic_id: Id of the topic.
        partition: Partition index.
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
