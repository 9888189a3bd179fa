"""The signal that wakes the event streams of ``/v1/requests/stream`` when the request log changes, and the cache of the
encoded rows that these streams send.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import trio

from mockbroker.broker.request_log import RequestLog
from mockbroker.control.followers import Followers

PAUSE = 0.1  # seconds between two wake-ups
ROWS_KEPT = 2_000  # encoded rows that several streams may send


class RequestFeed:
    """The signal that wakes the event streams of ``/v1/requests/stream`` when the request log changes, with a cache of
    the encoded rows that these streams send.

    Args:
        log: function that returns the request log.

    Attributes:
        followers: the open streams.
        tick: number of times that the streams were woken.
    """

    def __init__(self, log: Callable[[], RequestLog]) -> None:
        self.followers = Followers()
        self.tick = 0
        self._log = log
        self._rows: OrderedDict[tuple[int, bool], bytes] = OrderedDict()

    async def run(self) -> None:
        """Wake the streams after each change of the request log, while at least one stream is open. Run until
        cancelled.
        """
        seen = (-1, -1)
        while True:
            await self.followers.wait()
            log = self._log()
            now = log.removed + len(log), log.answered
            if now != seen:
                seen = now
                self.tick += 1
                await self.followers.wake_slowly()
            await trio.sleep(PAUSE)

    def row(self, number: int, is_answered: bool, make: Callable[[], bytes]) -> bytes:
        """Return the encoded row of a request, from the cache if it was sent recently.

        Args:
            number: id of the request.
            is_answered: whether the row contains the response.
            make: function that encodes the row.
        """
        key = number, is_answered
        if key not in self._rows:
            self._rows[key] = make()
            if len(self._rows) > ROWS_KEPT:
                self._rows.popitem(last=False)
        return self._rows[key]
