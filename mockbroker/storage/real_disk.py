"""A folder of the operating system as a disk, and the lock that keeps others out of it."""

from __future__ import annotations

import errno
import fcntl
import os
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mockbroker.storage.disk import DataDirError

LOCK = ".lock"  # Kafka's name for it
OPEN_FILES = 128  # kept open for the next append
TAKEN = {errno.EAGAIN, errno.EACCES}


class RealDisk:
    """A folder, which is made if it is not there, locked for this object until it is closed or the process has ended.

    Raises: DataDirError.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: OrderedDict[str, int] = OrderedDict()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise DataDirError(f"data directory {folder}: {error.strerror}") from error
        try:
            _lock(self._lock)
        except OSError as error:
            os.close(self._lock)
            told = "another process uses it" if error.errno in TAKEN else f"cannot lock {LOCK}: {error.strerror}"
            raise DataDirError(f"data directory {folder}: {told}") from error

    def close(self) -> None:
        """The lock is free; what was not synced may be lost."""
        for number in self._open.values():
            os.close(number)
        self._open.clear()
        os.close(self._lock)

    def names(self, folder: str) -> list[str]:
        return os.listdir(self._folder / folder)

    def read(self, file: str) -> bytes:
        return (self._folder / file).read_bytes()

    def append(self, file: str, data: bytes) -> None:
        with _named(file):
            _write_all(self._opened(file), data)

    def write(self, file: str, data: bytes) -> None:
        self._forget(file)
        number = os.open(self._folder / file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
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
        number = os.open(self._folder / folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(number)
        finally:
            os.close(number)

    def rename(self, old: str, new: str) -> None:
        self._forget(old)
        self._forget(new)
        os.rename(self._folder / old, self._folder / new)

    def remove(self, file: str) -> None:
        self._forget(file)
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
                    os.fsync(
                        oldest
                    )  # what goes wrong later is told to those who have the file open, and to nobody else
                finally:
                    os.close(oldest)
            number = os.open(self._folder / file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._open[file] = number
        return number

    def _forget(self, file: str) -> None:
        number = self._open.pop(file, None)
        if number is not None:
            os.close(number)


def _lock(number: int) -> None:
    fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.lockf(number, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the kind that Java knows, so that Kafka stays out as well


@contextmanager
def _named(file: str) -> Iterator[None]:
    """Errors of open files do not say which."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or file
        raise


def _write_all(number: int, data: bytes) -> None:
    """A disk that is nearly full takes a part, and says what is wrong when it is asked for the rest."""
    left = memoryview(data)
    while left:
        left = left[os.write(number, left) :]
