"""The open streams that wait for changes of one kind, such as new events. Without open streams, no work is done for
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio

AT_ONCE = 20  # streams that are woken before other tasks run
FEW, PER_STREAM = 5, 0.001  # streams that are woken before a pause, and seconds of the pause for each


class Followers:
    """The open streams that wait for the same kind of changes.

    Attributes:
        changed: parking lot in which the streams wait for a change.
    """

    def __init__(self) -> None:
        self.changed = trio.lowlevel.ParkingLot()
        self._count = 0
        self._present = trio.Event()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count a stream for the duration of a ``with`` block."""
        self._count += 1
        self._present.set()
        try:
            yield
        finally:
            self._count -= 1
            if not self._count:
                self._present = trio.Event()

    async def wait(self) -> None:
        """Wait until at least one stream is open."""
        await self._present.wait()

    async def wake(self) -> None:
        """Wake all waiting streams, in portions, so that a thousand streams do not delay Kafka clients."""
        count = len(self.changed)
        while count > 0:
            self.changed.unpark(count=AT_ONCE)
            count -= AT_ONCE
            await trio.lowlevel.checkpoint()

    async def wake_slowly(self) -> None:
        """Wake all waiting streams, FEW at a time. After each portion, pause for PER_STREAM seconds per woken stream.

        The method is for streams that send data often.
        """
        count = len(self.changed)
        while count > 0:
            self.changed.unpark(count=FEW)
            count -= FEW
            await trio.sleep(FEW * PER_STREAM if count > 0 else 0)
