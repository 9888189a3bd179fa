"""Committed offsets of one group."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from uuid import UUID

from kwire.schema import ZERO_UUID


@dataclass(slots=True, kw_only=True)  # made for every partition of a commit: frozen, that would take four times as long
class Committed:
    """``offset``: the next to read. ``leader_epoch`` -1 if the client did not say.

    ``at``: when it was committed; ``expires``: when it goes, if the client said so. Seconds. ``topic_id``: if the
    client asked by id.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    at: float = 0.0
    expires: float | None = None
    topic_id: UUID = field(default=ZERO_UUID, compare=False)


Place: TypeAlias = tuple[str, int]  # topic name and partition


@dataclass(slots=True)
class Offsets:
    """By topic name and partition.

    ``pending``: what waits for the end of a transaction, by producer id. Of an offset that is committed in several ways
    the one that was asked for last holds. ``changed``, ``held``: what has to be written down: places that are another
    or gone, and what was held since, by producer id and epoch. Source: Kafka's OffsetMetadataManager.
    """

    committed: dict[Place, Committed] = field(default_factory=dict)
    pending: dict[int, dict[Place, tuple[int, Committed]]] = field(default_factory=dict)
    changed: dict[Place, None] = field(default_factory=dict)
    held: dict[tuple[int, int], dict[Place, Committed]] = field(default_factory=dict)
    _orders: dict[Place, int] = field(default_factory=dict)
    _holders: dict[Place, set[int]] = field(default_factory=dict)  # producers in ``pending``
    _order: int = 0

    def copy(self) -> Offsets:
        """What can be read now, for readers that need more than one step."""
        return Offsets(dict(self.committed), _holders=dict(self._holders))

    def store(self, topic: str, partition: int, committed: Committed) -> None:
        self._order += 1
        self._orders[topic, partition] = self._order
        self.committed[topic, partition] = committed
        self.changed[topic, partition] = None

    def hold(self, producer_id: int, epoch: int, topic: str, partition: int, committed: Committed) -> None:
        """Keep it until the transaction of this producer ends."""
        self._order += 1
        self.pending.setdefault(producer_id, {})[topic, partition] = self._order, committed
        self._holders.setdefault((topic, partition), set()).add(producer_id)
        self.held.setdefault((producer_id, epoch), {})[topic, partition] = committed

    def restore(self, told: Mapping[Place, tuple[int, Committed]]) -> None:
        """What holds, and at which offset of the log it was asked for; nothing of it has to be written."""
        for place, (offset, committed) in told.items():
            self._order = max(self._order, offset + 1)
            self._orders[place] = offset + 1  # 0 comes before everything
            self.committed[place] = committed

    def restore_held(self, producer_id: int, told: Mapping[Place, tuple[int, Committed]]) -> None:
        """The same of what waits for the end of a transaction."""
        self._order = max(self._order, *(offset + 1 for offset, _ in told.values()))
        self.pending[producer_id] = {place: (offset + 1, committed) for place, (offset, committed) in told.items()}
        for place in told:
            self._holders.setdefault(place, set()).add(producer_id)

    def written(self) -> None:
        """Everything is written down."""
        self.changed.clear()
        self.held.clear()

    def is_unstable(self, topic: str, partition: int) -> bool:
        """True if some open transaction may yet change the offset."""
        return (topic, partition) in self._holders

    def finish(self, producer_id: int, *, committed: bool) -> dict[Place, int]:
        """The producer's transaction has ended; offsets that hold from now on."""
        stored: dict[Place, int] = {}
        for place, (order, held) in self.pending.pop(producer_id, {}).items():
            self._release(producer_id, place)
            if committed and order > self._orders.get(place, 0):
                self._orders[place] = order
                self.committed[place] = held
                stored[place] = held.offset
        return stored

    def get(self, topic: str, partition: int) -> Committed | None:
        return self.committed.get((topic, partition))

    def forget(self, topic: str, partition: int) -> None:
        """Drop one, if it is there."""
        self.committed.pop((topic, partition), None)
        self._orders.pop((topic, partition), None)
        self.changed[topic, partition] = None
        for producer_id in self._holders.pop((topic, partition), ()):
            held = self.pending[producer_id]
            del held[topic, partition]
            if not held:
                del self.pending[producer_id]

    def forget_topics(self, topics: Collection[str]) -> bool:
        """Drop all of these topics; False if there was nothing."""
        places = [place for place in {**self.committed, **self._holders} if place[0] in topics]
        for place in places:
            self.forget(*place)
        return bool(places)

    def _release(self, producer_id: int, place: Place) -> None:
        """The producer does not hold an offset for this place any more."""
        holders = self._holders.get(place, set())
        holders.discard(producer_id)
        if not holders:
            self._holders.pop(place, None)

    def by_topic(self) -> dict[str, dict[int, Committed]]:
        """Everything, topics and partitions in the order they were first committed."""
        found: dict[str, dict[int, Committed]] = {}
        for (topic, partition), committed in self.committed.items():
            found.setdefault(topic, {})[partition] = committed
        return found


def metadata_too_long(metadata: str | None, limit: int) -> bool:
    """Kafka counts UTF-16 units, whatever the name of its setting says."""
    if not metadata or 2 * len(metadata) <= limit:  # a character is one unit or two
        return False
    return len(metadata.encode("utf-16-be", "surrogatepass")) // 2 > limit
