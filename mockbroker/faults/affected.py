"""The requests and connections to which fault rules were applied, until they are finished."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from typing import Any

from kwire.lazy_dataclass import dataclass
from mockbroker.base.effects import Call, Effects, Pace, Ticket
from mockbroker.faults.errors import ErrorInjection
from mockbroker.faults.rules import Fault


class Phase(Enum):
    """The point that a request with an applied fault rule has reached, such as "held before it is processed"."""

    DELAYED_BEFORE = auto()
    HELD_BEFORE = auto()
    PROCESSING = auto()
    DELAYED_AFTER = auto()
    HELD_AFTER = auto()
    SILENT = auto()
    MUTED = auto()
    PACED = auto()


HELD = frozenset({Phase.HELD_BEFORE, Phase.HELD_AFTER})
ANSWERED = frozenset({Phase.MUTED, Phase.PACED})
UNPROCESSED = frozenset({Phase.DELAYED_BEFORE, Phase.HELD_BEFORE})
DELAYED = frozenset({Phase.DELAYED_BEFORE, Phase.DELAYED_AFTER, *ANSWERED})


@dataclass(slots=True, eq=False)
class Affected:
    """A request, or a new connection, to which a fault rule was applied.

    Attributes:
        ticket: Ticket of the request, or of the connection (``connection_ticket``).
        node: Id of the broker.
        fault: The fault rule, with the matching elements of this request.
        call: The request; None for a new connection.
        phase: The point that the request has reached.
        effects: The delayed or held effects of the request, such as its response; None if nothing is delayed or held.
        injection: The errors of single elements, to be added to the response; None without such errors.
        pace: The pace at which the response is sent; None for full speed.
    """

    ticket: Ticket
    node: int
    fault: Fault
    call: Call[Any] | None = None
    phase: Phase = Phase.PROCESSING
    effects: Effects | None = None
    injection: ErrorInjection | None = None
    pace: Pace | None = None

    @property
    def name(self) -> str:
        """The name of the rule."""
        return self.fault.rule.name

    @property
    def size(self) -> int:
        """The size of the request in bytes; 0 for a connection."""
        return 0 if self.call is None else len(self.call.frame)


class AffectedRequests:
    """The requests and connections to which a fault rule was applied, in the order of application.

    Attributes:
        held: Number of held requests and connections.
        held_bytes: Total size of the held requests, in bytes.
    """

    def __init__(self) -> None:
        self._entries: dict[Ticket, Affected] = {}
        self.held = 0
        self.held_bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Affected]:
        return iter(list(self._entries.values()))

    def get(self, ticket: Ticket) -> Affected | None:
        return self._entries.get(ticket)

    def add(self, entry: Affected) -> None:
        self._entries[entry.ticket] = entry

    def remove(self, entry: Affected) -> None:
        if self._entries.pop(entry.ticket, None) is not None:
            self.unhold(entry)

    def hold(self, entry: Affected, phase: Phase) -> None:
        """Mark a request or connection as held, until ``unhold``.

        Args:
            entry: The request or connection, with the rule that holds it.
            phase: HELD_BEFORE to hold the request before it is processed, or the connection; HELD_AFTER to hold the
                response.
        """
        entry.phase = phase
        self.held += 1
        self.held_bytes += entry.size

    def unhold(self, entry: Affected) -> None:
        """Mark a held request or connection as no longer held; do nothing if it is not held."""
        if entry.phase in HELD:
            entry.phase = Phase.PROCESSING
            self.held -= 1
            self.held_bytes -= entry.size

    def held_by(self, name: str) -> list[Affected]:
        """Return the requests and connections that the rule ``name`` holds, the longest held first."""
        return [entry for entry in self._entries.values() if entry.phase in HELD and entry.name == name]

    def delayed_by(self, name: str) -> list[Affected]:
        """Return the requests and connections that the rule ``name`` delays or slows down, the oldest first."""
        return [entry for entry in self._entries.values() if entry.phase in DELAYED and entry.name == name]

    def of_connection(self, number: int) -> list[Affected]:
        """Return the entries of a connection that remain after the response to a request: requests whose response is
        sent slowly or has muted the connection, and the connection itself if a rule was applied to it.

        ``number``: number of the connection.
        """
        return [
            entry
            for entry in self._entries.values()
            if entry.ticket.connection == number and (entry.call is None or entry.phase in ANSWERED)
        ]

    def clear(self) -> None:
        self._entries.clear()
        self.held = self.held_bytes = 0
