"""The writer of the data directory, which runs in a thread; the pump holds responses until all earlier changes are on
disk.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from mockbroker.net.pump import Pump
from mockbroker.storage.data_dir import DataDir
from mockbroker.storage.disk import DataDirError


class Durability:
    """The writer of a cluster's changes to the data directory.

    Args:
        pump: The pump, which holds the responses until the data is on disk.
        data_dir: The data directory.
        turn: Function that serves queued connections for one slice.

    Attributes:
        failure: The error of a failed write, after which no client gets a response; None if there was none.
    """

    def __init__(self, pump: Pump, data_dir: DataDir, turn: Callable[[], bool]) -> None:
        self.failure: DataDirError | None = None
        self._pump = pump
        self._data_dir = data_dir
        self._turn = turn
        self._unsynced = trio.Event()

    def wake(self) -> None:
        """Wake the task that writes, if there are unsynced changes."""
        if self._pump.unsynced:
            self._unsynced.set()

    async def run(self, fail: Callable[[], None]) -> None:
        """Write changes to disk as they are made, and release the responses that wait for them, until a write fails.

        ``fail``: function that is called when a write fails; the content of the disk is unknown then.
        """
        while True:
            await self._unsynced.wait()
            self._unsynced = trio.Event()
            while (work := self._data_dir.next_work()) is not None:
                try:
                    await trio.to_thread.run_sync(self._data_dir.perform, work)
                except DataDirError as error:
                    self.failure = error
                    fail()
                    return
                self._pump.release()
                self._turn()
