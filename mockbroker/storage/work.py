"""The operations that change a data directory, and the worker that performs them in order.

The worker may run in a separate thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias
from uuid import UUID

from kwire.lazy_dataclass import dataclass
from kwire.records.batch import read_batch
from mockbroker.storage.catalogue import CATALOGUE
from mockbroker.storage.disk import Disk, replace_file
from mockbroker.storage.layout import START_OFFSETS, Place, start_offsets
from mockbroker.storage.partition_files import PartitionFiles
from mockbroker.storage.segments import directory_name
from mockbroker.topics.log import StoredBatch
from mockbroker.topics.model import TRANSACTIONS_TOPIC


@dataclass(frozen=True, slots=True)
class Create:
    """The operation that creates a partition's directory.

    Attributes:
        place: topic and partition number.
        topic_id: topic id.
    """

    place: Place
    topic_id: UUID


@dataclass(frozen=True, slots=True)
class Append:
    """The operation that appends a batch to a partition's log.

    Attributes:
        place: topic and partition number.
        stored: the batch.
        leader_epoch: leader epoch of the batch.
        new_segment: True if the batch begins a new segment.
    """

    place: Place
    stored: StoredBatch
    leader_epoch: int
    new_segment: bool


@dataclass(frozen=True, slots=True)
class Roll:
    """The operation that begins a new segment without a batch.

    Attributes:
        place: topic and partition number.
        base_offset: base offset of the new segment.
    """

    place: Place
    base_offset: int


@dataclass(frozen=True, slots=True)
class DeleteBefore:
    """The operation that deletes all records of a partition before an offset.

    Attributes:
        place: topic and partition number.
        start: the new log start offset.
    """

    place: Place
    start: int


@dataclass(frozen=True, slots=True)
class Replace:
    """The operation that replaces segments by one segment, after compaction or truncation.

    Attributes:
        place: topic and partition number.
        base_offset: base offset of the first replaced segment.
        end: base offset of the first later segment, which is not replaced; an offset above the previous log end offset
            if all later segments are replaced.
        batches: the batches of the new segment.
    """

    place: Place
    base_offset: int
    end: int
    batches: Sequence[StoredBatch]


@dataclass(frozen=True, slots=True)
class Delete:
    """The operation that deletes a partition's directory. ``place``: topic and partition number."""

    place: Place


Operation: TypeAlias = Create | Append | Roll | DeleteBefore | Replace | Delete


@dataclass(frozen=True, slots=True)
class Work:
    """A group of changes that become durable together.

    Attributes:
        number: number of the last change in this group.
        catalogue: new content of the catalogue file; None if it is unchanged.
        operations: changes of partition directories, in order.
    """

    number: int
    catalogue: bytes | None
    operations: Sequence[Operation]


def in_phases(operations: Sequence[Operation]) -> Iterator[Sequence[Operation]]:
    """Yield operations in phases; each phase must be durable before the next one is written.

    The decision to commit or abort a transaction is durable before its markers, so that after a crash the next start
    completes the transaction in the same way. The markers are durable before the transaction log shows that the
    transaction is complete, and that the producer has begun the next one. Without changes of the transaction log, there
    is one phase.

    ``operations``: changes of partition directories, in order.
    """
    if all(operation.place[0] != TRANSACTIONS_TOPIC for operation in operations):
        yield operations
        return
    decisions, others, has_markers = list[Operation](), list[Operation](), False
    for operation in operations:
        if operation.place[0] != TRANSACTIONS_TOPIC:
            others.append(operation)
            has_markers |= isinstance(operation, Append) and read_batch(operation.stored.data).control
            continue
        if has_markers:
            yield decisions
            yield others
            decisions, others, has_markers = [], [], False
        decisions.append(operation)
    yield decisions
    yield others


class Worker:
    """The only writer of a data directory. At most one thread may call it at a time.

    Args:
        disk: the disk of the data directory.
        partitions: the existing partition directories, by topic and partition.
        starts: log start offsets that differ from the base offset of the first segment, by topic and partition.
    """

    def __init__(self, disk: Disk, partitions: dict[Place, PartitionFiles], starts: dict[Place, int]) -> None:
        self._disk = disk
        self._partitions = partitions
        self._starts = starts
        self._names_unsynced = True  # recovery may have created directories

    def perform(self, work: Work) -> None:
        """Write and sync all changes of ``work``. Raises: OSError if a file cannot be written.

        The catalogue is written before directories are created, so that after a crash each directory belongs to a
        topic. Transactions are written in an order in which a crash cannot divide them (see ``in_phases``). Log start
        offsets are written before segments are deleted.
        """
        if work.catalogue is not None:
            replace_file(self._disk, CATALOGUE, work.catalogue, private=True)  # it has credentials
        for phase in in_phases(work.operations):
            self._perform(phase)

    def _perform(self, operations: Sequence[Operation]) -> None:
        """Write and sync changes of partition directories. ``operations``: the changes, in order."""
        appended: dict[Place, PartitionFiles] = {}
        new_starts: dict[Place, int] = {}
        for operation in operations:
            place = operation.place
            match operation:
                case Append(_, stored, leader_epoch, new_segment):
                    files = appended[place] = self._partitions[place]
                    files.append(stored, leader_epoch, new_segment=new_segment)
                case Roll(_, base_offset):
                    files = appended[place] = self._partitions[place]
                    files.roll(base_offset)
                case DeleteBefore(_, start):
                    new_starts[place] = start
                case Replace(_, base_offset, end, batches):
                    self._partitions[place].replace(base_offset, end, batches)
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
        """Write the index files of the active segments. Raises: OSError if a file cannot be written."""
        for files in self._partitions.values():
            files.close()

    def _delete(self, place: Place) -> None:
        if self._starts.pop(place, None) is not None:
            replace_file(self._disk, START_OFFSETS, start_offsets(self._starts))
        self._partitions.pop(place).remove()
        self._names_unsynced = True
