"""The simulated disk: its content after a crash, and after operations that fail."""

from __future__ import annotations

import errno

import pytest

from mockbroker.storage.simulated_disk import CrashError, SimulatedDisk


@pytest.fixture
def disk() -> SimulatedDisk:
    """Return a disk with a folder ``f`` and a durable file of 10 bytes."""
    disk = SimulatedDisk()
    disk.make_folder("f")
    disk.sync_folder("")
    disk.write("f/file", b"0123456789")
    disk.sync("f/file")
    disk.sync_folder("f")
    return disk


def test_crash_discards_unsynced_bytes(disk: SimulatedDisk) -> None:
    disk.append("f/file", b"abcd")
    disk.crash()
    assert disk.read("f/file") == b"0123456789"


def test_crash_keeps_as_many_appended_bytes_as_survive(disk: SimulatedDisk) -> None:
    disk.append("f/file", b"abcd")
    asked = []

    def survives(unsynced: int) -> int:
        asked.append(unsynced)
        return 3

    disk.crash(survives)
    assert asked == [4]
    assert disk.read("f/file") == b"0123456789abc"
    disk.crash()  # all bytes that have survived are durable
    assert disk.read("f/file") == b"0123456789abc"


@pytest.mark.parametrize(("survives", "content"), [(0, b"0123456789"), (1, b"new")])
def test_rewritten_file_survives_whole_or_not_at_all(disk: SimulatedDisk, survives: int, content: bytes) -> None:
    disk.write("f/file", b"new")
    disk.crash(lambda _: survives)
    assert disk.read("f/file") == content


def test_rewritten_content_counts_as_one_byte(disk: SimulatedDisk) -> None:
    sizes: list[int] = []
    disk.write("f/file", b"new")
    disk.crash(lambda size: sizes.append(size) or 0)  # type: ignore[func-returns-value]
    assert sizes == [1]


def test_crash_discards_unsynced_names(disk: SimulatedDisk) -> None:
    disk.write("f/new", b"x")
    disk.sync("f/new")
    disk.rename("f/file", "f/other")
    disk.make_folder("g")
    disk.crash()
    assert (disk.names(""), disk.names("f")) == (["f"], ["file"])


def test_names_survive_a_killed_process(disk: SimulatedDisk) -> None:
    disk.write("f/new", b"x")
    disk.make_folder("g")
    disk.crash(lambda size: size, names=True)
    assert (disk.names(""), disk.names("f"), disk.read("f/new")) == (["f", "g"], ["file", "new"], b"x")
    disk.crash()
    assert (disk.names(""), disk.names("f"), disk.read("f/new")) == (["f", "g"], ["file", "new"], b"x")


@pytest.mark.parametrize(("operation", "content"), [("append", b"0123456789ab"), ("write", b"ab")])
def test_failed_write_leaves_half_of_its_bytes(disk: SimulatedDisk, operation: str, content: bytes) -> None:
    def fail(_operation: str, _file: str) -> None:
        raise CrashError

    disk.before = fail
    with pytest.raises(CrashError):
        getattr(disk, operation)("f/file", b"abcd")
    assert disk.read("f/file") == content


def test_failed_sync_keeps_nothing(disk: SimulatedDisk) -> None:
    disk.append("f/file", b"abcd")

    def fail(_operation: str, file: str) -> None:
        raise OSError(errno.EIO, "injected error", file)

    disk.before = fail
    with pytest.raises(OSError, match="injected"):
        disk.sync("f/file")
    disk.before = lambda *_: None
    disk.crash()
    assert disk.read("f/file") == b"0123456789"


def test_folder_with_files_cannot_be_removed(disk: SimulatedDisk) -> None:
    with pytest.raises(OSError, match="f") as refused:
        disk.remove_folder("f")
    assert refused.value.errno == errno.ENOTEMPTY
    assert disk.names("f") == ["file"]
    disk.remove("f/file")
    disk.remove_folder("f")
    assert disk.names("") == []


def test_operations_are_counted_unless_they_read(disk: SimulatedDisk) -> None:
    before = disk.operations
    disk.read("f/file")
    disk.names("f")
    assert disk.operations == before
    disk.truncate("f/file", 4)
    assert (disk.operations, disk.read("f/file")) == (before + 1, b"0123")


def test_missing_file_is_named_in_the_error(disk: SimulatedDisk) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        disk.read("f/missing")
    assert missing.value.filename == "f/missing"
    with pytest.raises(IsADirectoryError):
        disk.read("f")


MISSING = {
    "rename": lambda disk: disk.rename("f/missing", "f/other"),
    "remove": lambda disk: disk.remove("f/missing"),
    "truncate": lambda disk: disk.truncate("f/missing", 0),
    "sync": lambda disk: disk.sync("f/missing"),
    "read": lambda disk: disk.read("f/missing"),
    "names": lambda disk: disk.names("missing"),
    "sync_folder": lambda disk: disk.sync_folder("missing"),
    "remove_folder": lambda disk: disk.remove_folder("missing"),
    "append": lambda disk: disk.append("missing/file", b"x"),
    "write": lambda disk: disk.write("missing/file", b"x"),
}


@pytest.mark.parametrize("operation", MISSING)
def test_operation_on_a_missing_file_changes_nothing(disk: SimulatedDisk, operation: str) -> None:
    before = disk.operations
    seen: list[str] = []
    disk.before = lambda name, _file: seen.append(name)
    with pytest.raises(FileNotFoundError):
        MISSING[operation](disk)
    assert (disk.names(""), disk.names("f")) == (["f"], ["file"])
    assert operation in ("append", "write") or (disk.operations, seen) == (before, [])


def test_renamed_file_replaces_another(disk: SimulatedDisk) -> None:
    disk.write("f/other", b"other")
    disk.rename("f/file", "f/other")
    assert (disk.names("f"), disk.read("f/other")) == (["other"], b"0123456789")
    disk.crash()
    assert (disk.names("f"), disk.read("f/file")) == (["file"], b"0123456789"), "the folder was not synced"
    disk.rename("f/file", "f/other")
    disk.sync_folder("f")
    disk.crash()
    assert disk.names("f") == ["other"]
