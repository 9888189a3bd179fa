"""The disk of a soak: a file system of its own that can be filled, where the system permits one."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

SIZE = 64 * 2**20  # bytes of the file system
ENTERED = "KWIRE_SOAK_NAMESPACE"
NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]
CHUNK = 2**20


def enter_namespace() -> None:
    """Run this program again in a mount namespace of its own, if the system permits that. Then ``Disk`` has a size."""
    if ENTERED in os.environ or shutil.which(NAMESPACE[0]) is None:
        return
    mount = [*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    tried = subprocess.run(mount, capture_output=True, check=False)  # noqa: S603
    if tried.returncode == 0:
        os.environ[ENTERED] = "yes"
        os.execvp(NAMESPACE[0], [*NAMESPACE, *sys.orig_argv])  # noqa: S606


class Disk:
    """A folder for data.

    Args:
        folder: Path of the folder, which is created.

    Attributes:
        folder: The same.
        sized: Whether the folder is a file system of its own: only in a namespace of ``enter_namespace``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sized = ENTERED in os.environ
        folder.mkdir()
        if self.sized:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)], check=True)  # noqa: S603, S607

    def fill(self) -> None:
        """Write a file that takes all free space, so that a write that needs more fails with ENOSPC."""
        assert self.sized, "the space of another file system is not filled"
        with self._ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(CHUNK))

    def free(self) -> None:
        """Remove what ``fill`` has written."""
        self._ballast.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove the file system, with its files."""
        if self.sized:
            subprocess.run(["umount", "--lazy", str(self.folder)], check=True)  # noqa: S603, S607

    @property
    def _ballast(self) -> Path:
        return self.folder / "ballast"
