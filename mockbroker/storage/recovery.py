"""A data directory as a start finds it: what is in it, and what is mended before anything is written.

Everything here may be cut short by the next crash and begun anew.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from uuid import UUID

from kwire.records.batch import Batch
from mockbroker.storage.catalogue import CATALOGUE, Catalogue, CatalogueError, KeptTopic, parsed
from mockbroker.storage.disk import DataDirError, Disk, replace_file
from mockbroker.storage.indexes import INDEX, TIME_INDEX
from mockbroker.storage.layout import (
    META_PROPERTIES,
    PARTITION_METADATA,
    START_OFFSETS,
    Place,
    read_start_offsets,
    start_offsets,
    topic_id_of,
)
from mockbroker.storage.partition_files import PartitionFiles
from mockbroker.storage.segments import (
    SWAP,
    Damage,
    Files,
    Kind,
    Reason,
    directory_name,
    parsed_directory,
    read_segment,
    segment_name,
    sorted_files,
)

log = logging.getLogger("mockbroker")

DAMAGED = ".damaged"
STRAY_TOPIC = 200  # characters of its name that a directory keeps which is put aside: names end at 255


@dataclass(slots=True)
class KeptLog:
    """``start``, ``end``: its first offset and the one behind its last. ``batches``: some may lie before ``start``."""

    files: PartitionFiles
    batches: Sequence[Batch] = ()
    start: int = 0
    end: int = 0


@dataclass(slots=True)
class Kept:
    """Everything that a data directory has. ``starts``: as its checkpoint says."""

    catalogue: Catalogue
    logs: dict[Place, KeptLog] = field(default_factory=dict)
    starts: dict[Place, int] = field(default_factory=dict)


def recover(disk: Disk) -> Kept | None:
    """What is there; None if nobody wrote here before. Raises: DataDirError, OSError."""
    names = disk.names("")
    if CATALOGUE not in names:
        if found := next((name for name in names if name == META_PROPERTIES or parsed_directory(name)), None):
            raise DataDirError(f"there is {found}, but no {CATALOGUE}: it belongs to a Kafka; see mockbroker import")
        return None
    try:
        catalogue = parsed(disk.read(CATALOGUE))
        starts = read_start_offsets(disk.read(START_OFFSETS)) if START_OFFSETS in names else {}
    except CatalogueError as error:
        raise DataDirError(str(error)) from error
    except ValueError as error:
        raise DataDirError(f"{START_OFFSETS} is damaged: {error}") from error
    disk.sync_folder("")  # a start that was cut short may have seen names that nobody made sure
    topics = {topic.name: topic for topic in catalogue.topics}
    there = {name for name in names if _is_ours(disk, name, topics, catalogue.deleted)}
    kept = Kept(catalogue, {}, {place: start for place, start in starts.items() if directory_name(*place) in there})
    if kept.starts != starts:  # before there are directories that others of the same name might be taken for
        replace_file(disk, START_OFFSETS, start_offsets(kept.starts))
    for topic in catalogue.topics:
        for index in range(len(topic.partitions)):
            place = topic.name, index
            folder = directory_name(*place)
            if folder in there:
                kept.logs[place] = _recover_log(disk, folder, starts.get(place, 0))
            else:  # the crash came before it was made
                files = PartitionFiles(disk, folder)
                files.create(topic.topic_id)
                kept.logs[place] = KeptLog(files)
    return kept


def _is_ours(disk: Disk, name: str, topics: dict[str, KeptTopic], deleted: Collection[UUID]) -> bool:
    """True for the directory of a partition that there is. What a deleted topic left is removed."""
    found = parsed_directory(name)
    if found is None or found.kind is not Kind.LIVE:
        return False
    topic = topics.get(found.topic)
    known = topic is not None and found.partition < len(topic.partitions)
    names = disk.names(name)
    topic_id = topic_id_of(disk.read(f"{name}/{PARTITION_METADATA}")) if PARTITION_METADATA in names else None
    if known and topic is not None and topic_id == topic.topic_id:
        return True
    if topic_id in deleted or not _has_batches(disk, name, names):
        PartitionFiles(disk, name).remove()
        return False
    aside = f"{found.topic[:STRAY_TOPIC]}-{found.partition}.{'unknown' if topic_id is None else topic_id.hex}"
    log.warning("%s: it belongs to no topic that there is, and is put aside as %s%s", name, aside, Kind.STRAY.value)
    disk.rename(name, aside + Kind.STRAY.value)
    return False


def _has_batches(disk: Disk, folder: str, names: Sequence[str]) -> bool:
    return any(disk.read(f"{folder}/{name}") for name in sorted_files(names).segments.values())


def _recover_log(disk: Disk, folder: str, start: int) -> KeptLog:
    files = sorted_files(disk.names(folder))
    _remove(disk, folder, files.dropped)
    segments = _swapped(disk, folder, files)
    bases, batches, end = _read_segments(disk, folder, segments)
    if bases:
        disk.sync(f"{folder}/{segment_name(bases[-1])}")  # clients will see what nobody may have made sure
        disk.sync_folder(folder)
    names = set(disk.names(folder))
    indexed = {base for base in bases if names.issuperset(_indexes(base))}
    kept = PartitionFiles(disk, folder)
    kept.put_back(bases, batches, indexed)
    start = max(start, bases[0] if bases else 0)
    return KeptLog(kept, batches, start, max(start, end))


def _swapped(disk: Disk, folder: str, files: Files) -> dict[int, str]:
    """The segments, with those in place that compaction had finished."""
    if not files.swaps:
        return files.segments
    last = max(files.swaps)
    end = last
    for found in _read(disk, f"{folder}/{files.swaps[last]}", last):
        end = found.offset if isinstance(found, Damage) else found.last_offset + 1
    placed = files.swapped(end)
    _remove(disk, folder, placed.dropped)
    _remove(disk, folder, [name for base in files.swaps for name in _indexes(base)])
    disk.sync_folder(folder)
    segments = {base: name.removesuffix(SWAP) for base, name in placed.segments.items()}
    for base, name in files.swaps.items():
        disk.rename(f"{folder}/{name}", f"{folder}/{segments[base]}")
    disk.sync_folder(folder)
    return segments


def _read_segments(disk: Disk, folder: str, segments: dict[int, str]) -> tuple[list[int], list[Batch], int]:
    """Base offsets of the segments that stay, their batches, and the offset behind them."""
    bases: list[int] = []
    batches: list[Batch] = []
    end = 0
    damaged = False
    for base, name in segments.items():
        path = f"{folder}/{name}"
        if damaged or base < end:
            log.warning("%s: put aside as %s, what is before it is damaged", path, _put_aside(disk, folder, name))
            continue
        bases.append(base)
        end = base
        for found in _read(disk, path, base):
            if isinstance(found, Damage):
                damaged = True
                _cut(disk, folder, name, found)
                _remove(disk, folder, _indexes(base))
            else:
                batches.append(found)
                end = found.last_offset + 1
    return bases, batches, end


def _read(disk: Disk, path: str, base: int) -> Iterator[Batch | Damage]:
    return read_segment([disk.read(path)], base)


def _cut(disk: Disk, folder: str, name: str, damage: Damage) -> None:
    """Cut a file where its whole batches end. What nobody was writing when it was damaged is kept beside it."""
    path, aside = f"{folder}/{name}", ""
    if damage.reason is not Reason.TORN:
        aside = _free_name(disk, folder, f"{name}{DAMAGED}")
        disk.write(f"{folder}/{aside}", disk.read(path)[damage.position :])
        disk.sync(f"{folder}/{aside}")
    log.warning("%s: cut at byte %d: %s%s", path, damage.position, damage.text, aside and f"; the rest is in {aside}")
    disk.truncate(path, damage.position)


def _put_aside(disk: Disk, folder: str, name: str) -> str:
    aside = _free_name(disk, folder, f"{name}{DAMAGED}")
    disk.rename(f"{folder}/{name}", f"{folder}/{aside}")
    return aside


def _free_name(disk: Disk, folder: str, name: str) -> str:
    taken = disk.names(folder)
    return next(each for each in chain([name], (f"{name}.{n}" for n in count(1))) if each not in taken)


def _indexes(base: int) -> tuple[str, str]:
    return segment_name(base, INDEX), segment_name(base, TIME_INDEX)


def _remove(disk: Disk, folder: str, names: Iterable[str]) -> None:
    """Remove those of them that are there."""
    there = disk.names(folder)
    for name in names:
        if name in there:
            disk.remove(f"{folder}/{name}")
