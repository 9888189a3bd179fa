"""The resource ``/v1/requests``: the requests of Kafka clients and their responses."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import trio

from kwire import APIS
from kwire.envelope import decode_request
from kwire.json.objects import to_json
from mockbroker.base.effects import Call, Ticket
from mockbroker.broker.request_log import RequestLog
from mockbroker.control.control import Control
from mockbroker.control.routes import Answer, CheckedRequest, Parameter, paging
from mockbroker.control.shapes import Anything, MapOf, Null, Object, Text, Whole, listed
from mockbroker.faults.lookups import broker_lookups
from mockbroker.faults.matching import Matcher, Subject
from mockbroker.faults.rule import Match

AT_ONCE = 20  # requests that are decoded before other tasks run
API_NAMES = tuple(sorted(api.name for api in APIS.values()))
REQUEST = Object(
    {
        "id": Whole(),
        "time": Text(format="date-time"),
        "time_ms": Whole(),
        "api": Text(API_NAMES),
        "version": Whole(),
        "client_id": Text(),
        "broker": Whole(),
        "host": Text(),
        "request": MapOf(Anything()),
        "response": Null(MapOf(Anything())),
        "error_code": Null(Whole(-1)),
        "latency_ms": Null(Whole()),
        "fault": Null(Text()),
    },
    name="Request",
)
REQUESTS = listed(REQUEST, last=Whole())
FILTERS = (
    Parameter("api", Text(API_NAMES), "only requests of this API"),
    Parameter("client_id", Text(), "only requests of this client id"),
    Parameter("group", Text(), "only requests that name this group"),
    Parameter("topic", Text(), "only requests that name this topic, or its id"),
)
PARAMETERS = (*paging(Whole()), *FILTERS)


async def read(control: Control, call: CheckedRequest) -> Answer:
    """Answer GET /v1/requests: return a page of the request log.

    The id of a request is its number, starting at 1; numbers are not reused.
    """
    log, limit, after = control.request_log, call.query["limit"], call.query["after"] or 0
    matches, items, more = request_filter(control, call), list[dict[str, Any]](), False
    first = max(after, log.removed)
    for number, entry in enumerate(log.entries(first), first + 1):
        if matches(entry):
            if more := len(items) == limit:
                break
            items.append(request_json(control, log, number, entry))
        if number % AT_ONCE == 0:
            await trio.lowlevel.checkpoint()
    last = log.removed + len(log)
    return Answer({"items": items, "next": items[-1]["id"] if more else None, "last": last})


def request_json(control: Control, log: RequestLog, number: int, entry: Ticket) -> dict[str, Any]:
    """Return a logged request as a JSON object, with the decoded bodies of request and response.

    Args:
        control: the state of the control API.
        log: the request log.
        number: id of the request.
        entry: entry of the request in the log.
    """
    request = log.decode(entry)
    return {
        "id": number,
        "time": control.feed.time(request.time_ms),
        "time_ms": request.time_ms,
        "api": request.api,
        "version": request.version,
        "client_id": request.client_id,
        "broker": request.node,
        "host": request.host,
        "request": to_json(request.body, request.version),
        "response": None if request.response is None else to_json(request.response, request.version),
        "error_code": request.error_code,
        "latency_ms": request.latency_ms,
        "fault": request.fault,
    }


def request_filter(control: Control, call: CheckedRequest) -> Callable[[Ticket], bool]:
    """Return a function that returns whether a logged request matches the query parameters of ``call``."""
    api, client_id, group, topic = (call.query[name] for name in ("api", "client_id", "group", "topic"))
    matcher = Matcher(Match(group=_literal(group), topic=_literal(topic)))
    is_about_names = group is not None or topic is not None
    lookups = broker_lookups(lambda: control.broker, lambda _: "")

    def matches(entry: Ticket) -> bool:
        if api not in (None, APIS[entry.api_key].name) or client_id not in (None, entry.client.client_id):
            return False
        if not is_about_names:
            return True
        request = decode_request(entry.frame)
        kafka_call = Call(entry, entry.client, request.body, entry.frame)
        return bool(matcher.elements(Subject(kafka_call, lookups)))

    return matches


def _literal(name: str | None) -> str | None:
    """Return a glob that matches only a given name, with special characters escaped; None for None."""
    return None if name is None else re.sub(r"([*?\\])", r"\\\1", name)
