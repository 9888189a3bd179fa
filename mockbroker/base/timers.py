"""What can be due: the keys of the broker's deadlines. Ids of groups stand for themselves: each request moves one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from mockbroker.base.effects import Dismiss, Ticket


@dataclass(frozen=True, slots=True)
class FetchDue:
    """A parked Fetch has waited long enough."""

    ticket: Ticket


@dataclass(frozen=True, slots=True)
class SweepDue:
    """It is time to look for expired offsets."""


@dataclass(frozen=True, slots=True)
class DismissDue:
    """Whoever failed to authenticate is told, and sent away."""

    ticket: Ticket
    what: Dismiss | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TransactionDue:
    """A transaction has run too long, or its markers are to be written."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class LoadDue:
    """The coordinator of a partition of the offsets topic has read it."""

    index: int


@dataclass(frozen=True, slots=True)
class LossDue:
    """It is noticed that a broker is gone."""

    node: int


Due: TypeAlias = str | FetchDue | SweepDue | TransactionDue | DismissDue | LoadDue | LossDue
SWEEP = SweepDue()
