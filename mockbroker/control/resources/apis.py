"""The resource ``/v1/apis``: the APIs, and the conditions and actions that a fault rule about an API may have."""

from __future__ import annotations

from functools import cache
from typing import Any

import trio

from kwire import APIS, ErrorCode
from mockbroker.broker.handlers import HANDLERS
from mockbroker.control.control import Control
from mockbroker.control.routes import Answer, CheckedRequest
from mockbroker.control.shapes import Anything, Items, MapOf, Object, Text, Whole
from mockbroker.faults.api_errors import api_errors
from mockbroker.faults.applicability import fitting_fields, malform_obstacle, obstacle
from mockbroker.faults.error_fields import error_fields
from mockbroker.faults.identifiers import TERMS, terms_of
from mockbroker.faults.malformed import FORMS, FieldPath, Number
from mockbroker.faults.parsing_action import CONNECTION_EFFECTS
from mockbroker.faults.rule import Action, Evict, Throttle

ANY_REQUEST = ("version", "broker", "listener", "client_id", "principal")  # keys of match that every request has
ANY_API = ("delay_ms", "disconnect", "hold", "no_response", "respond", "bytes_per_second")
API = Object(
    {
        "name": Text(),
        "key": Whole(),
        "versions": Items(Whole()),
        "match": Items(Text()),
        "errors": Items(Text()),
        "actions": Items(Text()),
        "malform": Items(
            Object({"name": Text(), "description": Text(), "parameters": MapOf(MapOf(Anything()))}, name="MalformForm")
        ),
    },
    name="Api",
)
CONNECTION_CONDITIONS = ("broker", "listener", "address")
CONNECTION_ACTIONS = (*CONNECTION_EFFECTS, "delay_ms")
API_LIST = Object(
    {
        "items": Items(API),
        "errors": Items(Text()),
        "codes": MapOf(Whole(-1)),
        "connect": Object({"match": Items(Text()), "actions": Items(Text())}),
    }
)


async def read(control: Control, call: CheckedRequest) -> Answer:  # noqa: ARG001
    """Answer GET /v1/apis: return all APIs, all error codes, and what a fault rule about connections may contain."""
    items = []
    for key in sorted(HANDLERS):
        items.append(api_json(key))
        await trio.lowlevel.checkpoint()
    codes = {code.name: int(code) for code in ErrorCode if code is not ErrorCode.NONE}
    connect = {"match": list(CONNECTION_CONDITIONS), "actions": list(CONNECTION_ACTIONS)}
    return Answer({"items": items, "errors": list(codes), "codes": codes, "connect": connect})


@cache
def api_json(key: int) -> dict[str, Any]:
    """Return an API as a JSON object: its name, key and versions, and what a fault rule about it may contain.

    A fault rule may contain match keys (``match``), errors, actions, and malformations (``malform``).
    """
    api = APIS[key]
    assert api.versions.last is not None
    return {
        "name": api.name,
        "key": key,
        "versions": [api.versions.first, api.versions.last],
        "match": [*ANY_REQUEST, *(term for term in TERMS if term in terms_of(key)), "where"],
        "errors": sorted(api_errors().get(api.name, ())),
        "actions": _actions(key),
        "malform": [_form_json(key, form) for form in FORMS if malform_obstacle(key, form) is None],
    }


def _actions(key: int) -> list[str]:
    with_error = error_fields(key, APIS[key].versions.last or 0)
    return [
        *(["error"] if any(with_error.values()) else []),
        *ANY_API,
        *(["throttle_ms"] if obstacle(key, Action(effect=Throttle(throttle_ms=1))) is None else []),
        "malform",
        *(["evict"] if obstacle(key, Action(effect=Evict())) is None else []),
    ]


def _form_json(key: int, name: str) -> dict[str, Any]:
    form = FORMS[name]
    parameters = {label: _parameter_json(key, name, each) for label, each in form.parameters.items()}
    return {"name": name, "description": form.description, "parameters": parameters}


def _parameter_json(key: int, form: str, parameter: Number | FieldPath) -> dict[str, Any]:
    if isinstance(parameter, FieldPath):
        possible = list(fitting_fields(key, form))
        return {"type": "field", "possible": possible, "default": possible[0]}
    return {
        "type": "integer",
        "minimum": parameter.lowest,
        "maximum": parameter.highest,
        "default": parameter.default,
    }
