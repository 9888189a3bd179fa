"""Parsing of rules from JSON and their conversion back, and errors in a rule, its name and its occurrence."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from mockbroker.faults.parsing import parse_rule, rule_to_json, warnings
from mockbroker.faults.parsing_action import CONNECTION_EFFECTS, REQUEST_EFFECTS
from mockbroker.faults.rule import Action, Error, Match, Occurrence, Rule
from mockbroker.faults.sections import UNKNOWN_LISTED, InvalidRule

ACTION = {"error": "REBALANCE_IN_PROGRESS"}
COMMIT = {"api": "OffsetCommit"}
ROUND_TRIPS: list[dict[str, Any]] = [  # rules without values that are the default
    {"name": "a", "match": {"api": "OffsetCommit", "group": "billing"}, "action": ACTION},
    {"match": {}, "action": {"delay_ms": 0}},
    {"match": {"api": ["JoinGroup", "SyncGroup"], "version": "4+"}, "action": {"hold": True, "when": "after"}},
    {"match": COMMIT, "occurrence": {"skip": 1, "every": 2, "times": "always"}, "action": ACTION},
    {"match": COMMIT, "occurrence": {"probability": 0.5, "seed": 7, "times": 3}, "action": ACTION},
    {"match": {"broker": 0, "partition": 0, "topic": ""}, "action": {"delay_ms": 5, "jitter_ms": 1}},
    {"match": {"on": "connect", "listener": "L", "address": "10.*"}, "action": {"fail_tls": True}},
    {"match": {"on": "connect"}, "action": {"disconnect": "before", "reset": True, "delay_ms": 5}},
    {"match": {"where": "body.group_id == 'a'"}, "action": {"disconnect": "mid-response", "bytes": 0}},
    {"match": {"client_id": "c", "principal": "User:*"}, "action": {"no_response": True, "when": "after"}},
    {"match": {"member_id": "m", "instance_id": "i"}, "action": {"evict": True}},
    {"match": {"transactional_id": "t"}, "action": {"throttle_ms": 5, "delay_ms": 3, "when": "after"}},
    {"match": {}, "action": {"bytes_per_second": 10, "of": "request"}},
    {"match": {"api": "Heartbeat"}, "action": {"respond": {"error_code": 27}}},
    {"match": {"api": "Fetch"}, "action": {"malform": "crc"}},
    {"match": {"api": "DescribeGroups"}, "action": {"malform": "huge_array", "field": "groups", "count": 9}},
]


@pytest.mark.parametrize("form", ROUND_TRIPS, ids=str)
def test_the_json_form_of_a_parsed_rule_is_the_same(form):
    rule = parse_rule(form)
    assert rule_to_json(rule) == form
    assert parse_rule(rule_to_json(rule)) == rule


def test_a_rule_has_defaults():
    assert parse_rule({"action": ACTION}) == Rule(
        name="", match=Match(), occurrence=Occurrence(), action=Action(effect=Error(error="REBALANCE_IN_PROGRESS"))
    )
    assert Occurrence() == Occurrence(skip=0, every=1, probability=1, seed=0, times=1)


def problems(form: object, **options: Any) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return the path, detail and alternatives of each problem of a rule."""
    with pytest.raises(InvalidRule) as caught:
        parse_rule(form, **options)
    return [(problem.path, problem.detail, problem.possible) for problem in caught.value.problems]


def rule(**parts: Any) -> dict[str, Any]:
    return {"match": COMMIT, "action": ACTION, **parts}


REFUSED = [  # rule, path, detail, alternatives
    ([], "", "expected an object, got []", ()),
    (rule(macth={}), "macth", "unknown key", ("match",)),
    (rule(name="a b"), "name", "'a b' is not a valid name: use 1 to 100 of the characters A-Z a-z 0-9 . _ -", ()),
    (rule(name=""), "name", "'' is not a valid name: use 1 to 100 of the characters A-Z a-z 0-9 . _ -", ()),
    (rule(name=None), "name", "expected a string, got None", ()),
    (rule(name="a\n"), "name", "'a\\n' is not a valid name: use 1 to 100 of the characters A-Z a-z 0-9 . _ -", ()),
    (rule(match=None), "match", "expected an object, got None", ()),
    (rule(occurrence=[]), "occurrence", "expected an object, got []", ()),
    (rule(occurrence={"time": 1}), "occurrence.time", "unknown key", ("times",)),
    (rule(occurrence={"times": 0}), "occurrence.times", "0 is out of range (1 to 2147483647)", ()),
    (rule(occurrence={"times": "alwys"}), "occurrence.times", "expected an integer or 'always'", ("always",)),
    (rule(occurrence={"times": True}), "occurrence.times", "expected an integer, got True", ()),
    (rule(occurrence={"times": 1.5}), "occurrence.times", "expected an integer, got 1.5", ()),
    (rule(occurrence={"times": None}), "occurrence.times", "expected an integer, got None", ()),
    (rule(occurrence={"every": 0}), "occurrence.every", "0 is out of range (1 to 2147483647)", ()),
    (rule(occurrence={"skip": -1}), "occurrence.skip", "-1 is out of range (0 to 2147483647)", ()),
    (rule(occurrence={"probability": 1.5}), "occurrence.probability", "1.5 is out of range (0 to 1)", ()),
    (rule(occurrence={"probability": float("nan")}), "occurrence.probability", "nan is out of range (0 to 1)", ()),
    (rule(occurrence={"probability": "1"}), "occurrence.probability", "expected a number, got '1'", ()),
    (rule(occurrence={"seed": -1}), "occurrence.seed", f"-1 is out of range (0 to {2**63 - 1})", ()),
]


@pytest.mark.parametrize(("form", "path", "detail", "possible"), REFUSED, ids=[row[2] for row in REFUSED])
def test_a_rule_that_is_refused(form, path, detail, possible):
    assert (path, detail, possible) in problems(form)


@pytest.mark.parametrize("length", [1, 100])
def test_names_have_up_to_100_characters(length):
    assert parse_rule(rule(name="a" * length)).name == "a" * length
    assert problems(rule(name="a" * 101))[0][0] == "name"


def test_every_problem_is_reported():
    form = {"name": "?", "match": {"api": "Fech"}, "occurrence": {"skip": -1}, "action": {"errr": "X"}}
    assert [path for path, _, _ in problems(form)] == ["name", "match.api", "occurrence.skip", "action", "action.errr"]


def test_the_text_of_the_exception_has_a_line_for_each_problem():
    with pytest.raises(InvalidRule) as caught:
        parse_rule(rule(name="?", occurrence={"time": 1}))
    assert str(caught.value).splitlines() == [
        "name: '?' is not a valid name: use 1 to 100 of the characters A-Z a-z 0-9 . _ -",
        "occurrence.time: unknown key (possible: times)",
    ]


def test_a_name_that_is_given_elsewhere():
    assert parse_rule(rule(), name="a").name == "a"
    assert parse_rule(rule(name="a"), name="a").name == "a"
    assert problems(rule(name="b"), name="a") == [
        ("name", "the name differs from a, the name in the request: leave it out", ("a",))
    ]


def test_conditions_and_an_action_that_no_api_has_together():
    (problem,) = problems({"match": {"topic": "a"}, "action": {"malform": "unknown_version"}})
    assert problem[1] == "no API with topic supports this action: name an API in match.api"


@pytest.mark.parametrize("api", ["Produce", ["Fetch", "Produce"], None])
def test_an_error_of_produce_has_a_warning_about_acks(api):
    match = {} if api is None else {"api": api, "topic": "*"}
    (warning,) = warnings(parse_rule({"match": match, "action": {"error": "CORRUPT_MESSAGE"}}))
    assert (warning.path, warning.detail) == (
        "action.error",
        "no effect on a Produce with acks=0, which has no response",
    )


def test_an_error_that_kafka_does_not_return_has_a_warning():
    match = {"api": ["Heartbeat", "ListOffsets", "LeaveGroup"]}
    result = warnings(parse_rule({"match": match, "action": {"error": "OFFSET_NOT_AVAILABLE"}}))
    assert [(each.path, each.detail.partition(";")[0]) for each in result] == [
        ("action.error", "Kafka does not return OFFSET_NOT_AVAILABLE for Heartbeat"),
        ("action.error", "Kafka does not return OFFSET_NOT_AVAILABLE for LeaveGroup"),
    ]
    assert warnings(parse_rule({"match": {"group": "b"}, "action": {"error": "OFFSET_OUT_OF_RANGE"}})) == []


@pytest.mark.parametrize(
    ("api", "error", "elements"),
    [
        ("Fetch", "NOT_LEADER_OR_FOLLOWER", "partitions"),
        ("ShareFetch", "UNKNOWN_TOPIC_ID", "partitions"),
        ("ShareAcknowledge", "INVALID_RECORD_STATE", "partitions"),
        ("Metadata", "LEADER_NOT_AVAILABLE", "topics"),
    ],
)
def test_an_error_of_elements_without_topic_has_a_warning(api, error, elements):
    action = {"error": error}
    (warning,) = warnings(parse_rule({"match": {"api": api}, "action": action}))
    assert (warning.path, warning.detail) == (
        "action.error",
        f"Kafka returns {error} for {elements} of {api}, not for the whole response: add the condition topic '*'",
    )
    assert warnings(parse_rule({"match": {"api": api, "topic": "*"}, "action": action})) == []


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("Fetch", "FETCH_SESSION_ID_NOT_FOUND"),
        ("ShareFetch", "SHARE_SESSION_NOT_FOUND"),
        ("Metadata", "REBOOTSTRAP_REQUIRED"),
        ("OffsetFetch", "NOT_COORDINATOR"),
    ],
)
def test_an_error_of_a_whole_response_has_no_warning(api, error):
    assert warnings(parse_rule({"match": {"api": api}, "action": {"error": error}})) == []


def test_other_rules_have_no_warning():
    assert warnings(parse_rule(rule())) == []
    assert warnings(parse_rule({"match": {"api": "Produce"}, "action": {"delay_ms": 1}})) == []
    assert warnings(parse_rule({"match": {"topic": "a", "group": "b"}, "action": ACTION})) == []


# The tables of docs/faults.md.

PAGE = Path(__file__).parents[3] / "docs" / "faults.md"
TABLES = {
    "### Conditions": [each.name for each in fields(Match)],
    "### Occurrence": [each.name for each in fields(Occurrence)],
    "### Actions": [*REQUEST_EFFECTS, *CONNECTION_EFFECTS, "delay_ms"],
}


@pytest.mark.parametrize("heading", TABLES)
def test_table_of_the_documentation_has_every_key(heading: str) -> None:
    _, _, section = PAGE.read_text("utf-8").partition(heading)
    section, _, _ = section.partition("\n#")
    results = [line.split("`")[1] for line in section.splitlines() if line.startswith("| `")]
    assert sorted(results) == sorted(set(TABLES[heading]))


def test_of_many_unknown_keys_the_first_have_problems():
    found = problems(rule(**dict.fromkeys(map(str, range(1_000)), 1)))
    assert [path for path, _, _ in found] == [str(number) for number in range(UNKNOWN_LISTED)]
