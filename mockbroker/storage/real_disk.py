"""The disk of the operating system: a folder that is locked against other processes."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kwire.file_locks import HELD, lock_exclusively
from mockbroker.storage.disk import DataDirError

LOCK = ".lock"  # the name that Kafka uses
OPEN_FILES = 128  # maximum files that remain open for the next append
PLAIN = getattr(os, "O_BINARY", 0)  # flag of every file on Windows
O_DIRECTORY = getattr(os, "O_DIRECTORY", None)  # None on Windows, which cannot sync a folder


class RealDisk:
    """A folder of the file system, created if it does not exist, and locked until ``close`` or the process ends.

    Args:
        folder: path of the folder.

    Raises:
        DataDirError: The folder cannot be created, or is locked by another process.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: OrderedDict[str, int] = OrderedDict()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | PLAIN, 0o644)
        except OSError as error:
            raise DataDirError(
                f"data directory {folder}: cannot create or open the folder: {error.strerror}"
            ) from error
        try:
            lock_exclusively(self._lock)
        except OSError as error:
            os.close(self._lock)
            reason = (
                "in use by another cluster; stop that cluster first"
                if error.errno in HELD
                else f"cannot lock {LOCK}: {error.strerror}"
            )
            raise DataDirError(f"data directory {folder}: {reason}") from error

    def close(self) -> None:
        """Release the lock and close all files, without syncing them."""
        for number in self._open.values():
            os.close(number)
        os.close(self._lock)

    def names(self, folder: str) -> list[str]:
        return os.listdir(self._folder / folder)

    def read(self, file: str) -> bytes:
        return (self._folder / file).read_bytes()

    def append(self, file: str, data: bytes) -> None:
        with _named(file):
            _write_all(self._opened(file), data)

    def write(self, file: str, data: bytes, *, private: bool = False) -> None:
        mode = 0o600 if private else 0o644
        number = os.open(self._folder / file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | PLAIN, mode)
        try:
            with _named(file):
                _write_all(number, data)
        finally:
            os.close(number)

    def truncate(self, file: str, size: int) -> None:
        os.truncate(self._folder / file, size)

    def sync(self, file: str) -> None:
        with _named(file):
            os.fsync(self._opened(file))

    def sync_folder(self, folder: str) -> None:
        if O_DIRECTORY is None:
            return
        number = os.open(self._folder / folder, os.O_RDONLY | O_DIRECTORY | PLAIN)
        try:
            os.fsync(number)
        finally:
            os.close(number)

    def rename(self, old: str, new: str) -> None:
        self._close_file(old)
        self._close_file(new)
        os.replace(self._folder / old, self._folder / new)

    def remove(self, file: str) -> None:
        self._close_file(file)
        os.unlink(self._folder / file)

    def make_folder(self, folder: str) -> None:
        (self._folder / folder).mkdir(exist_ok=True)

    def remove_folder(self, folder: str) -> None:
        os.rmdir(self._folder / folder)

    def _opened(self, file: str) -> int:
        number = self._open.pop(file, None)
        if number is None:
            if len(self._open) >= OPEN_FILES:
                _, oldest = self._open.popitem(last=False)
                try:
                    os.fsync(oldest)  # Linux reports a later write-back error only to open descriptors of the file
                finally:
                    os.close(oldest)
            number = os.open(self._folder / file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | PLAIN, 0o644)
        self._open[file] = number
        return number

    def _close_file(self, file: str) -> None:
        number = self._open.pop(file, None)
        if number is not None:
            os.close(number)


@contextmanager
def _named(file: str) -> Iterator[None]:
    """Add the file name to an OSError that is raised in the ``with`` block.

    Operations on a file descriptor raise OSError without a name.

    ``file``: the file name.
    """
    try:
        yield
    except OSError as error:
        error.filename = error.filename or file
        raise


def _write_all(number: int, data: bytes) -> None:
    """Write all bytes to a file descriptor.

    If the disk becomes full, OSError is raised after some bytes were written.

    Args:
        number: the file descriptor.
        data: the bytes.
    """
    remaining = memoryview(data)
    while remaining:
        remaining = remaining[os.write(number, remaining) :]
