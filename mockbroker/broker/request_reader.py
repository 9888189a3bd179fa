"""The reading of usual requests by the package ``kwire-native``: frame, header and body in one call for each request.

A request is usual if its frame is complete and not large, its API version is served, its client id is that of the
previous request on the connection, and its header has no tagged fields. All other requests are read in Python
(``net/connection.py``), so limits and errors do not depend on the package.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from kwire.apikeys import ApiKey
from kwire.engines.chosen import native_package
from kwire.engines.native import walker
from kwire.frames import FrameBuffer
from kwire.headers import response_header_version
from kwire.limits import HEAVIEST, WEIGHT_ALLOWANCE
from kwire.schema import Api
from mockbroker.base.effects import Call, Client, Ticket

REPEATED = 512  # maximum bytes of a request that is cached after parsing, as clients repeat heartbeats and fetches
LARGEST = WEIGHT_ALLOWANCE // HEAVIEST  # bytes of a frame whose decoded request cannot exceed its memory limit
BUFFER = ["_data", "_at", "held", "_frame", "limit"]  # slots that the package uses
TICKET = ["connection", "correlation_id", "api_key", "version", "logged", "fault"]
CALL = ["ticket", "client", "request", "frame"]


class RequestReader(Protocol):
    """The interface of the native reader of requests."""

    def next(
        self, frames: FrameBuffer, name: bytes, client: Client, connection: int, recent: dict[int, tuple[bytes, Any]], /
    ) -> Call[Any] | None:
        """Return the next request, and remove its frame from the buffer; None if Python must read the request.

        Args:
            frames: the buffer of received bytes.
            name: the client id of the previous request, as encoded in its header; empty if unknown.
            client: the client with this client id.
            connection: number of the connection.
            recent: the last small request of each API version with its frame, to recognize an identical request. The
                key is the API version as a number. The method adds requests.
        """

    def response(self, ticket: Ticket, body: bytes, /) -> bytes | None:
        """Return the frame of a response, with its length prefix; None if Python must create it.

        Args:
            ticket: the ticket of the request.
            body: the encoded response.
        """


class ServedVersion(Protocol):
    """The interface of an API version that the cluster serves.

    Attributes:
        api: The API.
        version: API version.
        flexible_header: Whether the request header has tagged fields.
    """

    @property
    def api(self) -> Api: ...
    @property
    def version(self) -> int: ...
    @property
    def flexible_header(self) -> bool: ...


def native_reader(served: Callable[[int, int], ServedVersion | None]) -> RequestReader | None:
    """Return the native reader of requests; None if the native engine is not the default engine.

    ``served``: function that returns a served API version by API key and version; None if the version is not served.
    """
    native = native_package()
    if native is None:
        return None

    def form_of(key: int, version: int) -> tuple[int, int, Any, tuple[bool, bool], bool] | None:
        """Return how the package reads an API version; None if Python must read it."""
        found = served(key, version)
        if found is None:
            return None
        request: Any = found.api.request
        message = walker(request, version)
        if not isinstance(message, native.Message):
            return None
        is_repeated = key != ApiKey.PRODUCE  # a Produce is never repeated byte for byte
        has_tags = found.flexible_header, response_header_version(found.api, version) >= 1
        return found.api.key, found.version, message, has_tags, is_repeated

    reader: RequestReader = native.Requests(
        (FrameBuffer, BUFFER), (Ticket, TICKET), (Call, CALL), form_of, LARGEST, REPEATED
    )
    return reader
