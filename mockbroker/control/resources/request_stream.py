"""The stream of requests: each request when it arrives, and again when its response is sent, as server-sent events."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import trio
from starlette.responses import Response

from mockbroker.base.effects import Ticket
from mockbroker.control.control import Control
from mockbroker.control.resources.events import position
from mockbroker.control.resources.request_rows import row_json
from mockbroker.control.resources.requests import FILTERS, request_filter
from mockbroker.control.routes import CheckedRequest, Parameter
from mockbroker.control.shapes import Whole
from mockbroker.control.streams import Stream, event_data

ROWS_AT_ONCE = 200  # maximum number of new requests that are sent before a pause
PAUSE = 0.1  # seconds
BACKLOG = 1_000  # requests; older ones are skipped, so that a stream sends recent requests
MOST_PENDING = 1_000  # requests without response that a stream watches
SEARCHED = 20  # requests that are matched or sent before other tasks run
STREAM_PARAMETERS = (
    Parameter("after", Whole(), f"begin after this id instead of with new requests; at most {BACKLOG:,} are sent"),
    *FILTERS,
)


async def stream(control: Control, call: CheckedRequest) -> Response:
    """Answer GET /v1/requests/stream: send requests as server-sent events."""
    after = position(call)
    log = control.request_log
    return RequestStream(control, log.removed + len(log) if after is None else after, request_filter(control, call))


class RequestStream(Stream):
    """The response that sends each request when it arrives, and again when its response is known.

    Args:
        control: the state of the control API.
        after: id of the request before the first one to send.
        matches: function that returns whether the client wants a request.
    """

    def __init__(self, control: Control, after: int, matches: Callable[[Ticket], bool]) -> None:
        super().__init__(control, control.request_feed.followers)
        self._after = after
        self._matches = matches
        self._pending: dict[int, Ticket] = {}
        self._tick = -1
        self._is_behind = False

    @property
    def is_complete(self) -> bool:
        return self._tick == self._control.request_feed.tick and not self._is_behind

    async def next_data(self) -> bytes:
        """Return the next events of the stream: rows of new requests, and of requests that now have a response.

        If a client is too slow, requests are skipped, and a ``gap`` event reports them.
        """
        if self.is_complete:
            return b""
        if self._is_behind:
            await trio.sleep(PAUSE)
        self._tick = self._control.request_feed.tick
        return b"".join([*await self._answered(), self._gap(), *await self._new()])

    async def _answered(self) -> list[bytes]:
        """Return the rows of the pending requests that now have a response.

        A request is pending if the stream has sent its row before there was a response. Requests that the request log
        no longer contains are removed from the pending requests.
        """
        rows, removed = list[bytes](), self._control.request_log.removed
        for number, entry in list(self._pending.items()):
            if entry.answered_at is not None:
                rows.append(self._row(number, entry))
                if len(rows) % SEARCHED == 0:
                    await trio.lowlevel.checkpoint()
            if entry.answered_at is not None or number <= removed:
                del self._pending[number]
        return rows

    def _gap(self) -> bytes:
        """Skip the oldest requests if the client reads too slowly, and return the ``gap`` event that reports them.

        A ``gap`` event is also returned if the id after which the stream begins is not in the log yet. The stream then
        begins with the latest requests. Return b"" if there is no gap.
        """
        log = self._control.request_log
        last = log.removed + len(log)
        begin = max(log.removed, last - BACKLOG)
        if begin <= self._after <= last:
            return b""
        gap = {"after": self._after, "missed": max(begin - self._after, 0)}
        self._after = begin
        return b"event: gap\n" + event_data(gap)

    async def _new(self) -> list[bytes]:
        """Return the rows of the next new requests that match the filter of the stream, at most ROWS_AT_ONCE rows.

        The requests count as sent. A request without a response is added to the pending requests.
        """
        rows = list[bytes]()
        entries = self._control.request_log.entries(self._after)
        for searched, entry in enumerate(entries, 1):
            if searched % SEARCHED == 0:
                await trio.lowlevel.checkpoint()
            self._after += 1
            if self._matches(entry):
                rows.append(f"id: {self._after}\n".encode("ascii") + self._row(self._after, entry))
                if entry.answered_at is None and len(self._pending) < MOST_PENDING:
                    self._pending[self._after] = entry
            if len(rows) == ROWS_AT_ONCE:
                self._is_behind = searched < len(entries)
                return rows
        self._is_behind = False
        return rows

    def _row(self, number: int, entry: Ticket) -> bytes:
        make = partial(self._make_row, number, entry)
        return self._control.request_feed.row(number, entry.answered_at is not None, make)

    def _make_row(self, number: int, entry: Ticket) -> bytes:
        return event_data(row_json(self._control, number, entry))
