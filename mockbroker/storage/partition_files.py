"""The directory of one partition: which bytes go where, and in which order they must be sure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

from kwire.records.batch import Batch
from mockbroker.storage.disk import Disk, replace_file
from mockbroker.storage.indexes import INDEX, TIME_INDEX, Indexer
from mockbroker.storage.layout import LEADER_EPOCHS, PARTITION_METADATA, leader_epochs, partition_metadata
from mockbroker.storage.segments import CLEANED, LOG, OFFSETS_IN_A_SEGMENT, SWAP, segment_name
from mockbroker.topics.log import Stored


class PartitionFiles:
    """``segments``: base offsets, the one that is written to last; none before the first batch.

    Batches are collected until ``write``, and sure after ``sync``.
    """

    def __init__(self, disk: Disk, folder: str) -> None:
        self.segments: list[int] = []
        self._disk = disk
        self._folder = folder
        self._size = 0  # bytes of the last segment, with those that are collected
        self._collected = bytearray()
        self._indexer = Indexer(0)
        self._indexed: set[int] = set()  # base offsets of the segments that have index files
        self._epochs: list[tuple[int, int]] = []  # leader epochs, and where they begin
        self._epochs_changed = False
        self._unsure: list[str] = []  # files with bytes that may be lost
        self._names_unsure = False

    def create(self, topic_id: UUID) -> None:
        """Nothing of this has to be sure before there are batches."""
        self._disk.make_folder(self._folder)
        metadata = self._path(PARTITION_METADATA)
        self._disk.write(metadata, partition_metadata(topic_id))
        self._unsure.append(metadata)
        self._names_unsure = True

    def put_back(self, segments: Sequence[int], batches: Iterable[Batch], indexed: set[int]) -> None:
        """What was read from the directory; ``indexed``: the segments that have index files."""
        self.segments = list(segments)
        self._indexed = indexed
        last = self.segments[-1] if self.segments else 0
        self._begin(last)
        for batch in batches:
            self._note_epoch(batch.leader_epoch, batch.base_offset)
            if batch.base_offset >= last:
                self._take(batch.last_offset, len(batch.data), batch.max_timestamp)
        self._epochs_changed = False

    def append(self, stored: Stored, leader_epoch: int, segment_bytes: int) -> None:
        """A batch that comes behind all others. A segment grows to ``segment_bytes``, or has one batch."""
        full = self._size and self._size + len(stored.data) > segment_bytes
        if not self.segments or full or stored.last_offset - self.segments[-1] >= OFFSETS_IN_A_SEGMENT:
            self._roll(stored.base_offset)
        self._note_epoch(leader_epoch, stored.base_offset)
        self._take(stored.last_offset, len(stored.data), stored.max_timestamp)
        self._collected += stored.data

    def write(self) -> None:
        """Hand what was collected to the disk."""
        if self._collected:
            file = self._path(segment_name(self.segments[-1]))
            self._disk.append(file, bytes(self._collected))
            self._collected.clear()
            if file not in self._unsure:
                self._unsure.append(file)

    def sync(self) -> None:
        """Come back when everything that was written is sure. Nothing happens if it is already."""
        if not self.segments:
            return  # what ``create`` made may be lost
        self._sync_files()
        if self._epochs_changed:
            replace_file(self._disk, self._path(LEADER_EPOCHS), leader_epochs(self._epochs))
            self._epochs_changed = self._names_unsure = False
        elif self._names_unsure:
            self._disk.sync_folder(self._folder)
            self._names_unsure = False

    def cut(self, start: int) -> None:
        """Segments before this offset go; it is sure already that the log begins here."""
        while len(self.segments) > 1 and self.segments[1] <= start:
            self._remove_segment(self.segments.pop(0))
        kept = [(epoch, max(offset, start)) for epoch, offset in self._epochs]
        self._epochs = [each for each, after in zip(kept, [*kept[1:], None], strict=True) if not _empty(each, after)]

    def replace(self, batches: Sequence[Stored]) -> None:
        """These batches instead of all that there are, in one segment that has the name of the first.

        A crash leaves the old or the new: until ``.swap`` is there, the old; from then on, the new.
        """
        self._collected.clear()  # the batches have them, as far as they are still there
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
        self._unsure.clear()
        self.segments = [base]
        self._begin(base)
        for stored in batches:
            self._take(stored.last_offset, len(stored.data), stored.max_timestamp)

    def close(self) -> None:
        """Index files for the last segment; everything else is written."""
        if self.segments:
            self._write_indexes()

    def remove(self) -> None:
        """The directory goes, last what says whose it was."""
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
        """Begin another segment. What is before it is sure by then: a crash leaves no hole between two of them, and
        no batches without a word on whose they are.
        """
        if self.segments:
            self.write()
            self.sync()
            self._write_indexes()
        self._sync_files()
        self.segments.append(base)
        self._begin(base)
        self._names_unsure = True

    def _sync_files(self) -> None:
        for file in self._unsure:
            self._disk.sync(file)
        self._unsure.clear()

    def _take(self, last_offset: int, size: int, max_timestamp: int) -> None:
        self._indexer.add(last_offset, self._size, size, max_timestamp)
        self._size += size

    def _note_epoch(self, epoch: int, offset: int) -> None:
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
        if file in self._unsure:
            self._unsure.remove(file)


def _empty(epoch: tuple[int, int], after: tuple[int, int] | None) -> bool:
    """True if no offset is left of a leader epoch."""
    return after is not None and epoch[1] >= after[1]
