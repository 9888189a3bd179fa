"""The files of one partition's directory: segments, indexes and checkpoints, synced in an order that is crash-safe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

from kwire.records.batch import Batch
from mockbroker.storage.disk import Disk, replace_file
from mockbroker.storage.indexes import INDEX, TIME_INDEX, Indexer
from mockbroker.storage.layout import LEADER_EPOCHS, PARTITION_METADATA, leader_epochs, partition_metadata
from mockbroker.storage.segments import CLEANED, LOG, OFFSETS_IN_A_SEGMENT, SWAP, segment_name
from mockbroker.topics.log import StoredBatch


class PartitionFiles:
    """The writer of one partition's directory: batches are collected until ``write`` and durable after ``sync``.

    Attributes:
        segments: base offsets of the segments, the active segment last; empty before the first batch.
    """

    def __init__(self, disk: Disk, folder: str) -> None:
        self.segments: list[int] = []
        self._disk = disk
        self._folder = folder
        self._size = 0  # bytes of the active segment, collected ones included
        self._collected = bytearray()
        self._indexer = Indexer(0)
        self._indexed: set[int] = set()  # base offsets of the segments that have index files
        self._epochs: list[tuple[int, int]] = []  # leader epoch, its first offset
        self._epochs_changed = False
        self._unsynced: list[str] = []  # files with bytes that are not synced
        self._names_unsynced = False

    def create(self, topic_id: UUID) -> None:
        """Create the directory with partition.metadata; it becomes durable with the first batch."""
        self._disk.make_folder(self._folder)
        metadata = self._path(PARTITION_METADATA)
        self._disk.write(metadata, partition_metadata(topic_id))
        self._unsynced.append(metadata)
        self._names_unsynced = True

    def restore(self, segments: Sequence[int], batches: Iterable[Batch], indexed: set[int]) -> None:
        """Set the state that recovery read from the directory.

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

    def append(self, stored: StoredBatch, leader_epoch: int, segment_bytes: int) -> None:
        """Append a batch; roll the segment if it would exceed ``segment_bytes`` (one batch may be larger)."""
        full = self._size and self._size + len(stored.data) > segment_bytes
        if not self.segments or full or stored.last_offset - self.segments[-1] >= OFFSETS_IN_A_SEGMENT:
            self._roll(stored.base_offset)
        self._record_epoch(leader_epoch, stored.base_offset)
        self._index(stored.last_offset, len(stored.data), stored.max_timestamp)
        self._collected += stored.data

    def write(self) -> None:
        """Write the collected batches to the active segment, without syncing."""
        if self._collected:
            file = self._path(segment_name(self.segments[-1]))
            self._disk.append(file, bytes(self._collected))
            self._collected.clear()
            if file not in self._unsynced:
                self._unsynced.append(file)

    def sync(self) -> None:
        """Make everything that was written durable."""
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
        """Delete the segments before the log start offset, which must be durable already."""
        while len(self.segments) > 1 and self.segments[1] <= start:
            self._remove_segment(self.segments.pop(0))
        epochs = [(epoch, max(offset, start)) for epoch, offset in self._epochs]
        pairs = zip(epochs, [*epochs[1:], None], strict=True)
        self._epochs = [epoch for epoch, following in pairs if not _empty(epoch, following)]

    def replace(self, batches: Sequence[StoredBatch]) -> None:
        """Replace all batches by these, in one segment with the base offset of the first segment.

        After a crash the log has the old batches or the new ones: the new ones as soon as the ``.swap`` file exists.
        """
        self._collected.clear()  # ``batches`` includes the collected ones that remain
        base, *others = self.segments
        log, content = segment_name(base), b"".join(stored.data for stored in batches)
        cleaned, swap = self._path(log + CLEANED), self._path(log + SWAP)
        self._disk.write(cleaned, content)
        self._disk.sync(cleaned)
        self._disk.rename(cleaned, swap)
        self._disk.sync_folder(self._folder)
        for other in others:
            self._remove_segment(other)
        self._remove_indexes(base)
        self._disk.sync_folder(self._folder)
        self._disk.rename(swap, self._path(log))
        self._disk.sync_folder(self._folder)
        self._unsynced.clear()
        self.segments = [base]
        self._begin(base)
        for stored in batches:
            self._index(stored.last_offset, len(stored.data), stored.max_timestamp)
        end = batches[-1].last_offset + 1 if batches else base
        kept = [(epoch, offset) for epoch, offset in self._epochs if offset < end]
        self._epochs_changed |= kept != self._epochs  # only if the log was truncated
        self._epochs = kept

    def close(self) -> None:
        """Write the index files of the active segment."""
        if self.segments:
            self._write_indexes()

    def remove(self) -> None:
        """Remove the directory.

        partition.metadata is removed last: after a crash, the remaining files still belong to their topic.
        """
        self._collected.clear()
        for name in sorted(self._disk.names(self._folder), key=lambda name: name == PARTITION_METADATA):
            self._disk.remove(self._path(name))
        self._disk.remove_folder(self._folder)

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _begin(self, base: int) -> None:
        self._size = 0
        self._indexer = Indexer(base)

    def _roll(self, base: int) -> None:
        """Begin a new segment after syncing everything before it.

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
        base = self.segments[-1]
        self._disk.write(self._path(segment_name(base, INDEX)), bytes(self._indexer.index))
        self._disk.write(self._path(segment_name(base, TIME_INDEX)), self._indexer.time_index())
        self._indexed.add(base)

    def _remove_indexes(self, base: int) -> None:
        if base in self._indexed:
            self._indexed.discard(base)
            self._disk.remove(self._path(segment_name(base, INDEX)))
            self._disk.remove(self._path(segment_name(base, TIME_INDEX)))

    def _remove_segment(self, base: int) -> None:
        self._remove_indexes(base)
        file = self._path(segment_name(base, LOG))
        self._disk.remove(file)
        if file in self._unsynced:
            self._unsynced.remove(file)


def _empty(epoch: tuple[int, int], following: tuple[int, int] | None) -> bool:
    """Return whether a leader epoch has no offsets, given the epoch after it."""
    return following is not None and epoch[1] >= following[1]
