"""Who reads what, as consumers really do: the checker of ownership, which no scheme can see.

A consumer says when it begins to read a partition and when it stops, whatever anybody else believes of it. From that
come the times in which a partition has two readers or none, and how often partitions moved.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from mockbroker.lab.simulation.queue import Queue

Place = tuple[str, int]  # topic and partition


@dataclass(frozen=True, slots=True)
class Band:
    """Somebody read a partition for a while; seconds."""

    group: str
    place: Place
    reader: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Overlap:
    """A partition had several readers of one group; seconds."""

    group: str
    place: Place
    readers: tuple[str, ...]
    begin: float
    end: float


@dataclass(slots=True)
class _State:
    readers: dict[str, float] = field(default_factory=dict)  # since when
    last: str = ""  # who stopped last
    changed: float = 0.0  # when anybody began or stopped last
    counted: float = 0.0  # until when it has been counted


class Ledger:
    """Partition-seconds, while a group has members that are meant to run:

    ``unread``: without a reader; ``stopped``: those among them whose last reader is still meant to run, which is the
    time that the world stands still; ``double``: with more readers than one, each beyond the first.
    ``moved``: how often a partition came to another reader than it had before.
    """

    def __init__(self, queue: Queue, topics: Mapping[str, int], groups: Collection[str]) -> None:
        self.queue = queue
        self.unread = self.stopped = self.double = 0.0
        self.moved = 0
        self.bands: list[Band] = []
        self.overlaps: list[Overlap] = []
        self.changed = 0.0  # when anybody began or stopped last
        self._counts = dict(topics)
        self._groups: dict[str, dict[str, None]] = {group: {} for group in sorted(groups)}  # who is meant to run
        self._states = {(group, place): _State() for group in self._groups for place in self.places}

    @property
    def places(self) -> list[Place]:
        return [(topic, number) for topic, count in sorted(self._counts.items()) for number in range(count)]

    # --- what is meant to be ---

    def grow(self, topic: str, count: int) -> None:
        self._counts[topic] = count
        for group in self._groups:
            for place in self.places:
                self._states.setdefault((group, place), _State(counted=self.queue.now))

    def come(self, group: str, reader: str) -> None:
        """A consumer was started."""
        self._count(group)
        self._groups[group][reader] = None

    def go(self, group: str, reader: str) -> None:
        """A consumer was told to leave, or is dead."""
        self._count(group)
        self._groups[group].pop(reader, None)

    # --- what is ---

    def read(self, group: str, reader: str, share: Collection[Place]) -> None:
        """From now on this consumer reads these partitions and no others."""
        for place in self.places:
            state = self._states[group, place]
            if (place in share) == (reader in state.readers):
                continue
            self._settle(group, state)
            self._overlapped(group, place, state)
            if place in share:
                self.moved += bool(state.readers) or state.last not in ("", reader)
                state.readers[reader] = self.queue.now
            else:
                begin = state.readers.pop(reader)
                state.last = reader
                self.bands.append(Band(group, place, reader, begin, self.queue.now))
            state.changed = self.changed = self.queue.now

    def readers(self, group: str) -> dict[Place, list[str]]:
        """Who reads each partition now."""
        return {place: sorted(self._states[group, place].readers) for place in self.places}

    @property
    def whole(self) -> bool:
        """Every partition has one reader in every group that is meant to have members, and none in the others."""
        return all(
            len(self._states[group, place].readers) == bool(members)
            for group, members in self._groups.items()
            for place in self.places
        )

    def end(self) -> None:
        """Count what is until now; everybody goes on."""
        for (group, place), state in self._states.items():
            self._settle(group, state)
            self._overlapped(group, place, state)
            for reader, begin in state.readers.items():
                self.bands.append(Band(group, place, reader, begin, self.queue.now))

    def _count(self, group: str) -> None:
        for place in self.places:
            self._settle(group, self._states[group, place])

    def _settle(self, group: str, state: _State) -> None:
        seconds, state.counted = self.queue.now - state.counted, self.queue.now
        members = self._groups[group]
        if len(state.readers) > 1:
            self.double += seconds * (len(state.readers) - 1)
        elif not state.readers and members:
            self.unread += seconds
            if state.last in members:
                self.stopped += seconds

    def _overlapped(self, group: str, place: Place, state: _State) -> None:
        if len(state.readers) > 1 and state.changed < self.queue.now:
            self.overlaps.append(Overlap(group, place, tuple(sorted(state.readers)), state.changed, self.queue.now))
