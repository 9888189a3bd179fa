"""A disk that is not there, for tests and simulations: it crashes, tears and fails when it is told to.

What a crash leaves follows what POSIX promises, which is little: bytes that were synced, names whose folder was.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias


def none(_: int) -> int:
    """Of unsynced bytes nothing survives."""
    return 0


class CrashError(Exception):
    """The machine went down in the middle of an operation."""


@dataclass(slots=True)
class _File:
    data: bytearray = field(default_factory=bytearray)
    sure: bytes = b""


@dataclass(slots=True)
class _Folder:
    now: dict[str, _Entry] = field(default_factory=dict)
    sure: dict[str, _Entry] = field(default_factory=dict)


_Entry: TypeAlias = _File | _Folder


class PretendDisk:
    """``before``: called with each operation that changes something and its file, before it is carried out; what it
    raises comes out of the operation, which has then not happened, or by half. ``operations``: how many there were.
    """

    def __init__(self) -> None:
        self.before: Callable[[str, str], None] = _go_on
        self.operations = 0
        self._top = _Folder()

    def crash(self, survives: Callable[[int], int] = none, *, names: bool = False) -> None:
        """Be as after a loss of power. ``survives``: how many of so many unsynced bytes of a file are still there.

        ``names``: all names are as they were last, although nobody made them sure. A process that is killed leaves
        all of both.
        """
        _crash(self._top, survives, names)

    def names(self, folder: str) -> list[str]:
        return list(self._folder(folder).now)

    def read(self, file: str) -> bytes:
        return bytes(self._file(file).data)

    def append(self, file: str, data: bytes) -> None:
        def part(size: int) -> None:
            self._made(file).data.extend(data[:size])

        self._change("append", file, lambda: part(len(data)), lambda: part(len(data) // 2))

    def write(self, file: str, data: bytes) -> None:
        def part(size: int) -> None:
            self._made(file).data[:] = data[:size]

        self._change("write", file, lambda: part(len(data)), lambda: part(len(data) // 2))

    def truncate(self, file: str, size: int) -> None:
        found = self._file(file)
        self._change("truncate", file, lambda: found.data.__delitem__(slice(size, None)))

    def sync(self, file: str) -> None:
        found = self._file(file)

        def sync() -> None:
            found.sure = bytes(found.data)

        self._change("sync", file, sync)

    def sync_folder(self, folder: str) -> None:
        found = self._folder(folder)

        def sync() -> None:
            found.sure = dict(found.now)

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
        found = self._entry(path) if path else self._top
        if not isinstance(found, _Folder):
            raise _error(errno.ENOTDIR, path)
        return found

    def _file(self, path: str) -> _File:
        found = self._entry(path)
        if not isinstance(found, _File):
            raise _error(errno.EISDIR, path)
        return found

    def _made(self, path: str) -> _File:
        folder, name = self._place(path)
        folder.now.setdefault(name, _File())
        return self._file(path)


def _go_on(_operation: str, _file: str) -> None:
    pass


def _crash(folder: _Folder, survives: Callable[[int], int], names: bool) -> None:
    if not names:
        folder.now = dict(folder.sure)
    for entry in folder.now.values():
        if isinstance(entry, _Folder):
            _crash(entry, survives, names)
        else:
            entry.data[:] = entry.sure = _surviving(bytes(entry.data), entry.sure, survives)
    folder.sure = dict(folder.now)


def _surviving(now: bytes, sure: bytes, survives: Callable[[int], int]) -> bytes:
    """What a file has after a crash: what was sure, and of what was written behind it some bytes."""
    if not now.startswith(sure):  # it was written anew or cut: the old or the new, with nothing between
        return now if survives(1) else sure
    return now[: len(sure) + survives(len(now) - len(sure))]


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
