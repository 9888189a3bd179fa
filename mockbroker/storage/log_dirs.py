"""Read-only access to the log directories of a stopped Kafka broker; files are read in chunks.

Source: Kafka's LogManager.loadLogs, LogLoader, PartitionMetadataFile, CheckpointFile.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from uuid import UUID

from kwire.file_locks import HELD, lock_shared
from kwire.lazy_dataclass import dataclass
from kwire.records.batch import Batch
from mockbroker.storage.layout import (
    META_PROPERTIES,
    PARTITION_METADATA,
    START_OFFSETS,
    read_start_offsets,
    topic_id_of,
)
from mockbroker.storage.segments import (
    CHUNK,
    LOG,
    SWAP,
    Damage,
    Directory,
    Kind,
    classify_files,
    parse_directory_name,
    read_segment,
    segment_name,
)

LOCK = ".lock"  # locked by a running broker
MAX_TEXT_FILE = 16 * 1024 * 1024  # bytes read of a metadata or checkpoint file: a line for each of 100,000 partitions


class LogDirError(ValueError):
    """The error for a path that is not a Kafka log directory, or is the log directory of a running broker."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A file of a log directory that could not be read completely.

    Attributes:
        path: path of the file.
        position: position of the first byte that could not be read; None if the problem has no position.
        text: description of the problem.
    """

    path: Path
    position: int | None
    text: str

    def __str__(self) -> str:
        where = "" if self.position is None else f" at byte {self.position}"
        return f"{self.path}{where}: {self.text}"


def partitions(folder: Path) -> dict[Directory, Path]:
    """Return the directories of the partitions in a log directory: parsed directory name -> path.

    Directories of deleted partitions, stray partitions and future replicas are omitted.

    Raises: LogDirError if the folder cannot be read, is locked by a running broker, or is not a log directory.
    """
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise LogDirError(f"{folder}: cannot list the log directory: {error.strerror}") from error
    _check_unlocked(folder)
    directories: dict[Directory, Path] = {}
    for name in names:
        directory = parse_directory_name(name)
        if directory is not None and directory.kind is Kind.LIVE and (folder / name).is_dir():
            directories[directory] = folder / name
    if META_PROPERTIES not in names and not any(map(_is_partition, directories.values())):
        raise LogDirError(f"{folder}: not a Kafka log directory (no {META_PROPERTIES} and no partition in it)")
    return directories


def _is_partition(path: Path) -> bool:
    """Return whether a directory (``path``) contains files of a partition.

    The name of the directory is not sufficient: ``java-17`` could be partition 17 of a topic ``java``, or a directory
    that is no partition.
    """
    with suppress(OSError):
        return any(name == PARTITION_METADATA or name.endswith(LOG) for name in os.listdir(path))
    return False


def _check_unlocked(folder: Path) -> None:
    with suppress(FileNotFoundError, PermissionError), (folder / LOCK).open("rb") as lock:
        try:
            lock_shared(lock.fileno())
        except OSError as error:
            if error.errno in HELD:
                raise LogDirError(f"{folder}: locked by a running broker; stop the broker first") from error


def read_topic_id(partition: Path) -> UUID | Problem | None:
    """Return the topic id in the directory of a partition.

    Returns:
        The topic id, a Problem if it cannot be read, or None if there is no partition.metadata file.
    """
    path = partition / PARTITION_METADATA
    if (data := _content(path)) is None or isinstance(data, Problem):
        return data
    return topic_id_of(data) or Problem(path, None, "contains no valid topic id")


def read_log_starts(folder: Path) -> Mapping[tuple[str, int], int] | Problem:
    """Return the log start offsets in a log directory, by topic and partition; a Problem if the file cannot be read.

    Partitions with the log start offset 0 have no entry.

    ``folder``: path of the log directory.
    """
    path = folder / START_OFFSETS
    if isinstance(data := _content(path), Problem):
        return data
    if not data:  # a broker creates the file at once, and writes it only after a minute
        return {}
    try:
        return read_start_offsets(data)
    except ValueError as error:
        return Problem(path, None, f"not a valid checkpoint: {error}")


def _content(path: Path) -> bytes | Problem | None:
    try:
        with path.open("rb") as file:
            return file.read(MAX_TEXT_FILE)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Problem(path, None, error.strerror or str(error))


def read_partition(folder: Path) -> Iterator[tuple[Path, Batch] | Problem]:
    """Yield (path of the file, batch) for each batch of a partition, in order.

    If a file is damaged, cannot be read, or overlaps the segment before it, yield a Problem instead of the next batch,
    and end.

    ``folder``: directory of the partition.
    """
    expected = 0
    path = folder
    try:
        segments = _segments(folder)
        for number, (base, name) in enumerate(segments.items(), 1):
            path = folder / name
            unread = len(segments) - number
            following = f"; {unread} following segments are not read" if unread else ""
            if base < expected:
                yield Problem(path, 0, f"base offset {base} overlaps the segment before it{following}")
                return
            for batch in _batches(path, base):
                if isinstance(batch, Damage):
                    yield Problem(
                        path,
                        batch.position,
                        f"{batch.reason.value}: {batch.text}; read up to offset {batch.offset}{following}",
                    )
                    return
                yield path, batch
                expected = batch.last_offset + 1
    except OSError as error:
        yield Problem(path, None, error.strerror or str(error))


def _segments(folder: Path) -> Mapping[int, str]:
    files = classify_files(entry.name for entry in os.scandir(folder) if entry.is_file())
    if not files.swaps:
        return files.segments
    end = last = max(files.swaps)
    for batch in _batches(folder / segment_name(last, LOG + SWAP), last):
        if isinstance(batch, Batch):
            end = batch.last_offset + 1
    return files.with_swaps(end).segments


def _batches(path: Path, base_offset: int) -> Iterator[Batch | Damage]:
    with path.open("rb") as file:
        yield from read_segment(iter(partial(file.read, CHUNK), b""), base_offset)
