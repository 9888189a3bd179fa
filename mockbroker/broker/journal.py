"""The journal: the events of a cluster in order, such as events of groups and transactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from itertools import islice
from typing import Any, TypeAlias, TypeVar, overload

from kwire.lazy_dataclass import dataclass
from mockbroker.base.effects import Note
from mockbroker.base.event_kinds import FREQUENT, EventKind

V = TypeVar("V")
# fields that are in the JSON object of an event only if they apply
OPTIONAL = ("reason", "leader", "protocol", "members", "assignment", "offsets", "fault", "telemetry", "records")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event in the journal. A field that does not apply has its default.

    Attributes:
        time_ms: Milliseconds since the cluster was started or reset.
        event: Kind of the event. A kind is equal to its name as text: ``event.event == "leave"``.
        group: Group id; "" if the event is not about a group.
        client: The ``client.id`` of the member.
        member_id: Id of the member that the event is about.
        generation: Classic group: the generation. All other types of groups: the member epoch in an event about a
            member, the group epoch in an event about the group.
        reason: Cause of the event.
        leader: Member id of the leader.
        protocol: The chosen assignment strategy or assignor.
        members: Member ids of the new generation; empty if there are more than 1,000.
        assignment: Assigned partition indexes by topic; None if there is no assignment, or if it cannot be decoded.
        offsets: Committed offsets by topic and partition index.
        transactional_id: The ``transactional.id``, in an event of a transaction.
        producer_id: Producer id, in an event of a transaction. If a producer is fenced, the id of the fenced producer.
        producer_epoch: Producer epoch, in an event of a transaction.
        fault: Name of the fault rule of a ``fault`` or ``release`` event.
        telemetry: Metrics that a client has pushed, in a ``telemetry`` event; None in all other events.
        records: Numbers of records by topic, partition index and new state, in a ``share_records`` event.
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
    telemetry: Mapping[str, Any] | None = None
    records: Mapping[str, Mapping[int, Mapping[str, int]]] = field(default_factory=dict)

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
        for name in OPTIONAL:
            value = getattr(self, name)
            if value or (name == "assignment" and value is not None):
                out[name] = value
        if self.transactional_id:
            out["transactional_id"] = self.transactional_id
            out["producer_id"] = self.producer_id
            out["producer_epoch"] = self.producer_epoch
        return out


Unread: TypeAlias = tuple[Note, int]  # a note, and the ``time_ms`` of the event that is made of it when it is read


class Events(Sequence[Event]):
    """The events that a journal keeps, oldest first.

    An event is built when it is first read, so the journal costs little if no test reads it.

    Args:
        entries: the events, or the data from which they are built.
    """

    __slots__ = ("_entries",)

    def __init__(self, entries: list[Event | Unread]) -> None:
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        if isinstance(index, slice):
            return [self[each] for each in range(len(self._entries))[index]]
        entry = self._entries[index]
        if isinstance(entry, Event):
            return entry
        event = self._entries[index] = _event(*entry)
        return event

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # the events change

    def __repr__(self) -> str:
        return repr(list(self))


class Journal:
    """The journal of a cluster: its latest events.

    The kinds of events in ``FREQUENT``, such as commits, have a separate limit, so that they do not displace the events
    of a rebalance.

    Attributes:
        events: the events, oldest first.
        ids: the ids of ``events``. Ids are consecutive, begin at 1 and are never used again; the ids of removed events
            are missing.
        max_events: number of events to keep: this number of events whose kind is in ``FREQUENT``, and the same number
            of all other events. None to keep all. The oldest events are removed when there are twice as many.
        listeners: functions that are called with each new event.
        wakers: functions that are called without arguments after each new event.
        begin: the broker's time, in seconds, at which ``time_ms`` is 0.
        last_id: id of the newest event, even if it was removed; 0 before the first event.
        last_removed: id of the newest removed event whose kind is not in ``FREQUENT``; 0 before the first removal.
    """

    def __init__(self, begin: float) -> None:
        self._entries: list[Event | Unread] = []
        self.events = Events(self._entries)
        self.ids: list[int] = []
        self.last_id = 0
        self.last_removed = 0
        self.max_events: int | None = None
        self.listeners: list[Callable[[Event], None]] = []
        self.wakers: list[Callable[[], None]] = []
        self.begin = begin
        self._frequent = 0  # number of events whose kind is in FREQUENT

    def restart(self, begin: float) -> None:
        """Remove all events. The functions in ``listeners`` and ``wakers`` remain.

        ``begin``: the broker's time in seconds at which the ``time_ms`` of new events is 0.
        """
        self.last_removed = self.last_id
        self._entries.clear()
        self.ids.clear()
        self._frequent = 0
        self.begin = begin

    def record(self, note: Note, now: float) -> None:
        """Append an event to the journal, and call ``listeners`` and ``wakers``.

        Args:
            note: The event.
            now: The broker's time of the event in seconds.
        """
        entries = self._entries
        entries.append((note, round((now - self.begin) * 1000)))
        self.last_id += 1
        self.ids.append(self.last_id)
        frequent = note.event in FREQUENT
        self._frequent += frequent
        if self.listeners:
            event = self.events[-1]
            for listener in self.listeners:
                listener(event)
        if self.max_events is not None:
            number = self._frequent if frequent else len(entries) - self._frequent
            if number > 2 * self.max_events:
                self._remove(number - self.max_events, frequent=frequent)
        for wake in self.wakers:
            wake()

    def _remove(self, number: int, *, frequent: bool) -> None:
        """Remove the oldest events whose kind is in ``FREQUENT``, or the oldest of all other events.

        Args:
            number: Number of events to remove.
            frequent: True to remove events whose kind is in ``FREQUENT``, False to remove events of all other kinds.
        """
        kinds = ((each.event if isinstance(each, Event) else each[0].event) in FREQUENT for each in self._entries)
        removed = set(islice((at for at, each in enumerate(kinds) if each == frequent), number))
        if frequent:
            self._frequent -= number
        else:
            self.last_removed = self.ids[max(removed)]
        self._entries[:] = [each for at, each in enumerate(self._entries) if at not in removed]
        self.ids[:] = [each for at, each in enumerate(self.ids) if at not in removed]


def _event(note: Note, time_ms: int) -> Event:
    """Return the journal event that a ``Note`` describes.

    ``time_ms``: milliseconds since the cluster was started or reset.
    """
    return Event(
        time_ms=time_ms,
        event=note.event,
        group=note.group,
        client=note.client_id,
        member_id=note.member_id,
        generation=note.generation,
        reason=note.reason,
        leader=note.leader,
        protocol=note.protocol,
        members=note.members,
        assignment=_assignment(note),
        offsets=_nested(note.offsets),
        transactional_id=note.transactional_id,
        producer_id=note.producer_id,
        producer_epoch=note.producer_epoch,
        fault=note.fault,
        telemetry=note.telemetry,
        records=_nested(note.records),
    )


def _assignment(note: Note) -> Mapping[str, list[int]] | None:
    given = note.assignment
    if not isinstance(given, bytes):
        return given
    from mockbroker.groups.classic.subscription import decode_assignment  # on demand: with the first classic group

    return decode_assignment(note.protocol_type, given)


def _nested(by_partition: Mapping[tuple[str, int], V]) -> Mapping[str, Mapping[int, V]]:
    by_topic: dict[str, dict[int, V]] = {}
    for (topic, partition), value in by_partition.items():
        by_topic.setdefault(topic, {})[partition] = value
    return by_topic
