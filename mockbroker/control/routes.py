"""Declarations of routes: what a request has, what its response is, and the function that handles it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from mockbroker.control.shapes import Object, Shape, Text, Whole

if TYPE_CHECKING:
    from mockbroker.control.control import Control

LISTED = 100  # items of a list without ``limit``
MOST_LISTED = 1_000
WAIT_MS = 5_000  # of waits without ``timeout_ms``
LONGEST_WAIT_MS = 60_000
EVENT_STREAM = "text/event-stream"
JSON = "application/json"
HEADERS = {  # of every response
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter.

    Attributes:
        name: The name.
        shape: What its value must be.
        about: What it does, as a phrase.
        default: The value if the parameter is absent.
    """

    name: str
    shape: Shape
    about: str
    default: Any = None


@dataclass(frozen=True, slots=True)
class Call:
    """A checked request.

    Attributes:
        path: Decoded segments of the path, by name in the route's path.
        query: Values of all parameters of the route.
        body: The JSON body; empty if there is none.
        request: The request itself, for its headers.
    """

    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Mapping[str, Any]
    request: Request


@dataclass(frozen=True, slots=True)
class Answer:
    """A JSON response.

    Attributes:
        content: The JSON value; None for a response without body.
        headers: Further headers.
    """

    content: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


Handler: TypeAlias = Callable[["Control", Call], Awaitable["Answer | Response"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A method of a path of the control API.

    Attributes:
        method: HTTP method.
        path: Path, with names of segments in braces, such as ``/v1/groups/{group}``.
        handle: The function that handles the request.
        summary: What it does, as an imperative sentence without full stop, in Markdown.
        answer: Shape of the response; None if it has no body.
        status: Status code of the response.
        parameters: The query parameters.
        body: Shape of the request body; None if it has none.
        errors: Status codes of errors, besides those that every route may have.
        capability: What the server must be able to do; "" if every server can.
        is_open: Whether a request needs no token.
        waits: Whether the response may take long, so that a client that disconnects ends the request.
        media: Content type of the response.
    """

    method: str
    path: str
    handle: Handler
    summary: str
    answer: Shape | None = None
    status: int = 200
    parameters: tuple[Parameter, ...] = ()
    body: Object | None = None
    errors: tuple[int, ...] = ()
    capability: str = ""
    is_open: bool = False
    waits: bool = False
    media: str = JSON


def paging(cursor: Shape | None = None) -> tuple[Parameter, ...]:
    """Return the parameters of a list. ``cursor``: shape of ``after``; None for a string."""
    return (
        Parameter("after", cursor or Text(), "begin after this cursor, the `next` of the previous page"),
        Parameter("limit", Whole(1, MOST_LISTED), f"maximum number of items, {LISTED} if absent", LISTED),
    )


TIMEOUT = Parameter("timeout_ms", Whole(0, LONGEST_WAIT_MS), f"maximum wait in real time, {WAIT_MS} if absent", WAIT_MS)
