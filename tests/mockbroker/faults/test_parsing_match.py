"""Errors in the ``match`` of a rule."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.apikeys import ApiKey
from kwire.messages import APIS
from mockbroker.faults.parsing import parse_rule
from mockbroker.faults.sections import InvalidRule

ALL_TERMS = ("group", "member_id", "instance_id", "topic", "partition", "transactional_id")


def problems(match: object, **options: Any) -> list[tuple[str, str, tuple[str, ...]]]:
    with pytest.raises(InvalidRule) as caught:
        parse_rule({"match": match, "action": {"delay_ms": 1}}, **options)
    return [(problem.path, problem.detail, problem.possible) for problem in caught.value.problems]


REFUSED = [  # match, path below match, detail, alternatives
    ({"api": "JoinGrop"}, "api", "unknown API 'JoinGrop'", ("JoinGroup",)),
    ({"api": "joingroup"}, "api", "unknown API 'joingroup'", ("JoinGroup",)),
    ({"api": ["Fetch", "Fech"]}, "api[1]", "unknown API 'Fech'", ("Fetch",)),
    ({"api": 11}, "api", "expected the name of an API, got 11", ()),
    ({"api": None}, "api", "expected the name of an API, got None", ()),
    ({"api": ["Fetch", None]}, "api[1]", "expected the name of an API, got None", ()),
    ({"api": []}, "api", "the list is empty: leave api out for all APIs", ()),
    (
        {"api": ["X"] * 500},
        "api",
        f"the list has 500 names, but there are only {len(APIS)} APIs: name each API once",
        (),
    ),
    (
        {"api": "OffsetCommit", "where": "body.topics.name == 't'"},
        "where",
        "topics is an array: give the index of an element, such as topics[0].name",
        (),
    ),
    ({"api": "Fetch", "version": "4-99"}, "version", "Fetch has no versions 4-99", ("0-18",)),
    ({"api": "Fetch", "version": "19+"}, "version", "Fetch has no versions 19+", ("0-18",)),
    ({"version": "8-5"}, "version", "invalid version range '8-5'", ("5-8", "5", "5+")),
    ({"version": "none"}, "version", "invalid version range 'none'", ("5-8", "5", "5+")),
    ({"version": ""}, "version", "invalid version range ''", ("5-8", "5", "5+")),
    ({"version": "-1"}, "version", "invalid version range '-1'", ("5-8", "5", "5+")),
    ({"version": 5}, "version", "expected a string, got 5", ()),
    ({"broker": "0"}, "broker", "expected an integer, got '0'", ()),
    ({"broker": -1}, "broker", "-1 is out of range (0 to 2147483647)", ()),
    ({"partition": -1}, "partition", "-1 is out of range (0 to 2147483647)", ()),
    ({"group": None}, "group", "expected a string, got None", ()),
    ({"group": "a" * 1001}, "group", "the string has 1001 characters (limit: 1000)", ()),
    (
        {"topic": "a\\"},
        "topic",
        "the backslash at the end escapes no character: write \\\\ for a literal backslash",
        (),
    ),
    ({"gruop": "a"}, "gruop", "unknown key", ("group",)),
    ({"clientid": "a"}, "clientid", "unknown key", ("client_id",)),
    (
        {"api": "Heartbeat", "topic": "orders"},
        "topic",
        "Heartbeat requests have no topic",
        ("group", "member_id", "instance_id"),
    ),
    ({"api": ["Fetch", "EndTxn"], "topic": "a"}, "topic", "EndTxn requests have no topic", ("transactional_id",)),
    ({"api": "ApiVersions", "group": "a"}, "group", "ApiVersions requests have no group", ()),
    ({"address": "10.*"}, "address", 'address has an effect only with "on": "connect"', ()),
    ({"on": "conect"}, "on", "unknown value 'conect'", ("connect",)),
    (
        {"on": "connect", "group": "a"},
        "group",
        "group is a condition on requests: a rule about connections cannot have it",
        ("broker", "listener", "address"),
    ),
    ({"where": "body.group_id ="}, "where", "invalid filter: invalid syntax, at character 15", ()),
    ({"where": "group == 'a'"}, "where", "unknown column group; the columns are body, at character 1", ()),
    ({"where": 5}, "where", "expected a filter, got 5", ()),
    (
        {"api": "Heartbeat", "where": "body.group == 'a'"},
        "where",
        "Heartbeat requests have no field group",
        ("group_id",),
    ),
    (
        {"api": ["Heartbeat", "SyncGroup"], "where": "body.memberid == 'a'"},
        "where",
        "requests of these APIs have no field memberid",
        ("member_id",),
    ),
    ({"where": "body.grp == 'a'"}, "where", "no request has a field grp", ()),
]


@pytest.mark.parametrize(("match", "path", "detail", "possible"), REFUSED, ids=[row[2] for row in REFUSED])
def test_a_match_that_is_refused(match, path, detail, possible):
    assert problems(match) == [(f"match.{path}", detail, possible)]


def test_conditions_that_no_request_has_together():
    assert problems({"topic": "a", "instance_id": "b", "transactional_id": "c"}, served=[ApiKey.FETCH]) == [
        ("match", "no API has requests with all of instance_id, topic, transactional_id: remove a condition", ())
    ]


def test_an_api_that_the_broker_does_not_serve():
    assert problems({"api": "ShareFetch"}, served=[ApiKey.FETCH]) == [
        ("match.api", "the broker does not serve ShareFetch", ())
    ]
    assert problems({"api": "ShareFech"}, served=[ApiKey.FETCH]) == [
        ("match.api", "unknown API 'ShareFech'", ("Fetch",))
    ]


def test_names_of_apis_that_are_repeated_count_once():
    rule = parse_rule({"match": {"api": ["Fetch", "Fetch"]}, "action": {"delay_ms": 1}})
    assert rule.match.api == ("Fetch",)


@pytest.mark.parametrize("version", ["0-18", "5", "18", "3+"])
def test_versions_that_exist(version):
    rule = parse_rule({"match": {"api": "Fetch", "version": version}, "action": {"delay_ms": 1}})
    assert rule.match.version == version
