"""The keys of the broker's deadlines. The key of a group's next deadline is the group id, a plain string for speed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from mockbroker.base.effects import Dismiss, Ticket


@dataclass(frozen=True, slots=True)
class FetchDue:
    """The end of the maximum wait of a pending Fetch (``max_wait_ms``)."""

    ticket: Ticket


@dataclass(frozen=True, slots=True)
class SweepDue:
    """The next check for expired offsets (``offsets.retention.check.interval.ms``)."""


@dataclass(frozen=True, slots=True)
class DismissDue:
    """The delayed response to a failed authentication (``connection.failed.authentication.delay.ms``).

    Attributes:
        ticket: The request.
        what: The response and the reason for closing the connection; None in a key that is only compared.
    """

    ticket: Ticket
    what: Dismiss | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TransactionDue:
    """The timeout of a transaction, or the time to write its markers."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class LoadDue:
    """The end of loading a partition of the offsets topic.

    Attributes:
        index: Index of the partition of ``__consumer_offsets``.
    """

    index: int


@dataclass(frozen=True, slots=True)
class LossDue:
    """The time when the loss of a broker is noticed, and other brokers take over.

    Attributes:
        node: Id of the lost broker.
    """

    node: int


@dataclass(frozen=True, slots=True)
class StageDue:
    """A deadline of a stage of request processing, such as the end of a delay.

    Attributes:
        ticket: The request.
    """

    ticket: Ticket


@dataclass(frozen=True, slots=True)
class ScriptDue:
    """The next step of a script, such as the next restart of a rolling restart.

    Attributes:
        name: Name of the script.
        run: Function that does the step: takes the broker's time in seconds; None in a key that is only compared.
    """

    name: str
    run: Callable[[float], None] | None = field(default=None, compare=False)


Due: TypeAlias = str | FetchDue | SweepDue | TransactionDue | DismissDue | LoadDue | LossDue | StageDue | ScriptDue
SWEEP = SweepDue()
