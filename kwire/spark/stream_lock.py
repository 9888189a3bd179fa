"""The lock of a stream's folder: two processes that continue one stream would delete each other's files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from kwire.capture.files.file_systems import is_address
from kwire.file_locks import HELD, lock_exclusively


class LockedError(RuntimeError):
    """The error for a stream that another process runs."""


@contextmanager
def locked(folder: str) -> Iterator[None]:
    """Lock a folder, inside the ``with`` block, against other processes.

    The system releases the lock when the process ends, also after SIGKILL. An address is not locked, and no folder is
    on a file system without locks.

    ``folder``: folder with the state of the stream; it is created. Raises: LockedError if the folder is locked; OSError
    if it cannot be written.
    """
    if is_address(folder):
        yield
        return
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "wb") as file:
        try:
            lock_exclusively(file.fileno())
        except OSError as error:
            if error.errno in HELD:  # otherwise the file system has no locks
                raise LockedError(
                    f"another process runs the stream in {folder}: end it, or choose another --output or --capture-id"
                ) from error
        yield
