"""Errors in the ``action`` of a rule."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.messages import APIS
from mockbroker.broker.handlers import HANDLERS
from mockbroker.faults.malformed import FORMS, FieldPath
from mockbroker.faults.parsing import parse_rule, rule_to_json
from mockbroker.faults.sections import InvalidRule

CONNECTIONS = {"on": "connect"}
ACTIONS = (
    "error",
    "disconnect",
    "hold",
    "no_response",
    "throttle_ms",
    "respond",
    "bytes_per_second",
    "malform",
    "evict",
    "delay_ms",
)


def problems(api: str | dict[str, str], action: object) -> list[tuple[str, str, tuple[str, ...]]]:
    with pytest.raises(InvalidRule) as caught:
        parse_rule({"match": api if isinstance(api, dict) else {"api": api}, "action": action})
    return [(problem.path, problem.detail, problem.possible) for problem in caught.value.problems]


OF_ANY = "Fetch"
REFUSED: list[tuple[str | dict[str, str], dict[str, Any], str, str, tuple[str, ...]]] = [
    # API or match, action, path below action, detail, alternatives
    (OF_ANY, {}, "", "a rule needs an action", ACTIONS),
    (CONNECTIONS, {}, "", "a rule needs an action", ("disconnect", "hold", "no_response", "fail_tls", "delay_ms")),
    (
        OF_ANY,
        {"error": "REBALANCE_IN_PROGRES"},
        "error",
        "unknown value 'REBALANCE_IN_PROGRES'",
        ("REBALANCE_IN_PROGRESS", "REASSIGNMENT_IN_PROGRESS", "NO_REASSIGNMENT_IN_PROGRESS"),
    ),
    (OF_ANY, {"error": 27}, "error", "expected a string, got 27", ()),
    (OF_ANY, {"error": "NONE"}, "error", "unknown value 'NONE'", ()),
    (
        OF_ANY,
        {"error": "NOT_CONTROLLER", "hold": True},
        "hold",
        "a rule has at most one action besides delay_ms, but error is set too",
        (),
    ),
    (OF_ANY, {"delay_ms": -1}, "delay_ms", "-1 is out of range (0 to 2147483647)", ()),
    (OF_ANY, {"delay_ms": 1, "jitter_ms": -1}, "jitter_ms", "-1 is out of range (0 to 2147483647)", ()),
    (OF_ANY, {"hold": True, "jitter_ms": 1}, "jitter_ms", "jitter_ms has an effect only with delay_ms", ()),
    (OF_ANY, {"delay_ms": 1, "when": "during"}, "when", "unknown value 'during'", ("before", "after")),
    (CONNECTIONS, {"delay_ms": 1, "when": "after"}, "when", "unknown value 'after'", ("before",)),
    (OF_ANY, {"evict": True}, "evict", "Fetch cannot have this action: its request names no member", ()),
    (
        "JoinGroup",
        {"evict": True, "when": "after"},
        "when",
        "when has an effect only with delay_ms, hold or no_response",
        (),
    ),
    (OF_ANY, {"disconnect": "midresponse"}, "disconnect", "unknown value 'midresponse'", ("mid-response",)),
    (OF_ANY, {"disconnect": "mid-response", "bytes": -1}, "bytes", "-1 is out of range (0 to 2147483647)", ()),
    (
        OF_ANY,
        {"disconnect": "after", "bytes": 1},
        "bytes",
        'bytes has an effect only with disconnect with the value "mid-response"',
        (),
    ),
    (OF_ANY, {"disconnect": "after", "reset": 1}, "reset", "expected true or false, got 1", ()),
    (CONNECTIONS, {"disconnect": "after"}, "disconnect", "unknown value 'after'", ("before",)),
    (OF_ANY, {"hold": False}, "hold", "expected true, got false: use true, or leave the key out", ("true",)),
    (OF_ANY, {"no_response": "yes"}, "no_response", "expected true or false, got 'yes'", ()),
    (OF_ANY, {"throttle_ms": -1}, "throttle_ms", "-1 is out of range (0 to 2147483647)", ()),
    (
        "SaslHandshake",
        {"throttle_ms": 1},
        "throttle_ms",
        "SaslHandshake cannot have this action: its response has no throttle time",
        (),
    ),
    (OF_ANY, {"bytes_per_second": 0}, "bytes_per_second", "0 is out of range (1 to 2147483647)", ()),
    (OF_ANY, {"bytes_per_second": 1, "of": "reply"}, "of", "unknown value 'reply'", ("response", "request")),
    (OF_ANY, {"of": "response", "delay_ms": 1}, "of", "of has an effect only with bytes_per_second", ()),
    (OF_ANY, {"delay_ms": 1, "colour": 1}, "colour", "unknown key", ()),
    (
        {},
        {"respond": {}},
        "respond",
        "the action respond needs exactly one API in match.api",
        (),
    ),
    ("Heartbeat", {"respond": []}, "respond", "expected the body of a response as an object, got []", ()),
    (
        "Heartbeat",
        {"respond": {"error": 27}},
        "respond.error",
        "HeartbeatResponse v4, error: unknown field in this version",
        ("error_code",),
    ),
    (
        "Heartbeat",
        {"respond": {"error_code": "27"}},
        "respond.error_code",
        "HeartbeatResponse v4, error_code: expected a value of type int16, got '27'",
        (),
    ),
    (
        "DescribeGroups",
        {"respond": {"groups": [{"group": "a"}]}},
        "respond.groups[0].group",
        "DescribeGroupsResponse v6, groups[0].group: unknown field in this version",
        ("groups.group_id", "groups.group_state", "groups"),
    ),
    (OF_ANY, {"malform": "crcs"}, "malform", "unknown value 'crcs'", ("crc",)),
    ("Heartbeat", {"malform": "crc"}, "malform", "Heartbeat cannot have this action: its response has no records", ()),
    (
        "Heartbeat",
        {"malform": "null_array"},
        "malform",
        "Heartbeat cannot have this action: its response has no array",
        (),
    ),
    (
        "Fetch",
        {"malform": "unknown_version"},
        "malform",
        "Fetch cannot have this action: its response has no versions of APIs",
        (),
    ),
    ("Fetch", {"malform": "crc", "value": 1}, "value", "value has an effect only with another form of malform", ()),
    ("Fetch", {"malform": "truncate", "bytes": -1}, "bytes", "-1 is out of range (0 to 2147483647)", ()),
    (
        "DescribeGroups",
        {"malform": "huge_array", "field": "group"},
        "field",
        "the response of DescribeGroups has no array 'group'",
        ("groups",),
    ),
    (
        {},
        {"malform": "huge_array", "field": "groups"},
        "field",
        "a response field needs exactly one API in match.api",
        (),
    ),
]


@pytest.mark.parametrize(
    ("api", "action", "path", "detail", "possible"), REFUSED, ids=[f"{row[2]}: {row[3]}" for row in REFUSED]
)
def test_an_action_that_is_refused(api, action, path, detail, possible):
    assert problems(api, action) == [(f"action.{path}".rstrip("."), detail, possible)]


def test_parameters_of_an_unknown_form_are_not_refused_too():
    assert len(problems("Fetch", {"malform": "truncat", "bytes": 5})) == 1


def test_what_is_wrong_with_two_actions_is_reported():
    result = problems("Fetch", {"error": "X", "throttle_ms": -1})
    assert [path for path, _, _ in result] == ["action.throttle_ms", "action.error", "action.throttle_ms"]


@pytest.mark.parametrize("version", ["0-3", "4"])
def test_a_response_of_some_versions(version):
    form = {"match": {"api": "Heartbeat", "version": version}, "action": {"respond": {"error_code": 27}}}
    assert rule_to_json(parse_rule(form)) == form


def test_a_response_that_only_an_old_version_has():
    old = {"api": "FindCoordinator", "version": "0-3"}
    respond = {"respond": {"error_code": 15}}
    assert parse_rule({"match": old, "action": respond})
    assert problems({"api": "FindCoordinator", "version": "4+"}, respond)[0][0] == "action.respond.error_code"


@pytest.mark.parametrize("key", HANDLERS, ids=lambda key: APIS[key].name)
def test_every_api_can_have_an_empty_response(key):
    assert parse_rule({"match": {"api": APIS[key].name}, "action": {"respond": {}}})


@pytest.mark.parametrize("form", FORMS)
def test_a_form_accepts_its_defaults(form):
    """Rules for Fetch and ApiVersions can have every form."""
    parameters = FORMS[form].parameters.items()
    numbers = {name: each.default for name, each in parameters if not isinstance(each, FieldPath)}
    api = "ApiVersions" if form == "unknown_version" else "Fetch"
    action = {"malform": form, **numbers}
    assert rule_to_json(parse_rule({"match": {"api": api}, "action": action}))["action"] == action
