"""The disk of the operating system: what the pretend one promises, the lock, and what cannot be opened."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tools.disk_changes import DiskChanges, content, ids, make_all_changes, nodes, opened

from mockbroker.storage.data_dir import DataDir
from mockbroker.storage.disk import DataDirError
from mockbroker.storage.pretend import PretendDisk
from mockbroker.storage.real_disk import OPEN_FILES, RealDisk


@contextmanager
def disk_at(folder: Path) -> Iterator[RealDisk]:
    disk = RealDisk(folder)
    try:
        yield disk
    finally:
        disk.close()


def everything(disk: RealDisk | PretendDisk) -> dict[str, bytes]:
    """Every file there is, and what is in it."""
    folders = [name for name in disk.names("") if name in ("a-0", "a-1", "a-2", "b-0", "b-1")]
    files = [name for name in disk.names("") if name not in folders and name != ".lock"]
    files += [f"{folder}/{name}" for folder in folders for name in disk.names(folder)]
    return {file: disk.read(file) for file in files}


def test_both_disks_come_to_the_same(tmp_path: Path) -> None:
    pretend = PretendDisk()
    with disk_at(tmp_path / "made" / "too") as real:
        for disk in (pretend, real):
            data_dir = DataDir(disk, "DIR")
            data_dir.open(nodes(), ids())
            make_all_changes(DiskChanges(data_dir))
        assert everything(real) == everything(pretend)
        assert {"b-0/00000000000000000000.log", "log-start-offset-checkpoint"} <= set(everything(real))


def test_what_is_written_is_there_for_the_next(tmp_path: Path) -> None:
    with disk_at(tmp_path) as disk:
        changes = DiskChanges(opened(disk))
        changes.append(changes.topic("a", 1), 0, 20)
        changes.data_dir.flush()
        before = content(changes.cluster.topics["a"].partitions[0])
    with disk_at(tmp_path) as disk:
        assert content(opened(disk, 1_000).cluster.topics["a"].partitions[0]) == before


def test_many_files(tmp_path: Path) -> None:
    open_before = len(os.listdir("/proc/self/fd"))
    with disk_at(tmp_path) as disk:
        disk.make_folder("f")
        for _ in range(2):
            for number in range(OPEN_FILES + 20):
                disk.append(f"f/{number}", b"ab")
        assert len(os.listdir("/proc/self/fd")) - open_before <= OPEN_FILES + 1
        assert {disk.read(f"f/{name}") for name in disk.names("f")} == {b"abab"}
    assert len(os.listdir("/proc/self/fd")) == open_before


def test_the_lock(tmp_path: Path) -> None:
    with disk_at(tmp_path), pytest.raises(DataDirError, match=f"^data directory {tmp_path}: another process uses it$"):
        RealDisk(tmp_path)
    RealDisk(tmp_path).close()


def test_the_lock_is_one_for_kafka_too(tmp_path: Path) -> None:
    """Java takes locks of the other kind, which a process never gets in its own way with."""
    tries = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    command = [sys.executable, "-c", tries, str(tmp_path / ".lock")]
    with disk_at(tmp_path):
        assert b"BlockingIOError" in subprocess.run(command, capture_output=True, check=False).stderr
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder, why in ((tmp_path / "file", "File exists"), (tmp_path / "file" / "dir", "Not a directory")):
        with pytest.raises(DataDirError) as raised:
            RealDisk(folder)
        assert str(raised.value) == f"data directory {folder}: {why}"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(DataDirError, match="Permission denied"):
        RealDisk(tmp_path)


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """The kernel refuses in the middle of a write, as on a full disk."""
    with disk_at(tmp_path) as disk:
        changes = DiskChanges(opened(disk))
        topic = changes.topic("a", 1, **{"segment.bytes": "100000"})
        changes.append(topic, 0)
        changes.flush()
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, before[1]))
        try:
            changes.append(topic, 0, 100)
            with pytest.raises(DataDirError) as raised:
                changes.data_dir.flush()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert str(raised.value) == (
            f"data directory DIR: cannot write a-0/00000000000000000000.log: {os.strerror(errno.EFBIG)}"
        )
    with disk_at(tmp_path) as disk:
        changes.check(opened(disk, 1_000).cluster)  # what fitted in is whole batches


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk(tmp_path: Path) -> None:
    with disk_at(tmp_path) as disk:
        (tmp_path / "full").symlink_to("/dev/full")
        with pytest.raises(OSError, match="No space left on device") as raised:
            disk.append("full", b"x")
        assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, "full")
