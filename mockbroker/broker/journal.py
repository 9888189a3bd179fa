"""The journal: all events of groups and transactions, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mockbroker.base.effects import Note
from mockbroker.base.event_kinds import EventKind
from mockbroker.groups.classic.subscription import decode_assignment

MAX_MEMBERS = 1_000  # maximum members in an event; in a group of thousands each join would list all members


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event of a group or a transaction in the journal. A field that does not apply has its default.

    Attributes:
        time_ms: Milliseconds since the cluster was started or reset.
        event: Kind of the event, which is equal to its name, as in ``event.event == "leave"``.
        group: Group id; "" in an event of a transaction.
        client: The ``client.id`` of the member.
        member_id: Id of the member that the event is about.
        generation: Generation of the group, or its epoch in the consumer protocol.
        reason: Cause of the event.
        leader: Member id of the leader.
        protocol: The chosen assignment strategy or assignor.
        members: Member ids of the new generation; empty if there are more than 1,000.
        assignment: Assigned partition indexes by topic; None if there is no assignment, or if it cannot be decoded.
        offsets: Committed offsets by topic and partition index.
        transactional_id: The ``transactional.id``, in an event of a transaction.
        producer_id: Producer id, in an event of a transaction; after a fence, that of the fenced producer.
        producer_epoch: Producer epoch, in an event of a transaction.
        fault: Name of the fault rule of a ``fault`` or ``release`` event.
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
    transactional_id: str = ""
    producer_id: int = -1
    producer_epoch: int = -1
    fault: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the event as a JSON object. Time, event, group, client, member and generation are always present."""
        out: dict[str, Any] = {
            "time_ms": self.time_ms,
            "event": self.event.value,
            "group": self.group,
            "client": self.client,
            "member_id": self.member_id,
            "generation": self.generation,
        }
        for name in ("reason", "leader", "protocol", "members", "assignment", "offsets", "fault"):
            value = getattr(self, name)
            if value or (name == "assignment" and value is not None):
                out[name] = value
        if self.transactional_id:
            out["transactional_id"] = self.transactional_id
            out["producer_id"] = self.producer_id
            out["producer_epoch"] = self.producer_epoch
        return out


class Journal:
    """The store of all events so far.

    Attributes:
        events: The events, oldest first.
        max_events: Number of events to keep; None to keep all. The oldest are removed when there are twice as many.
        listeners: Functions that are called with each new event.
        begin: The broker's time, in seconds, at which ``time_ms`` is 0.
        first_id: Id of the oldest event in ``events``. Ids are consecutive, begin at 1 and are never used again.
    """

    def __init__(self, begin: float) -> None:
        self.events: list[Event] = []
        self.first_id = 1
        self.max_events: int | None = None
        self.listeners: list[Callable[[Event], None]] = []
        self.begin = begin

    def restart(self, begin: float) -> None:
        """Remove all events, and set the time at which ``time_ms`` is 0 to ``begin``. The listeners remain."""
        self.first_id += len(self.events)
        self.events = []
        self.begin = begin

    @property
    def last_id(self) -> int:
        """Id of the newest event; 0 before the first."""
        return self.first_id + len(self.events) - 1

    def record(self, note: Note, now: float) -> None:
        """Append an event that happened at ``now`` (seconds), and notify the listeners."""
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
            transactional_id=note.transactional_id,
            producer_id=note.producer_id,
            producer_epoch=note.producer_epoch,
            fault=note.fault,
        )
        self.events.append(event)
        if self.max_events is not None and len(self.events) > 2 * self.max_events:
            removed = len(self.events) - self.max_events
            del self.events[:removed]
            self.first_id += removed
        for listener in self.listeners:
            listener(event)


def _assignment(note: Note) -> Mapping[str, list[int]] | None:
    given = note.assignment
    return decode_assignment(note.protocol_type, given) if isinstance(given, bytes) else given


def _nested(offsets: Mapping[tuple[str, int], int]) -> Mapping[str, Mapping[int, int]]:
    by_topic: dict[str, dict[int, int]] = {}
    for (topic, partition), offset in offsets.items():
        by_topic.setdefault(topic, {})[partition] = offset
    return by_topic
