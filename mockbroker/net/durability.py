"""Writes to the data directory, in a thread: the pump holds answers until what was appended before them is on disk."""

from __future__ import annotations

from collections.abc import Callable

import trio

from mockbroker.net.pump import Pump
from mockbroker.storage.data_dir import DataDir
from mockbroker.storage.disk import DataDirError


class Durability:
    """Keeps a data directory synced.

    failure: why the directory could not be written; then no client is answered any more
    """

    def __init__(self, pump: Pump, data_dir: DataDir, turn: Callable[[], bool]) -> None:
        self.failure: DataDirError | None = None
        self._pump = pump
        self._data_dir = data_dir
        self._turn = turn
        self._unsynced = trio.Event()

    def wake(self) -> None:
        """Write if something has changed."""
        if self._pump.unsynced:
            self._unsynced.set()

    async def run(self, fail: Callable[[], None]) -> None:
        """Write what changed, again and again, and release the answers that waited for it.

        ``fail``: is called if that fails. It is not known then what is on the disk.
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
