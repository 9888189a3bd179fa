"""The brokers' data directory on a simulated disk: syncs take time, can fail, and a crash loses unsynced bytes.

All code but the disk itself is the broker's own (storage/).
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from uuid import UUID

from mockbroker.lab.simulation.dice import Dice
from mockbroker.storage.data_dir import DataDir
from mockbroker.storage.disk import DataDirError
from mockbroker.storage.simulated_disk import CrashError, SimulatedDisk
from mockbroker.storage.work import Work
from mockbroker.topics.model import Cluster, Node

MOST_OPERATIONS = 12  # operations of a work before a crash interrupts it; some works have fewer


class Disk:
    """The disk of the brokers. ``slowest``: longest time of a sync, seconds; ``fails``: the next sync fails."""

    def __init__(self, dice: Dice, slowest: float) -> None:
        self.fails = False
        self._dice = dice
        self._slowest = slowest
        self._files = SimulatedDisk()
        self._data = DataDir(self._files, "pretend")
        self._working: Work | None = None

    def open(self, nodes: Sequence[Node], new_uuid: Callable[[], UUID]) -> Cluster:
        """Return the stored cluster, or a new one at first."""
        self._data = DataDir(self._files, "pretend")
        return self._data.open(nodes, new_uuid)

    def flush(self) -> None:
        self._data.flush()

    @property
    def collected(self) -> int:
        """Number of the last change; it only grows while the process runs."""
        return self._data.collected

    @property
    def synced(self) -> int:
        """Number of the last change that is synced."""
        return self._data.synced

    def start(self) -> float | None:
        """Begin a sync of all changes; return its duration in seconds, None if one is in progress or none is needed."""
        if self._working is not None:
            return None
        self._working = self._data.next_work()
        return None if self._working is None else self._slowest * self._dice.random()

    def finish(self) -> bool:
        """Complete the sync; return False if the disk has failed, and its content is unknown."""
        work, self._working = self._working, None
        assert work is not None
        if self.fails:
            self.fails = False
            self._files.before = _refuse
        try:
            self._data.perform(work)
        except DataDirError:
            return False
        finally:
            self._files.before = _go_on
        return True

    def crash(self) -> None:
        """Crash the machine, perhaps in the middle of a write; only some of the unsynced bytes survive."""
        if self._working is not None:
            left = self._dice.below(MOST_OPERATIONS)

            def before(_operation: str, _file: str) -> None:
                nonlocal left
                left -= 1
                if left < 0:
                    raise CrashError

            self._files.before = before
            try:
                self._data.perform(self._working)
            except CrashError:
                pass
            finally:
                self._files.before = _go_on
            self._working = None
        self._files.crash(lambda size: self._dice.below(size + 1), names=self._dice.chance(0.5))


def _refuse(operation: str, file: str) -> None:
    if operation == "sync":
        raise OSError(errno.EIO, "the disk does not answer", file)


def _go_on(_operation: str, _file: str) -> None:
    pass
