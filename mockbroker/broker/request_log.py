"""The log of the latest requests and their responses, in the order in which the cluster handled the requests.

The log stores the bytes of requests and responses. They are decoded when a test reads the log, so that logging a
request costs little. Produce requests and Fetch responses can be large. Therefore the log limits the number of
requests, the total size of the requests, and the total size of the responses.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, overload

from kwire import APIS
from kwire.envelope import decode_request, decode_response
from kwire.lazy_dataclass import dataclass
from kwire.redact import redact
from kwire.schema import schema_of
from mockbroker.base.effects import Call, Ticket

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    M = TypeVar("M", default=Any)  # Request is Request
else:
    from typing import TypeVar

    M = TypeVar("M")

LENGTH = 4  # bytes of the length of a frame
REQUESTS_KEPT = 10_000  # maximum number of requests; a group of 10 members sends as many in 5 minutes
BYTES_KEPT = 32 << 20  # maximum total size of the requests, and also of the responses, in bytes
LARGEST_RESPONSE = 1 << 20  # bytes; a larger response is not kept, which would displace many others


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Generic[M]):
    """A request that the cluster received.

    Attributes:
        time_ms: milliseconds since the cluster was started or reset.
        api: Kafka's name of the API, such as ``JoinGroup``.
        version: API version.
        client_id: the ``client.id`` of the request header.
        node: id of the broker that received the request.
        host: address of the client.
        body: the decoded message, which must not be modified. Passwords and tokens read ``[redacted]``.
        response: the decoded response; None without a response, or if the response was discarded. The log keeps the
            latest 16 to 32 MiB of responses, and no response above 1 MiB.
        error_code: the top-level error code of the response; None without a response, or if the response has no
            top-level error code.
        latency_ms: milliseconds of the broker's clock until the response was made; None without a response.
        fault: name of the fault rule that was applied to the request; None if no rule was applied.
    """

    time_ms: int
    api: str
    version: int
    client_id: str
    node: int
    host: str
    body: M
    response: Any = None
    error_code: int | None = None
    latency_ms: int | None = None
    fault: str | None = None


def has_error_code(response: type, version: int) -> bool:
    """Return whether a response has a top-level error code.

    Args:
        response: class of the response.
        version: API version.
    """
    field = schema_of(response).fields.get("error_code")
    return field is not None and version in field.versions


class RequestLog:
    """The latest requests. The oldest are removed when REQUESTS_KEPT or BYTES_KEPT is exceeded.

    Args:
        begin: The broker's time, in seconds, at which ``time_ms`` is 0.

    Attributes:
        now: The broker's time in seconds at which the router handles the current request or deadline. The responses are
            logged with this time.
        removed: Number of requests removed so far. The index of the oldest request in the log is equal to this number.
        answered: Number of responses since the start.
    """

    def __init__(self, begin: float) -> None:
        self._begin = begin
        self.now = begin
        self.removed = 0
        self.answered = 0
        self._entries: deque[Ticket] = deque()
        self._bytes = 0
        self._response_bytes = 0  # including those of removed requests, until ``_drop_responses``

    def __len__(self) -> int:
        return len(self._entries)

    def restart(self, begin: float) -> None:
        """Remove all requests.

        ``begin``: the broker's time in seconds at which the ``time_ms`` of new requests is 0.
        """
        self._begin = self.now = begin
        self.removed += len(self._entries)
        self._entries.clear()
        self._bytes = self._response_bytes = 0

    def record(self, call: Call[Any], now: float) -> None:
        """Append a request to the log. The oldest requests are removed if a limit is exceeded.

        Args:
            call: The request, its client, and its ticket (the object that identifies the request).
            now: The broker's time in seconds at which the request was received.
        """
        ticket, frame = call.ticket, call.frame
        ticket.logged = True
        ticket.received_at = self.now = now
        ticket.client = call.client
        ticket.frame = frame
        ticket.response = ticket.answered_at = None
        self._entries.append(ticket)
        self._bytes += len(frame)
        while len(self._entries) > REQUESTS_KEPT or self._bytes > BYTES_KEPT:
            self._bytes -= len(self._entries.popleft().frame)
            self.removed += 1

    def record_response(self, entry: Ticket, frame: bytes) -> None:
        """Add the response to a logged request.

        If the response is larger than LARGEST_RESPONSE, only its time is stored. If all stored responses exceed
        BYTES_KEPT in total, the oldest are removed.

        Args:
            entry: the log entry of the request.
            frame: the response with its length prefix.
        """
        entry.answered_at = self.now
        self.answered += 1
        size = len(frame)
        if size <= LARGEST_RESPONSE:
            entry.response = frame
            self._response_bytes += size
            if self._response_bytes > BYTES_KEPT:
                self._drop_responses()

    def _drop_responses(self) -> None:
        """Remove the oldest responses from the log.

        The remaining responses have at most half of BYTES_KEPT. The requests stay in the log.
        """
        size = 0
        for entry in reversed(self._entries):
            if entry.response is None:
                continue
            size += len(entry.response)
            if size > BYTES_KEPT // 2:
                size -= len(entry.response)
                entry.response = None
        self._response_bytes = size

    @overload
    def select(self, api: type[M]) -> list[Request[M]]: ...
    @overload
    def select(self, api: str | None = None) -> list[Request]: ...
    def select(self, api: str | type[Any] | None = None) -> list[Request]:
        """Return the logged requests, oldest first.

        Args:
            api: Name of an API, such as ``JoinGroup``, or the class of its requests, such as ``JoinGroupRequest``; None
                for the requests of all APIs.

        Raises:
            ValueError: The API is unknown, or the class is not the class of a request.
            TypeError: ``api`` is neither a name nor a class.
        """
        wanted = None if api is None else api_key(api) if isinstance(api, str) else _key_of(api)
        return [self.decode(entry) for entry in self._entries if wanted in (None, entry.api_key)]

    def entries(self, first: int) -> list[Ticket]:
        """Return the entries of the log from index ``first`` on. The index counts all requests since the start."""
        missing = len(self._entries) - max(first - self.removed, 0)
        return list(islice(reversed(self._entries), max(missing, 0)))[::-1]

    def times(self, entry: Ticket) -> tuple[float, float | None]:
        """Return the times at which a request was received and answered.

        The times are seconds since the cluster was started or reset. The second time is None without a response.

        ``entry``: entry of the request.
        """
        answered = entry.answered_at
        return entry.received_at - self._begin, None if answered is None else answered - self._begin

    def decode(self, entry: Ticket) -> Request:
        """Return the request of an entry, with decoded messages and without secrets."""
        request = decode_request(entry.frame)
        redact(request.body)
        response: Any = None
        error_code = None
        if entry.response is not None:
            response = decode_response(entry.response[LENGTH:], request.api.key, request.version).body
            redact(response)
            if has_error_code(type(response), request.version):
                error_code = int(response.error_code)
        answered = entry.answered_at
        return Request(
            time_ms=round((entry.received_at - self._begin) * 1000),
            api=request.api.name,
            version=request.version,
            client_id=entry.client.client_id,
            node=entry.client.node,
            host=entry.client.host.removeprefix("/"),
            body=request.body,
            response=response,
            error_code=error_code,
            latency_ms=None if answered is None else round((answered - entry.received_at) * 1000),
            fault=entry.fault or None,
        )


def _key_of(message: type) -> int:
    """Return the API key of a class of requests.

    Raises: TypeError if ``message`` is not a class; ValueError if the class is not the class of a request.
    """
    if not isinstance(message, type):
        raise TypeError(
            f"api is {message!r}: use the name of an API, such as 'JoinGroup', or the class of its requests"
        )
    api = schema_of(message).api
    if api is None or api.request is not message:
        raise ValueError(f"{message.__name__} is not the request of an API: use a class such as JoinGroupRequest")
    return api.key


def api_key(name: str) -> int:
    """Return the API key of an API name. Raises: ValueError for an unknown name."""
    keys = {api.name: key for key, api in APIS.items()}
    if name not in keys:
        from difflib import get_close_matches  # late: rarely used

        near = get_close_matches(name, keys, n=1)
        raise ValueError(f"unknown API {name!r}" + (f"; did you mean {near[0]}?" if near else ""))
    return keys[name]
