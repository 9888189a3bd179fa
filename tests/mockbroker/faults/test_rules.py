"""The rules of a cluster: their order, names and number."""

from __future__ import annotations

import pytest

from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.sync_group import SyncGroupRequest
from kwire.schema import schema_of
from mockbroker.base.effects import Call, Client, Ticket
from mockbroker.faults import rules as rules_module
from mockbroker.faults.matching import WHOLE_REQUEST, Lookups, NewConnection
from mockbroker.faults.parsing import parse_rule
from mockbroker.faults.rules import RuleExists, Rules, TooManyRules

REQUESTS = {
    "Heartbeat": HeartbeatRequest(group_id="g", member_id="m"),
    "SyncGroup": SyncGroupRequest(group_id="g", member_id="m"),
    "OffsetCommit": OffsetCommitRequest(group_id="g", member_id="m"),
}


def call(api: str = "Heartbeat") -> Call[object]:
    request = REQUESTS[api]
    declared = schema_of(type(request)).api
    assert declared is not None
    return Call(Ticket(1, 1, declared.key, 4), Client(0, "c", "/127.0.0.1"), request)


def form(name: str = "", **match: object) -> dict[str, object]:
    """Return a rule that applies once; it has no name if ``name`` is empty."""
    rule = {"match": match, "action": {"error": "REBALANCE_IN_PROGRESS"}}
    return {"name": name, **rule} if name else rule


def rules_of(*forms: dict[str, object], limit: int = 100) -> Rules:
    rules = Rules(limit)
    for each in forms:
        rules.add(parse_rule(each))
    return rules


def applied(rules: Rules, api: str = "Heartbeat") -> str | None:
    fault = rules.first(call(api), Lookups())
    return None if fault is None else fault.rule.name


def names(rules: Rules) -> list[str]:
    return [active.rule.name for active in rules]


def test_the_first_rule_that_applies_wins():
    rules = rules_of(form("other", api="SyncGroup"), form("first", api="Heartbeat"), form("second", group="g"))
    assert applied(rules) == "first"
    assert [active.counters.matched for active in rules] == [0, 1, 0]


def test_a_skipped_or_exhausted_rule_passes_on():
    skipping = form("skipping", api="Heartbeat") | {"occurrence": {"skip": 1}}
    rules = rules_of(skipping, form("second", api="Heartbeat"))
    assert [applied(rules) for _ in range(4)] == ["second", "skipping", None, None]
    assert [(active.counters.matched, active.counters.applied) for active in rules] == [(4, 1), (3, 1)]


def test_a_fault_has_the_elements_and_the_delay():
    rule = {"match": {"api": "Heartbeat"}, "action": {"delay_ms": 20}}
    fault = rules_of(rule).first(call(), Lookups())
    assert fault is not None
    assert (fault.elements, fault.delay_ms) == ((WHOLE_REQUEST,), 20)


def test_a_rule_without_api_is_for_apis_with_its_conditions():
    rules = rules_of({"match": {"topic": "*"}, "action": {"delay_ms": 1}}, form("group", group="g"))
    assert applied(rules) == "group"
    assert next(iter(rules)).counters.matched == 0


def test_a_rule_without_api_is_for_apis_with_its_action():
    rules = rules_of({"name": "evict", "action": {"evict": True}})
    keys = next(iter(rules)).keys
    assert call("OffsetCommit").ticket.api_key in keys
    assert len(keys) < 20


def test_names_are_generated():
    rules = rules_of(form(), form("fault-2"), form())
    assert names(rules) == ["fault-1", "fault-2", "fault-3"]


def test_adding_an_existing_name_is_refused():
    rules = rules_of(form("a"))
    with pytest.raises(RuleExists, match="the rule a already exists"):
        rules.add(parse_rule(form("a")))


def test_the_number_of_rules_is_limited():
    rules = rules_of(form(), form(), limit=2)
    with pytest.raises(TooManyRules, match="there are 2 rules"):
        rules.add(parse_rule(form()))
    with pytest.raises(TooManyRules):
        rules.replace(parse_rule(form("new")))
    rules.replace(parse_rule(form("fault-1")))
    assert len(rules) == 2


def test_all_rules_of_a_preset_are_added_or_none():
    rules = rules_of(form("a"), limit=3)
    with pytest.raises(RuleExists, match="the rule a already exists"):
        rules.add_all([parse_rule(form("b")), parse_rule(form("a"))])
    with pytest.raises(TooManyRules, match="there are 1 rules, and the limit is 3"):
        rules.add_all([parse_rule(form(name)) for name in "bcd"])
    assert names(rules) == ["a"]
    assert [active.rule.name for active in rules.add_all([parse_rule(form("b")), parse_rule(form("c"))])] == ["b", "c"]
    assert names(rules) == ["a", "b", "c"]


def test_replacing_keeps_the_position_and_resets_the_counters():
    rules = rules_of(form("a", group="g"), form("b", group="g"))
    assert applied(rules) == "a"
    rules.replace(parse_rule(form("a", group="g")))
    assert names(rules) == ["a", "b"]
    assert applied(rules) == "a"
    rules.replace(parse_rule(form("c")))
    assert names(rules) == ["a", "b", "c"]


def test_removing_by_name_and_by_glob():
    rules = rules_of(form("t1-a", group="g"), form("t2-a", group="g"), form("t1-b", group="g"))
    assert [active.rule.name for active in rules.remove("t1-*")] == ["t1-a", "t1-b"]
    assert rules.remove("t1-a") == []
    assert applied(rules) == "t2-a"
    rules.remove()
    assert names(rules) == []
    assert applied(rules) is None


def test_a_rule_is_found_by_name():
    rules = rules_of(form("a"))
    active = rules.get("a")
    assert active is not None
    assert active.rule.name == "a"
    assert rules.get("b") is None


def test_rules_for_connections():
    rules = rules_of(
        {"name": "other", "match": {"on": "connect", "broker": 1}, "action": {"no_response": True}},
        {"name": "refuse", "match": {"on": "connect", "address": "10.*"}, "action": {"disconnect": "before"}},
    )
    connection = NewConnection(node=0, listener="PLAINTEXT", address="10.0.0.1")
    fault = rules.first_for_connection(connection)
    assert fault is not None
    assert (fault.rule.name, fault.elements) == ("refuse", ())
    assert rules.first_for_connection(connection) is None
    assert applied(rules) is None


def test_rules_of_other_apis_are_not_tried(monkeypatch):
    """A request of an API without rules needs only one lookup, whatever the number of rules."""
    rules = rules_of(*(form(api="SyncGroup") for _ in range(100)))
    monkeypatch.setattr(rules_module, "Subject", None)
    assert rules.first(call("Heartbeat"), Lookups()) is None
