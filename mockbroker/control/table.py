"""The table of all routes of the control API."""

from __future__ import annotations

from functools import cache
from typing import Any

from kwire import __version__
from mockbroker.control.control import Control
from mockbroker.control.openapi import document
from mockbroker.control.resources import clock, events, groups, server
from mockbroker.control.routes import EVENT_STREAM, Answer, Call, Route, paging
from mockbroker.control.shapes import Anything, MapOf, Object, Text


async def _openapi(control: Control, call: Call) -> Answer:  # noqa: ARG001
    """Answer GET /openapi.json."""
    return Answer(openapi())


@cache
def openapi() -> dict[str, Any]:
    """Return the OpenAPI document of all routes."""
    return document(ROUTES, __version__)


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/openapi.json",
        handle=_openapi,
        summary="Return the OpenAPI 3.1 document of this API",
        answer=MapOf(Anything()),
    ),
    Route(
        method="GET",
        path="/v1/health",
        handle=server.health,
        summary="Return whether the server is running, and what it can do",
        answer=server.HEALTH,
        is_open=True,
    ),
    Route(
        method="POST",
        path="/v1/session",
        handle=server.log_in,
        summary="Log a browser in: exchange the token for a cookie",
        answer=Object(),
        body=server.LOGIN,
        errors=(401, 409),
        is_open=True,
    ),
    Route(
        method="DELETE",
        path="/v1/session",
        handle=server.log_out,
        summary="Log a browser out",
        status=204,
        is_open=True,
    ),
    Route(
        method="GET",
        path="/v1/cluster",
        handle=server.cluster,
        summary="Return the release, listeners, brokers and counts of the cluster",
        answer=server.CLUSTER,
    ),
    Route(
        method="GET",
        path="/v1/groups",
        handle=groups.read_all,
        summary="List the groups",
        answer=groups.GROUPS,
        parameters=paging(),
        capability="groups",
    ),
    Route(
        method="GET",
        path="/v1/groups/{group}",
        handle=groups.read,
        summary="Return a group with its members and committed offsets",
        answer=groups.GROUP,
        errors=(404,),
        capability="groups",
    ),
    Route(
        method="GET",
        path="/v1/groups/{group}/wait",
        handle=groups.wait,
        summary="Wait until a group meets all given conditions, and return it",
        answer=groups.GROUP,
        parameters=groups.CONDITIONS,
        errors=(504,),
        capability="groups",
        waits=True,
    ),
    Route(
        method="GET",
        path="/v1/events",
        handle=events.read,
        summary="List the events of the journal",
        answer=events.EVENTS,
        parameters=events.LIST_PARAMETERS,
        capability="events",
    ),
    Route(
        method="GET",
        path="/v1/events/stream",
        handle=events.stream,
        summary="Follow the journal as server-sent events",
        answer=Text(),
        parameters=events.STREAM_PARAMETERS,
        errors=(429,),
        capability="events",
        media=EVENT_STREAM,
    ),
    Route(
        method="GET",
        path="/v1/clock",
        handle=clock.read,
        summary="Return the mode and the time of the broker's clock",
        answer=clock.CLOCK,
    ),
    Route(
        method="POST",
        path="/v1/clock",
        handle=clock.change,
        summary="Stop or resume the broker's clock with `mode`, or advance a stopped clock by `advance_ms`",
        answer=clock.CLOCK,
        body=clock.CHANGE,
        errors=(409,),
        capability="clock",
    ),
    Route(
        method="POST",
        path="/v1/reset",
        handle=server.reset,
        summary="Reset the cluster to its initial topics and settings",
        answer=server.RESET,
        errors=(409,),
        capability="reset",
    ),
)
