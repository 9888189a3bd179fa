"""The disk of the operating system: the guarantees of the simulated disk, the lock, and what cannot be opened."""

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
from open_files import open_files, opened_since
from tools.compacted_logs import compact_to
from tools.disk_changes import DiskChanges, content, ids, make_all_changes, nodes, opened

from mockbroker.storage import real_disk
from mockbroker.storage.data_dir import DataDir
from mockbroker.storage.disk import DataDirError
from mockbroker.storage.real_disk import OPEN_FILES, RealDisk
from mockbroker.storage.segments import segment_name
from mockbroker.storage.simulated_disk import SimulatedDisk


@contextmanager
def disk_at(folder: Path) -> Iterator[RealDisk]:
    disk = RealDisk(folder)
    try:
        yield disk
    finally:
        disk.close()


def everything(disk: RealDisk | SimulatedDisk) -> dict[str, bytes]:
    """Return the content of every file."""
    folders = [name for name in disk.names("") if name in ("a-0", "a-1", "a-2", "b-0", "b-1")]
    files = [name for name in disk.names("") if name not in folders and name != ".lock"]
    files += [f"{folder}/{name}" for folder in folders for name in disk.names(folder)]
    return {file: disk.read(file) for file in files}


def test_both_disks_give_the_same_files(tmp_path: Path) -> None:
    pretend = SimulatedDisk()
    with disk_at(tmp_path / "made" / "too") as real:
        for disk in (pretend, real):
            data_dir = DataDir(disk, "DIR")
            data_dir.open(nodes(), ids())
            make_all_changes(DiskChanges(data_dir))
        assert everything(real) == everything(pretend)
        assert {"b-0/00000000000000000000.log", "log-start-offset-checkpoint"} <= set(everything(real))


def test_file_is_no_folder_on_either_disk(tmp_path: Path) -> None:
    with disk_at(tmp_path) as real:
        for disk in (SimulatedDisk(), real):
            disk.write("file", b"")
            for path in ("file", "file/inside"):
                with pytest.raises(NotADirectoryError):
                    disk.names(path)


def test_folder_that_exists_can_be_made_again(tmp_path: Path) -> None:
    with disk_at(tmp_path) as real:
        for disk in (SimulatedDisk(), real):
            disk.make_folder("a-0")
            disk.write("a-0/file", b"x")
            disk.make_folder("a-0")
            assert disk.names("a-0") == ["file"]


def test_folder_is_removed_on_either_disk(tmp_path: Path) -> None:
    with disk_at(tmp_path) as real:
        for disk in (SimulatedDisk(), real):
            disk.make_folder("a-0")
            disk.remove_folder("a-0")
            assert "a-0" not in disk.names("")


def test_written_files_can_be_opened_again(tmp_path: Path) -> None:
    with disk_at(tmp_path) as disk:
        changes = DiskChanges(opened(disk))
        changes.append(changes.topic("a", 1), 0, 20)
        changes.data_dir.flush()
        before = content(changes.cluster.topics["a"].partitions[0])
    with disk_at(tmp_path) as disk:
        assert content(opened(disk, 1_000).cluster.topics["a"].partitions[0]) == before


def test_only_the_owner_reads_files_with_credentials(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        with disk_at(tmp_path / "data") as disk:
            changes = DiskChanges(opened(disk))
            topic = changes.topic("a", 1, **{"cleanup.policy": "compact"})
            changes.append(topic, 0, 3)
            changes.data_dir.flush()
            compact_to(topic.partitions[0].log, content(topic.partitions[0]))
            changes.data_dir.close()
    finally:
        os.umask(umask)
    files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
    modes = {path.name: path.stat().st_mode & 0o777 for path in files}
    compacted = segment_name(0)
    assert {compacted, segment_name(0, ".index"), "leader-epoch-checkpoint", "meta.properties"} < modes.keys()
    assert {name for name, mode in modes.items() if mode != 0o644} == {"mockbroker.json"}
    assert modes["mockbroker.json"] == 0o600


def test_many_files(tmp_path: Path) -> None:
    before = open_files()
    with disk_at(tmp_path) as disk:
        disk.make_folder("f")
        for _ in range(2):
            for number in range(OPEN_FILES + 20):
                disk.append(f"f/{number}", b"ab")
        assert len(opened_since(before)) <= OPEN_FILES + 1
        assert {disk.read(f"f/{name}") for name in disk.names("f")} == {b"abab"}
    assert not opened_since(before)


def test_bytes_after_a_rename_are_appended_to_the_renamed_file(tmp_path: Path) -> None:
    """When an open file is replaced, its descriptor is not used again."""
    with disk_at(tmp_path) as disk:
        disk.append("new", b"replaced")
        disk.append("old", b"renamed")
        disk.rename("old", "new")
        disk.append("new", b" and appended")
        disk.append("old", b"another")
        disk.sync("new")
        assert (disk.read("new"), disk.read("old")) == (b"renamed and appended", b"another")


def test_folder_is_locked_against_a_second_disk(tmp_path: Path) -> None:
    with (
        disk_at(tmp_path),
        pytest.raises(
            DataDirError, match=f"^data directory {tmp_path}: in use by another cluster; stop that cluster first$"
        ),
    ):
        RealDisk(tmp_path)
    RealDisk(tmp_path).close()


def test_lock_is_seen_by_kafka(tmp_path: Path) -> None:
    """Java uses POSIX locks (lockf), which do not conflict within one process."""
    tries = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    command = [sys.executable, "-c", tries, str(tmp_path / ".lock")]
    with disk_at(tmp_path):
        assert b"BlockingIOError" in subprocess.run(command, capture_output=True, check=False).stderr
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_folder_that_cannot_be_created_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder, reason in ((tmp_path / "file", "File exists"), (tmp_path / "file" / "dir", "Not a directory")):
        with pytest.raises(DataDirError) as raised:
            RealDisk(folder)
        assert str(raised.value) == f"data directory {folder}: cannot create or open the folder: {reason}"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(DataDirError, match="Permission denied"):
        RealDisk(tmp_path)


def test_write_cut_short_by_the_kernel_keeps_whole_batches(tmp_path: Path) -> None:
    """The kernel refuses the rest of a write, as on a full disk."""
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
            f"data directory DIR: cannot write file a-0/00000000000000000000.log: {os.strerror(errno.EFBIG)}"
        )
    with disk_at(tmp_path) as disk:
        changes.check(opened(disk, 1_000).cluster)  # the synced batches are complete


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_error_of_a_full_disk_names_the_file(tmp_path: Path) -> None:
    with disk_at(tmp_path) as disk:
        (tmp_path / "full").symlink_to("/dev/full")
        with pytest.raises(OSError, match="No space left on device") as raised:
            disk.append("full", b"x")
        assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, "full")


def test_refused_folder_leaves_no_open_file(tmp_path: Path) -> None:
    with disk_at(tmp_path):
        before = open_files()
        for _ in range(3):
            with pytest.raises(DataDirError, match="in use"):
                RealDisk(tmp_path)
        assert not opened_since(before)


def test_truncated_file_is_appended_to_at_its_new_end(tmp_path: Path) -> None:
    with disk_at(tmp_path) as disk:
        disk.append("file", b"0123456789")
        disk.truncate("file", 4)
        disk.append("file", b"ab")
        assert disk.read("file") == b"0123ab"


def test_rewritten_file_is_appended_to_at_its_new_end(tmp_path: Path) -> None:
    with disk_at(tmp_path) as disk:
        disk.append("file", b"0123456789")
        disk.write("file", b"new")
        disk.append("file", b"ab")
        assert disk.read("file") == b"newab"


def test_only_a_folder_is_synced_as_a_folder(tmp_path: Path) -> None:
    with disk_at(tmp_path) as disk:
        disk.write("file", b"")
        with pytest.raises(NotADirectoryError):
            disk.sync_folder("file")


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the files and folders that are synced."""
    names: list[str] = []
    sync = os.fsync

    def fsync(number: int) -> None:
        names.append(Path(os.readlink(f"/proc/self/fd/{number}")).name)
        sync(number)

    monkeypatch.setattr(os, "fsync", fsync)
    return names


def test_files_and_folders_are_synced(tmp_path: Path, synced: list[str]) -> None:
    with disk_at(tmp_path) as disk:
        disk.make_folder("f")
        disk.append("f/file", b"x")
        assert synced == []
        disk.sync("f/file")
        disk.sync_folder("f")
    assert synced == ["file", "f"]


def test_least_recently_used_file_is_synced_and_closed(
    tmp_path: Path, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real_disk, "OPEN_FILES", 2)
    with disk_at(tmp_path) as disk:
        for name in ("a", "b", "a", "c", "d"):
            disk.append(name, b"x")
    assert synced == ["b", "a"]


def test_operations_leave_no_open_file(tmp_path: Path) -> None:
    with disk_at(tmp_path) as disk:
        disk.make_folder("f")
        before = open_files()
        for _ in range(3):
            disk.write("f/file", b"x")
            disk.sync_folder("f")
            disk.truncate("f/file", 0)
        assert not opened_since(before)
        disk.append("f/file", b"x")
        disk.rename("f/file", "f/other")
        disk.append("f/file", b"x")
        disk.remove("f/file")
        assert not opened_since(before)
