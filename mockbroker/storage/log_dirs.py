"""The log directories of a broker that is stopped: read in pieces, and never written to.

Source: Kafka's LogManager.loadLogs, LogLoader, PartitionMetadataFile, CheckpointFile.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import UUID

from kwire.records.batch import Batch
from mockbroker.storage.layout import (
    META_PROPERTIES,
    PARTITION_METADATA,
    START_OFFSETS,
    read_start_offsets,
    topic_id_of,
)
from mockbroker.storage.segments import (
    LOG,
    PIECE,
    SWAP,
    Damage,
    Directory,
    Kind,
    parsed_directory,
    read_segment,
    segment_name,
    sorted_files,
)

LOCK = ".lock"  # a broker that runs has locked it
SMALL = 16 * 1024 * 1024  # bytes of a file of text: a line for each of 100,000 partitions
_HELD = {errno.EAGAIN, errno.EACCES}


class LogDirError(ValueError):
    """A path that is no log directory, or that of a broker which runs."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What of the files could not be read, for people. ``position``: byte of the file, None if that says nothing."""

    path: Path
    position: int | None
    text: str

    def __str__(self) -> str:
        where = "" if self.position is None else f" at byte {self.position}"
        return f"{self.path}{where}: {self.text}"


def partitions(folder: Path) -> dict[Directory, Path]:
    """The directories of live partitions. Raises: LogDirError."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise LogDirError(f"{folder}: {error.strerror}") from error
    _refuse_running(folder)
    found: dict[Directory, Path] = {}
    for name in names:
        directory = parsed_directory(name)
        if directory is not None and directory.kind is Kind.LIVE and (folder / name).is_dir():
            found[directory] = folder / name
    if META_PROPERTIES not in names and not any(map(_is_partition, found.values())):
        raise LogDirError(f"{folder}: no log directory of Kafka: neither {META_PROPERTIES} nor a partition in it")
    return found


def _is_partition(path: Path) -> bool:
    """Whether a directory has what only a partition has: its name alone could be anything's, as java-17 in /etc."""
    with suppress(OSError):
        return any(name == PARTITION_METADATA or name.endswith(LOG) for name in os.listdir(path))
    return False


def _refuse_running(folder: Path) -> None:
    with suppress(FileNotFoundError, PermissionError), (folder / LOCK).open("rb") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _HELD:
                raise LogDirError(f"{folder}: a broker is running on it; stop it first") from error


def topic_id(partition: Path) -> UUID | Problem | None:
    """The id of the topic that a partition belongs to; None if no file says it."""
    path = partition / PARTITION_METADATA
    if (data := _content(path)) is None or isinstance(data, Problem):
        return data
    return topic_id_of(data) or Problem(path, None, "no topic id in it")


def log_starts(folder: Path) -> Mapping[tuple[str, int], int] | Problem:
    """The first offset that counts of each partition, by topic and partition, where it is not 0."""
    path = folder / START_OFFSETS
    if isinstance(data := _content(path), Problem):
        return data
    if not data:  # a broker makes the file at once, and writes it after a minute
        return {}
    try:
        return read_start_offsets(data)
    except ValueError as error:
        return Problem(path, None, f"no checkpoint: {error}")


def _content(path: Path) -> bytes | Problem | None:
    try:
        with path.open("rb") as file:
            return file.read(SMALL)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Problem(path, None, error.strerror or str(error))


def read_partition(folder: Path) -> Iterator[tuple[Path, Batch] | Problem]:
    """The batches of a partition in order, each with its file, up to the first damage, which is told last."""
    expected = 0
    path = folder
    try:
        segments = _segments(folder)
        for number, (base, name) in enumerate(segments.items(), 1):
            path = folder / name
            left = len(segments) - number
            behind = f"; {left} segments behind it are not read" if left else ""
            if base < expected:
                yield Problem(path, 0, f"begins at offset {base}, which is in the segment before it{behind}")
                return
            for found in _batches(path, base):
                if isinstance(found, Damage):
                    yield Problem(
                        path,
                        found.position,
                        f"{found.reason.value}: {found.text}; read up to offset {found.offset}{behind}",
                    )
                    return
                yield path, found
                expected = found.last_offset + 1
    except OSError as error:
        yield Problem(path, None, error.strerror or str(error))


def _segments(folder: Path) -> Mapping[int, str]:
    files = sorted_files(each.name for each in os.scandir(folder) if each.is_file())
    if not files.swaps:
        return files.segments
    end = last = max(files.swaps)
    for found in _batches(folder / segment_name(last, LOG + SWAP), last):
        if isinstance(found, Batch):
            end = found.last_offset + 1
    return files.swapped(end).segments


def _batches(path: Path, base_offset: int) -> Iterator[Batch | Damage]:
    with path.open("rb") as file:
        yield from read_segment(iter(partial(file.read, PIECE), b""), base_offset)
