"""The stream of journal events. It reconnects to the control API when the connection is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from threading import Event
from typing import Any

from mockbroker.cli.control_client import ControlClient, ControlError, UnreachableError

RETRY = 1.0  # seconds between two attempts to connect
TOLERANCE = 1.0  # seconds by which the begin of a journal may differ from one response to the next
TEMPORARY = frozenset({429, 503})  # status of a server that has too many streams, or is stopping


def followed_events(
    client: ControlClient, after: int | None, notify: Callable[[str], None], **filters: object
) -> Iterator[dict[str, Any]]:
    """Yield the events of the journal as they happen. Reconnect when the stream ends or the server restarts.

    Args:
        client: The client of the control API.
        after: Id of an event: only later events are yielded. None for events from now on.
        notify: Function that is called with a text when the connection is lost, and when it is restored.
        filters: Further query parameters, such as ``group``.

    Raises:
        ControlError: The first connection fails, or the server rejects the request.
    """
    begin = _begin(client)
    last: int = client.ask("GET", "/v1/events", query={"limit": 1})["last"] if after is None else after
    while True:
        try:
            for event in client.events(**filters, after=last):
                last = event["id"]
                yield event
            reason = f"{client.url}: the event stream has ended"
        except ControlError as error:
            if not _is_temporary(error):
                raise
            reason = error.message
        notify(f"{reason}; reconnecting")
        if abs(begin - (begin := _wait_begin(client))) > TOLERANCE:
            last = 0  # the journal of a cluster that was started again
        notify(f"{client.url}: reconnected")


def _begin(client: ControlClient) -> float:
    """Return the time at which the server's journal began, in seconds since 1970.

    After a restart of the server, the result is different.
    """
    clock = client.ask("GET", "/v1/clock")
    return datetime.fromisoformat(clock["time"]).timestamp() - float(clock["time_ms"]) / 1000


def _wait_begin(client: ControlClient) -> float:
    """Wait until the server responds, and return the time at which its journal began, in seconds since 1970."""
    while True:
        Event().wait(RETRY)
        try:
            return _begin(client)
        except ControlError as error:
            if not _is_temporary(error):
                raise


def _is_temporary(error: ControlError) -> bool:
    return isinstance(error, UnreachableError) or error.problem.get("status") in TEMPORARY
