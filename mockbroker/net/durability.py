"""Writes to the data directory in a thread; the pump holds responses until all earlier changes are on disk."""

from __future__ import annotations

from collections.abc import Callable

import trio

from mockbroker.net.pump import Pump
from mockbroker.storage.data_dir import DataDir
from mockbroker.storage.disk import DataDirError


class Durability:
    """Writes the changes of a cluster to its data directory.

    Args:
        pump: Holds the responses that wait for the disk.
        data_dir: The directory.
        turn: Serves the connections that are ready.

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
        """Start to write if there are unsynced changes."""
        if self._pump.unsynced:
            self._unsynced.set()

    async def run(self, fail: Callable[[], None]) -> None:
        """Write changes as they are made, and release the responses that wait for them.

        ``fail``: called when a write fails; the state of the disk is then unknown.
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
