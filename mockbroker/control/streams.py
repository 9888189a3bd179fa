"""Event streams: the journal as server-sent events.

A stream has no buffer of its own, only the id of the last event that was sent. A client that reads too slowly gets a
``gap`` once the journal no longer keeps the next event.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import trio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mockbroker.control.control import Control
from mockbroker.control.routes import EVENT_STREAM, HEADERS

HEARTBEAT = 30.0  # longest pause in seconds on an idle stream; proxies close connections that are idle for a minute
SPREAD = 0.618  # the golden ratio spreads the pauses of successive streams, so that they do not all end at once
EVENTS_AT_ONCE = 100  # events that are sent before other tasks run
RETRY = b"retry: 1000\n\n"  # milliseconds until a browser connects again
BYE = b"event: bye\ndata: {}\n\n"


class EventStream(Response):
    """The response with the events after an id, until the client disconnects or the server stops.

    Args:
        control: The control API.
        after: Id of the event before the first.
        matches: Whether the client wants an event.
    """

    def __init__(self, control: Control, after: int, matches: Callable[[dict[str, Any]], bool]) -> None:
        super().__init__(headers=HEADERS, media_type=EVENT_STREAM)
        del self.headers["content-length"]
        self._control = control
        self._after = after
        self._matches = matches
        control.stream_count += 1
        self._pause = HEARTBEAT * (1 + control.stream_count * SPREAD % 1) / 2

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the stream."""
        with self._control.streams.one():  # the handler has checked the limit
            await until_disconnected(receive, partial(self._send_all, send))

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await _send(send, RETRY)
        control = self._control
        while not control.stopping.is_set():
            if data := self._next_events():
                await _send(send, data)
            elif self._after == control.feed.last:
                with trio.move_on_after(self._pause) as idle:
                    await control.feed.changed.park()
                if idle.cancelled_caught:
                    await _send(send, b":\n\n")
            else:
                await trio.lowlevel.checkpoint()
        await _send(send, BYE)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _next_events(self) -> bytes:
        """Return the next events that the client wants, at most EVENTS_AT_ONCE, and advance past them."""
        parts = []
        for event in self._control.feed.since(self._after):
            self._after = event["id"]
            if self._matches(event):
                parts.append(f"id: {event['id']}\ndata: {json.dumps(event, separators=(',', ':'))}\n\n".encode("ascii"))
                if len(parts) == EVENTS_AT_ONCE:
                    break
        return b"".join(parts)


async def until_disconnected(receive: Receive, work: Callable[[], Awaitable[None]]) -> None:
    """Do some work, and cancel it if the client disconnects. Raises: the exception of the work.

    Args:
        receive: The function of ASGI that returns the next message from the client.
        work: The work.
    """
    failures: list[Exception] = []  # raised below, so that the nursery does not wrap them in an ExceptionGroup
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            try:
                await work()
            except Exception as error:
                failures.append(error)
            nursery.cancel_scope.cancel()

        nursery.start_soon(run)
        while (await receive())["type"] != "http.disconnect":
            pass
        nursery.cancel_scope.cancel()
    if failures:
        raise failures[0]


async def _send(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})
