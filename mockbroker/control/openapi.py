"""The OpenAPI 3.1 document of the control API, from the table of routes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any

from mockbroker.control.problems import TITLES
from mockbroker.control.routes import Parameter, Route
from mockbroker.control.shapes import Anything, Items, Object, Shape, Text, Whole

PROBLEM = Object(
    {"type": Text(), "title": Text(), "status": Whole(), "detail": Text()},
    {"errors": Items(Object({"path": Text(), "detail": Text(), "possible": Items(Text())}))},
    name="Problem",
    further=Anything(),
)
ALWAYS = (403, 421, 503)
SEGMENT = re.compile(r"\{(\w+)\}")


def document(routes: Sequence[Route], version: str) -> dict[str, Any]:
    """Return the OpenAPI document of the control API.

    Args:
        routes: the routes.
        version: version of mockbroker.
    """
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "mockbroker control API", "version": version},
        "paths": paths,
        "components": {
            "schemas": {each.name: each.definition() for each in _named(routes)},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def status_codes(route: Route) -> list[int]:
    """Return the status codes of the errors that a route may return, in ascending order."""
    codes = {*ALWAYS, *route.errors}
    if not route.is_open:
        codes.add(401)
    if route.parameters:
        codes |= {400, 422}
    if route.method != "GET":
        codes |= {400, 408, 413, 415, 422}
    if route.capability:
        codes.add(409)
    if route.waits:
        codes.add(429)
    return sorted(codes)


def _operation(route: Route) -> dict[str, Any]:
    success: dict[str, Any] = {"description": "Success"}
    if route.answer is not None:
        success["content"] = {route.media: {"schema": route.answer.schema()}}
    operation: dict[str, Any] = {
        "operationId": f"{route.method.lower()}{_camel(route.path)}",
        "summary": route.summary,
        "parameters": [*_segments(route.path), *(_parameter(each) for each in route.parameters)],
        "responses": {str(route.status): success, **{str(code): _error(code) for code in status_codes(route)}},
    }
    if route.body is not None:
        content = {"application/json": {"schema": route.body.schema()}}
        operation["requestBody"] = {"required": bool(route.body.required), "content": content}
    if route.is_open:
        operation["security"] = []
    return operation


def _segments(path: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in SEGMENT.findall(path)
    ]


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.about,
        "schema": parameter.shape.schema(),
    }


def _error(code: int) -> dict[str, Any]:
    title = TITLES.get(code) or HTTPStatus(code).phrase
    return {"description": title, "content": {"application/problem+json": {"schema": PROBLEM.schema()}}}


def _named(routes: Iterable[Route]) -> list[Object]:
    shapes: list[Shape | None] = [PROBLEM, *(shape for route in routes for shape in (route.answer, route.body))]
    found = {each.name: each for shape in shapes if shape is not None for each in shape.named()}
    return [found[name] for name in sorted(found)]


def _camel(path: str) -> str:
    return "".join(word.capitalize() for word in re.findall(r"[A-Za-z]+", path) if word != "v")
