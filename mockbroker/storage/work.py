"""Operations on a data directory, and the worker that performs them in order; it may run in a thread of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from mockbroker.storage.catalogue import CATALOGUE
from mockbroker.storage.disk import Disk, replace_file
from mockbroker.storage.layout import START_OFFSETS, Place, start_offsets
from mockbroker.storage.partition_files import PartitionFiles
from mockbroker.storage.segments import directory_name
from mockbroker.topics.log import StoredBatch


@dataclass(frozen=True, slots=True)
class Create:
    """The creation of a partition's directory."""

    place: Place
    topic_id: UUID


@dataclass(frozen=True, slots=True)
class Append:
    """The append of a batch to a partition's log."""

    place: Place
    stored: StoredBatch
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class DeleteBefore:
    """The deletion of all records before the log start offset ``start``."""

    place: Place
    start: int


@dataclass(frozen=True, slots=True)
class Replace:
    """The replacement of all batches of a log, after compaction."""

    place: Place
    batches: Sequence[StoredBatch]


@dataclass(frozen=True, slots=True)
class Delete:
    """The deletion of a partition's directory."""

    place: Place


Operation: TypeAlias = Create | Append | DeleteBefore | Replace | Delete


@dataclass(frozen=True, slots=True)
class Work:
    """A group of changes that become durable together.

    Attributes:
        number: number of the last change in this group.
        catalogue: new content of the catalogue file, or None if it is unchanged.
        segment_bytes: segment.bytes of the topics that configure it.
        operations: changes of partition directories, in order.
    """

    number: int
    catalogue: bytes | None
    segment_bytes: Mapping[str, int]
    operations: Sequence[Operation]


class Worker:
    """The one writer of a data directory. Not thread-safe: only one thread may call it at a time.

    Args:
        disk: the disk of the data directory.
        partitions: the partition directories that exist.
        starts: log start offsets that differ from the first segment's base offset.
        segment_bytes: segment.bytes of topics that do not configure it.
    """

    def __init__(
        self, disk: Disk, partitions: dict[Place, PartitionFiles], starts: dict[Place, int], segment_bytes: int
    ) -> None:
        self._disk = disk
        self._partitions = partitions
        self._starts = starts
        self._segment_bytes = segment_bytes
        self._names_unsynced = True  # recovery may have created directories

    def perform(self, work: Work) -> None:
        """Write and sync all changes of ``work``. Raises: OSError.

        The catalogue is written before directories are created, so that after a crash each directory belongs to a
        topic. Log start offsets are written before the segments before them are deleted.
        """
        if work.catalogue is not None:
            replace_file(self._disk, CATALOGUE, work.catalogue)
        appended: dict[Place, PartitionFiles] = {}
        new_starts: dict[Place, int] = {}
        for operation in work.operations:
            place = operation.place
            match operation:
                case Append(_, stored, leader_epoch):
                    files = appended[place] = self._partitions[place]
                    files.append(stored, leader_epoch, work.segment_bytes.get(place[0], self._segment_bytes))
                case DeleteBefore(_, start):
                    new_starts[place] = start
                case Replace(_, batches):
                    self._partitions[place].replace(batches)
                case Create(_, topic_id):
                    files = self._partitions[place] = PartitionFiles(self._disk, directory_name(*place))
                    files.create(topic_id)
                    self._names_unsynced = True
                case Delete():
                    appended.pop(place, None)
                    new_starts.pop(place, None)
                    self._delete(place)
        for files in appended.values():
            files.write()
        for files in appended.values():
            files.sync()
        if self._names_unsynced and appended:
            self._disk.sync_folder("")
            self._names_unsynced = False
        if new_starts:
            self._starts |= new_starts
            replace_file(self._disk, START_OFFSETS, start_offsets(self._starts))
            for place, start in new_starts.items():
                self._partitions[place].delete_before(start)

    def close(self) -> None:
        """Write the index files of the active segments. Raises: OSError."""
        for files in self._partitions.values():
            files.close()

    def _delete(self, place: Place) -> None:
        if self._starts.pop(place, None) is not None:
            replace_file(self._disk, START_OFFSETS, start_offsets(self._starts))
        self._partitions.pop(place).remove()
        self._names_unsynced = True
