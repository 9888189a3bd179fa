"""The web application: it checks requests against access rules and routes, and turns errors into responses."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from itertools import islice
from typing import Any
from urllib.parse import parse_qsl, unquote

import trio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from mockbroker.api.open_listeners import PortInUseError
from mockbroker.base.errors import ConflictError, NotFoundError
from mockbroker.control.control import Control
from mockbroker.control.problems import PROBLEMS_LISTED, NotPossible, Refused
from mockbroker.control.routes import EVENT_STREAM, HEADERS, JSON, Answer, CheckedRequest, Route
from mockbroker.control.shapes import Object, closest, shown
from mockbroker.control.slices import encode, without_blocking
from mockbroker.control.streams import until_disconnected
from mockbroker.faults.sections import InvalidRule, Problem

MAX_BODY = 1 << 20  # bytes
BODY_TIMEOUT = 10.0  # seconds until the body of a request must have arrived
PROBLEM_JSON = "application/problem+json"
NO_BODY = Object()
log = logging.getLogger("mockbroker")


def application(control: Control, routes: Sequence[Route]) -> ASGIApp:
    """Return the ASGI application that serves ``routes``."""
    by_path: dict[str, dict[str, Route]] = {}
    for route in routes:
        by_path.setdefault(route.path, {})[route.method] = route
    paths = [StarletteRoute(path, _Path(control, methods)) for path, methods in by_path.items()]
    router = Router(paths, redirect_slashes=False, default=_Path(control, {}))

    async def gate(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        scope["path"] = scope["raw_path"].decode("ascii", "replace")  # an encoded slash is part of a name
        await router(scope, receive, send)

    return gate


class _Path:
    """The ASGI endpoint of one path: it passes a request to the route for its HTTP method.

    A request for a path without routes gets status 404, and a request with a method that the path does not support 405.

    Args:
        control: the state of the control API.
        methods: HTTP method -> route of the path.
    """

    def __init__(self, control: Control, methods: Mapping[str, Route]) -> None:
        self._control = control
        self._methods = methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response: Response | None
        try:
            response = await self._respond(request)
        except Refused as error:
            response = await problem(error)
        except InvalidRule as error:
            response = await problem(NotPossible(error.problems))
        except NotFoundError as error:
            response = await problem(Refused(404, str(error)))
        except (ConflictError, PortInUseError) as error:
            response = await problem(Refused(409, str(error)))
        except ClientDisconnect:
            return
        except Exception:
            log.exception("control API: %s %s raised an exception", request.method, ascii(scope["path"]))
            response = await problem(Refused(500, "the control API has a bug: see the log of mockbroker"))
        if response is not None:
            await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response | None:
        control, method = self._control, request.method
        head = method == "HEAD" and "HEAD" not in self._methods
        route = self._methods.get("GET" if head else method)
        control.access.check(method, request.headers, is_open=route is not None and route.is_open)
        control.check_running()
        if not self._methods:
            raise Refused(404, "this path does not exist: GET /openapi.json lists all paths")
        if route is None or (head and (route.waits or route.media == EVENT_STREAM)):
            allowed = ", ".join(self._methods)
            raise Refused(405, f"this path does not support {method}: use {allowed}", headers={"Allow": allowed})
        if route.capability and route.capability not in control.capabilities:
            raise Refused(409, f"this server does not have the capability {route.capability}, which this path needs")
        data = b"" if route.method == "GET" else await self._body(request)
        path, query = _segments(request.path_params), _query(route, request)
        body = await without_blocking(len(data), _parsed_and_checked, route, data)
        call = CheckedRequest(path, query, body, request, len(data))
        if not route.waits:
            return await _response(route, await route.handle(control, call))
        return await _handle_waiting(request, control, route, call)

    async def _body(self, request: Request) -> bytes:
        """Return the body of a request; empty for a request without a body.

        Raises: Refused if the body is too large, arrives too slowly, or is not declared as JSON.
        """
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > MAX_BODY:
            raise _too_large()
        data = bytearray()
        with trio.move_on_after(BODY_TIMEOUT) as scope:
            async with aclosing(request.stream()) as chunks:
                async for chunk in chunks:
                    data += chunk
                    if len(data) > MAX_BODY:
                        raise _too_large()
        if scope.cancelled_caught:
            raise Refused(
                408, f"the body took more than {BODY_TIMEOUT:.0f} s to arrive", headers={"Connection": "close"}
            )
        content_type = request.headers.get("content-type", "")
        if (data or content_type) and content_type.partition(";")[0].strip().lower() != JSON:
            raise Refused(415, f"the body must be JSON: send it with Content-Type: {JSON}")
        return bytes(data)


def _too_large() -> Refused:
    return Refused(413, f"the body is larger than {MAX_BODY} bytes", headers={"Connection": "close"})


def parsed(data: bytes) -> Any:
    """Return the JSON value in ``data``.

    Raises: Refused with status 400 if ``data`` is not valid JSON, or is nested too deeply.
    """
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except RecursionError:
        raise Refused(400, "the body is nested deeper than the limit of the JSON parser") from None
    except ValueError as error:  # also UnicodeDecodeError, and a number with thousands of digits
        raise Refused(400, f"the body is not valid JSON: {error}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"the number {name} is not allowed in JSON")


def _segments(raw: Mapping[str, str]) -> dict[str, str]:
    return {name: unquote(text, errors="surrogateescape") for name, text in raw.items()}


def _query(route: Route, request: Request) -> dict[str, Any]:
    """Return the values of all query parameters of a route, by name. An absent parameter has its default value.

    If the route ignores unknown parameters (``any_query``), the query is not read.

    Raises: NotPossible for an invalid parameter; Refused with status 400 for more than 100 parameters.
    """
    known = {parameter.name: parameter for parameter in route.parameters}
    values = {parameter.name: parameter.default for parameter in route.parameters}
    if route.any_query:
        return values
    problems, given = list[Problem](), set[str]()
    text = request.scope["query_string"].decode("latin-1")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="surrogateescape", max_num_fields=100)
    except ValueError:
        raise Refused(400, "the query has more than 100 parameters") from None
    for name, value in pairs:
        parameter = known.get(name)
        if parameter is None:
            problems.append(Problem(name, f"unknown parameter {shown(name)}", closest(name, tuple(known))))
        elif name in given:
            problems.append(Problem(name, "the parameter is given twice: use it once"))
        else:
            values[name] = parameter.shape.parse(value)
            problems.extend(parameter.shape.problems(values[name], name))
        given.add(name)
    if problems:
        raise NotPossible(problems)
    return values


def _parsed_and_checked(route: Route, data: bytes) -> dict[str, Any]:
    """Return the JSON body in ``data``, checked against the shape (declaration of the valid values) in its route. No
    data is an empty object.

    Raises: Refused with status 400 if ``data`` is not valid JSON; NotPossible with at most PROBLEMS_LISTED problems of
    the body.
    """
    body = parsed(data) if data else {}
    if problems := list(islice((route.body or NO_BODY).problems(body, ""), PROBLEMS_LISTED)):
        raise NotPossible(problems)
    return dict(body)


async def _handle_waiting(request: Request, control: Control, route: Route, call: CheckedRequest) -> Response | None:
    """Handle a request that may wait for a condition, and return its response.

    The result is None if the client disconnects before the response is known. The request is then cancelled.
    """
    answers = list[Answer | Response]()

    async def handle() -> None:
        answers.append(await route.handle(control, call))

    await until_disconnected(request.receive, handle)
    return await _response(route, answers[0]) if answers else None


async def _response(route: Route, answer: Answer | Response) -> Response:
    if isinstance(answer, Response):
        return answer
    if answer.content is None:
        return Response(status_code=route.status, headers={**HEADERS, **answer.headers})
    return await _json(route.status, answer.content, JSON, answer.headers)


async def problem(error: Refused) -> Response:
    """Return the HTTP response for a rejected request: a JSON body with problem details (RFC 9457)."""
    return await _json(error.status, error.details(), PROBLEM_JSON, error.headers)


async def _json(status: int, content: Any, media: str, headers: Mapping[str, str]) -> Response:
    """Return a JSON response, encoded as ASCII. Control characters in names are escaped, and markup in names has no
    effect.

    Args:
        status: HTTP status code.
        content: JSON value.
        media: content type.
        headers: further headers.
    """
    return Response(await encode(content) + b"\n", status, {**HEADERS, **headers}, media)
