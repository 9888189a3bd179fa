"""What changes in groups is written to their partitions of the offsets topic: one batch a group and step, as in Kafka.

Source: Kafka's CoordinatorRuntime and GroupCoordinatorRecordHelpers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kwire.assignors import GroupAssignment
from kwire.blobs import encode_stored
from kwire.records.batch import Record, build_batch, read_batch
from mockbroker.groups.classic.state import ClassicGroup
from mockbroker.groups.consumer.state import ConsumerGroup, ConsumerMember, Resolved
from mockbroker.groups.offsets import Offsets, Place
from mockbroker.groups.records import classic as classic_records
from mockbroker.groups.records import consumer as consumer_records
from mockbroker.groups.records import offsets as offset_records
from mockbroker.groups.records.compaction import Compactor
from mockbroker.groups.records.image import Change, Image, encoded, image_of
from mockbroker.groups.records.wall_time import Wall
from mockbroker.topics.model import OFFSETS_TOPIC, Cluster, Partition


@dataclass(slots=True)
class _Kept:
    """What is written of one group. ``image``: everything but offsets; ``places``: what offsets are written, and their
    keys, None if nobody needed it yet. The rest tells what cannot have changed."""

    kind: type
    image: Image = field(default_factory=dict)
    offsets: Offsets | None = None
    places: dict[Place, bytes | None] = field(default_factory=dict)
    changes: int = -1
    target: GroupAssignment = field(default_factory=dict)
    resolved: dict[str, Resolved] = field(default_factory=dict)

    def all_places(self) -> dict[Place, bytes | None]:
        """Where something is written, also by transactions: those that have ended, and those that are open; what is
        gone since, and not written yet, is among them."""
        if self.offsets is None:
            return self.places
        offsets = self.offsets
        held = (place for places in offsets.pending.values() for place in places)
        return dict.fromkeys([*offsets.committed, *offsets.changed, *held]) | self.places


class Keeper:
    """``wall``: how times of groups are told in records; ``version``: in which offsets are written.

    ``java_coordinator``: as since Kafka 4.0 (release.py).
    """

    def __init__(self, cluster: Cluster, wall: Wall, version: int, *, java_coordinator: bool) -> None:
        self._java_coordinator = java_coordinator
        self._version = version
        self._cluster = cluster
        self._wall = wall
        self._kept: dict[str, _Kept] = {}
        self._compactor = Compactor()

    def write(self, group_id: str, group: ClassicGroup | ConsumerGroup | None, now: float) -> Partition | None:
        """Write what has changed in a group, None if it is gone; the partition if that was anything."""
        kept = self._kept.get(group_id)
        if kept is None and group is None:
            return None
        found: list[Change] = []
        held: list[tuple[int, int, list[Change]]] = []
        if kept is not None and (group is None or kept.kind is not type(group)):
            found += self._taken_back(group_id, kept)
            kept.image, kept.changes, kept.target, kept.resolved = {}, -1, {}, {}
        if group is None:
            assert kept is not None
            found = _tombstones(_keys(group_id, kept.all_places().items())) + found
            del self._kept[group_id]
        else:
            if kept is None:
                kept = self._kept[group_id] = _Kept(type(group))
            kept.kind = type(group)
            found += self._consumer(kept, group) if isinstance(group, ConsumerGroup) else self._classic(kept, group)
            found += self._offsets(group_id, kept, group.offsets)
            held = list(self._held(group_id, group.offsets))
            group.offsets.written()
        if not (found or held):
            return None
        partition = self._cluster.topics[OFFSETS_TOPIC].partition_of(group_id)
        if found:
            self._append(partition, found, now)
        for producer_id, epoch, records in held:
            self._append(partition, records, now, producer_id, epoch)
        self._compactor.look(partition, self._wall.ms(now))
        return partition

    def adopt(self, group: ClassicGroup | ConsumerGroup) -> None:
        """The group was made of what is written; what it is else has to be written yet."""
        kept = _Kept(type(group), image_of(group, self._wall), group.offsets, dict.fromkeys(group.offsets.committed))
        if isinstance(group, ConsumerGroup):
            kept.target, kept.resolved = group.target, dict(group.resolved)
            group.changed.clear()
        else:
            kept.changes = group.changes
        group.offsets.written()
        self._kept[group.group_id] = kept

    def let_go(self, group_id: str) -> None:
        """Another coordinator has the group; nothing is written of it any more."""
        self._kept.pop(group_id, None)

    # --- what has changed ---

    def _taken_back(self, group_id: str, kept: _Kept) -> list[Change]:
        """What was written of the group itself. Kafka makes a classic group of an offset alone, and has it until it is
        taken back by name; before 4.0 it did neither."""
        if kept.kind is ClassicGroup and self._java_coordinator and not kept.image:
            return _tombstones([classic_records.encoded_key(group_id)])
        return _tombstones(kept.image)

    def _classic(self, kept: _Kept, group: ClassicGroup) -> Iterator[Change]:
        if kept.changes == group.changes:
            return
        kept.changes = group.changes
        record = classic_records.record(group, self._wall)
        if record is None and group.begun and not kept.image:
            record = classic_records.begun(group, self._wall)
        if record is not None:
            yield from _differing(kept.image, [encoded(*record)])

    def _consumer(self, kept: _Kept, group: ConsumerGroup) -> Iterator[Change]:
        """In the order of what a heartbeat does: members, expressions, the group, targets, what members have."""
        changed = list(group.changed)
        found: list[Change] = []
        for member_id in changed:
            if member_id not in group.members:
                found += _tombstones(consumer_records.keys_of(group.group_id, member_id))
            else:
                found.append(encoded(*consumer_records.metadata(group, group.members[member_id])))
        found += self._expressions(kept, group)
        found.append(encoded(*consumer_records.epoch(group)))
        found += [encoded(*consumer_records.target(group, each)) for each in _retargeted(kept.target, group)]
        found.append(encoded(*consumer_records.assignment_epoch(group)))
        found += [encoded(*consumer_records.current(group, member)) for member in _there(group, changed)]
        kept.target = group.target
        group.changed.clear()
        return _differing(kept.image, found)

    def _expressions(self, kept: _Kept, group: ConsumerGroup) -> Iterator[Change]:
        """Those that are gone, and those that were resolved since they were written."""
        for regex in [regex for regex in kept.resolved if regex not in group.resolved]:
            del kept.resolved[regex]
            yield encode_stored(consumer_records.expression_key(group.group_id, regex), 0), None
        for regex, resolved in group.resolved.items():
            if kept.resolved.get(regex) is not resolved:
                kept.resolved[regex] = resolved
                yield encoded(*consumer_records.expression(group.group_id, regex, resolved, self._wall))

    def _offsets(self, group_id: str, kept: _Kept, offsets: Offsets) -> Iterator[Change]:
        if kept.offsets is not offsets:
            gone = [(place, key) for place, key in kept.all_places().items() if place not in offsets.committed]
            yield from _tombstones(_keys(group_id, gone))
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


def _retargeted(before: GroupAssignment, group: ConsumerGroup) -> list[str]:
    """Whose target is another than it was. ``before`` may be the very same object, but for those that have changed."""
    there = group.target
    if before is there:
        return [each for each in group.changed if each in there]
    return [each for each in there if each in group.changed or before.get(each) != there[each]]


def _there(group: ConsumerGroup, member_ids: Iterable[str]) -> Iterator[ConsumerMember]:
    return (group.members[member_id] for member_id in member_ids if member_id in group.members)


def _tombstones(keys: Iterable[bytes]) -> list[Change]:
    return [(key, None) for key in keys]


def _differing(image: Image, found: Iterable[Change]) -> Iterator[Change]:
    """Those that tell something new; the image tells it from now on."""
    for key, value in found:
        if image.get(key) == value:
            continue
        if value is None:
            del image[key]
        else:
            image[key] = value
        yield key, value
