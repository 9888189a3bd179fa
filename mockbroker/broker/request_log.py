"""What clients asked, the latest requests: in order, with the time given to it.

Kept are the frames, so that a request costs an append, and nothing of what was read from it stays in memory; they are
decoded when somebody asks. Two limits bound what is held, because a Produce keeps its records alive.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from kwire import APIS
from kwire.envelope import decode_request
from kwire.redact import redact
from mockbroker.base.effects import Call, Client

REQUESTS_KEPT = 10_000  # a test reads them by eye or by api; a group of 10 makes as many in 5 minutes
BYTES_KEPT = 32 << 20  # of frames; more than a test produces, less than anybody would miss


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request. ``time_ms``: milliseconds since the broker began or was reset; ``api``: Kafka's name, ``JoinGroup``.

    ``node``: id of the broker that was asked; ``host``: the client's address; ``body``: the message, not to be changed.
    """

    time_ms: int
    api: str
    version: int
    client_id: str
    node: int
    host: str
    body: Any


class RequestLog:
    """Append-only, the oldest go first. ``begin``: the time, in seconds, from which requests count.

    Passwords and tokens in what is told read ``[redacted]``.
    """

    def __init__(self, begin: float) -> None:
        self._begin = begin
        self._entries: deque[tuple[float, int, Client, bytes]] = deque()  # time, API key, who, frame
        self._bytes = 0

    def restart(self, begin: float) -> None:
        """Nothing was asked, from this time on."""
        self._begin = begin
        self._entries.clear()
        self._bytes = 0

    def record(self, call: Call[Any], now: float) -> None:
        """Keep a call that came at ``now`` (seconds)."""
        frame = call.frame
        self._entries.append((now, call.ticket.api_key, call.client, frame))
        self._bytes += len(frame)
        while len(self._entries) > REQUESTS_KEPT or self._bytes > BYTES_KEPT:
            self._bytes -= len(self._entries.popleft()[3])

    def select(self, api: str | None = None) -> list[Request]:
        """Requests of one API, or all of them, oldest first. Raises: ValueError if there is no such API."""
        key = None if api is None else api_key(api)
        return [self._decode(now, client, frame) for now, asked, client, frame in self._entries if key in (None, asked)]

    def _decode(self, now: float, client: Client, frame: bytes) -> Request:
        request = decode_request(frame)
        redact(request.body)
        return Request(
            time_ms=round((now - self._begin) * 1000),
            api=request.api.name,
            version=request.version,
            client_id=client.client_id,
            node=client.node,
            host=client.host.removeprefix("/"),
            body=request.body,
        )


def api_key(name: str) -> int:
    """The key of an API by Kafka's name for it. Raises: ValueError."""
    keys = {api.name: key for key, api in APIS.items()}
    if name not in keys:
        near = get_close_matches(name, keys, n=1)
        raise ValueError(f"there is no API {name!r}" + (f"; did you mean {near[0]}?" if near else ""))
    return keys[name]
