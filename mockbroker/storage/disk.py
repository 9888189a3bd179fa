"""What logs on disk need of an operating system, so that a simulation can put a disk of its own under them."""

from __future__ import annotations

from typing import Protocol


class DataDirError(Exception):
    """A data directory that cannot be used, or cannot be used any longer; the text names it and says why."""


class Disk(Protocol):
    """Files below one folder. Names are relative to it, with ``/`` between; "" is the folder itself.

    Nothing is sure to outlive a crash before ``sync`` of the file, and of the name ``sync_folder`` of its folder.
    Every method may raise OSError; after that nobody knows what became of the file.
    """

    def names(self, folder: str) -> list[str]:
        """What is in a folder, in any order."""
        ...

    def read(self, file: str) -> bytes: ...

    def append(self, file: str, data: bytes) -> None:
        """Write behind what is there; the file is made if it is not."""
        ...

    def write(self, file: str, data: bytes) -> None:
        """Make a file of just these bytes, whatever was there before."""
        ...

    def truncate(self, file: str, size: int) -> None:
        """Cut a file to its first ``size`` bytes."""
        ...

    def sync(self, file: str) -> None:
        """Come back when the bytes of the file are sure."""
        ...

    def sync_folder(self, folder: str) -> None:
        """Come back when the names in the folder are sure."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Give a file or folder another name; a file of that name is gone."""
        ...

    def remove(self, file: str) -> None: ...

    def make_folder(self, folder: str) -> None:
        """Make it, unless it is there."""
        ...

    def remove_folder(self, folder: str) -> None:
        """It must be empty."""
        ...


def replace_file(disk: Disk, file: str, data: bytes) -> None:
    """A file has this content at once: whoever looks after a crash finds the old or the new."""
    beside = f"{file}.tmp"
    disk.write(beside, data)
    disk.sync(beside)
    disk.rename(beside, file)
    disk.sync_folder(file.rpartition("/")[0])
