"""Recovery of a data directory at startup.

The recovery reads the logs, truncates torn writes, and finishes interrupted operations. Another crash may interrupt
every operation; the operation is then repeated at the next startup.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import field
from itertools import chain, count
from uuid import UUID

from kwire.lazy_dataclass import dataclass
from kwire.records.batch import Batch
from mockbroker.storage.catalogue import CATALOGUE, Catalogue, CatalogueError, TopicEntry, decode_catalogue
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
    Kind,
    Reason,
    SegmentFiles,
    classify_files,
    directory_name,
    parse_directory_name,
    read_segment,
    segment_name,
)

log = logging.getLogger("mockbroker")

DAMAGED = ".damaged"
STRAY_TOPIC = 200  # characters of the topic name in the name of a stray directory: file names have at most 255


@dataclass(slots=True)
class RecoveredLog:
    """The recovered log of one partition.

    Attributes:
        files: the writer for further changes of the partition's directory.
        batches: all batches on disk, in order; some may be before ``start``.
        start: the log start offset.
        end: the log end offset.
    """

    files: PartitionFiles
    batches: Sequence[Batch] = ()
    start: int = 0
    end: int = 0


@dataclass(slots=True)
class Recovered:
    """The content of a recovered data directory.

    Attributes:
        catalogue: metadata of the cluster.
        logs: recovered logs by topic and partition.
        starts: log start offsets from the checkpoint file, by topic and partition.
    """

    catalogue: Catalogue
    logs: dict[Place, RecoveredLog] = field(default_factory=dict)
    starts: dict[Place, int] = field(default_factory=dict)


def recover(disk: Disk) -> Recovered | None:
    """Recover a data directory; return None if it is new.

    Raises: DataDirError if the directory is damaged or is a log directory of Kafka; OSError if a file cannot be read or
        written.
    """
    names = disk.names("")
    if CATALOGUE not in names:
        if foreign := next((name for name in names if name == META_PROPERTIES or parse_directory_name(name)), None):
            raise DataDirError(
                f"the folder contains {foreign} but no {CATALOGUE}, so it is a log "
                "directory of Kafka: read it with mockbroker import"
            )
        return None
    try:
        catalogue = decode_catalogue(disk.read(CATALOGUE))
        starts = read_start_offsets(disk.read(START_OFFSETS)) if START_OFFSETS in names else {}
    except CatalogueError as error:
        raise DataDirError(str(error)) from error
    except ValueError as error:
        raise DataDirError(f"{START_OFFSETS} is damaged: {error}") from error
    disk.sync_folder("")  # an interrupted start may have left names that are not synced
    topics = {topic.name: topic for topic in catalogue.topics}
    folders = {name for name in names if _is_live_partition(disk, name, topics, catalogue.deleted)}
    live_starts = {place: start for place, start in starts.items() if directory_name(*place) in folders}
    recovered = Recovered(catalogue, {}, live_starts)
    if live_starts != starts:  # before new directories are created, which stale entries would apply to
        replace_file(disk, START_OFFSETS, start_offsets(live_starts))
    for topic in catalogue.topics:
        for index in range(len(topic.partitions)):
            place = topic.name, index
            folder = directory_name(*place)
            if folder in folders:
                recovered.logs[place] = _recover_log(disk, folder, starts.get(place, 0))
            else:  # a crash came before the directory was created
                files = PartitionFiles(disk, folder)
                files.create(topic.topic_id)
                recovered.logs[place] = RecoveredLog(files)
    return recovered


def _is_live_partition(disk: Disk, name: str, topics: dict[str, TopicEntry], deleted: Collection[UUID]) -> bool:
    """Return whether a directory belongs to a partition in the catalogue.

    Remove or rename a directory of any other partition.

    The directory is removed if its topic was deleted or if it contains no batches. Otherwise it gets the suffix
    ``-stray``. A directory is not changed if its name is not that of a partition, or has a suffix such as ``-delete``.

    Args:
        disk: the disk of the data directory.
        name: name of the directory.
        topics: topics in the catalogue, by name.
        deleted: ids of deleted topics.
    """
    directory = parse_directory_name(name)
    if directory is None or directory.kind is not Kind.LIVE:
        return False
    topic = topics.get(directory.topic)
    names = disk.names(name)
    topic_id = topic_id_of(disk.read(f"{name}/{PARTITION_METADATA}")) if PARTITION_METADATA in names else None
    if topic is not None and directory.partition < len(topic.partitions) and topic_id == topic.topic_id:
        return True
    if topic_id in deleted or not _has_batches(disk, name, names):
        PartitionFiles(disk, name).remove()
        return False
    suffix = f"{'unknown' if topic_id is None else topic_id.hex}{Kind.STRAY.value}"
    stray = f"{directory.topic[:STRAY_TOPIC]}-{directory.partition}.{suffix}"
    log.warning("%s: the folder belongs to no topic of this cluster and was renamed to %s", name, stray)
    disk.rename(name, stray)
    return False


def _has_batches(disk: Disk, folder: str, names: Sequence[str]) -> bool:
    return any(disk.read(f"{folder}/{name}") for name in classify_files(names).segments.values())


def _recover_log(disk: Disk, folder: str, start: int) -> RecoveredLog:
    files = classify_files(disk.names(folder))
    _remove(disk, folder, files.dropped)
    segments = _complete_swaps(disk, folder, files)
    bases, batches, end = _read_segments(disk, folder, segments)
    if bases:
        disk.sync(f"{folder}/{segment_name(bases[-1])}")  # clients will see batches that may not be synced yet
        disk.sync_folder(folder)
    names = set(disk.names(folder))
    indexed = {base for base in bases if names.issuperset(_indexes(base))}
    partition_files = PartitionFiles(disk, folder)
    partition_files.restore(bases, batches, indexed)
    start = max(start, bases[0] if bases else 0)
    return RecoveredLog(partition_files, batches, start, max(start, end))


def _complete_swaps(disk: Disk, folder: str, files: SegmentFiles) -> dict[int, str]:
    """Complete a compaction that a crash has interrupted: rename its ``.swap`` files to segment files.

    The segments that the ``.swap`` files replace are removed first. Without ``.swap`` files, nothing is changed.

    Args:
        disk: the disk of the data directory.
        folder: directory of the partition.
        files: files of the directory.

    Returns: base offset -> file name of each segment after the renames.
    """
    if not files.swaps:
        return files.segments
    last = max(files.swaps)
    end = last
    for batch in _read(disk, f"{folder}/{files.swaps[last]}", last):
        end = batch.offset if isinstance(batch, Damage) else batch.last_offset + 1
    result = files.with_swaps(end)
    _remove(disk, folder, result.dropped)
    replaced = files.segments.keys() - result.segments.keys() | files.swaps.keys()
    _remove(disk, folder, [name for base in sorted(replaced) for name in _indexes(base)])
    disk.sync_folder(folder)
    segments = {base: name.removesuffix(SWAP) for base, name in result.segments.items()}
    for base, name in files.swaps.items():
        disk.rename(f"{folder}/{name}", f"{folder}/{segments[base]}")
    disk.sync_folder(folder)
    return segments


def _read_segments(disk: Disk, folder: str, segments: dict[int, str]) -> tuple[list[int], list[Batch], int]:
    """Read the segments of a partition up to the first damage.

    The damaged segment is truncated at the damage, and its indexes are removed. All later segments, and all segments
    that overlap the previous segment, are renamed, so that they are not read again.

    Args:
        disk: the disk of the data directory.
        folder: directory of the partition.
        segments: file names by base offset.

    Returns: the base offsets of the readable segments, their batches, and the log end offset.
    """
    bases: list[int] = []
    batches: list[Batch] = []
    end = 0
    damaged = False
    for base, name in segments.items():
        path = f"{folder}/{name}"
        if damaged or base < end:
            log.warning(
                "%s: the segment overlaps the previous segment, or follows a damaged one, and was renamed to %s",
                path,
                _rename_damaged(disk, folder, name),
            )
            continue
        bases.append(base)
        end = base
        for batch in _read(disk, path, base):
            if isinstance(batch, Damage):
                damaged = True
                _truncate(disk, folder, name, batch)
                _remove(disk, folder, _indexes(base))
            else:
                batches.append(batch)
                end = batch.last_offset + 1
    return bases, batches, end


def _read(disk: Disk, path: str, base: int) -> Iterator[Batch | Damage]:
    return read_segment([disk.read(path)], base)


def _truncate(disk: Disk, folder: str, name: str, damage: Damage) -> None:
    """Truncate a segment at its first damage.

    The removed bytes are saved in a new file, except if they are only the incomplete last write before a crash (a torn
    write).

    Args:
        disk: the disk of the data directory.
        folder: directory of the partition.
        name: file name of the segment.
        damage: position and kind of the damage.
    """
    path, saved = f"{folder}/{name}", ""
    if damage.reason is not Reason.TORN:
        saved = _free_name(disk, folder, f"{name}{DAMAGED}")
        disk.write(f"{folder}/{saved}", disk.read(path)[damage.position :])
        disk.sync(f"{folder}/{saved}")
    rest = saved and f"; the removed bytes are in {saved}"
    log.warning("%s: the segment was truncated at byte %d: %s%s", path, damage.position, damage.text, rest)
    disk.truncate(path, damage.position)


def _rename_damaged(disk: Disk, folder: str, name: str) -> str:
    damaged = _free_name(disk, folder, f"{name}{DAMAGED}")
    disk.rename(f"{folder}/{name}", f"{folder}/{damaged}")
    return damaged


def _free_name(disk: Disk, folder: str, name: str) -> str:
    used = disk.names(folder)
    candidates = chain([name], (f"{name}.{n}" for n in count(1)))
    return next(candidate for candidate in candidates if candidate not in used)


def _indexes(base: int) -> tuple[str, str]:
    return segment_name(base, INDEX), segment_name(base, TIME_INDEX)


def _remove(disk: Disk, folder: str, names: Iterable[str]) -> None:
    """Remove the files with these names from a folder; skip names that do not exist."""
    existing = disk.names(folder)
    for name in names:
        if name in existing:
            disk.remove(f"{folder}/{name}")
