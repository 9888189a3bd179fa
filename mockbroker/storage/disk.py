"""The file operations of the storage layer, as a protocol that a real and a simulated disk implement."""

from __future__ import annotations

from typing import Protocol


class DataDirError(Exception):
    """The error for a data directory that cannot be opened, read or written.

    The message contains the path and the reason.
    """


class Disk(Protocol):
    """The interface of a disk: the files below one folder.

    Paths are relative to the folder, with ``/`` as separator; "" is the folder itself.

    The bytes of a file survive a crash only after ``sync`` was called for the file. The name of a file survives only
    after ``sync_folder`` was called for its folder. Every method may raise OSError; after an OSError the state of the
    file is unknown.
    """

    def names(self, folder: str) -> list[str]:
        """Return the names of the files and folders in a folder, in any order."""
        ...

    def read(self, file: str) -> bytes:
        """Return the content of a file."""
        ...

    def append(self, file: str, data: bytes) -> None:
        """Append bytes to a file; create it if it does not exist."""
        ...

    def write(self, file: str, data: bytes, *, private: bool = False) -> None:
        """Write a file that consists of exactly these bytes. An existing file is overwritten.

        Args:
            file: path of the file.
            data: the bytes.
            private: True if a file that is created may be read only by its owner.
        """
        ...

    def truncate(self, file: str, size: int) -> None:
        """Truncate a file to its first ``size`` bytes."""
        ...

    def sync(self, file: str) -> None:
        """Make the bytes of a file durable, so that they survive a crash."""
        ...

    def sync_folder(self, folder: str) -> None:
        """Make the names of the files and folders in a folder durable, so that they survive a crash."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename the file or folder ``old`` to ``new``. If a file ``new`` exists, it is replaced."""
        ...

    def remove(self, file: str) -> None:
        """Remove a file."""
        ...

    def make_folder(self, folder: str) -> None:
        """Create a folder, unless it exists."""
        ...

    def remove_folder(self, folder: str) -> None:
        """Remove an empty folder."""
        ...


def replace_file(disk: Disk, file: str, data: bytes, *, private: bool = False) -> None:
    """Replace the content of a file atomically: after a crash the file has either the old or the new content.

    Args:
        disk: the disk.
        file: path of the file.
        data: the new content.
        private: True if only the owner of the file may read it.
    """
    temporary = f"{file}.tmp"
    disk.write(temporary, data, private=private)
    disk.sync(temporary)
    disk.rename(temporary, file)
    disk.sync_folder(file.rpartition("/")[0])
