"""Declarations of routes: the parameters and the body of a request, its response, and the function that handles it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from kwire.lazy_dataclass import dataclass
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
    """A query parameter of a route.

    Attributes:
        name: name of the parameter.
        shape: shape (declaration of the valid values) of its value.
        about: phrase for the documentation that describes the effect of the parameter.
        default: the value if the parameter is absent.
    """

    name: str
    shape: Shape
    about: str
    default: Any = None


@dataclass(frozen=True, slots=True)
class CheckedRequest:
    """A request whose path, query and body are valid.

    Attributes:
        path: decoded path parameters, by name.
        query: values of all parameters of the route.
        body: the JSON body; empty without a body.
        request: the HTTP request, for its headers.
        size: size of the body in bytes.
    """

    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Mapping[str, Any]
    request: Request
    size: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """A JSON response of a handler.

    Attributes:
        content: the JSON value; None for a response without a body.
        headers: further headers.
    """

    content: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


Handler: TypeAlias = Callable[["Control", CheckedRequest], Awaitable["Answer | Response"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One route of the control API: a method of a path.

    Attributes:
        method: HTTP method.
        path: path, with names of segments in braces, such as ``/v1/groups/{group}``.
        handle: the function that handles the request.
        summary: description of the route: an imperative sentence without full stop, in Markdown.
        answer: shape of the response; None for a response without a body.
        status: status code of the response.
        parameters: the query parameters.
        body: shape of the request body; None for a request without a body.
        errors: status codes of errors, in addition to those that every route may return.
        capability: name of the optional feature that the server must have; "" for none.
        is_open: True if requests are allowed without a token.
        waits: whether the request may wait for a condition; the wait is cancelled if the client disconnects.
        media: content type of the response.
        any_query: True to ignore unknown query parameters, False to reject them.
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
    any_query: bool = False


def paging(cursor: Shape | None = None) -> tuple[Parameter, ...]:
    """Return the query parameters of a route that returns a list page by page.

    ``cursor``: shape of the parameter ``after``; None for a string.
    """
    return (
        Parameter("after", cursor or Text(), "begin after this cursor, the `next` of the previous page"),
        Parameter("limit", Whole(1, MOST_LISTED), f"maximum number of items, {LISTED} if absent", LISTED),
    )


TIMEOUT = Parameter("timeout_ms", Whole(0, LONGEST_WAIT_MS), f"maximum wait in real time, {WAIT_MS} if absent", WAIT_MS)
