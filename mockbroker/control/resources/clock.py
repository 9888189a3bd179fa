"""The resource ``/v1/clock``: read, stop, resume and advance the broker's clock."""

from __future__ import annotations

from typing import Any

from mockbroker.api.clock import MAX_STEP
from mockbroker.api.plan import CLOCKS, MANUAL
from mockbroker.control.control import Control
from mockbroker.control.feed import iso
from mockbroker.control.problems import NotPossible, Refused
from mockbroker.control.resources.events import EVENT
from mockbroker.control.routes import Answer, CheckedRequest
from mockbroker.control.shapes import Items, Number, Object, Text, Whole
from mockbroker.faults.sections import Problem

CLOCK = Object(
    {"mode": Text(CLOCKS), "time": Text(format="date-time"), "time_ms": Whole()},
    {"events": Items(EVENT)},
    name="Clock",
)
CHANGE = Object(optional={"mode": Text(CLOCKS), "advance_ms": Number(MAX_STEP * 1000)})


async def read(control: Control, call: CheckedRequest) -> Answer:  # noqa: ARG001
    """Answer GET /v1/clock: return the mode and the time of the clock."""
    return Answer(clock_json(control))


async def change(control: Control, call: CheckedRequest) -> Answer:
    """Answer POST /v1/clock: stop or resume the clock, or advance it. Return the clock.

    After an advance, the response also has the journal events since the request arrived.

    Raises: Refused with status 409 if the clock must be advanced, but is running.
    """
    clock = control.cluster.clock
    if len(call.body) != 1:
        raise NotPossible([Problem("", "expected either mode or advance_ms", ("mode", "advance_ms"))])
    if call.body.get("mode") == MANUAL:
        clock.stop()
    elif "mode" in call.body:
        clock.resume()
    else:
        if clock.running:
            raise Refused(409, 'the clock is real and cannot be advanced: set {"mode": "manual"} first')
        before = control.feed.last
        await clock.advance(call.body["advance_ms"] / 1000)
        return Answer({**clock_json(control), "events": list(control.feed.since(before))})
    return Answer(clock_json(control))


def clock_json(control: Control) -> dict[str, Any]:
    """Return the mode and the time of the clock as a JSON object."""
    clock = control.cluster.clock
    return {
        "mode": CLOCKS[not clock.running],
        "time": iso(clock.wall()),
        "time_ms": round(clock.now() * 1000),
    }
