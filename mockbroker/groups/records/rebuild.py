"""Groups made of the records of the offsets topic and of nothing else.

Source: Kafka's GroupCoordinatorShard.replay and GroupMetadataManager.onLoaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kwire.blobs import decode_record
from kwire.blobs.offsets_topic import OffsetCommitKey, OffsetCommitValue
from kwire.errors import UnknownApi
from mockbroker.groups.coordinated import CoordinatedGroup
from mockbroker.groups.group_type import Context, GroupTypes
from mockbroker.groups.offsets import Committed, Offsets, Place
from mockbroker.groups.records import offsets as offset_records
from mockbroker.groups.records.replay import Kept, Replay
from mockbroker.groups.records.wall_time import Wall
from mockbroker.topics.model import OFFSETS_TOPIC


@dataclass(slots=True)
class _GroupRecords:
    """Records of one group. ``records``: keys and values of the group itself, by name of its type."""

    records: dict[str, list[tuple[object, object]]] = field(default_factory=dict)
    offsets: dict[Place, tuple[int, OffsetCommitValue]] = field(default_factory=dict)
    pending: dict[int, dict[Place, tuple[int, OffsetCommitValue]]] = field(default_factory=dict)


def rebuilt(found: Replay, types: GroupTypes, context: Context, wall: Wall, now: float) -> dict[str, CoordinatedGroup]:
    """Return groups by id. Sessions begin again at ``now``.

    Records of types that are not known are passed over, as Kafka does. Raises: DecodeError for one that is damaged, or
    says what cannot be.
    """
    records_of: dict[str, _GroupRecords] = {}
    for key, value, order in _decoded(found.live):
        _read(records_of, types, key, value, order)
    for producer_id, held in found.pending.items():
        for key, value, order in _decoded(held):
            if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
                places = records_of.setdefault(key.group, _GroupRecords()).pending.setdefault(producer_id, {})
                places[key.topic, key.partition] = order, value
    made = ((group_id, _group(group_id, each, types, context, wall, now)) for group_id, each in records_of.items())
    return {group_id: group for group_id, group in made if group is not None}


def _decoded(live: Mapping[bytes, Kept]) -> Iterator[tuple[object, object, int]]:
    """Return key, value and offset of each record of a type that we know."""
    for key, (value, order) in live.items():
        try:
            yield *decode_record(OFFSETS_TOPIC, key, value), order
        except UnknownApi:
            continue


def _read(records_of: dict[str, _GroupRecords], types: GroupTypes, key: object, value: object, order: int) -> None:
    if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
        records_of.setdefault(key.group, _GroupRecords()).offsets[key.topic, key.partition] = order, value
        return
    kind = types.of_record(key)
    if kind is not None:  # else of a group whose type is not served
        records_of.setdefault(kind.group_id_of(key), _GroupRecords()).records.setdefault(kind.name, []).append(
            (key, value)
        )


def _group(
    group_id: str, stored: _GroupRecords, types: GroupTypes, context: Context, wall: Wall, now: float
) -> CoordinatedGroup | None:
    """Return the group; None if its own record is missing, and it has no offsets."""
    group: CoordinatedGroup | None = None
    for kind in reversed(types.types):
        if group is None and kind.name in stored.records:
            group = kind.rebuilt(group_id, stored.records[kind.name], context, wall, now)
    if group is None and (stored.offsets or stored.pending):
        group = types.default.new(group_id, context, now)
    if group is None:
        return None
    offsets = Offsets()
    offsets.restore(_committed(stored.offsets, wall))
    for producer_id, held in stored.pending.items():
        offsets.restore_held(producer_id, _committed(held, wall))
    group.offsets = offsets
    return group


def _committed(
    offsets: Mapping[Place, tuple[int, OffsetCommitValue]], wall: Wall
) -> dict[Place, tuple[int, Committed]]:
    return {place: (order, offset_records.committed(value, wall)) for place, (order, value) in offsets.items()}
