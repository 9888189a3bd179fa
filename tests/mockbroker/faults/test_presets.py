"""Presets: every one makes valid rules of any valid parameters, and refuses the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire import ErrorCode
from kwire.messages import APIS
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.end_txn import EndTxnRequest
from kwire.messages.heartbeat import HeartbeatRequest
from mockbroker.base.effects import Call, Client, Ticket
from mockbroker.broker.handlers import HANDLERS
from mockbroker.faults.matching import Lookups
from mockbroker.faults.parsing import parse_rule, rule_to_json, warnings
from mockbroker.faults.presets import LONGEST_NAME, PRESETS, Parameter, Preset
from mockbroker.faults.rule import Delay, Disconnect, Error, Hold, Malform, NoResponse, Rule, Throttle
from mockbroker.faults.rules import Rules
from mockbroker.faults.sections import InvalidRule, Problem

REQUIRED: dict[str, dict[str, Any]] = {
    "zombie-member": {"client_id": "worker-1"},
    "slow-broker": {"broker": 2},
    "blackholed-client": {"client_id": "worker-1"},
}


def rules_of(name: str, /, **parameters: Any) -> list[Rule]:
    """Return the parsed rules of a preset, with its required parameters."""
    forms = PRESETS[name].rules(REQUIRED.get(name, {}) | parameters)
    return [parse_rule(json.loads(json.dumps(form)), HANDLERS) for form in forms]


def only_rule(name: str, /, **parameters: Any) -> Rule:
    (rule,) = rules_of(name, **parameters)
    return rule


def problems(name: str, form: object) -> list[Problem]:
    with pytest.raises(InvalidRule) as caught:
        PRESETS[name].rules(form)
    return list(caught.value.problems)


EVERY_PRESET = pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS.keys())


def any_value(parameter: Parameter) -> st.SearchStrategy[Any]:
    integers = st.integers(parameter.lowest, parameter.highest) | st.sampled_from([parameter.lowest, parameter.highest])
    match parameter.kind:
        case "integer":
            return integers
        case "times":
            return integers | st.just("always")
        case "choice":
            return st.sampled_from(parameter.options)
        case "name":
            return st.from_regex(r"\A[A-Za-z0-9._-]{1,80}\Z")
        case _:
            return st.text(st.characters(exclude_characters="\\", codec="utf-8"), max_size=20) | st.just("a\\*?*")


@EVERY_PRESET
@settings(max_examples=25)
@given(st.data())
def test_rules_of_any_valid_parameters_are_valid(preset: Preset, data: st.DataObject) -> None:
    form = {
        name: data.draw(any_value(parameter), label=name)
        for name, parameter in preset.parameters.items()
        if parameter.required or data.draw(st.booleans())
    }
    rules = [parse_rule(each, HANDLERS) for each in preset.rules(form)]
    assert len({rule.name for rule in rules}) == len(rules) > 0
    conditions = {"group", "topic", "partition", "client_id", "broker", "transactional_id"}
    for rule in rules:
        assert rule.name.startswith(str(form.get("name", preset.name)))
        assert not warnings(rule) or isinstance(rule.action.effect, Error)
        assert {key: getattr(rule.match, key) for key in form if key in conditions} == {
            key: value for key, value in form.items() if key in conditions
        }
        assert parse_rule(rule_to_json(rule), HANDLERS) == rule


@EVERY_PRESET
def test_name_is_in_kebab_case(preset: Preset) -> None:
    assert preset.name == preset.name.lower()
    assert all(word.isalnum() for word in preset.name.split("-"))
    assert PRESETS[preset.name] is preset


@EVERY_PRESET
def test_default_is_a_valid_value(preset: Preset) -> None:
    defaults = {name: each.default for name, each in preset.parameters.items() if each.default is not None}
    given = REQUIRED.get(preset.name, {})
    assert preset.rules(given | defaults) == preset.rules(given)
    assert {name for name, each in preset.parameters.items() if each.required} == given.keys()


@EVERY_PRESET
def test_times_is_that_of_every_rule(preset: Preset) -> None:
    counted = [rule for rule in rules_of(preset.name, times=7) if not isinstance(rule.action.effect, Disconnect)]
    assert all(rule.occurrence.times == 7 for rule in counted)
    endless = [rule for rule in rules_of(preset.name, times="always") if rule not in rules_of(preset.name, times=7)]
    assert all(rule.occurrence.times is None for rule in endless)
    assert endless


WITH_ONE_RULE = [  # preset, its action, APIs that it is tried on; empty for all
    ("zombie-member", Hold(), {"Heartbeat", "ConsumerGroupHeartbeat"}),
    ("no-sync-group", Hold(), {"SyncGroup"}),
    ("commit-gap", Disconnect(disconnect="after"), {"OffsetCommit", "TxnOffsetCommit"}),
    ("poison-batch", Malform(malform="crc"), {"Fetch"}),
    ("duplicate-records", Malform(malform="duplicate_records", parameters={"count": 1}), {"Fetch"}),
    ("corrupted-values", Malform(malform="corrupt_values"), {"Fetch"}),
    ("throttled-producer", Throttle(throttle_ms=1_000), {"Produce"}),
    ("fenced-leader-epoch", Error(error="FENCED_LEADER_EPOCH"), {"Fetch", "ListOffsets", "OffsetForLeaderEpoch"}),
    ("broken-broker", Error(error="UNKNOWN_SERVER_ERROR"), set()),
    ("blackholed-client", NoResponse(), set()),
]


@pytest.mark.parametrize(("name", "effect", "apis"), WITH_ONE_RULE, ids=[row[0] for row in WITH_ONE_RULE])
def test_action_of_a_preset(name: str, effect: object, apis: set[str]) -> None:
    rule = only_rule(name)
    assert (rule.name, rule.action.effect, set(rule.match.api)) == (name, effect, apis)


@pytest.mark.parametrize("name", ["latency", "slow-broker", "slow-producer", "slow-consumer"])
def test_delay_of_a_preset(name: str) -> None:
    assert only_rule(name).action.delay == Delay(delay_ms=500, jitter_ms=100)
    assert only_rule(name, delay_ms=5, jitter_ms=0).action.delay == Delay(delay_ms=5)
    assert only_rule("slow-broker").match.broker == 2
    assert only_rule("slow-producer", topic="t*").match.topic == "t*"


def test_rebalance_storm_is_for_both_protocols() -> None:
    classic, consumer = rules_of("rebalance-storm", group="billing", every=3)
    assert (classic.name, classic.match.api, classic.action.effect) == (
        "rebalance-storm-classic",
        ("Heartbeat",),
        Error(error="REBALANCE_IN_PROGRESS"),
    )
    assert (consumer.match.api, consumer.action.effect) == (
        ("ConsumerGroupHeartbeat",),
        Error(error="FENCED_MEMBER_EPOCH"),
    )
    assert all(rule.match.group == "billing" and rule.occurrence.every == 3 for rule in (classic, consumer))


def test_leader_election_has_the_errors_of_each_api() -> None:
    leader, metadata = rules_of("leader-election", topic="a")
    assert leader.action.effect == Error(error=ErrorCode.NOT_LEADER_OR_FOLLOWER.name)
    assert (metadata.match.api, metadata.action.effect) == (("Metadata",), Error(error="LEADER_NOT_AVAILABLE"))


def test_coordinator_loading_is_for_all_requests_of_members() -> None:
    rule = only_rule("coordinator-loading")
    members = {APIS[key].name for key in HANDLERS if APIS[key].name in rule.match.api}
    assert members == set(rule.match.api)
    assert rule.action.effect == Error(error="COORDINATOR_LOAD_IN_PROGRESS")
    assert rule.occurrence.times is None


def test_transaction_coordinator_is_lost_and_then_has_moved() -> None:
    lost, moved = rules_of("transaction-coordinator-lost-at-end-txn", point="before", times=4)
    assert (lost.action.effect, lost.occurrence.times) == (Disconnect(disconnect="before"), 1)
    assert (moved.action.effect, moved.occurrence.times) == (Error(error="NOT_COORDINATOR"), 4)


def added(name: str, /, **parameters: Any) -> Rules:
    rules = Rules()
    for rule in rules_of(name, **parameters):
        rules.add(rule)
    return rules


def applied(rules: Rules, request: Any, version: int, client_id: str = "worker-1") -> str:
    """Return the name of the rule that applies to a request, or ""."""
    key = next(key for key, api in APIS.items() if api.request is type(request))
    fault = rules.first(Call(Ticket(1, 5, key, version), Client(0, client_id, "/10.0.0.1"), request), Lookups())
    return "" if fault is None else fault.rule.name


def test_end_txn_is_lost_once_and_then_refused_once() -> None:
    rules = added("transaction-coordinator-lost-at-end-txn", name="lost")
    request = EndTxnRequest(transactional_id="t")
    assert [applied(rules, request, 3) for _ in range(3)] == ["lost-disconnect", "lost-moved", ""]


def test_storm_ends_after_ten_heartbeats() -> None:
    rules = added("rebalance-storm", name="storm")
    names = [applied(rules, HeartbeatRequest(group_id="g"), 4) for _ in range(11)]
    assert names == ["storm-classic"] * 10 + [""]
    assert applied(rules, ConsumerGroupHeartbeatRequest(group_id="g"), 0) == "storm-consumer"


def test_every_api_of_a_blackholed_client_is_matched() -> None:
    rules = added("blackholed-client", client_id="worker-*")
    for key in HANDLERS:
        request, version = APIS[key].request(), APIS[key].versions.first
        assert applied(rules, request, version) == "blackholed-client"
        assert applied(rules, request, version, client_id="other") == ""


REFUSED = [  # preset, parameters, path, detail, possible
    ("rebalance-storm", {"times": 0}, "times", "0 is out of range (1 to 2147483647)", ()),
    ("rebalance-storm", {"times": "ever"}, "times", "expected an integer or 'always'", ("always",)),
    ("rebalance-storm", {"times": None}, "times", "expected an integer, got None", ()),
    ("rebalance-storm", {"grup": "a"}, "grup", "unknown key", ("group",)),
    ("rebalance-storm", {"group": 1}, "group", "expected a string, got 1", ()),
    (
        "rebalance-storm",
        {"name": "a b"},
        "name",
        "'a b' is not a valid name: use 1 to 80 of the characters A-Z a-z 0-9 . _ -",
        (),
    ),
    ("zombie-member", {}, "client_id", "this parameter is required", ()),
    ("slow-broker", {"broker": "1"}, "broker", "expected an integer, got '1'", ()),
    ("poison-batch", {"form": "length"}, "form", "unknown value 'length'", ("crc", "magic", "record_count", "decompression_bomb")),
    ("duplicate-records", {"count": 1_001}, "count", "1001 is out of range (1 to 1000)", ()),
    ("latency", [], "", "expected an object, got []", ()),
]  # fmt: skip


@pytest.mark.parametrize(("name", "form", "path", "detail", "possible"), REFUSED)
def test_invalid_parameters_are_refused(name: str, form: Any, path: str, detail: str, possible: Any) -> None:
    assert problems(name, form) == [Problem(path, detail, possible)]


def test_all_invalid_parameters_are_reported() -> None:
    found = problems("slow-broker", {"delay_ms": -1, "times": [], "x" * 3: 1})
    assert [problem.path for problem in found] == ["broker", "delay_ms", "times", "xxx"]


def test_longest_name_leaves_room_for_suffixes() -> None:
    for name in PRESETS:
        assert all(len(rule.name) <= 100 for rule in rules_of(name, name="n" * LONGEST_NAME))
    assert [problem.path for problem in problems("latency", {"name": "n" * (LONGEST_NAME + 1)})] == ["name"]


# The table of docs/faults.md.

PAGE = Path(__file__).parents[3] / "docs" / "faults.md"


def documented(preset: Preset) -> str:
    """Return the row of a preset."""
    cells = []
    for name, each in preset.parameters.items():
        if name == "name":
            continue
        default = "required" if each.required else f"default `{each.default}`" if each.default is not None else ""
        options = f"one of {', '.join(each.options)}" if each.options else ""
        cells.append(f"`{name}`: " + ", ".join(part for part in (each.description, options, default) if part))
    return f"| `{preset.name}` | {preset.description} | {'; '.join(cells)} |"


def test_table_of_the_documentation_has_every_preset() -> None:
    _, _, section = PAGE.read_text("utf-8").partition("## Presets")
    section, _, _ = section.partition("\n## ")
    assert [line for line in section.splitlines() if line.startswith("| `")] == list(map(documented, PRESETS.values()))
