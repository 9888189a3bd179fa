"""What can be due: the keys of the broker's deadlines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from mockbroker.calls import Ticket


class GroupDue(NamedTuple):
    """A group has something to do."""

    group_id: str


@dataclass(frozen=True, slots=True)
class FetchDue:
    """A parked Fetch has waited long enough."""

    ticket: Ticket


@dataclass(frozen=True, slots=True)
class SweepDue:
    """It is time to look for expired offsets."""


Due: TypeAlias = GroupDue | FetchDue | SweepDue
SWEEP = SweepDue()
