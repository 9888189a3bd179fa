"""Conversion of the JSON object ``action`` of a fault rule."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from reprlib import repr as shorten
from typing import Any, Literal, TypeAlias, cast

from kwire import ErrorCode, encode
from kwire.body_fields import fields_of
from kwire.errors import EncodeError
from kwire.json.objects import from_json
from kwire.messages import APIS
from kwire.schema import ALL_VERSIONS, Versions
from mockbroker.faults.applicability import fitting_fields, obstacle
from mockbroker.faults.malformed import FORMS, FieldPath
from mockbroker.faults.parsing_match import api_keys
from mockbroker.faults.rule import (
    CONNECT,
    Action,
    Bandwidth,
    Delay,
    Disconnect,
    Effect,
    Error,
    Evict,
    FailTls,
    Hold,
    Malform,
    Match,
    NoResponse,
    Respond,
    Throttle,
    When,
)
from mockbroker.faults.sections import Section, suggestions

BEFORE_OR_AFTER = ("before", "after")
DISCONNECTS = ("before", "after", "mid-response")
NEEDS = {  # key -> the key without which it is refused
    "when": "delay_ms, hold or no_response",
    "jitter_ms": "delay_ms",
    "bytes": 'disconnect with the value "mid-response"',
    "reset": "disconnect",
    "of": "bytes_per_second",
}
PARAMETERS = {name for form in FORMS.values() for name in form.parameters}
ERRORS = [code.name for code in ErrorCode if code is not ErrorCode.NONE]


def parse_action(section: Section, match: Match) -> Action:
    """Return the action that the JSON object ``action`` of a rule describes.

    If a value is not valid, a problem is added to ``section``, and the returned action must not be used.

    Args:
        section: The object ``action``, which collects the problems.
        match: Conditions of the same rule; an action can be possible only for some APIs.
    """
    parsers = CONNECTION_EFFECTS if match.on == CONNECT else REQUEST_EFFECTS
    chosen = [key for key in parsers if key in section]
    has_delay = "delay_ms" in section
    if not chosen and not has_delay:
        section.refuse("", "a rule needs an action", (*parsers, "delay_ms"))
    for key in chosen[1:]:
        section.refuse(key, f"a rule has at most one action besides delay_ms, but {chosen[0]} is set too")
    when = _when(section, match) if has_delay or not {"hold", "no_response"}.isdisjoint(chosen) else "before"
    effects = [parsers[key](section, match, when) for key in chosen]
    action = Action(delay=_delay(section, when) if has_delay else None, effect=effects[0] if effects else None)
    section.refuse_unknown({**dict.fromkeys(PARAMETERS, "another form of malform"), **NEEDS})
    for api in api_keys(match):
        if reason := obstacle(api, action):
            section.refuse(chosen[0], f"{APIS[api].name} cannot have this action: {reason}")
    return action


def _when(section: Section, match: Match) -> When:
    options = BEFORE_OR_AFTER[:1] if match.on == CONNECT else BEFORE_OR_AFTER
    return "after" if section.choice("when", options) == "after" else "before"


def _delay(section: Section, when: When) -> Delay:
    return Delay(
        delay_ms=section.integer("delay_ms", 0) or 0, jitter_ms=section.integer("jitter_ms", 0) or 0, when=when
    )


def _true(section: Section, key: str) -> None:
    if section.flag(key) is False:
        section.refuse(key, "expected true, got false: use true, or leave the key out", ("true",))


def _error(section: Section, _match: Match, _when: When) -> Error:
    return Error(error=section.choice("error", ERRORS) or "")


def _disconnect(section: Section, match: Match, _when: When) -> Disconnect:
    options = DISCONNECTS[:1] if match.on == CONNECT else DISCONNECTS
    point = section.choice("disconnect", options) or "before"
    sent = section.integer("bytes", 0) if point == "mid-response" else None
    return Disconnect(
        disconnect=cast("Literal['before', 'after', 'mid-response']", point),
        bytes=sent,
        reset=section.flag("reset") or False,
    )


def _hold(section: Section, _match: Match, when: When) -> Hold:
    _true(section, "hold")
    return Hold(when=when)


def _no_response(section: Section, _match: Match, when: When) -> NoResponse:
    _true(section, "no_response")
    return NoResponse(when=when)


def _throttle(section: Section, _match: Match, _when: When) -> Throttle:
    return Throttle(throttle_ms=section.integer("throttle_ms", 0) or 0)


def _bandwidth(section: Section, _match: Match, _when: When) -> Bandwidth:
    rate, of = section.integer("bytes_per_second", 1), section.choice("of", ("response", "request"))
    return Bandwidth(bytes_per_second=rate or 1, of="request" if of == "request" else "response")


def _evict(section: Section, _match: Match, _when: When) -> Evict:
    _true(section, "evict")
    return Evict()


def _fail_tls(section: Section, _match: Match, _when: When) -> FailTls:
    _true(section, "fail_tls")
    return FailTls()


def _respond(section: Section, match: Match, _when: When) -> Respond:
    body = section.raw("respond")
    keys = api_keys(match)
    if not isinstance(body, dict):
        section.refuse("respond", f"expected the body of a response as an object, got {shorten(body)}")
        return Respond(respond={})
    if len(keys) != 1:
        section.refuse("respond", "the action respond needs exactly one API in match.api")
    else:
        _check_body(section, body, keys[0], match)
    return Respond(respond=body)


def _check_body(section: Section, body: Mapping[str, Any], key: int, match: Match) -> None:
    """Check the response body of the action ``respond``: at least one API version that the rule allows must encode it.

    If no version can encode the body, add a problem to ``section`` with the reason for the newest version.

    Args:
        section: The object ``action``, which collects the problems.
        body: The response body in JSON form.
        key: API key.
        match: Conditions of the rule.
    """
    api = APIS[key]
    assert api.versions.last is not None
    wanted = Versions.parse(match.version) if match.version else ALL_VERSIONS
    reason: EncodeError | None = None
    for version in range(api.versions.last, api.versions.first - 1, -1):
        if version in wanted:
            try:
                encode(from_json(api.response, body, version), version)
            except EncodeError as error:
                reason = reason or error
            else:
                return
    if reason is not None:
        names = [name for name, _ in fields_of(api.response)]
        unknown = _without_indexes(reason.path)
        possible = () if unknown in names else suggestions(unknown, names)
        section.refuse(f"respond.{reason.path}" if reason.path else "respond", str(reason), possible)


def _without_indexes(path: str) -> str:
    return re.sub(r"\[\d+\]", "", path)


def _malform(section: Section, match: Match, _when: When) -> Malform:
    form = section.choice("malform", FORMS)
    if form is None:
        section.accept(PARAMETERS)
        return Malform(malform="")
    parameters: dict[str, int | str] = {}
    for name, parameter in FORMS[form].parameters.items():
        value: int | str | None
        if isinstance(parameter, FieldPath):
            value = _response_field(section, name, form, api_keys(match))
        else:
            value = section.integer(name, parameter.lowest, parameter.highest)
        if value is not None:
            parameters[name] = value
    return Malform(malform=form, parameters=parameters)


def _response_field(section: Section, name: str, form: str, keys: Collection[int]) -> str | None:
    """Return the path of the response field that a rule selects for a malformed response; None for the default.

    If the rule does not name exactly one API, or the response has no such field, a problem is added to ``section``.

    Args:
        section: The object ``action``, which collects the problems.
        name: Key in the section whose value is the path.
        form: Name of the form of malformed response.
        keys: API keys that the rule names.
    """
    path = section.text(name)
    if path is None:
        return None
    if len(keys) != 1:
        section.refuse(name, "a response field needs exactly one API in match.api")
    for key in keys:
        fitting = fitting_fields(key, form)
        if fitting and path not in fitting:
            what = f"the response of {APIS[key].name} has no {FORMS[form].what} {shorten(path)}"
            section.refuse(name, what, suggestions(path, fitting))
    return path


Parser: TypeAlias = Callable[[Section, Match, When], Effect]
REQUEST_EFFECTS: Mapping[str, Parser] = {
    "error": _error,
    "disconnect": _disconnect,
    "hold": _hold,
    "no_response": _no_response,
    "throttle_ms": _throttle,
    "respond": _respond,
    "bytes_per_second": _bandwidth,
    "malform": _malform,
    "evict": _evict,
}
CONNECTION_EFFECTS: Mapping[str, Parser] = {
    "disconnect": _disconnect,
    "hold": _hold,
    "no_response": _no_response,
    "fail_tls": _fail_tls,
}
