"""The resource ``/v1/events``: the events of the journal, as a list and as a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.responses import Response

from mockbroker.base.event_kinds import EventKind
from mockbroker.control.control import Control
from mockbroker.control.feed import GAP
from mockbroker.control.problems import NotPossible
from mockbroker.control.routes import Answer, CheckedRequest, Parameter, paging
from mockbroker.control.shapes import Anything, Object, Text, Whole, listed
from mockbroker.control.streams import EventStream

KINDS = (*(kind.value for kind in EventKind), GAP)
LAST_ID = "last-event-id"
EVENT = Object(
    {"id": Whole(), "time": Text(format="date-time"), "time_ms": Whole(-(2**63)), "kind": Text(KINDS), "group": Text()},
    name="Event",
    further=Anything(),
)
EVENTS = listed(EVENT, last=Whole())
FILTERS = (
    Parameter("group", Text(), "only events of this group"),
    Parameter("kind", Text(KINDS), "only events of this kind"),
)
LIST_PARAMETERS = (*paging(Whole()), *FILTERS)
STREAM_PARAMETERS = (
    Parameter("after", Whole(), "begin after this id instead of with new events; 0 for all that are kept"),
    *FILTERS,
)


async def read(control: Control, call: CheckedRequest) -> Answer:
    """Answer GET /v1/events: return a page of the journal."""
    limit, matches = call.query["limit"], _filter(call)
    last, items, more = control.feed.last, list[dict[str, Any]](), False
    after = call.query["after"]
    for event in control.feed.since(control.feed.oldest if after is None else after):
        if matches(event):
            if more := len(items) == limit:
                break
            items.append(event)
    return Answer({"items": items, "next": items[-1]["id"] if more else None, "last": last})


async def stream(control: Control, call: CheckedRequest) -> Response:
    """Answer GET /v1/events/stream: send new events of the journal as server-sent events."""
    after = position(call)
    return EventStream(control, control.feed.last if after is None else after, _filter(call))


def position(call: CheckedRequest) -> int | None:
    """Return the id of the event or request after which a stream begins; None to begin with new ones.

    The header ``Last-Event-ID`` is used; without it, the query parameter ``after``.

    Raises: NotPossible if the header is not valid.
    """
    header = call.request.headers.get(LAST_ID)
    if header is None:
        after: int | None = call.query["after"]
        return after
    number = Whole().parse(header)  # sent on reconnect: newer than the parameter
    if problems := list(Whole().problems(number, LAST_ID)):
        raise NotPossible(problems)
    return int(number)


def _filter(call: CheckedRequest) -> Callable[[dict[str, Any]], bool]:
    group, kind = call.query["group"], call.query["kind"]

    def matches(event: dict[str, Any]) -> bool:
        if event["kind"] == GAP:
            return kind in (None, GAP) or kind in event.get("kinds", KINDS)
        return group in (None, event["group"]) and kind in (None, event["kind"])

    return matches
