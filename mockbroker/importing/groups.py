"""Log directories into groups: which replica counts, what its records say, and what could not be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from kwire.blobs import decode_record
from kwire.errors import DecodeError, UnknownApi, UnknownRecordType
from mockbroker.base.release import KAFKA_4_2
from mockbroker.base.settings import Settings
from mockbroker.groups.coordinated import CoordinatedGroup
from mockbroker.groups.group_type import Context
from mockbroker.groups.group_types import GROUP_TYPES
from mockbroker.groups.records.rebuild import rebuilt
from mockbroker.groups.records.replay import Kept, Replay
from mockbroker.groups.records.wall_time import Wall
from mockbroker.storage.log_dirs import Problem, log_starts, partitions, read_partition, topic_id
from mockbroker.topics.model import OFFSETS_TOPIC, Cluster

WALL = Wall(0.0)  # times of imported groups are seconds since 1970
PASSED_OVER = {"ShareGroup": "share", "StreamsGroup": "streams"}  # what a key's class begins with: type of group


@dataclass(slots=True)
class TopicFound:
    """``partitions``: one more than the highest that is there."""

    topic_id: UUID | None = None
    partitions: int = 0


@dataclass(slots=True)
class Imported:
    """``groups``: by id, times as of WALL; ``records``: what they are made of, by group id.

    ``topics``: of which there were directories. ``passed_over``: type of group -> ids. ``problems``: what could not be
    read; ``notes``: what one should know besides.
    """

    groups: dict[str, CoordinatedGroup] = field(default_factory=dict)
    records: dict[str, Replay] = field(default_factory=dict)
    topics: dict[str, TopicFound] = field(default_factory=dict)
    passed_over: dict[str, set[str]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Replica:
    """One copy of a partition of the offsets topic, read. ``age``: the higher, the newer it is."""

    path: Path
    replay: Replay = field(default_factory=Replay)
    age: tuple[int, int] = (-1, 0)  # leader epoch of the last batch, offset behind it
    files: dict[int, Path] = field(default_factory=dict)  # first offset of each segment -> file

    def file_of(self, offset: int) -> Path:
        return self.files[max(base for base in self.files if base <= offset)]


def imported(folders: Sequence[Path], settings: Settings) -> Imported:
    """Everything that the offsets topic in these log directories says. They may be of several brokers.

    Raises: LogDirError for a folder that is no log directory, or that of a running broker.
    """
    found = Imported()
    replicas: dict[int, list[_Replica]] = {}
    for folder in folders:
        directories = partitions(folder)
        starts = log_starts(folder)
        if isinstance(starts, Problem):
            found.problems.append(starts)
            starts = {}
        for (topic, index, _), path in directories.items():
            _know_topic(found, topic, index, path)
            if topic == OFFSETS_TOPIC:
                replicas.setdefault(index, []).append(_read(found, path, starts.get((topic, index), 0)))
    if not replicas:
        found.notes.append(f"no partition of {OFFSETS_TOPIC} is there, so no group is")
    elif missing := sorted(set(range(max(replicas))) - set(replicas)):
        found.notes.append(f"partitions of {OFFSETS_TOPIC} that are not there: {', '.join(map(str, missing))}")
    for _, copies in sorted(replicas.items()):
        newest = max(copies, key=lambda replica: replica.age)
        found.notes += [f"{each.path}: {newest.path} is as new or newer" for each in copies if each is not newest]
        _sort(found, newest, settings)
    return found


def _know_topic(found: Imported, topic: str, index: int, path: Path) -> None:
    known = found.topics.setdefault(topic, TopicFound())
    known.partitions = max(known.partitions, index + 1)
    match topic_id(path):
        case Problem() as problem:
            found.problems.append(problem)
        case UUID() as told if known.topic_id not in (None, told):
            found.problems.append(Problem(path, None, "another topic id than other partitions of the topic have"))
        case UUID() as told:
            known.topic_id = told
        case None:
            pass


def _read(found: Imported, path: Path, start: int) -> _Replica:
    replica = _Replica(path)
    last: Path | None = None
    for each in read_partition(path):
        if isinstance(each, Problem):
            found.problems.append(each)
            break
        file, batch = each
        if file != last:
            replica.files[batch.base_offset] = last = file
        if batch.last_offset < start:
            continue
        try:
            replica.replay.add(batch)
        except DecodeError as error:
            text = f"a batch that cannot be read: {error.reason}; read up to offset {batch.base_offset}"
            found.problems.append(Problem(file, batch.position, text))
            break
        replica.age = batch.leader_epoch, batch.last_offset + 1
    return replica


def _sort(found: Imported, replica: _Replica, settings: Settings) -> None:
    """The records of a partition into the groups that they are of."""
    groups: dict[str, Replay] = {}
    unknown: dict[int, list[int]] = {}
    for key, kept in replica.replay.live.items():
        if (group_id := _readable(found, replica, key, kept, unknown)) is not None:
            groups.setdefault(group_id, Replay()).live[key] = kept
    for producer_id, held in replica.replay.pending.items():
        for key, kept in held.items():
            if (group_id := _readable(found, replica, key, kept, unknown)) is not None:
                groups.setdefault(group_id, Replay()).pending.setdefault(producer_id, {})[key] = kept
    for record_type, offsets in unknown.items():
        text = f"records of type {record_type}, which is not known: {len(offsets)}, from offset {min(offsets)} on"
        found.problems.append(Problem(replica.path, None, text))
    for group_id, records in groups.items():
        _rebuild(found, replica.path, group_id, records, settings)


def _readable(found: Imported, replica: _Replica, key: bytes, kept: Kept, unknown: dict[int, list[int]]) -> str | None:
    """The group that a record is of; None if it is told of as one that cannot be read, or passed over."""
    try:
        return _group_of(found, key, kept.value)
    except UnknownRecordType as error:
        unknown.setdefault(error.record_type, []).append(kept.offset)
    except DecodeError as error:
        found.problems.append(_at_offset(replica, kept.offset, error))
    return None


def _rebuild(found: Imported, path: Path, group_id: str, records: Replay, settings: Settings) -> None:
    cluster = Cluster([], new_uuid=_no_uuid)  # nothing is known of topics but names and ids
    context = Context(cluster, settings, _no_uuid, KAFKA_4_2.quirks, KAFKA_4_2.uniform)
    if group_id in found.groups:
        found.notes.append(f"group {group_id!r} is in several partitions; that in {path} counts")
    try:
        made = rebuilt(records, GROUP_TYPES, context, WALL, 0.0)
    except ValueError as error:
        found.problems.append(Problem(path, None, f"group {group_id!r} cannot be rebuilt: {error}"))
        return
    if group_id not in made:
        found.problems.append(Problem(path, None, f"group {group_id!r}: its own record is missing"))
        return
    found.groups[group_id] = made[group_id]
    found.records[group_id] = records


def _no_uuid() -> UUID:
    return UUID(int=0)


def _at_offset(replica: _Replica, offset: int, error: DecodeError) -> Problem:
    kind = "cannot be read here" if isinstance(error, UnknownApi) else "is damaged"
    return Problem(replica.file_of(offset), None, f"the record at offset {offset} {kind}: {error}")


def _group_of(found: Imported, key: bytes, value: bytes) -> str | None:
    """Whose record this is; None if the group is of a type that is passed over. Raises: DecodeError."""
    decoded, _ = decode_record(OFFSETS_TOPIC, key, value)
    group_id = str(getattr(decoded, "group_id", None) or getattr(decoded, "group", ""))
    for prefix, kind in PASSED_OVER.items():
        if type(decoded).__name__.startswith(prefix):
            found.passed_over.setdefault(kind, set()).add(group_id)
            return None
    return group_id
