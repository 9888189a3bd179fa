"""The files of one partition's directory: segments, indexes and checkpoints, synced in a crash-safe order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from uuid import UUID

from kwire.records.batch import Batch
from mockbroker.storage.disk import Disk, replace_file
from mockbroker.storage.indexes import INDEX, TIME_INDEX, Indexer
from mockbroker.storage.layout import LEADER_EPOCHS, PARTITION_METADATA, leader_epochs, partition_metadata
from mockbroker.storage.segments import CLEANED, LOG, SWAP, segment_name
from mockbroker.topics.log import StoredBatch


class PartitionFiles:
    """The writer of one partition's directory.

    Appended batches are in memory until ``write``, and durable after ``sync``.

    Args:
        disk: the disk.
        folder: path of the partition's directory.

    Attributes:
        segments: base offsets of the segments, the active segment last; empty before the first batch.
    """

    def __init__(self, disk: Disk, folder: str) -> None:
        self.segments: list[int] = []
        self._disk = disk
        self._folder = folder
        self._collected = bytearray()
        self._indexed: set[int] = set()  # base offsets of the segments that have index files
        self._epochs: list[tuple[int, int]] = []  # leader epoch, its first offset
        self._epochs_changed = False
        self._unsynced: list[str] = []  # files with bytes that are not synced
        self._names_unsynced = False

    def create(self, topic_id: UUID) -> None:
        """Create the directory, with the file partition.metadata.

        The directory and the file become durable only when the first batch does.

        ``topic_id``: topic id.
        """
        self._disk.make_folder(self._folder)
        metadata = self._path(PARTITION_METADATA)
        self._disk.write(metadata, partition_metadata(topic_id))
        self._unsynced.append(metadata)

    def restore(self, segments: Sequence[int], batches: Iterable[Batch], indexed: set[int]) -> None:
        """Set the state of the writer after recovery has read an existing directory.

        Args:
            segments: base offsets of the segments, in order.
            batches: all batches of the log, in order.
            indexed: base offsets of the segments that have index files.
        """
        self.segments = list(segments)
        self._indexed = indexed
        last = self.segments[-1] if self.segments else 0
        self._begin(last)
        for batch in batches:
            self._record_epoch(batch.leader_epoch, batch.base_offset)
            if batch.base_offset >= last:
                self._index(batch.last_offset, len(batch.data), batch.max_timestamp)
        self._epochs_changed = False

    def append(self, stored: StoredBatch, leader_epoch: int, *, new_segment: bool) -> None:
        """Append a batch in memory; ``write`` writes it.

        Args:
            stored: the batch.
            leader_epoch: leader epoch of the batch.
            new_segment: True if the batch begins a new segment.
        """
        if new_segment or not self.segments:
            self._roll(stored.base_offset)
        self._record_epoch(leader_epoch, stored.base_offset)
        self._index(stored.last_offset, len(stored.data), stored.max_timestamp)
        self._collected += stored.data

    def roll(self, base_offset: int) -> None:
        """Create a new empty segment file, which becomes the active segment.

        All earlier batches are written and synced first.

        ``base_offset``: base offset of the new segment.
        """
        self._roll(base_offset)
        file = self._path(segment_name(base_offset))
        self._disk.write(file, b"")
        self._unsynced.append(file)

    def write(self) -> None:
        """Write the appended batches to the active segment, without syncing."""
        if self._collected:
            file = self._path(segment_name(self.segments[-1]))
            self._disk.append(file, bytes(self._collected))
            self._collected.clear()
            if file not in self._unsynced:
                self._unsynced.append(file)

    def sync(self) -> None:
        """Make all written batches and files durable.

        Nothing happens before the first segment exists.
        """
        if not self.segments:
            return  # an empty directory need not be durable: recovery creates it again
        self._sync_files()
        if self._epochs_changed:
            replace_file(self._disk, self._path(LEADER_EPOCHS), leader_epochs(self._epochs))
            self._epochs_changed = self._names_unsynced = False
        elif self._names_unsynced:
            self._disk.sync_folder(self._folder)
            self._names_unsynced = False

    def delete_before(self, start: int) -> None:
        """Delete all segments that end before the log start offset, except the active segment.

        ``start``: the log start offset, which must already be durable.

        Leader epochs without remaining records are forgotten.
        """
        while len(self.segments) > 1 and self.segments[1] <= start:
            self._remove_segment(self.segments.pop(0))
        epochs = [(epoch, max(offset, start)) for epoch, offset in self._epochs]
        pairs = zip_longest(epochs, epochs[1:])
        self._epochs = [epoch for epoch, following in pairs if not _empty(epoch, following)]

    def replace(self, base: int, end: int, batches: Sequence[StoredBatch]) -> None:
        """Replace all segments whose base offset is from ``base`` to ``end`` - 1 with one segment.

        After a crash, the log has either the old or the new batches. It has the new batches if the ``.swap`` file
        existed before the crash.

        Args:
            base: base offset of the first replaced segment.
            end: base offset of the first later segment, which is not replaced; an offset above the log end offset if
                all later segments are replaced.
            batches: the batches of the new segment.
        """
        replaced = [each for each in self.segments if base <= each < end]
        is_active = self.segments[-1] in replaced
        if is_active:
            self._collected.clear()  # ``batches`` includes the collected ones that remain
        log, content = segment_name(base), b"".join(stored.data for stored in batches)
        cleaned, swap = self._path(log + CLEANED), self._path(log + SWAP)
        self._disk.write(cleaned, content)
        self._disk.sync(cleaned)
        self._disk.rename(cleaned, swap)
        self._disk.sync_folder(self._folder)
        for other in replaced[1:]:
            self._remove_segment(other)
        self._remove_indexes(base)
        self._disk.sync_folder(self._folder)
        self._disk.rename(swap, self._path(log))
        self._disk.sync_folder(self._folder)
        if (file := self._path(log)) in self._unsynced:
            self._unsynced.remove(file)
        self.segments = [each for each in self.segments if each not in replaced[1:]]
        if is_active:
            self._begin(base)
            for stored in batches:
                self._index(stored.last_offset, len(stored.data), stored.max_timestamp)
            self._truncate_epochs(batches[-1].last_offset + 1 if batches else base)
        else:
            indexer, size = Indexer(base), 0
            for stored in batches:
                indexer.add(stored.last_offset, size, len(stored.data), stored.max_timestamp)
                size += len(stored.data)
            self._write_indexes_of(base, indexer)

    def _truncate_epochs(self, end: int) -> None:
        """Remove the leader epochs that begin at or after the log end offset ``end``."""
        kept = [(epoch, offset) for epoch, offset in self._epochs if offset < end]
        self._epochs_changed |= kept != self._epochs
        self._epochs = kept

    def close(self) -> None:
        """Write the index files of the active segment."""
        if self.segments:
            self._write_indexes()

    def remove(self) -> None:
        """Remove the directory and its files.

        partition.metadata is removed last, so that after a crash the remaining files can still be attributed to their
        topic.
        """
        for name in sorted(self._disk.names(self._folder), key=lambda name: name == PARTITION_METADATA):
            self._disk.remove(self._path(name))
        self._disk.remove_folder(self._folder)

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _begin(self, base: int) -> None:
        """Begin empty indexes for the active segment. ``base``: base offset of the segment."""
        self._size = 0  # bytes of the active segment, collected ones included
        self._indexer = Indexer(base)

    def _roll(self, base: int) -> None:
        """Begin a new segment at the offset ``base``, after syncing all earlier batches and files.

        The sync prevents a crash from leaving a gap between two segments, or batches without partition.metadata.
        """
        if self.segments:
            self.write()
            self.sync()
            self._write_indexes()
        self._sync_files()
        self.segments.append(base)
        self._begin(base)
        self._names_unsynced = True

    def _sync_files(self) -> None:
        for file in self._unsynced:
            self._disk.sync(file)
        self._unsynced.clear()

    def _index(self, last_offset: int, size: int, max_timestamp: int) -> None:
        self._indexer.add(last_offset, self._size, size, max_timestamp)
        self._size += size

    def _record_epoch(self, epoch: int, offset: int) -> None:
        if not self._epochs or epoch > self._epochs[-1][0]:
            self._epochs.append((epoch, offset))
            self._epochs_changed = True

    def _write_indexes(self) -> None:
        self._write_indexes_of(self.segments[-1], self._indexer)

    def _write_indexes_of(self, base: int, indexer: Indexer) -> None:
        self._disk.write(self._path(segment_name(base, INDEX)), bytes(indexer.index))
        self._disk.write(self._path(segment_name(base, TIME_INDEX)), indexer.time_index())
        self._indexed.add(base)

    def _remove_indexes(self, base: int) -> None:
        if base in self._indexed:
            self._indexed.discard(base)
            self._disk.remove(self._path(segment_name(base, INDEX)))
            self._disk.remove(self._path(segment_name(base, TIME_INDEX)))

    def _remove_segment(self, base: int) -> None:
        self._remove_indexes(base)
        name = segment_name(base, LOG)
        file = self._path(name)
        if name in self._disk.names(self._folder):  # else none of its batches was written
            self._disk.remove(file)
        if file in self._unsynced:
            self._unsynced.remove(file)


def _empty(epoch: tuple[int, int], following: tuple[int, int] | None) -> bool:
    """Return whether a leader epoch has no records, because the next epoch begins at the same offset.

    The result is False for the last epoch (``following`` is None). Both arguments are pairs of epoch and first offset.
    """
    return following is not None and epoch[1] >= following[1]
