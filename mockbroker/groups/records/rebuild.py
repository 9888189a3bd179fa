"""Loading of groups from the records of the offsets topic.

Source: Kafka's GroupCoordinatorShard.replay and GroupMetadataManager.onLoaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field

from kwire.blobs import decode_record
from kwire.blobs.offsets_topic import OffsetCommitKey, OffsetCommitValue
from kwire.errors import UnknownApi
from kwire.lazy_dataclass import dataclass
from mockbroker.groups.coordinated import CoordinatedGroup
from mockbroker.groups.group_type import Context, GroupTypes
from mockbroker.groups.offsets import Committed, Offsets, TopicPartition
from mockbroker.groups.records import offsets as offset_records
from mockbroker.groups.records.replay import Replay, StoredValue
from mockbroker.groups.records.wall_time import WallClock
from mockbroker.topics.model import OFFSETS_TOPIC


@dataclass(slots=True)
class _GroupRecords:
    """The decoded records of one group of any type.

    Attributes:
        records: name of the group type -> keys and values of the group's records, without offset records.
        offsets: (topic, partition) -> log offset and value of the offset record.
        transactional: producer id -> (topic, partition) -> log offset and value of the offset record in an open
            transaction.
    """

    records: dict[str, list[tuple[object, object]]] = field(default_factory=dict)
    offsets: dict[TopicPartition, tuple[int, OffsetCommitValue]] = field(default_factory=dict)
    transactional: dict[int, dict[TopicPartition, tuple[int, OffsetCommitValue]]] = field(default_factory=dict)


def groups_from_records(
    replay: Replay, types: GroupTypes, context: Context, wall: WallClock, now: float
) -> dict[str, CoordinatedGroup]:
    """Create groups from a replayed log, and return the groups by id.

    The sessions of all members restart at ``now``. As in Kafka, records of unknown types are ignored.

    Args:
        replay: The replayed log.
        types: All group types of the coordinator.
        context: Data and functions shared by all groups.
        wall: The clock of the timestamps in records.
        now: The current time in seconds.

    Raises:
        DecodeError: A record is damaged or has an invalid value.
    """
    records_of: dict[str, _GroupRecords] = {}
    for key, value, log_offset in _decode_records(replay.latest):
        _add_record(records_of, types, key, value, log_offset)
    for producer_id, pending in replay.pending.items():
        for key, value, log_offset in _decode_records(pending):
            if isinstance(key, OffsetCommitKey):
                assert isinstance(value, OffsetCommitValue)
                offsets = records_of.setdefault(key.group, _GroupRecords()).transactional.setdefault(producer_id, {})
                offsets[key.topic, key.partition] = log_offset, value
    groups = (
        (group_id, _build_group(group_id, each, types, context, wall, now)) for group_id, each in records_of.items()
    )
    return {group_id: group for group_id, group in groups if group is not None}


def _decode_records(stored: Mapping[bytes, StoredValue]) -> Iterator[tuple[object, object, int]]:
    """Yield the decoded key, the decoded value and the log offset of each record.

    Records of unknown types are skipped.

    ``stored``: encoded key -> encoded value and log offset.
    """
    for key, (value, log_offset) in stored.items():
        try:
            yield *decode_record(OFFSETS_TOPIC, key, value), log_offset
        except UnknownApi:
            continue


def _add_record(
    records_of: dict[str, _GroupRecords], types: GroupTypes, key: object, value: object, log_offset: int
) -> None:
    if isinstance(key, OffsetCommitKey):
        assert isinstance(value, OffsetCommitValue)
        records_of.setdefault(key.group, _GroupRecords()).offsets[key.topic, key.partition] = log_offset, value
        return
    group_type = types.of_record(key)
    if group_type is not None:  # else the record is of a group type that is not implemented
        group_records = records_of.setdefault(group_type.group_id_of(key), _GroupRecords())
        group_records.records.setdefault(group_type.name, []).append((key, value))


def _build_group(
    group_id: str, stored: _GroupRecords, types: GroupTypes, context: Context, wall: WallClock, now: float
) -> CoordinatedGroup | None:
    """Create a group from its records, or return None if the group has neither a group record nor offsets.

    Args:
        group_id: The group id.
        stored: Decoded records of the group.
        types: All group types of the coordinator.
        context: Data and functions shared by all groups.
        wall: The clock of the timestamps in records.
        now: The current time in seconds.
    """
    group: CoordinatedGroup | None = None
    for group_type in reversed(types.types):
        if group is None and group_type.name in stored.records:
            group = group_type.from_records(group_id, stored.records[group_type.name], context, wall, now)
    if group is None and (stored.offsets or stored.transactional):
        group = types.default.new(group_id, context, now)
    if group is None:
        return None
    offsets = Offsets()
    offsets.restore(_decode_offsets(stored.offsets, wall))
    for producer_id, pending in stored.transactional.items():
        offsets.restore_transactional(producer_id, _decode_offsets(pending, wall))
    group.offsets = offsets
    return group


def _decode_offsets(
    offsets: Mapping[TopicPartition, tuple[int, OffsetCommitValue]], wall: WallClock
) -> dict[TopicPartition, tuple[int, Committed]]:
    return {
        topic_partition: (log_offset, offset_records.decode_value(value, wall))
        for topic_partition, (log_offset, value) in offsets.items()
    }
