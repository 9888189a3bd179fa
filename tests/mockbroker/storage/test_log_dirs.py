"""Files of a log directory: what is read of them, and what is said where that cannot be."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from uuid import UUID

import pytest

from kwire.records import Record, build_batch
from kwire.records.batch import Batch
from mockbroker.storage.layout import META_PROPERTIES, PARTITION_METADATA, START_OFFSETS
from mockbroker.storage.log_dirs import (
    LogDirError,
    Problem,
    log_starts,
    partitions,
    read_partition,
    topic_id,
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
    """First offsets of the batches, and problems without the folder."""
    offsets: list[int] = []
    problems: list[str] = []
    for found in read_partition(folder):
        if isinstance(found, Problem):
            problems.append(str(found).removeprefix(f"{folder}/"))
        else:
            assert isinstance(found[1], Batch)
            offsets.append(found[1].base_offset)
    return offsets, problems


def test_partitions_that_live(tmp_path: Path) -> None:
    for name in ("orders-1", "orders-0", "orders-2.0123-delete", "x-0.0123-future", "plain"):
        (tmp_path / name).mkdir()
    (tmp_path / "orders-0" / segment_name(0)).touch()
    (tmp_path / "file-1").touch()
    assert partitions(tmp_path) == {
        Directory("orders", 0): tmp_path / "orders-0",
        Directory("orders", 1): tmp_path / "orders-1",
    }


def test_a_broker_without_topics(tmp_path: Path) -> None:
    (tmp_path / META_PROPERTIES).touch()
    assert partitions(tmp_path) == {}


def test_no_log_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "java-17").mkdir()  # the name of a partition, as there are some in /etc
    (tmp_path / "java-17" / "security.policy").touch()
    for path, told in [
        (tmp_path, "no log directory of Kafka: neither meta.properties nor a partition in it"),
        (tmp_path / "file", "Not a directory"),
        (tmp_path / "absent", "No such file or directory"),
    ]:
        with pytest.raises(LogDirError) as caught:
            partitions(path)
        assert str(caught.value) == f"{path}: {told}"


def test_a_broker_that_runs(tmp_path: Path) -> None:
    """Java locks the file as lockf does."""
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / "partition.metadata").touch()
    (tmp_path / ".lock").touch()
    code = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print('locked'); input()"
    command = [sys.executable, "-c", code, str(tmp_path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(LogDirError, match="a broker is running on it; stop it first"):
            partitions(tmp_path)
        holder.communicate("\n")
    assert partitions(tmp_path)


def test_nothing_is_written(tmp_path: Path) -> None:
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


def test_segments_one_after_the_other(tmp_path: Path) -> None:
    write(tmp_path, {segment_name(0): batch(0) + batch(3, 4), segment_name(5): batch(5), segment_name(9): b""})
    assert read(tmp_path) == ([0, 3, 5], [])


def test_what_is_behind_damage_is_not_read(tmp_path: Path) -> None:
    write(tmp_path, {segment_name(0): batch(0) + b"x", segment_name(5): batch(5), segment_name(9): batch(9)})
    assert read(tmp_path) == (
        [0],
        [
            f"{segment_name(0)} at byte {len(batch(0))}: torn: 1 bytes of a batch header of 61; read up to offset 1; "
            "2 segments behind it are not read"
        ],
    )


def test_segments_that_overlap(tmp_path: Path) -> None:
    write(tmp_path, {segment_name(0): batch(0, 1, 2), segment_name(2): batch(2)})
    assert read(tmp_path) == (
        [0],
        [f"{segment_name(2)} at byte 0: begins at offset 2, which is in the segment before it"],
    )


def test_what_compaction_had_finished_is_read(tmp_path: Path) -> None:
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


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    write(tmp_path, {segment_name(0): batch(0)})
    (tmp_path / segment_name(0)).chmod(0)
    assert read(tmp_path) == ([], [f"{segment_name(0)}: Permission denied"])


def test_a_directory_that_went_away(tmp_path: Path) -> None:
    (problem,) = read_partition(tmp_path / "gone-0")
    assert str(problem) == f"{tmp_path / 'gone-0'}: No such file or directory"


@pytest.mark.parametrize("begin", [batch(0), batch(0) + batch(1)[:8] + b"\7\xff\xff\xff" + batch(1)[12:]])
def test_a_huge_file_is_read_in_pieces(tmp_path: Path, begin: bytes) -> None:
    """8 GB of holes, as after a crash of some file systems; and a length that is larger than any batch."""
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


def test_topic_ids(tmp_path: Path) -> None:
    assert topic_id(tmp_path) is None
    path = tmp_path / PARTITION_METADATA
    path.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    assert topic_id(tmp_path) == UUID(int=1)
    for bad in (b"", b"version: 0\ntopic_id: A", b"version: 0\n", b"\xff"):
        path.write_bytes(bad)
        assert topic_id(tmp_path) == Problem(path, None, "no topic id in it")
    path.unlink()
    path.mkdir()
    assert topic_id(tmp_path) == Problem(path, None, "Is a directory")


def test_where_logs_begin(tmp_path: Path) -> None:
    assert log_starts(tmp_path) == {}
    path = tmp_path / START_OFFSETS
    path.touch()
    assert log_starts(tmp_path) == {}
    path.write_text("0\n2\norders 0 5\na-b 1 7\n")
    assert log_starts(tmp_path) == {("orders", 0): 5, ("a-b", 1): 7}
    for bad in ("\n", "0\n", "0\n1\norders 0\n", "0\n1\norders x 5\n", "0\n2\norders 0 5\n", "1\n0\n"):
        path.write_text(bad)
        found = log_starts(tmp_path)
        assert isinstance(found, Problem)
        assert found.text.startswith("no checkpoint: ")
