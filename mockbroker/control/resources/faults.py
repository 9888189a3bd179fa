"""The resources ``/v1/faults`` and ``/v1/presets``: fault rules and presets."""

from __future__ import annotations

from urllib.parse import quote

from mockbroker.api.faults import FaultState
from mockbroker.api.wait import EVENTS_SHOWN
from mockbroker.broker.handlers import HANDLERS
from mockbroker.control.control import Control
from mockbroker.control.paging import page
from mockbroker.control.problems import NotPossible, Refused
from mockbroker.control.routes import TIMEOUT, Answer, CheckedRequest, Parameter
from mockbroker.control.shapes import Anything, Flag, Items, MapOf, Object, Text, Whole, listed, shown
from mockbroker.control.slices import without_blocking
from mockbroker.faults.parsing import parse_rule
from mockbroker.faults.presets import PRESETS
from mockbroker.faults.sections import Problem

FAULT = Object(
    {
        "name": Text(),
        "matched": Whole(),
        "applied": Whole(),
        "holding": Whole(),
        "exhausted": Flag(),
        "warnings": Items(MapOf(Text())),
    },
    name="Fault",
    further=Anything(),
)
FAULTS = listed(FAULT)
RULE = Object(
    optional={
        "name": Text(),
        "match": MapOf(Anything()),
        "occurrence": MapOf(Anything()),
        "action": MapOf(Anything()),
    },
    name="Rule",
    further=Anything(),
)
REMOVE_PARAMETERS = (Parameter("name", Text(), "only rules with this name, which may have `*` and `?`", "*"),)
WAIT_PARAMETERS = (
    Parameter("applied", Whole(1), "number of requests that the rule was applied to"),
    Parameter("holding", Whole(1), "number of requests that the rule holds"),
    TIMEOUT,
)
RELEASE = Object(optional={"count": Whole(1)})
RELEASED = Object({"released": Whole()})
PRESET = Object({"name": Text(), "description": Text(), "parameters": MapOf(MapOf(Anything()))}, name="Preset")
PRESETS_LIST = listed(PRESET)
PARAMETERS = Object(further=Anything())
ADDED = Object({"faults": Items(Text())})


async def read_all(control: Control, call: CheckedRequest) -> Answer:
    """Answer GET /v1/faults: return a page of the fault rules with their counters."""
    states = {each.name: each for each in control.cluster.faults.states()}
    return page(call, states, lambda name: states[name].to_json())


async def read(control: Control, call: CheckedRequest) -> Answer:
    """Answer GET /v1/faults/{fault}: return a fault rule with its counters."""
    return Answer(control.cluster.faults.state(call.path["fault"]).to_json())


async def add(control: Control, call: CheckedRequest) -> Answer:
    """Answer POST /v1/faults: add a fault rule, and return it with its counters."""
    faults = control.cluster.faults
    state = faults.add_rule(await without_blocking(call.size, parse_rule, dict(call.body), HANDLERS))
    return Answer(state.to_json(), {"Location": f"/v1/faults/{quote(state.name, safe='')}"})


async def put(control: Control, call: CheckedRequest) -> Answer:
    """Answer PUT /v1/faults/{fault}: replace a fault rule, or add it if it does not exist. Return the rule."""
    name, faults = call.path["fault"], control.cluster.faults
    rule = await without_blocking(call.size, parse_rule, dict(call.body), HANDLERS, name)
    return Answer(faults.put_rule(name, rule).to_json())


async def remove(control: Control, call: CheckedRequest) -> Answer:
    """Answer DELETE /v1/faults/{fault}: remove a rule; or a preset, with its rules and cluster changes."""
    name, faults = call.path["fault"], control.cluster.faults
    if name not in faults.active_presets():
        faults.state(name)  # raises UnknownFaultError
    faults.remove(name)
    return Answer()


async def remove_all(control: Control, call: CheckedRequest) -> Answer:
    """Answer DELETE /v1/faults: remove all fault rules whose name matches the parameter ``name``."""
    try:
        control.cluster.faults.remove(call.query["name"])
    except ValueError as error:
        raise NotPossible([Problem("name", str(error))]) from error
    return Answer()


async def release(control: Control, call: CheckedRequest) -> Answer:
    """Answer POST /v1/faults/{fault}/release: release requests that a fault rule holds, and return their number."""
    return Answer({"released": control.cluster.faults.release(call.path["fault"], call.body.get("count"))})


async def wait(control: Control, call: CheckedRequest) -> Answer:
    """Answer GET /v1/faults/{fault}/wait: wait for a fault rule, and return it.

    The wait ends when the rule was applied at least ``applied`` times, and holds at least ``holding`` requests. One of
    these parameters may be absent.

    Raises: Refused with status 504 after the timeout.
    """
    name, query = call.path["fault"], call.query
    faults = control.cluster.faults
    if query["applied"] is None and query["holding"] is None:
        raise NotPossible([Problem("", "expected one of the parameters applied and holding", ("applied", "holding"))])

    def is_met() -> FaultState | None:
        state = faults.state(name)
        met = state.reaches(applied=query["applied"] or 0, holding=query["holding"] or 0)
        return state if met else None

    control.watch_faults()
    found = await control.wait(is_met, query["timeout_ms"])
    if found is not None:
        return Answer(found.to_json())
    state = faults.state(name)
    goals = {"applied": "to be applied {} times", "holding": "to hold {} requests"}
    wanted = [goal.format(query[key]) for key, goal in goals.items() if query[key] is not None]
    raise Refused(
        504,
        f"timed out after {query['timeout_ms']} ms waiting for rule {name} {' and '.join(wanted)}: {state.progress}",
        more={"fault": state.to_json(), "events": control.feed.latest(EVENTS_SHOWN)},
    )


async def read_presets(control: Control, call: CheckedRequest) -> Answer:  # noqa: ARG001
    """Answer GET /v1/presets: return all presets with their parameters."""
    return Answer({"items": [preset.to_json() for preset in control.cluster.faults.presets()], "next": None})


async def apply_preset(control: Control, call: CheckedRequest) -> Answer:
    """Answer POST /v1/presets/{preset}: add the rules of a preset and make its cluster changes, all of them or none.

    The response has the names of the added rules.
    """
    name = call.path["preset"]
    if name not in PRESETS:
        raise Refused(404, f"unknown preset {shown(name)}: the presets are {', '.join(PRESETS)}")
    return Answer({"faults": control.cluster.faults.add_preset(name, dict(call.body))})
