"""The task that writes changes to the data directory. Each write runs in a thread.

The pump sends a response only after all earlier changes are on disk.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from mockbroker.net.pump import Pump
from mockbroker.storage.data_dir import DataDir
from mockbroker.storage.disk import DataDirError


class Durability:
    """The writer of a cluster's changes to the data directory. Call ``run`` as a task.

    Args:
        pump: The pump, which holds each response until all earlier changes are on disk.
        data_dir: The data directory that the changes are written to.
        turn: Function that serves queued connections for a limited time, see ``Pump.turn``. It is called after each
            write.

    Attributes:
        failure: The error of the first failed write, after which no client gets a response; None if no write has
            failed.
    """

    def __init__(self, pump: Pump, data_dir: DataDir, turn: Callable[[], bool]) -> None:
        self.failure: DataDirError | None = None
        self._pump = pump
        self._data_dir = data_dir
        self._turn = turn
        self._unsynced = trio.Event()

    def wake(self) -> None:
        """Wake the task ``run`` if changes exist that are not on disk yet."""
        if self._pump.unsynced:
            self._unsynced.set()

    async def run(self, fail: Callable[[], None]) -> None:
        """Write changes to disk as they occur. After each write, release the responses that waited for the write.

        The method returns only after a write has failed.

        ``fail``: function that is called when a write fails. It must stop the server, because the content of the disk
        is then unknown.
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
