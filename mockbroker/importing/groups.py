"""The reader of groups from Kafka log directories: it selects the newest replicas, replays their records and collects
problems.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from itertools import pairwise
from pathlib import Path
from uuid import UUID

from kwire.blobs import decode_record
from kwire.counted import counted
from kwire.errors import DecodeError, UnknownApi, UnknownRecordType
from kwire.json.objects import uuid_text
from kwire.lazy_dataclass import dataclass
from mockbroker.base.release import KAFKA_4_2
from mockbroker.base.settings import Settings
from mockbroker.groups.coordinated import CoordinatedGroup
from mockbroker.groups.group_type import Context
from mockbroker.groups.group_types import GROUP_TYPES
from mockbroker.groups.records.rebuild import groups_from_records
from mockbroker.groups.records.replay import Replay, StoredValue
from mockbroker.groups.records.wall_time import WallClock
from mockbroker.storage.log_dirs import Problem, partitions, read_log_starts, read_partition, read_topic_id
from mockbroker.topics.model import METADATA_LOG, OFFSETS_TOPIC, ClusterState

WALL = WallClock(0.0)  # times of imported groups are seconds since 1970
SKIPPED_TYPES = {"ShareGroup": "share"}  # prefix of the key's class -> group type


@dataclass(slots=True)
class ImportedTopic:
    """A topic with partitions in a log directory.

    Attributes:
        topic_id: topic id; None if unknown.
        partitions: number of partitions: the highest partition number found, plus 1.
    """

    topic_id: UUID | None = None
    partitions: int = 0


@dataclass(slots=True)
class Imported:
    """The result of an import.

    Attributes:
        groups: group id -> group; times of the groups are seconds since 1970.
        records: group id -> replayed records from which the group was created.
        topics: topic name -> topic.
        passed_over: group type -> ids of skipped groups; only share groups are skipped.
        problems: files and records that could not be read.
        notes: remarks for the user that are not problems.
    """

    groups: dict[str, CoordinatedGroup] = field(default_factory=dict)
    records: dict[str, Replay] = field(default_factory=dict)
    topics: dict[str, ImportedTopic] = field(default_factory=dict)
    passed_over: dict[str, set[str]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Replica:
    """A replica of a partition of __consumer_offsets, as read from one log directory.

    Attributes:
        path: directory of the replica.
        replay: the replayed records.
        version: leader epoch and end offset of the last batch. The replica with the highest version is imported.
        files: first offset -> segment file.
    """

    path: Path
    replay: Replay = field(default_factory=Replay)
    version: tuple[int, int] = (-1, 0)
    files: dict[int, Path] = field(default_factory=dict)

    def file_of(self, offset: int) -> Path:
        return self.files[max(base for base in self.files if base <= offset)]


def read_groups(folders: Sequence[Path], settings: Settings) -> Imported:
    """Return the groups and topics of log directories; the directories may belong to several brokers.

    Args:
        folders: paths of the log directories.
        settings: the settings of the brokers.

    Raises: LogDirError for a folder that is not a log directory, or belongs to a running broker.
    """
    imported = Imported()
    replicas: dict[int, list[_Replica]] = {}
    for folder in folders:
        directories = partitions(folder)
        starts = read_log_starts(folder)
        if isinstance(starts, Problem):
            imported.problems.append(starts)
            starts = {}
        for (topic, index, _), path in directories.items():
            if topic == METADATA_LOG:
                continue
            _add_topic(imported, topic, index, path)
            if topic == OFFSETS_TOPIC:
                replicas.setdefault(index, []).append(_read_replica(imported, path, starts.get((topic, index), 0)))
    if not replicas:
        imported.notes.append(f"no partition of {OFFSETS_TOPIC} and therefore no group found")
    elif missing := _missing(sorted(replicas)):
        imported.notes.append(f"missing partitions of {OFFSETS_TOPIC}: {', '.join(missing)}")
    for _, copies in sorted(replicas.items()):
        newest = max(copies, key=lambda replica: replica.version)
        imported.notes += [
            f"{replica.path}: ignored, {newest.path} is as new or newer" for replica in copies if replica is not newest
        ]
        _add_groups(imported, newest, settings)
    return imported


def _missing(found: Sequence[int]) -> list[str]:
    """Return the partitions below the highest one that were not found, as texts such as ``3`` and ``5-7``.

    ``found``: partitions in ascending order. The name of a directory can have ten digits.
    """
    gaps = [(before + 1, after - 1) for before, after in pairwise([-1, *found]) if after - before > 1]
    return [str(first) if first == last else f"{first}-{last}" for first, last in gaps]


def _add_topic(imported: Imported, name: str, index: int, path: Path) -> None:
    topic = imported.topics.setdefault(name, ImportedTopic())
    topic.partitions = max(topic.partitions, index + 1)
    match read_topic_id(path):
        case Problem() as problem:
            imported.problems.append(problem)
        case UUID() as topic_id if topic.topic_id not in (None, topic_id):
            text = f"topic id {uuid_text(topic_id)} differs from that of other partitions of the topic"
            imported.problems.append(Problem(path, None, text))
        case UUID() as topic_id:
            topic.topic_id = topic_id
        case None:
            pass


def _read_replica(imported: Imported, path: Path, start: int) -> _Replica:
    replica = _Replica(path)
    last: Path | None = None
    for item in read_partition(path):
        if isinstance(item, Problem):
            imported.problems.append(item)
            break
        file, batch = item
        if file != last:
            replica.files[batch.base_offset] = last = file
        if batch.last_offset < start:
            continue
        try:
            replica.replay.add(batch)
        except DecodeError as error:
            text = f"invalid batch: {error.reason}; read up to offset {batch.base_offset}"
            imported.problems.append(Problem(file, batch.position, text))
            break
        replica.version = batch.leader_epoch, batch.last_offset + 1
    return replica


def _add_groups(imported: Imported, replica: _Replica, settings: Settings) -> None:
    """Rebuild the groups whose records are in a partition, and add the groups and problems to ``imported``.

    Args:
        imported: result of the import, which is updated.
        replica: replica of the partition.
        settings: the settings of the brokers.
    """
    groups: dict[str, Replay] = {}
    unknown: dict[int, list[int]] = {}
    for key, record in replica.replay.latest.items():
        if (group_id := _record_group(imported, replica, key, record, unknown)) is not None:
            groups.setdefault(group_id, Replay()).latest[key] = record
    for producer_id, pending in replica.replay.pending.items():
        for key, record in pending.items():
            if (group_id := _record_group(imported, replica, key, record, unknown)) is not None:
                groups.setdefault(group_id, Replay()).pending.setdefault(producer_id, {})[key] = record
    for record_type, offsets in unknown.items():
        text = f"{counted(len(offsets), 'record')} of unknown type {record_type}, the first at offset {min(offsets)}"
        imported.problems.append(Problem(replica.path, None, text))
    for group_id, records in groups.items():
        _rebuild(imported, replica.path, group_id, records, settings)


def _record_group(
    imported: Imported, replica: _Replica, key: bytes, record: StoredValue, unknown: dict[int, list[int]]
) -> str | None:
    """Return the group id in a record of __consumer_offsets, or None if the group is not imported because of this
    record.

    There are two reasons: the group type is skipped, or the record cannot be decoded. A record that cannot be decoded
    is added to ``imported.problems``; if its record type is unknown, its offset is added to ``unknown`` instead.

    Args:
        imported: result of the import, which is updated.
        replica: replica that contains the record.
        key: encoded key of the record.
        record: value and offset of the record.
        unknown: record type -> offsets of the records with this unknown type; updated.
    """
    try:
        return _group_of(imported, key, record.value)
    except UnknownRecordType as error:
        unknown.setdefault(error.record_type, []).append(record.offset)
    except DecodeError as error:
        imported.problems.append(_record_problem(replica, record.offset, error))
    return None


def _rebuild(imported: Imported, path: Path, group_id: str, records: Replay, settings: Settings) -> None:
    cluster = ClusterState([], new_uuid=_no_uuid)  # rebuilding a group needs no topics
    context = Context(cluster, settings, _no_uuid, KAFKA_4_2.quirks, KAFKA_4_2.uniform)
    if group_id in imported.groups:
        imported.notes.append(f"group {group_id!r} is in several partitions; the one in {path} is used")
    try:
        groups = groups_from_records(records, GROUP_TYPES, context, WALL, 0.0)
    except ValueError as error:
        imported.problems.append(Problem(path, None, f"group {group_id!r} cannot be rebuilt: {error}"))
        return
    if group_id not in groups:
        imported.problems.append(Problem(path, None, f"group {group_id!r}: the group metadata record is missing"))
        return
    imported.groups[group_id] = groups[group_id]
    imported.records[group_id] = records


def _no_uuid() -> UUID:
    return UUID(int=0)


def _record_problem(replica: _Replica, offset: int, error: DecodeError) -> Problem:
    reason = "has an unsupported format" if isinstance(error, UnknownApi) else "is damaged"
    return Problem(replica.file_of(offset), None, f"the record at offset {offset} {reason}: {error}")


def _group_of(imported: Imported, key: bytes, value: bytes) -> str | None:
    """Return the group id of a record; None if the group's type is skipped.

    Args:
        imported: result of the import, to which skipped groups are added.
        key: encoded key of the record.
        value: encoded value of the record.

    Raises: DecodeError if a record is not valid.
    """
    decoded, _ = decode_record(OFFSETS_TOPIC, key, value)
    group_id = str(getattr(decoded, "group_id", None) or getattr(decoded, "group", ""))
    for prefix, kind in SKIPPED_TYPES.items():
        if type(decoded).__name__.startswith(prefix):
            imported.passed_over.setdefault(kind, set()).add(group_id)
            return None
    return group_id
