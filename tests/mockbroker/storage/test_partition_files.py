"""The files of one partition: their content, and the order of operations that makes them crash-safe."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from uuid import UUID

import pytest

from kwire.records import Record, build_batch
from kwire.records.batch import read_batch
from mockbroker.storage.indexes import INDEX, INTERVAL_BYTES, TIME_INDEX
from mockbroker.storage.layout import LEADER_EPOCHS, PARTITION_METADATA
from mockbroker.storage.partition_files import PartitionFiles
from mockbroker.storage.segments import segment_name
from mockbroker.storage.simulated_disk import SimulatedDisk
from mockbroker.topics.log import StoredBatch

FOLDER = "t-0"
LARGE = INTERVAL_BYTES + 1  # size of a value whose batch causes an index entry for the next batch
FIRST, SECOND = segment_name(0), segment_name(2)


def a_batch(offset: int, size: int = 10, timestamp: int = 1_000, epoch: int = 0) -> StoredBatch:
    data = build_batch([Record(timestamp=timestamp, value=b"x" * size)], base_offset=offset, leader_epoch=epoch)
    return StoredBatch(offset, offset, timestamp, 0, data)


class Traced:
    """The directory of a partition on a simulated disk. ``trace``: its operations since the last call of ``traced``."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.trace: list[str] = []
        self.disk.before = lambda operation, file: self.trace.append(f"{operation} {file.removeprefix(f'{FOLDER}/')}")
        self.files = PartitionFiles(self.disk, FOLDER)

    def create(self) -> None:
        self.files.create(UUID(int=1))

    def append(self, *batches: StoredBatch, new_segment: bool = False, epoch: int = 0) -> None:
        for each in batches:
            self.files.append(each, epoch, new_segment=new_segment)

    def flush(self) -> None:
        self.files.write()
        self.files.sync()

    def traced(self) -> list[str]:
        trace, self.trace[:] = list(self.trace), []
        return trace

    def read(self, name: str) -> bytes:
        return self.disk.read(f"{FOLDER}/{name}")

    def names(self) -> set[str]:
        return set(self.disk.names(FOLDER))

    def index(self, base: int) -> list[tuple[int, int]]:
        """Return the entries of a segment's offset index: relative offset and byte position."""
        return list(struct.iter_unpack(">ii", self.read(segment_name(base, INDEX))))

    def reopened(self, segments: Sequence[int], batches: Sequence[StoredBatch]) -> None:
        """Continue with a writer whose state is restored from the directory, as after recovery."""
        indexed = {base for base in segments if segment_name(base, INDEX) in self.names()}
        self.files = PartitionFiles(self.disk, FOLDER)
        self.files.restore(segments, [read_batch(each.data) for each in batches], indexed)
        self.traced()


@pytest.fixture
def directory() -> Traced:
    """Return an empty partition directory."""
    directory = Traced()
    directory.create()
    return directory


def two_segments(directory: Traced) -> list[StoredBatch]:
    """Write two batches into each of two segments. Return the batches."""
    batches = [a_batch(offset) for offset in range(4)]
    directory.append(*batches[:2])
    directory.append(batches[2], new_segment=True)
    directory.append(batches[3])
    directory.flush()
    directory.traced()
    return batches


def test_directory_without_batches_is_not_synced(directory: Traced) -> None:
    directory.traced()
    directory.flush()
    assert directory.traced() == []


def test_first_batch_syncs_metadata_batch_and_epochs(directory: Traced) -> None:
    directory.append(a_batch(0))
    directory.flush()
    trace = directory.traced()
    assert trace.index(f"sync {PARTITION_METADATA}") < trace.index(f"append {FIRST}") < trace.index(f"sync {FIRST}")
    assert trace[-4:] == [
        f"write {LEADER_EPOCHS}.tmp",
        f"sync {LEADER_EPOCHS}.tmp",
        f"rename {LEADER_EPOCHS}.tmp",
        f"sync_folder {FOLDER}",
    ]


def test_batch_in_an_existing_segment_syncs_one_file(directory: Traced) -> None:
    batches = two_segments(directory)
    directory.append(a_batch(4))
    directory.flush()
    assert directory.traced() == [f"append {SECOND}", f"sync {SECOND}"]
    directory.reopened([0, 2], [*batches, a_batch(4)])
    directory.append(a_batch(5))
    directory.flush()
    assert directory.traced() == [f"append {SECOND}", f"sync {SECOND}"]


def test_empty_segment_is_synced_without_leader_epochs(directory: Traced) -> None:
    directory.files.roll(7)
    directory.files.sync()
    assert directory.traced()[-3:] == [f"write {segment_name(7)}", f"sync {segment_name(7)}", f"sync_folder {FOLDER}"]
    assert LEADER_EPOCHS not in directory.names()


def test_earlier_segment_is_synced_before_the_next(directory: Traced) -> None:
    directory.append(a_batch(0), a_batch(1))
    directory.append(a_batch(2), new_segment=True)
    directory.flush()
    trace = directory.traced()
    assert trace.index(f"sync {FIRST}") < trace.index(f"append {SECOND}")
    assert trace[-3:] == [f"append {SECOND}", f"sync {SECOND}", f"sync_folder {FOLDER}"]


@pytest.mark.parametrize("restored", [False, True])
def test_index_has_positions_from_the_start_of_the_file(directory: Traced, restored: bool) -> None:
    batches = [a_batch(offset, LARGE, 1_000 + offset) for offset in range(100, 106)]
    directory.append(*batches[:3], new_segment=False)
    directory.append(batches[3], new_segment=True)
    directory.append(batches[4])
    directory.flush()
    if restored:
        directory.reopened([100, 103], batches[:5])
    directory.append(batches[5])
    directory.flush()
    directory.files.close()
    size = len(batches[0].data)
    assert directory.index(100) == [(1, size), (2, 2 * size)]
    assert directory.index(103) == [(1, size), (2, 2 * size)]
    assert list(struct.iter_unpack(">qi", directory.read(segment_name(103, TIME_INDEX)))) == [(1_104, 1), (1_105, 2)]


@pytest.mark.parametrize("restored", [False, True])
def test_deleted_segment_takes_its_indexes_with_it(directory: Traced, restored: bool) -> None:
    batches = two_segments(directory)
    directory.files.close()
    if restored:
        directory.reopened([0, 2], batches)
    assert {segment_name(0, INDEX), segment_name(0, TIME_INDEX)} < directory.names()
    directory.files.delete_before(2)
    assert [name for name in directory.names() if name.startswith(segment_name(0, ""))] == []
    assert directory.files.segments == [2]


def test_swap_file_is_durable_before_segments_are_removed(directory: Traced) -> None:
    two_segments(directory)
    directory.append(a_batch(4), new_segment=True)
    directory.flush()
    directory.traced()
    directory.files.replace(0, 4, [a_batch(1), a_batch(3)])
    assert directory.traced() == [
        f"write {FIRST}.cleaned",
        f"sync {FIRST}.cleaned",
        f"rename {FIRST}.cleaned",
        f"sync_folder {FOLDER}",
        f"remove {segment_name(2, INDEX)}",
        f"remove {segment_name(2, TIME_INDEX)}",
        f"remove {SECOND}",
        f"remove {segment_name(0, INDEX)}",
        f"remove {segment_name(0, TIME_INDEX)}",
        f"sync_folder {FOLDER}",
        f"rename {FIRST}.swap",
        f"sync_folder {FOLDER}",
        f"write {segment_name(0, INDEX)}",
        f"write {segment_name(0, TIME_INDEX)}",
    ]
    assert directory.files.segments == [0, 4]
    assert directory.read(FIRST) == a_batch(1).data + a_batch(3).data


def test_replaced_closed_segment_has_indexes_of_its_batches(directory: Traced) -> None:
    directory.append(*[a_batch(offset, LARGE) for offset in range(4)])
    directory.append(a_batch(4), new_segment=True)
    directory.flush()
    kept = [a_batch(offset, LARGE) for offset in (0, 2, 3)]
    directory.files.replace(0, 4, kept)
    size = len(kept[0].data)
    assert directory.index(0) == [(2, size), (3, 2 * size)]


def test_replaced_active_segment_is_appended_to(directory: Traced) -> None:
    directory.append(*[a_batch(offset, LARGE) for offset in range(3)])
    directory.flush()
    kept = [a_batch(0, LARGE), a_batch(1, LARGE)]
    directory.files.replace(0, 3, kept)
    added = [a_batch(2, LARGE), a_batch(3, LARGE)]
    directory.append(*added)
    directory.flush()
    directory.files.close()
    size = len(kept[0].data)
    assert directory.read(FIRST) == b"".join(each.data for each in (*kept, *added))
    assert directory.index(0) == [(1, size), (2, 2 * size), (3, 3 * size)]
    assert directory.files.segments == [0]


def test_unwritten_batches_of_a_replaced_segment_are_dropped(directory: Traced) -> None:
    directory.append(a_batch(0))
    directory.files.write()  # written, but not synced
    directory.append(a_batch(1))
    directory.files.replace(0, 2, [a_batch(0)])
    directory.traced()
    directory.flush()
    assert directory.read(FIRST) == a_batch(0).data
    assert f"sync {FIRST}" not in directory.traced()


def epochs(directory: Traced) -> list[str]:
    return directory.read(LEADER_EPOCHS).decode().splitlines()[2:]


def test_truncation_removes_leader_epochs_after_the_end(directory: Traced) -> None:
    directory.append(a_batch(0), epoch=3)
    directory.append(a_batch(1), epoch=4)
    directory.flush()
    assert epochs(directory) == ["3 0", "4 1"]
    directory.files.replace(0, 2, [a_batch(0)])
    directory.flush()
    assert epochs(directory) == ["3 0"]


def test_truncation_within_an_epoch_leaves_the_epochs_alone(directory: Traced) -> None:
    directory.append(a_batch(0), a_batch(1))
    directory.flush()
    directory.files.replace(0, 2, [a_batch(0)])
    directory.traced()
    directory.flush()
    assert directory.traced() == []
    assert epochs(directory) == ["0 0"]


def test_deletion_moves_the_start_of_the_first_epoch(directory: Traced) -> None:
    two_segments(directory)
    directory.append(a_batch(4), epoch=1)
    directory.files.delete_before(2)
    directory.flush()
    assert epochs(directory) == ["0 2", "1 4"]


def test_restored_epochs_are_not_written_again(directory: Traced) -> None:
    batches = [a_batch(0, epoch=5), a_batch(1, epoch=6)]
    directory.append(batches[0], epoch=5)
    directory.append(batches[1], epoch=6)
    directory.flush()
    directory.reopened([0], batches)
    directory.append(a_batch(2), epoch=6)
    directory.flush()
    assert directory.traced() == [f"append {FIRST}", f"sync {FIRST}"]
    directory.append(a_batch(3), epoch=7)
    directory.flush()
    assert epochs(directory) == ["5 0", "6 1", "7 3"]


def test_metadata_is_removed_last(directory: Traced) -> None:
    two_segments(directory)
    directory.files.remove()
    assert directory.traced()[-2:] == [f"remove {PARTITION_METADATA}", f"remove_folder {FOLDER}"]
    assert directory.disk.names("") == []
