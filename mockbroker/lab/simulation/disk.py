"""The data directory of the brokers on a simulated disk. The disk loses unsynced bytes in a crash.

A sync takes time and can fail. Only the disk is simulated: the data directory is written by mockbroker.storage, as in a
real broker.
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
from mockbroker.topics.model import ClusterState, Node

MOST_OPERATIONS = 12  # maximum number of operations of a sync before a crash interrupts the sync


class Disk:
    """The simulated disk of all brokers.

    Args:
        dice: random number generator for sync durations and crash points.
        slowest: maximum duration of a sync, seconds.
        on_open: function that is called with each data directory that is opened.

    Attributes:
        fails: True to make the next sync fail.
    """

    def __init__(self, dice: Dice, slowest: float, on_open: Callable[[DataDir], None] = lambda _: None) -> None:
        self.fails = False
        self._dice = dice
        self._slowest = slowest
        self._files = SimulatedDisk()
        self._data = DataDir(self._files, "pretend")
        self._working: Work | None = None
        self.on_open = on_open

    def open(self, nodes: Sequence[Node], new_uuid: Callable[[], UUID]) -> ClusterState:
        """Return the cluster that is stored on the disk. The first call creates the cluster.

        Args:
            nodes: the brokers.
            new_uuid: function that returns a new id for the cluster and for each topic.
        """
        self._data = DataDir(self._files, "pretend")
        self.on_open(self._data)
        return self._data.open(nodes, new_uuid)

    def flush(self) -> None:
        self._data.flush()

    @property
    def collected(self) -> int:
        """The number of the last change, whether synced or not. The numbers increase while the process runs."""
        return self._data.collected

    @property
    def synced(self) -> int:
        """The number of the last synced change."""
        return self._data.synced

    def start(self) -> float | None:
        """Begin a sync of all changes. Return its duration in seconds.

        Return None if another sync is in progress, or all changes are synced.
        """
        if self._working is not None:
            return None
        self._working = self._data.next_work()
        return None if self._working is None else self._slowest * self._dice.random()

    def finish(self) -> bool:
        """Complete the sync, and return whether it succeeded. After a failure, the content of the disk is unknown."""
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
            self._files.before = _continue
        return True

    def crash(self) -> None:
        """Crash the machine, possibly during a sync. A random part of the unsynced bytes survives."""
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
                self._files.before = _continue
            self._working = None
        self._files.crash(lambda size: self._dice.below(size + 1), names=self._dice.chance(0.5))


def _refuse(operation: str, file: str) -> None:
    if operation == "sync":
        raise OSError(errno.EIO, "the simulated disk is broken until the next crash", file)


def _continue(_operation: str, _file: str) -> None:
    pass
