"""What changes in groups is written to their partitions of the offsets topic: one batch a group and step, as in Kafka.

Source: Kafka's CoordinatorRuntime and GroupCoordinatorRecordHelpers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kwire.records.batch import Record, build_batch, read_batch
from mockbroker.groups.coordinated import CoordinatedGroup
from mockbroker.groups.group_type import GroupTypes
from mockbroker.groups.offsets import Offsets, Place
from mockbroker.groups.records import offsets as offset_records
from mockbroker.groups.records.compaction import Compactor
from mockbroker.groups.records.image import Change, Image, differing, image_of, tombstones
from mockbroker.groups.records.wall_time import Wall
from mockbroker.topics.model import OFFSETS_TOPIC, Cluster, Partition


@dataclass(slots=True)
class _Kept:
    """What is written of one group. ``image``: everything but offsets; ``places``: what offsets are written, and their
    keys, None if no record needed it yet."""

    group: CoordinatedGroup
    image: Image = field(default_factory=dict)
    offsets: Offsets | None = None
    places: dict[Place, bytes | None] = field(default_factory=dict)

    def is_current(self, group: CoordinatedGroup) -> bool:
        """True if nothing of this group has changed since it was written, as after a heartbeat."""
        offsets = group.offsets
        return (
            self.group is group and self.offsets is offsets and not (group.changes or offsets.changed or offsets.held)
        )

    def all_places(self) -> dict[Place, bytes | None]:
        """Where something is written, also by transactions: those that have ended, and those that are open; what is
        gone since, and not written yet, is among them."""
        if self.offsets is None:
            return self.places
        offsets = self.offsets
        held = (place for places in offsets.pending.values() for place in places)
        return dict.fromkeys([*offsets.committed, *offsets.changed, *held]) | self.places


class Keeper:
    """Writes the records of all groups.

    Args:
        types: the types of groups.
        wall: how times of groups are written in records.
        version: of the values in which offsets are written.
    """

    def __init__(self, cluster: Cluster, types: GroupTypes, wall: Wall, version: int) -> None:
        self._types = types
        self._version = version
        self._cluster = cluster
        self._wall = wall
        self._kept: dict[str, _Kept] = {}
        self._compactor = Compactor()

    def write(self, group_id: str, group: CoordinatedGroup | None, now: float) -> Partition | None:
        """Write what has changed in a group, None if it is gone; the partition if that was anything."""
        kept = self._kept.get(group_id)
        if group is None:
            if kept is None:
                return None
        elif kept is not None and kept.is_current(group):
            return None
        found: list[Change] = []
        held: list[tuple[int, int, list[Change]]] = []
        if kept is not None and (group is None or kept.group.type_name != group.type_name):
            found += tombstones(self._types.of(kept.group).keys_to_delete(kept.group, kept.image))
            kept.image = {}
        if group is None:
            assert kept is not None
            found = tombstones(_keys(group_id, kept.all_places().items())) + found
            del self._kept[group_id]
        else:
            if kept is None:
                kept = self._kept[group_id] = _Kept(group)
            kept.group = group
            if group.changes:
                found += differing(kept.image, self._types.of(group).changed(group, self._wall))
                group.changes.clear()
            offsets = group.offsets
            if offsets.changed or kept.offsets is not offsets:
                found += self._offsets(group_id, kept, offsets)
            if offsets.held:
                held = list(self._held(group_id, offsets))
            offsets.written()
        if not (found or held):
            return None
        partition = self._cluster.topics[OFFSETS_TOPIC].partition_of(group_id)
        if found:
            self._append(partition, found, now)
        for producer_id, epoch, records in held:
            self._append(partition, records, now, producer_id, epoch)
        self._compactor.compact_if_grown(partition, self._wall.ms(now))
        return partition

    def adopt(self, group: CoordinatedGroup) -> None:
        """The group was made of what is written; what it is else has to be written yet."""
        image = image_of(self._types.of(group).records(group, self._wall))
        self._kept[group.group_id] = _Kept(group, image, group.offsets, dict.fromkeys(group.offsets.committed))
        group.changes.clear()
        group.offsets.written()

    def unload(self, group_id: str) -> None:
        """Another coordinator has the group; nothing is written of it any more."""
        self._kept.pop(group_id, None)

    # --- what has changed ---

    def _offsets(self, group_id: str, kept: _Kept, offsets: Offsets) -> Iterator[Change]:
        if kept.offsets is not offsets:
            gone = [(place, key) for place, key in kept.all_places().items() if place not in offsets.committed]
            yield from tombstones(_keys(group_id, gone))
            kept.offsets = offsets
        for place in offsets.changed:
            committed = offsets.committed.get(place)
            key = kept.places.get(place) or offset_records.encoded_key(group_id, *place)
            if committed is not None:
                kept.places[place] = key
                yield key, offset_records.encoded_value(committed, self._wall, self._version)
            else:
                kept.places.pop(place, None)
                yield key, None

    def _held(self, group_id: str, offsets: Offsets) -> Iterator[tuple[int, int, list[Change]]]:
        for (producer_id, epoch), places in offsets.held.items():
            records: list[Change] = [
                (
                    offset_records.encoded_key(group_id, *place),
                    offset_records.encoded_value(committed, self._wall, self._version),
                )
                for place, committed in places.items()
            ]
            yield producer_id, epoch, records

    # --- where it goes ---

    def _append(
        self, partition: Partition, found: Iterable[Change], now: float, producer_id: int = -1, epoch: int = -1
    ) -> None:
        timestamp = self._wall.ms(now)
        records = [Record(key=key, value=value, timestamp=timestamp) for key, value in found]
        data = build_batch(records, producer_id=producer_id, producer_epoch=epoch, transactional=producer_id >= 0)
        partition.append(read_batch(data))


def _keys(group_id: str, places: Iterable[tuple[Place, bytes | None]]) -> Iterator[bytes]:
    return (key or offset_records.encoded_key(group_id, *place) for place, key in places)
