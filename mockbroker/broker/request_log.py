"""The log of the latest requests, in the order in which the cluster handled them.

The log stores frames and decodes them when it is read, so that a request costs one append and no decoded message stays
in memory. Both the number of requests and their total size are limited, because a Produce contains its records.
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

REQUESTS_KEPT = 10_000  # maximum number of requests; a group of 10 members sends as many in 5 minutes
BYTES_KEPT = 32 << 20  # maximum total size of the frames, in bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request that the cluster received.

    Attributes:
        time_ms: Milliseconds since the cluster was started or reset.
        api: Kafka's name of the API, such as ``JoinGroup``.
        version: API version.
        client_id: The ``client.id`` of the request header.
        node: Id of the broker that received the request.
        host: Address of the client.
        body: The decoded message, which must not be modified. Passwords and tokens read ``[redacted]``.
    """

    time_ms: int
    api: str
    version: int
    client_id: str
    node: int
    host: str
    body: Any


class RequestLog:
    """The latest requests; the oldest are removed when REQUESTS_KEPT or BYTES_KEPT is exceeded.

    Args:
        begin: The broker's time, in seconds, at which ``time_ms`` is 0.
    """

    def __init__(self, begin: float) -> None:
        self._begin = begin
        self._entries: deque[tuple[float, int, Client, bytes]] = deque()  # time, API key, client, frame
        self._bytes = 0

    def restart(self, begin: float) -> None:
        """Remove all requests, and set the time at which ``time_ms`` is 0 to ``begin``."""
        self._begin = begin
        self._entries.clear()
        self._bytes = 0

    def record(self, call: Call[Any], now: float) -> None:
        """Append a request received at ``now`` (seconds)."""
        frame = call.frame
        self._entries.append((now, call.ticket.api_key, call.client, frame))
        self._bytes += len(frame)
        while len(self._entries) > REQUESTS_KEPT or self._bytes > BYTES_KEPT:
            self._bytes -= len(self._entries.popleft()[3])

    def select(self, api: str | None = None) -> list[Request]:
        """Return the logged requests, oldest first.

        Args:
            api: Name of an API, such as ``JoinGroup``; None for the requests of all APIs.

        Raises:
            ValueError: The API is unknown.
        """
        wanted = None if api is None else api_key(api)
        return [self._decode(now, client, frame) for now, key, client, frame in self._entries if wanted in (None, key)]

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
    """Return the API key of an API name. Raises: ValueError for an unknown name."""
    keys = {api.name: key for key, api in APIS.items()}
    if name not in keys:
        near = get_close_matches(name, keys, n=1)
        raise ValueError(f"unknown API {name!r}" + (f"; did you mean {near[0]}?" if near else ""))
    return keys[name]
