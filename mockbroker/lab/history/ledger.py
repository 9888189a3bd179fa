"""The ledger: the record of all readers of each partition over time, for any rebalance scheme.

Each consumer reports when it starts and stops reading a partition. From these reports the ledger computes how long
partitions have two readers or none, and how often partitions move.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field

from kwire.lazy_dataclass import dataclass
from mockbroker.lab.simulation.queue import Queue

Place = tuple[str, int]  # topic and partition


@dataclass(frozen=True, slots=True)
class Band:
    """An interval in which a consumer read a partition.

    Attributes:
        group: group id.
        place: topic and partition number.
        reader: name of the consumer.
        begin: start of the interval, virtual time in seconds.
        end: end of the interval, virtual time in seconds.
    """

    group: str
    place: Place
    reader: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Overlap:
    """An interval in which a partition had several readers of one group.

    Attributes:
        group: group id.
        place: topic and partition number.
        readers: names of the consumers.
        begin: start of the interval, virtual time in seconds.
        end: end of the interval, virtual time in seconds.
    """

    group: str
    place: Place
    readers: tuple[str, ...]
    begin: float
    end: float


@dataclass(slots=True)
class _State:
    """The readers of one partition in one group, and the times at which they changed. Times are virtual, in seconds.

    Attributes:
        readers: start time of reading, by name of the reader.
        last: the reader that stopped last; "" if none has stopped.
        changed: time of the last start or stop.
        counted: time up to which partition-seconds have been counted.
    """

    readers: dict[str, float] = field(default_factory=dict)
    last: str = ""
    changed: float = 0.0
    counted: float = 0.0


class Ledger:
    """The record of the readers of all partitions over time.

    Args:
        queue: the event queue, which has the virtual time.
        topics: number of partitions by topic name.
        groups: group ids.

    Attributes:
        unread: partition-seconds without a reader, while the group has running members.
        stopped: the part of ``unread`` in which the last reader is still running: the cost of stop-the-world
            rebalances.
        double: partition-seconds with several readers, counted once per additional reader.
        moved: number of times that a partition changed its reader.
        bands: intervals in which a consumer read a partition.
        overlaps: intervals in which a partition had several readers.
        changed: time at which a consumer last started or stopped reading, seconds.
    """

    def __init__(self, queue: Queue, topics: Mapping[str, int], groups: Collection[str]) -> None:
        self.queue = queue
        self.unread = self.stopped = self.double = 0.0
        self.moved = 0
        self.bands: list[Band] = []
        self.overlaps: list[Overlap] = []
        self.changed = 0.0
        self._counts = dict(topics)
        self._groups: dict[str, dict[str, None]] = {group: {} for group in sorted(groups)}  # consumers that should run
        self._states = {(group, place): _State() for group in self._groups for place in self.places}

    @property
    def places(self) -> list[Place]:
        return [(topic, number) for topic, count in sorted(self._counts.items()) for number in range(count)]

    # --- expected state ---

    def grow(self, topic: str, count: int) -> None:
        self._counts[topic] = count
        for group in self._groups:
            for place in self.places:
                self._states.setdefault((group, place), _State(counted=self.queue.now))

    def come(self, group: str, reader: str) -> None:
        """Record that the process of a consumer was started. From now on, the partitions of its group that have no
        reader count as unread.

        Args:
            group: group id.
            reader: name of the consumer.
        """
        self._count(group)
        self._groups[group][reader] = None

    def go(self, group: str, reader: str) -> None:
        """Record that a consumer crashed, or was requested to leave.

        Args:
            group: group id.
            reader: name of the consumer.
        """
        self._count(group)
        self._groups[group].pop(reader, None)

    # --- actual state ---

    def read(self, group: str, reader: str, share: Collection[Place]) -> None:
        """Record that from now on a consumer reads exactly the partitions in ``share``.

        Args:
            group: group id.
            reader: name of the consumer.
            share: the partitions.
        """
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
        """Return the current readers of each partition of a group: partition -> names of the consumers."""
        return {place: sorted(self._states[group, place].readers) for place in self.places}

    @property
    def whole(self) -> bool:
        """Whether all partitions are in order: in each group with members, every partition has exactly one reader.

        In groups without members, no partition may have a reader.
        """
        return all(
            len(self._states[group, place].readers) == bool(members)
            for group, members in self._groups.items()
            for place in self.places
        )

    def end(self) -> None:
        """End the ledger: count the intervals of the current readers up to the current time."""
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
