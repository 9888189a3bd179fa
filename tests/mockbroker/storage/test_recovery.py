"""Recovery of damaged data directories: it logs one warning, saves damaged bytes, and serves valid batches."""

from __future__ import annotations

from uuid import UUID

import pytest
from tools.disk_changes import DiskChanges, a_batch, content, opened

from kwire.records.batch import read_batch
from kwire.records.control import ControlType, build_marker
from mockbroker.storage.catalogue import CATALOGUE
from mockbroker.storage.disk import DataDirError
from mockbroker.storage.layout import META_PROPERTIES, PARTITION_METADATA, START_OFFSETS, partition_metadata
from mockbroker.storage.simulated_disk import SimulatedDisk
from mockbroker.topics.model import Partition

FIRST, SECOND, THIRD = (f"a-0/{base:020}.log" for base in (0, 3, 6))
BATCH = len(a_batch("record 1"))


@pytest.fixture
def disk() -> SimulatedDisk:
    """Return a disk with topic ``a``: partition 0 has nine batches of one record, three in each segment."""
    disk = SimulatedDisk()
    changes = DiskChanges(opened(disk))
    changes.append(changes.topic("a", 2), 0, 9)
    changes.flush()
    changes.data_dir.close()
    return disk


def reopened(disk: SimulatedDisk) -> Partition:
    return opened(disk, 1_000).cluster.topics["a"].partitions[0]


def flip_bit(disk: SimulatedDisk, file: str, at: int) -> None:
    data = bytearray(disk.read(file))
    data[at] ^= 1
    disk.write(file, bytes(data))


def test_undamaged_log_is_unchanged(disk: SimulatedDisk, caplog: pytest.LogCaptureFixture) -> None:
    partition = reopened(disk)
    assert (partition.log.start, partition.log.end) == (0, 9)
    assert [read_batch(data).base_offset for data in content(partition)] == list(range(9))
    assert sorted(disk.names("a-0")) == sorted(
        [f"{base:020}{kind}" for base in (0, 3, 6) for kind in (".index", ".log", ".timeindex")]
        + ["leader-epoch-checkpoint", "partition.metadata"]
    )
    assert caplog.messages == []


TAILS = [  # bytes after the last batch, the warning, whether the bytes are saved
    (b"\0" * 7, "7 bytes of a batch header of 61", False),
    (a_batch("record 1", base_offset=9)[:-1], f"{BATCH - 1} bytes of a batch of {BATCH}", False),
    (b"\0" * 100, "batch size 12 is out of range (61-", True),
    (a_batch("record 1", base_offset=2), "offsets 2 to 2 are out of range (9-", True),
    (a_batch("record 1", base_offset=9)[:-1] + b"?", "does not match the bytes", True),
]


@pytest.mark.parametrize(("tail", "warning", "saved"), TAILS)
def test_invalid_bytes_after_the_last_batch_are_truncated(
    disk: SimulatedDisk, caplog: pytest.LogCaptureFixture, tail: bytes, warning: str, saved: bool
) -> None:
    disk.append(THIRD, tail)
    partition = reopened(disk)
    assert partition.log.end == 9
    [message] = caplog.messages
    assert message.startswith(f"{THIRD}: the segment was truncated at byte {3 * BATCH}: ")
    assert warning in message
    assert len(disk.read(THIRD)) == 3 * BATCH
    assert (f"{THIRD}.damaged".removeprefix("a-0/") in disk.names("a-0")) == saved
    if saved:
        assert disk.read(f"{THIRD}.damaged") == tail
    caplog.clear()
    assert reopened(disk).log.end == 9
    assert caplog.messages == []


def test_segments_after_a_damage_are_renamed(disk: SimulatedDisk, caplog: pytest.LogCaptureFixture) -> None:
    before = [disk.read(file) for file in (FIRST, SECOND, THIRD)]
    flip_bit(disk, SECOND, BATCH + 30)
    partition = reopened(disk)
    assert [read_batch(data).base_offset for data in content(partition)] == [0, 1, 2, 3]
    assert [message.partition(":")[0] for message in caplog.messages] == [SECOND, THIRD]
    assert disk.read(FIRST) == before[0]
    assert disk.read(SECOND) == before[1][:BATCH]
    assert len(disk.read(f"{SECOND}.damaged")) == 2 * BATCH
    assert disk.read(f"{THIRD}.damaged") == before[2]


def test_log_continues_at_the_truncation(disk: SimulatedDisk) -> None:
    flip_bit(disk, THIRD, BATCH + 30)
    data_dir = opened(disk, 1_000)
    partition = data_dir.cluster.topics["a"].partitions[0]
    assert partition.append(read_batch(a_batch("more"))) == 7
    data_dir.close()
    assert content(reopened(disk))[-1] == content(partition)[-1]


def test_saved_bytes_are_never_overwritten(disk: SimulatedDisk) -> None:
    for _ in range(2):
        disk.append(THIRD, b"\0" * 100)
        reopened(disk)
    saved = f"{THIRD}.damaged".removeprefix("a-0/")
    assert {saved, f"{saved}.1"} <= set(disk.names("a-0"))


def test_directory_of_an_unknown_topic_becomes_a_stray(disk: SimulatedDisk, caplog: pytest.LogCaptureFixture) -> None:
    for name, metadata in (("other-0", partition_metadata(UUID(int=77))), ("a-7", b"?")):
        disk.make_folder(name)
        disk.write(f"{name}/{PARTITION_METADATA}", metadata)
        disk.write(f"{name}/{0:020}.log", a_batch("precious"))
    opened(disk, 1_000)
    strays = {f"other-0.{UUID(int=77).hex}-stray", "a-7.unknown-stray"}
    assert strays <= set(disk.names(""))
    assert len(caplog.messages) == 2
    assert disk.read("a-7.unknown-stray/00000000000000000000.log") == a_batch("precious")


def test_unknown_directory_without_batches_is_removed(disk: SimulatedDisk) -> None:
    """Such a directory remains after a crash between the creation of the directory and its first batch."""
    for name, segments in (("other-0", 0), ("other-1", 1)):
        disk.make_folder(name)
        disk.write(f"{name}/{PARTITION_METADATA}", partition_metadata(UUID(int=77)))
        for base in range(segments):
            disk.write(f"{name}/{base:020}.log", b"")
    opened(disk, 1_000)
    assert not [name for name in disk.names("") if name.startswith("other")]


def test_files_of_an_unfinished_compaction_are_removed(disk: SimulatedDisk) -> None:
    before = set(disk.names("a-0"))
    for name in (f"{0:020}.log.cleaned", f"{3:020}.log.deleted", f"{3:020}.index.deleted"):
        disk.write(f"a-0/{name}", b"unfinished")
    assert reopened(disk).log.end == 9
    assert set(disk.names("a-0")) == before


def test_directory_of_an_earlier_topic_of_the_name_is_unused(disk: SimulatedDisk) -> None:
    disk.write(f"a-0/{PARTITION_METADATA}", partition_metadata(UUID(int=77)))
    partition = reopened(disk)
    assert (partition.log.end, content(partition)) == (0, ())
    assert reopened(disk).log.end == 0


def test_log_start_offset_within_a_segment_is_restored(disk: SimulatedDisk) -> None:
    changes = DiskChanges(opened(disk, 1_000))
    changes.cluster.topics["a"].partitions[0].log.delete_before(4)
    changes.data_dir.flush()
    assert disk.read(START_OFFSETS) == b"0\n1\na 0 4\n"
    assert f"{0:020}.log" not in disk.names("a-0")
    partition = reopened(disk)
    assert (partition.log.start, partition.log.end, len(content(partition))) == (4, 9, 5)


def test_producer_state_survives_a_restart(disk: SimulatedDisk) -> None:
    data_dir = opened(disk, 1_000)
    partition = data_dir.cluster.topics["a"].partitions[1]
    before = {"producer_id": 7, "producer_epoch": 2}
    for sequence in range(7):
        partition.append(read_batch(a_batch("t", **before, base_sequence=sequence, transactional=True)))
    partition.end_transaction(7, 2, committed=False, coordinator_epoch=3, timestamp=5)
    partition.append(read_batch(a_batch("t", **before, base_sequence=7, transactional=True)))
    data_dir.close()
    again = opened(disk, 2_000).cluster.topics["a"].partitions[1]
    assert again.last_stable == partition.last_stable == 8
    assert again.aborted == partition.aborted != []
    assert list(again.producers) == list(partition.producers)
    assert again.producers.check(read_batch(a_batch("t", **before, base_sequence=9))) == 45


def test_recovered_open_transaction_can_be_ended(disk: SimulatedDisk) -> None:
    partition = reopened(disk)
    partition.append(read_batch(a_batch("t", producer_id=7, producer_epoch=2, base_sequence=0, transactional=True)))
    for producer in partition.producers.open():
        partition.end_open_transaction(producer, 1, committed=False, fence=True)
    assert partition.last_stable == partition.log.end
    assert [each.producer_id for each in partition.aborted] == [7]
    assert partition.producers.check(read_batch(a_batch("t", producer_id=7, producer_epoch=2, base_sequence=1))) == 47


def test_marker_restores_an_unknown_producer(disk: SimulatedDisk) -> None:
    data_dir = opened(disk, 1_000)
    marker = build_marker(ControlType.COMMIT, producer_id=9, producer_epoch=1, coordinator_epoch=4, timestamp=6)
    data_dir.cluster.topics["a"].partitions[1].append(read_batch(marker))
    data_dir.close()
    [producer] = opened(disk, 2_000).cluster.topics["a"].partitions[1].producers
    assert (producer.epoch, producer.coordinator_epoch, producer.last_timestamp) == (1, 4, 6)


def test_producer_ids_are_not_reused_after_a_crash(disk: SimulatedDisk) -> None:
    data_dir = opened(disk, 1_000)
    used = [data_dir.cluster.new_producer_id() for _ in range(1_001)]
    data_dir.flush()
    disk.crash()
    assert opened(disk, 2_000).cluster.new_producer_id() > max(used)


def open_error(disk: SimulatedDisk, brokers: int = 1) -> str:
    with pytest.raises(DataDirError) as raised:
        opened(disk, 1_000, brokers)
    return str(raised.value)


def test_other_number_of_brokers_is_refused(disk: SimulatedDisk) -> None:
    assert (
        open_error(disk, 3)
        == "data directory DIR: the directory was created by a cluster of 1 broker (id 0), and cannot be opened with 3 brokers (ids 0, 1, 2): start with the same brokers"
    )


def test_newer_catalogue_format_is_refused(disk: SimulatedDisk) -> None:
    disk.write(CATALOGUE, b'{"format": 2, "anything": []}')
    assert open_error(disk) == (
        "data directory DIR: mockbroker.json has format 2, only format 1 is supported: upgrade mockbroker"
    )


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 1}', b'{"format": 1, "cluster_id": 3}', b"\xff"])
def test_damaged_catalogue_is_refused(disk: SimulatedDisk, content: bytes) -> None:
    disk.write(CATALOGUE, content)
    assert open_error(disk).startswith("data directory DIR: mockbroker.json is damaged: ")


@pytest.mark.parametrize("content", [b"", b"0\n2\na 0 4\n", b"1\n0\n", b"0\n1\na 4\n"])
def test_damaged_checkpoint_is_refused(disk: SimulatedDisk, content: bytes) -> None:
    disk.write(START_OFFSETS, content)
    assert open_error(disk).startswith("data directory DIR: log-start-offset-checkpoint is damaged: ")


@pytest.mark.parametrize("name", [META_PROPERTIES, "orders-0"])
def test_log_directory_of_kafka_is_refused(name: str) -> None:
    disk = SimulatedDisk()
    disk.make_folder("orders-0") if name == "orders-0" else disk.write(name, b"version=1\n")
    assert open_error(disk) == (
        f"data directory DIR: the folder contains {name} but no mockbroker.json, so it is a log directory of Kafka: read it with mockbroker import"
    )
    assert disk.names("") == [name]


def test_segment_that_overlaps_the_one_before_is_renamed(disk: SimulatedDisk, caplog: pytest.LogCaptureFixture) -> None:
    disk.write(f"a-0/{1:020}.log", a_batch("record 1", base_offset=1))
    assert [read_batch(data).base_offset for data in content(reopened(disk))] == list(range(9))
    assert caplog.messages == [
        f"a-0/{1:020}.log: the segment overlaps the previous segment, or follows a damaged one, and was renamed to {1:020}.log.damaged"
    ]


def test_saved_bytes_survive_a_crash_after_the_truncation(disk: SimulatedDisk) -> None:
    disk.append(THIRD, b"\0" * 100)
    disk.sync(THIRD)
    seen: list[str] = []
    disk.before = lambda operation, file: seen.append(f"{operation} {file}")
    reopened(disk)
    assert seen.index(f"sync {THIRD}.damaged") < seen.index(f"truncate {THIRD}")


def test_warning_of_a_torn_write_names_no_saved_file(disk: SimulatedDisk, caplog: pytest.LogCaptureFixture) -> None:
    disk.append(THIRD, b"\0" * 7)
    reopened(disk)
    assert caplog.messages == [
        f"{THIRD}: the segment was truncated at byte {3 * BATCH}: 7 bytes of a batch header of 61"
    ]


def test_swap_is_renamed_between_two_syncs_of_the_folder(disk: SimulatedDisk) -> None:
    disk.write(f"{FIRST}.swap", disk.read(FIRST) + disk.read(SECOND))
    seen: list[str] = []
    disk.before = lambda operation, file: seen.append(f"{operation} {file}")
    assert [read_batch(data).base_offset for data in content(reopened(disk))] == list(range(9))
    renamed = seen.index(f"rename {FIRST}.swap")
    assert seen[renamed - 1] == seen[renamed + 1] == "sync_folder a-0"
    assert {f"remove {FIRST}", f"remove {SECOND}"} <= set(seen[:renamed])


def test_recovery_of_two_damaged_segments_reads_neither_again(
    disk: SimulatedDisk, caplog: pytest.LogCaptureFixture
) -> None:
    flip_bit(disk, FIRST, 30)
    partition = reopened(disk)
    assert (partition.log.start, partition.log.end, content(partition)) == (0, 0, ())
    assert [message.partition(":")[0] for message in caplog.messages] == [FIRST, SECOND, THIRD]
    assert partition.append(read_batch(a_batch("more"))) == 0


def test_damaged_segment_has_no_indexes(disk: SimulatedDisk) -> None:
    flip_bit(disk, SECOND, BATCH + 30)
    reopened(disk)
    names = disk.names("a-0")
    assert {f"{0:020}.index", f"{0:020}.timeindex"} < set(names)
    assert not {f"{3:020}.index", f"{3:020}.timeindex"} & set(names)


def test_third_damage_gets_the_next_free_name(disk: SimulatedDisk) -> None:
    for _ in range(3):
        disk.append(THIRD, b"\0" * 100)
        reopened(disk)
    saved = f"{THIRD}.damaged".removeprefix("a-0/")
    assert [name for name in disk.names("a-0") if "damaged" in name] == [saved, f"{saved}.1", f"{saved}.2"]


def test_log_begins_at_its_first_segment_or_the_checkpoint(disk: SimulatedDisk) -> None:
    disk.remove(FIRST)
    assert (reopened(disk).log.start, reopened(disk).log.end) == (3, 9)
    disk.write(START_OFFSETS, b"0\n1\na 0 5\n")
    assert reopened(disk).log.start == 5
    disk.write(START_OFFSETS, b"0\n1\na 0 20\n")
    assert (reopened(disk).log.start, reopened(disk).log.end) == (20, 20)


def test_checkpoint_of_unknown_partitions_is_written_again(disk: SimulatedDisk) -> None:
    disk.write(START_OFFSETS, b"0\n3\na 0 4\na 7 1\nother 0 2\n")
    assert reopened(disk).log.start == 4
    assert disk.read(START_OFFSETS) == b"0\n1\na 0 4\n"
    seen: list[str] = []
    disk.before = lambda operation, file: seen.append(f"{operation} {file}")
    reopened(disk)
    assert not [each for each in seen if START_OFFSETS in each]


@pytest.mark.parametrize(
    "data",
    [b"0\n1\na 0\n", b"0\n1\na b 0 4\n", b"0\n1\na 0 -4\n", b"0\n2\na 0 4\n", b"0", b"\xff"],
)
def test_checkpoint_that_is_not_valid_is_refused(disk: SimulatedDisk, data: bytes) -> None:
    disk.write(START_OFFSETS, data)
    assert "is damaged" in open_error(disk)


def test_directory_of_a_deleted_topic_is_removed() -> None:
    disk = SimulatedDisk()
    changes = DiskChanges(opened(disk))
    topic = changes.topic("a", 1)
    changes.append(topic, 0, 3)
    changes.flush()
    left = {name: disk.read(f"a-0/{name}") for name in disk.names("a-0")}
    changes.cluster.delete_topic(topic)
    changes.data_dir.flush()
    disk.make_folder("a-0")  # as after a crash between the write of the catalogue and the removal
    for name, data in left.items():
        disk.write(f"a-0/{name}", data)
    opened(disk, 1_000)
    assert not [name for name in disk.names("") if name.startswith("a-0")]


def test_directory_with_one_segment_of_batches_is_a_stray(disk: SimulatedDisk) -> None:
    for name, contents in (("other-0", [b"", a_batch("precious")]), ("other-1", [a_batch("precious"), b""])):
        disk.make_folder(name)
        for base, data in enumerate(contents):
            disk.write(f"{name}/{base:020}.log", data)
    disk.make_folder(f"{'x' * 249}-3")
    disk.write(f"{'x' * 249}-3/{0:020}.log", a_batch("precious"))
    opened(disk, 1_000)
    strays = {"other-0.unknown-stray", "other-1.unknown-stray", f"{'x' * 200}-3.unknown-stray"}
    assert strays == {name for name in disk.names("") if name.endswith("-stray")}


def test_directory_beyond_the_partitions_of_a_topic_is_a_stray(disk: SimulatedDisk) -> None:
    [metadata] = [disk.read(f"a-0/{name}") for name in disk.names("a-0") if name == PARTITION_METADATA]
    for index in (2, 3):
        disk.make_folder(f"a-{index}")
        disk.write(f"a-{index}/{PARTITION_METADATA}", metadata)
        disk.write(f"a-{index}/{0:020}.log", a_batch("precious"))
    opened(disk, 1_000)
    names = disk.names("")
    assert not {"a-2", "a-3"} & set(names)
    assert len([name for name in names if name.endswith("-stray")]) == 2


def test_other_names_in_the_directory_are_left_alone(disk: SimulatedDisk) -> None:
    for name in ("a-0.0123-delete", "a-1.0123-stray", "notes"):
        disk.make_folder(name)
        disk.write(f"{name}/{0:020}.log", a_batch("kept"))
    reopened(disk)
    assert {"a-0.0123-delete", "a-1.0123-stray", "notes"} <= set(disk.names(""))


def test_recovered_directory_is_durable(disk: SimulatedDisk) -> None:
    seen: list[str] = []
    disk.before = lambda operation, file: seen.append(f"{operation} {file}")
    reopened(disk)
    assert seen == ["sync_folder ", f"sync {THIRD}", "sync_folder a-0"]


def test_swap_replaces_the_indexes_of_its_segment(disk: SimulatedDisk) -> None:
    disk.write(f"{SECOND}.swap", disk.read(SECOND) + disk.read(THIRD))
    partition = reopened(disk)
    assert [read_batch(data).base_offset for data in content(partition)] == list(range(9))
    assert sorted(name for name in disk.names("a-0") if name[0].isdigit()) == sorted(
        [f"{0:020}{kind}" for kind in (".index", ".log", ".timeindex")] + [f"{3:020}.log"]
    )


def test_damaged_swap_ends_at_its_damage(disk: SimulatedDisk) -> None:
    """The segments after the readable part of the swap are kept as damaged files."""
    disk.write(f"{FIRST}.swap", disk.read(FIRST) + b"\0" * 7)
    assert [read_batch(data).base_offset for data in content(reopened(disk))] == [0, 1, 2]
    assert {f"{base:020}.log.damaged" for base in (3, 6)} <= set(disk.names("a-0"))


def test_several_swaps_replace_all_their_segments(disk: SimulatedDisk) -> None:
    disk.write(f"{FIRST}.swap", disk.read(FIRST))
    disk.write(f"{SECOND}.swap", disk.read(SECOND) + disk.read(THIRD))
    assert [read_batch(data).base_offset for data in content(reopened(disk))] == list(range(9))
    assert [name for name in disk.names("a-0") if ".log" in name] == [f"{base:020}.log" for base in (0, 3)]


def test_index_without_its_time_index_is_not_used(disk: SimulatedDisk) -> None:
    disk.remove(f"a-0/{0:020}.timeindex")
    data_dir = opened(disk, 1_000)
    data_dir.cluster.topics["a"].partitions[0].log.delete_before(3)
    data_dir.flush()
    assert f"{0:020}.log" not in disk.names("a-0")
    assert f"{0:020}.index" in disk.names("a-0")


def test_missing_partition_metadata_hides_no_batches(disk: SimulatedDisk) -> None:
    disk.remove(f"a-0/{PARTITION_METADATA}")
    partition = reopened(disk)
    assert (partition.log.start, partition.log.end) == (0, 0)
    assert disk.read(f"a-0.unknown-stray/{0:020}.log") != b""
