"""File locks on Windows. ``test_real_disk.py`` and ``test_log_dirs.py`` test those of other systems."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from kwire import file_locks
from mockbroker.storage.disk import DataDirError
from mockbroker.storage.log_dirs import LogDirError, partitions
from mockbroker.storage.real_disk import RealDisk


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return the modes and sizes of the locks that are requested from msvcrt."""
    calls: list[tuple[int, int]] = []

    def locking(_: int, mode: int, size: int) -> None:
        if calls:
            raise PermissionError(errno.EACCES, "Permission denied")
        calls.append((mode, size))

    monkeypatch.setattr(file_locks, "fcntl", None)
    monkeypatch.setattr(file_locks, "msvcrt", SimpleNamespace(LK_NBLCK=2, locking=locking))
    return calls


def test_data_directory_is_locked(locked: list[tuple[int, int]], tmp_path: Path) -> None:
    RealDisk(tmp_path).close()
    assert locked == [(2, 1)]
    with pytest.raises(DataDirError, match="in use by another cluster"):
        RealDisk(tmp_path)


def test_locked_log_directory_is_refused(locked: list[tuple[int, int]], tmp_path: Path) -> None:
    (tmp_path / "meta.properties").touch()
    (tmp_path / ".lock").touch()
    partitions(tmp_path)
    with pytest.raises(LogDirError, match="locked by a running broker"):
        partitions(tmp_path)


@pytest.mark.parametrize("lock", [file_locks.lock_exclusively, file_locks.lock_shared])
def test_first_byte_of_the_file_is_locked(
    lock: Callable[[int], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    positions: list[int] = []
    locking = SimpleNamespace(LK_NBLCK=2, locking=lambda number, *_: positions.append(os.lseek(number, 0, os.SEEK_CUR)))
    monkeypatch.setattr(file_locks, "fcntl", None)
    monkeypatch.setattr(file_locks, "msvcrt", locking)
    with (tmp_path / "lock").open("w+b") as file:
        file.write(b"12345")
        file.flush()
        lock(file.fileno())
    assert positions == [0]
