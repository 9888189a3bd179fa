"""Everything that happened in the groups, in order, with the time given to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mockbroker.base.effects import Note
from mockbroker.base.event_kinds import EventKind
from mockbroker.groups.classic.subscription import readable_assignment

MAX_MEMBERS = 1_000  # members; each that joins a group of thousands would be an event with all their names


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One entry of the journal.

    ``time_ms``: milliseconds since the broker began.
    ``event``: what happened; equal to the string in the output, so ``event.event == "leave"`` works too.
    ``members``: of the generation that begins; empty if they are more than MAX_MEMBERS.
    ``assignment``: topic to partitions; None if nothing was assigned here, or if it cannot be read.
    """

    time_ms: int
    event: EventKind
    group: str
    client: str = ""
    member_id: str = ""
    generation: int = -1
    reason: str = ""
    leader: str = ""
    protocol: str = ""
    members: tuple[str, ...] = ()
    assignment: Mapping[str, list[int]] | None = None
    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object: the identifying fields always, the others unless empty."""
        out: dict[str, Any] = {
            "time_ms": self.time_ms,
            "event": self.event.value,
            "group": self.group,
            "client": self.client,
            "member_id": self.member_id,
            "generation": self.generation,
        }
        for name in ("reason", "leader", "protocol", "members", "assignment", "offsets"):
            value = getattr(self, name)
            if value or (name == "assignment" and value is not None):
                out[name] = value
        return out


class Journal:
    """Append-only. ``begin``: the time, in seconds, from which events count.

    ``most``: how many events are kept, the oldest go first; None keeps all.
    """

    def __init__(self, begin: float) -> None:
        self.events: list[Event] = []
        self.max_events: int | None = None
        self.listeners: list[Callable[[Event], None]] = []
        self.begin = begin

    def restart(self, begin: float) -> None:
        """Nothing has happened, from this time on; the listeners stay."""
        self.events = []
        self.begin = begin

    def record(self, note: Note, now: float) -> None:
        """Append what happened at ``now`` (seconds), and tell the listeners."""
        event = Event(
            time_ms=round((now - self.begin) * 1000),
            event=note.event,
            group=note.group,
            client=note.client_id,
            member_id=note.member_id,
            generation=note.generation,
            reason=note.reason,
            leader=note.leader,
            protocol=note.protocol,
            members=note.members if len(note.members) <= MAX_MEMBERS else (),
            assignment=_assignment(note),
            offsets=_nested(note.offsets),
        )
        self.events.append(event)
        if self.max_events is not None and len(self.events) > 2 * self.max_events:
            del self.events[: -self.max_events]
        for listener in self.listeners:
            listener(event)


def _assignment(note: Note) -> Mapping[str, list[int]] | None:
    given = note.assignment
    return readable_assignment(note.protocol_type, given) if isinstance(given, bytes) else given


def _nested(offsets: Mapping[tuple[str, int], int]) -> Mapping[str, Mapping[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for (topic, partition), offset in offsets.items():
        found.setdefault(topic, {})[partition] = offset
    return found
