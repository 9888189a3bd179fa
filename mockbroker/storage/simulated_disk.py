"""A disk in memory, for tests and simulations. It can crash, tear writes and fail.

After a crash, it keeps only what POSIX guarantees: the bytes of synced files, and the names in synced folders.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import field
from typing import TypeAlias

from kwire.lazy_dataclass import dataclass


def none(_: int) -> int:
    """Return 0: no unsynced byte survives a crash.

    The function is the default of the argument ``survives`` of ``SimulatedDisk.crash``.
    """
    return 0


class CrashError(Exception):
    """The error for a simulated power failure in the middle of an operation."""


@dataclass(slots=True)
class _File:
    """A file of the simulated disk.

    Attributes:
        data: content.
        synced: content at the last sync. A crash restores it, unless unsynced bytes survive.
    """

    data: bytearray = field(default_factory=bytearray)
    synced: bytes = b""


@dataclass(slots=True)
class _Folder:
    """A folder of the simulated disk.

    Attributes:
        now: entries by name.
        synced: entries at the last sync, by name. A crash restores them, unless unsynced names survive.
    """

    now: dict[str, _Entry] = field(default_factory=dict)
    synced: dict[str, _Entry] = field(default_factory=dict)


_Entry: TypeAlias = _File | _Folder


class SimulatedDisk:
    """A ``Disk`` in memory that can crash.

    Attributes:
        before: function that is called before each operation that changes the disk, with the name of the operation and
            the file. If the function raises CrashError or OSError, the operation fails with that error; a failed write
            may still write half of its bytes.
        operations: number of operations that have changed the disk so far.
    """

    def __init__(self) -> None:
        self.before: Callable[[str, str], None] = _continue
        self.operations = 0
        self._top = _Folder()

    def crash(self, survives: Callable[[int], int] = none, *, names: bool = False) -> None:
        """Discard unsynced bytes and unsynced names, as a power failure does.

        Args:
            survives: function that gets the number of unsynced bytes of a file, and returns how many of them survive.
            names: True if unsynced names survive too. To simulate a killed process on a machine that keeps running,
                pass True and ``survives=lambda size: size``.
        """
        _crash(self._top, survives, names)

    def names(self, folder: str) -> list[str]:
        return list(self._folder(folder).now)

    def read(self, file: str) -> bytes:
        return bytes(self._file(file).data)

    def append(self, file: str, data: bytes) -> None:
        def part(size: int) -> None:
            self._created(file).data.extend(data[:size])

        self._change("append", file, lambda: part(len(data)), lambda: part(len(data) // 2))

    def write(self, file: str, data: bytes, *, private: bool = False) -> None:  # noqa: ARG002
        def part(size: int) -> None:
            self._created(file).data[:] = data[:size]

        self._change("write", file, lambda: part(len(data)), lambda: part(len(data) // 2))

    def truncate(self, file: str, size: int) -> None:
        entry = self._file(file)
        self._change("truncate", file, lambda: entry.data.__delitem__(slice(size, None)))

    def sync(self, file: str) -> None:
        entry = self._file(file)

        def sync() -> None:
            entry.synced = bytes(entry.data)

        self._change("sync", file, sync)

    def sync_folder(self, folder: str) -> None:
        entry = self._folder(folder)

        def sync() -> None:
            entry.synced = dict(entry.now)

        self._change("sync_folder", folder, sync)

    def rename(self, old: str, new: str) -> None:
        (origin, old_name), (target, new_name) = self._place(old), self._place(new)
        self._entry(old)

        def rename() -> None:
            target.now[new_name] = origin.now.pop(old_name)

        self._change("rename", old, rename)

    def remove(self, file: str) -> None:
        folder, name = self._place(file)
        self._file(file)
        self._change("remove", file, lambda: folder.now.pop(name))

    def make_folder(self, folder: str) -> None:
        self._change("make_folder", folder, lambda: self._top.now.setdefault(folder, _Folder()))

    def remove_folder(self, folder: str) -> None:
        if self.names(folder):
            raise _error(errno.ENOTEMPTY, folder)
        self._change("remove_folder", folder, lambda: self._top.now.pop(folder))

    def _change(
        self, operation: str, file: str, whole: Callable[[], object], half: Callable[[], object] | None = None
    ) -> None:
        self.operations += 1
        try:
            self.before(operation, file)
        except (CrashError, OSError):
            if half is not None:
                half()
            raise
        whole()

    def _place(self, path: str) -> tuple[_Folder, str]:
        folder, _, name = path.rpartition("/")
        return self._folder(folder), name

    def _entry(self, path: str) -> _Entry:
        folder, name = self._place(path)
        if name not in folder.now:
            raise _error(errno.ENOENT, path)
        return folder.now[name]

    def _folder(self, path: str) -> _Folder:
        entry = self._entry(path) if path else self._top
        if not isinstance(entry, _Folder):
            raise _error(errno.ENOTDIR, path)
        return entry

    def _file(self, path: str) -> _File:
        entry = self._entry(path)
        if not isinstance(entry, _File):
            raise _error(errno.EISDIR, path)
        return entry

    def _created(self, path: str) -> _File:
        folder, name = self._place(path)
        folder.now.setdefault(name, _File())
        return self._file(path)


def _continue(_operation: str, _file: str) -> None:
    pass


def _crash(folder: _Folder, survives: Callable[[int], int], names: bool) -> None:
    if not names:
        folder.now = dict(folder.synced)
    for entry in folder.now.values():
        if isinstance(entry, _Folder):
            _crash(entry, survives, names)
        else:
            entry.data[:] = entry.synced = _surviving(bytes(entry.data), entry.synced, survives)
    folder.synced = dict(folder.now)


def _surviving(now: bytes, synced: bytes, survives: Callable[[int], int]) -> bytes:
    """Return the content of a file after a crash: the synced bytes, and some of the bytes that were appended later.

    If the file was rewritten, the result is the whole new or the whole old content.

    Args:
        now: content before the crash.
        synced: content at the last sync.
        survives: function that gets the number of unsynced bytes, and returns how many of them survive.
    """
    if not now.startswith(synced):  # rewritten or truncated: the old content or the new, nothing in between
        return now if survives(1) else synced
    return now[: len(synced) + survives(len(now) - len(synced))]


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
