"""Locks on an open file that exclude other processes: with fcntl, or with msvcrt on Windows.

A lock ends when the file is closed or the process ends. On Windows, a shared lock is also exclusive.
"""

from __future__ import annotations

import errno
import os
from importlib import import_module
from typing import Any

fcntl: Any = None
msvcrt: Any = None
try:
    fcntl = import_module("fcntl")
except ModuleNotFoundError:  # Windows
    msvcrt = import_module("msvcrt")

HELD = frozenset({errno.EAGAIN, errno.EACCES})  # error numbers of a lock that another process holds
LOCKED_BYTES = 1  # of Windows, which locks a range


def lock_exclusively(number: int) -> None:
    """Lock a file against all other processes.

    ``number``: file descriptor, open for writing.

    Raises: OSError with an error number in HELD if another process has a lock.
    """
    if fcntl is None:
        _lock_range(number)
        return
    fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.lockf(number, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the kind of lock that Java uses: keeps Kafka out as well


def lock_shared(number: int) -> None:
    """Lock a file against processes that lock it exclusively, such as a running Kafka.

    ``number``: file descriptor, open for reading.

    Raises: OSError with an error number in HELD if another process has an exclusive lock.
    """
    if fcntl is None:
        _lock_range(number)
        return
    fcntl.lockf(number, fcntl.LOCK_SH | fcntl.LOCK_NB)


def _lock_range(number: int) -> None:
    os.lseek(number, 0, os.SEEK_SET)  # the range begins at the position of the file
    msvcrt.locking(number, msvcrt.LK_NBLCK, LOCKED_BYTES)
