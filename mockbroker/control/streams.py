"""Streams of server-sent events: the loop that all streams share, and the stream of the journal.

A stream has no buffer. It stores only the id of the last event that it sent. If the client reads so slowly that the
journal no longer stores the next event, it gets a ``gap`` event.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import trio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mockbroker.control.control import Control
from mockbroker.control.followers import Followers
from mockbroker.control.routes import EVENT_STREAM, HEADERS

HEARTBEAT = 30.0  # longest pause in seconds on an idle stream; proxies close connections that are idle for a minute
SPREAD = 0.618  # the golden ratio spreads the pauses of successive streams, so that they do not all end at once
EVENTS_AT_ONCE = 100  # events that are sent before other tasks run
RETRY = b"retry: 1000\n\n"  # milliseconds until a browser connects again
BYE = b"event: bye\ndata: {}\n\n"


class Stream(Response, ABC):
    """A response that sends events until the client disconnects or the server stops.

    Args:
        control: the state of the control API.
        followers: the streams that wait for the same kind of changes; this stream is added to them.

    Raises: Refused with status 429 if too many streams are open.
    """

    def __init__(self, control: Control, followers: Followers) -> None:
        super().__init__(headers=HEADERS, media_type=EVENT_STREAM)
        del self.headers["content-length"]
        with control.streams.one():
            pass  # the stream itself counts when it is sent
        self._control = control
        self._followers = followers
        control.stream_count += 1
        self._pause = HEARTBEAT * (1 + control.stream_count * SPREAD % 1) / 2

    @abstractmethod
    async def next_data(self) -> bytes:
        """Return the next bytes to send, with one or more events, and record that these events are sent; b"" without
        new events.
        """

    @property
    def is_complete(self) -> bool:
        """Whether the stream has sent all events that exist now."""
        return True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the response, as an ASGI application."""
        with self._control.streams.one(), self._followers.one():
            await until_disconnected(receive, partial(self._send_all, send))

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await _send(send, RETRY)
        while not self._control.stopping.is_set():
            if data := await self.next_data():
                await _send(send, data)
            elif self.is_complete:
                with trio.move_on_after(self._pause) as idle:
                    await self._followers.changed.park()
                if idle.cancelled_caught:
                    await _send(send, b":\n\n")
            else:
                await trio.lowlevel.checkpoint()
        await _send(send, BYE)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class EventStream(Stream):
    """The response that streams the events of the journal.

    Args:
        control: the state of the control API.
        after: id of the event before the first one to send.
        matches: function that returns whether the client wants an event.
    """

    def __init__(self, control: Control, after: int, matches: Callable[[dict[str, Any]], bool]) -> None:
        super().__init__(control, control.feed.followers)
        self._after = after
        self._matches = matches

    @property
    def is_complete(self) -> bool:
        return self._after == self._control.feed.last

    async def next_data(self) -> bytes:
        """Return the next events that the client wants, at most EVENTS_AT_ONCE, and record that they are sent."""
        parts = []
        for event in self._control.feed.since(self._after):
            self._after = event["id"]
            if self._matches(event):
                parts.append(f"id: {event['id']}\n".encode("ascii") + event_data(event))
                if len(parts) == EVENTS_AT_ONCE:
                    break
        return b"".join(parts)


def event_data(value: object) -> bytes:
    """Return a JSON value as the data of a server-sent event: ASCII on one line."""
    return f"data: {json.dumps(value, separators=(',', ':'))}\n\n".encode("ascii")


async def until_disconnected(receive: Receive, work: Callable[[], Awaitable[None]]) -> None:
    """Run ``work``; cancel it if the client disconnects. If ``work`` raises an exception, raise it.

    Args:
        receive: the ASGI function that returns the next message from the client.
        work: function to run.
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
