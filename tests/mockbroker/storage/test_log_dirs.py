"""Reading the files of a log directory, and the problems reported for unreadable ones."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from kwire.records import Record, build_batch
from kwire.records.batch import Batch
from mockbroker.storage import log_dirs
from mockbroker.storage.layout import META_PROPERTIES, PARTITION_METADATA, START_OFFSETS
from mockbroker.storage.log_dirs import (
    LogDirError,
    Problem,
    partitions,
    read_log_starts,
    read_partition,
    read_topic_id,
)
from mockbroker.storage.segments import Directory, segment_name


def batch(*offsets: int) -> bytes:
    records = [Record(offset=offset, key=b"k", value=b"%d" % offset) for offset in offsets]
    return build_batch(records, base_offset=offsets[0], keep_offsets=True)


def write(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)


def read(folder: Path) -> tuple[list[int], list[str]]:
    """Return the first offsets of the batches, and the problems without the folder."""
    offsets: list[int] = []
    problems: list[str] = []
    for item in read_partition(folder):
        if isinstance(item, Problem):
            problems.append(str(item).removeprefix(f"{folder}/"))
        else:
            assert isinstance(item[1], Batch)
            offsets.append(item[1].base_offset)
    return offsets, problems


def test_only_live_partitions_are_returned(tmp_path: Path) -> None:
    for name in ("orders-1", "orders-0", "orders-2.0123-delete", "x-0.0123-future", "plain"):
        (tmp_path / name).mkdir()
    (tmp_path / "orders-0" / segment_name(0)).touch()
    (tmp_path / "file-1").touch()
    assert partitions(tmp_path) == {
        Directory("orders", 0): tmp_path / "orders-0",
        Directory("orders", 1): tmp_path / "orders-1",
    }


def test_log_directory_without_partitions(tmp_path: Path) -> None:
    (tmp_path / META_PROPERTIES).touch()
    assert partitions(tmp_path) == {}


def test_folder_that_is_not_a_log_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "java-17").mkdir()  # looks like a partition directory; /etc has such names
    (tmp_path / "java-17" / "security.policy").touch()
    for path, message in [
        (tmp_path, "not a Kafka log directory (no meta.properties and no partition in it)"),
        (tmp_path / "file", "cannot list the log directory: Not a directory"),
        (tmp_path / "absent", "cannot list the log directory: No such file or directory"),
    ]:
        with pytest.raises(LogDirError) as caught:
            partitions(path)
        assert str(caught.value) == f"{path}: {message}"


def test_log_directory_of_a_running_broker_is_refused(tmp_path: Path) -> None:
    """Java locks the file in the same way as lockf."""
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / "partition.metadata").touch()
    (tmp_path / ".lock").touch()
    code = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print('locked'); input()"
    command = [sys.executable, "-c", code, str(tmp_path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(LogDirError, match="locked by a running broker; stop the broker first"):
            partitions(tmp_path)
        holder.communicate("\n")
    assert partitions(tmp_path)


def test_log_directories_are_only_read(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    write(folder, {segment_name(0): batch(0) + b"torn", segment_name(0, ".log.deleted"): b""})
    for path in (folder, tmp_path):
        path.chmod(0o555)
    try:
        before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
        assert partitions(tmp_path)
        assert read(folder)[0] == [0]
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    finally:
        for path in (tmp_path, folder):
            path.chmod(0o755)


def test_segments_are_read_in_order(tmp_path: Path) -> None:
    write(tmp_path, {segment_name(0): batch(0) + batch(3, 4), segment_name(5): batch(5), segment_name(9): b""})
    assert read(tmp_path) == ([0, 3, 5], [])


def test_folder_with_the_name_of_a_segment_is_skipped(tmp_path: Path) -> None:
    write(tmp_path, {segment_name(0): batch(0)})
    (tmp_path / segment_name(5)).mkdir()
    assert read(tmp_path) == ([0], [])


def test_segments_after_a_damage_are_not_read(tmp_path: Path) -> None:
    write(tmp_path, {segment_name(0): batch(0) + b"x", segment_name(5): batch(5), segment_name(9): batch(9)})
    assert read(tmp_path) == (
        [0],
        [
            f"{segment_name(0)} at byte {len(batch(0))}: torn: 1 bytes of a batch header of 61; read up to offset 1; "
            "2 following segments are not read"
        ],
    )


def test_overlapping_segment_is_a_problem(tmp_path: Path) -> None:
    write(tmp_path, {segment_name(0): batch(0, 1, 2), segment_name(2): batch(2)})
    assert read(tmp_path) == (
        [0],
        [f"{segment_name(2)} at byte 0: base offset 2 overlaps the segment before it"],
    )


def test_swap_files_of_a_finished_compaction_are_read(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            segment_name(0): batch(0) + batch(1),
            segment_name(2): batch(2) + batch(3),
            segment_name(4): batch(4),
            segment_name(0, ".log.swap"): batch(1) + batch(3),
            segment_name(4, ".log.cleaned"): batch(4)[:20],
        },
    )
    assert read(tmp_path) == ([1, 3, 4], [])


def test_last_of_several_swap_files_ends_the_replaced_segments(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            segment_name(0): batch(0) + batch(1),
            segment_name(2): batch(2) + batch(3),
            segment_name(4): batch(4) + batch(5),
            segment_name(0, ".log.swap"): batch(1),
            segment_name(2, ".log.swap"): batch(3) + batch(5),
        },
    )
    assert read(tmp_path) == ([1, 3, 5], [])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file_is_a_problem(tmp_path: Path) -> None:
    write(tmp_path, {segment_name(0): batch(0)})
    (tmp_path / segment_name(0)).chmod(0)
    assert read(tmp_path) == ([], [f"{segment_name(0)}: Permission denied"])


def test_missing_partition_directory_is_a_problem(tmp_path: Path) -> None:
    (problem,) = read_partition(tmp_path / "gone-0")
    assert str(problem) == f"{tmp_path / 'gone-0'}: No such file or directory"


@pytest.mark.parametrize("begin", [batch(0), batch(0) + batch(1)[:8] + b"\7\xff\xff\xff" + batch(1)[12:]])
def test_a_huge_file_is_read_in_pieces(tmp_path: Path, begin: bytes) -> None:
    """The file has a hole of 8 GB, as after a crash of some file systems, or also a length above that of any batch."""
    write(tmp_path, {segment_name(0): begin})
    os.truncate(tmp_path / segment_name(0), 8 << 30)
    tracemalloc.start()
    try:
        offsets, problems = read(tmp_path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert offsets == [0]
    assert problems[0].startswith(f"{segment_name(0)} at byte {len(batch(0))}: length: ")
    assert peak < 16 << 20


def test_segment_is_read_one_mebibyte_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {segment_name(0): bytes((2 << 20) + 1)})
    sizes: list[int] = []

    def read_segment(pieces: Iterator[bytes], _base_offset: int) -> Iterator[Batch]:
        sizes.extend(map(len, pieces))
        return iter(())

    monkeypatch.setattr(log_dirs, "read_segment", read_segment)
    assert read(tmp_path) == ([], [])
    assert sizes == [1 << 20, 1 << 20, 1]


def test_checkpoint_of_a_damaged_file_system_is_not_read_whole(tmp_path: Path) -> None:
    """At most 16 MiB of a file that consists of a hole are read."""
    path = tmp_path / START_OFFSETS
    path.touch()
    os.truncate(path, 8 << 30)
    assert log_dirs._content(path) == bytes(16 << 20)
    assert isinstance(read_log_starts(tmp_path), Problem)


def test_topic_ids(tmp_path: Path) -> None:
    assert read_topic_id(tmp_path) is None
    path = tmp_path / PARTITION_METADATA
    path.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    assert read_topic_id(tmp_path) == UUID(int=1)
    for bad in (b"", b"version: 0\ntopic_id: A", b"version: 0\n", b"\xff"):
        path.write_bytes(bad)
        assert read_topic_id(tmp_path) == Problem(path, None, "contains no valid topic id")
    path.unlink()
    path.mkdir()
    assert read_topic_id(tmp_path) == Problem(path, None, "Is a directory")


def test_log_start_checkpoint_is_read(tmp_path: Path) -> None:
    assert read_log_starts(tmp_path) == {}
    path = tmp_path / START_OFFSETS
    path.touch()
    assert read_log_starts(tmp_path) == {}
    path.write_text("0\n2\norders 0 5\na-b 1 7\n")
    assert read_log_starts(tmp_path) == {("orders", 0): 5, ("a-b", 1): 7}
    for bad in ("\n", "0\n", "0\n1\norders 0\n", "0\n1\norders x 5\n", "0\n2\norders 0 5\n", "1\n0\n"):
        path.write_text(bad)
        problem = read_log_starts(tmp_path)
        assert isinstance(problem, Problem)
        assert problem.text.startswith("not a valid checkpoint: ")


def test_unreadable_directory_is_not_taken_for_a_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / segment_name(0)).touch()
    (tmp_path / META_PROPERTIES).touch()
    listed = os.listdir

    def listdir(path: Path) -> list[str]:
        if Path(path).name == "orders-0":
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "listdir", listdir)
    assert list(partitions(tmp_path)) == [Directory("orders", 0)]
    (tmp_path / META_PROPERTIES).unlink()
    with pytest.raises(LogDirError, match="not a Kafka log directory"):
        partitions(tmp_path)


def test_problem_has_the_error_text_without_strerror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def scandir(_path: Path) -> None:
        raise OSError("no answer from the disk")

    monkeypatch.setattr(os, "scandir", scandir)
    [problem] = read_partition(tmp_path)
    assert isinstance(problem, Problem)
    assert str(problem) == f"{tmp_path}: no answer from the disk"


def test_checkpoint_error_without_strerror_has_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(_path: Path, _mode: str) -> None:
        raise OSError("no answer from the disk")

    monkeypatch.setattr(Path, "open", opened)
    problem = read_log_starts(tmp_path)
    assert isinstance(problem, Problem)
    assert problem.text == "no answer from the disk"
