"""``mockbroker ctl faults`` and ``presets``, and ``mockbroker serve --faults``, with a separate broker process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.ctl_process import Ctl, running

from kwire.messages.heartbeat import HeartbeatRequest
from mockbroker.api.fault_options import RuleOptions
from mockbroker.cli.ctl.rule_options import ORDER

RULES = """
[[fault]]
name = "initial"
match = { api = "Heartbeat", group = "billing" }
occurrence = { times = 2 }
action = { error = "REBALANCE_IN_PROGRESS" }
"""
RULE = {"name": "r", "match": {"api": "Heartbeat"}, "action": {"hold": True}}
BEAT = HeartbeatRequest(group_id="billing", member_id="m")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ctl]:
    folder = tmp_path_factory.mktemp("ctl")
    (folder / "rules.toml").write_text(RULES)
    with running(folder, "--faults", str(folder / "rules.toml")) as ctl:
        yield ctl


@pytest.fixture
def ctl(shared: Ctl) -> Ctl:
    """Return the broker without rules."""
    shared.run("faults", "remove", "--all")
    return shared


def test_rules_of_serve_apply_and_are_restored_by_reset(shared: Ctl) -> None:
    for _ in range(2):
        shared.run("reset")
        with shared.connect() as connection:
            codes = [connection.ask(BEAT, 3).error_code for _ in range(3)]
        assert codes == [27, 27, 25]
        assert shared.json("faults", "show", "initial")["exhausted"]
        shared.run("faults", "remove", "initial")


def test_a_rule_of_options_is_added_waited_for_and_removed(ctl: Ctl) -> None:
    added = ctl.text("faults", "add", "--api", "Heartbeat", "--error", "FENCED_INSTANCE_ID", "--times", "always")
    with ctl.connect() as connection:
        assert connection.ask(BEAT, 3).error_code == 82
    shown = ctl.text("faults", "wait", added)
    assert shown.splitlines() == [
        f"{added}: matched 1, applied 1, holding 0",
        "  match: api=Heartbeat",
        "  occurrence: times=always",
        "  action: error=FENCED_INSTANCE_ID",
    ]
    assert added in ctl.text("faults")
    assert ctl.text("faults", "remove", added) == f"removed {added}"
    assert ctl.json("faults")["items"] == []


def test_held_requests_are_released(ctl: Ctl) -> None:
    ctl.run("faults", "add", json.dumps(RULE))
    with ctl.connect() as connection:
        connection.send(BEAT, 3)
        assert "holding 1" in ctl.text("faults", "wait", "r", "--holding", "1")
        assert ctl.text("faults", "release", "r", "--count", "2") == "released 1"
        assert connection.read_frame()
    failed = ctl.run("faults", "wait", "r", "--holding", "1", "--timeout-ms", "10", code=1).stderr
    assert failed.startswith("Error: timed out after 10 ms waiting for rule r to hold 1 requests: ")
    assert "fault r" in failed  # the error shows the last events


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (
            "--api Fetch --api Produce --topic o* --partition 1 --skip 1 --every 2 --probability 0.5 --seed 3 "
            "--delay-ms 5 --jitter-ms 2 --when after",
            {
                "match": {"api": ["Fetch", "Produce"], "topic": "o*", "partition": 1},
                "occurrence": {"skip": 1, "every": 2, "probability": 0.5, "seed": 3},
                "action": {"delay_ms": 5, "jitter_ms": 2, "when": "after"},
            },
        ),
        (
            "--api Heartbeat --version 0-3 --client-id c --broker 0 --disconnect mid-response --bytes 3 --reset",
            {
                "match": {"api": "Heartbeat", "version": "0-3", "client_id": "c", "broker": 0},
                "action": {"disconnect": "mid-response", "bytes": 3, "reset": True},
            },
        ),
        (
            "--api Fetch --malform duplicate_records --parameter count=2 --times 3",
            {
                "match": {"api": "Fetch"},
                "occurrence": {"times": 3},
                "action": {"malform": "duplicate_records", "count": 2},
            },
        ),
        ('--api Heartbeat --respond {"error_code":22}', {"action": {"respond": {"error_code": 22}}}),
        ("--on connect --address 10.0.0.1 --fail-tls", {"match": {"on": "connect", "address": "10.0.0.1"}}),
    ],
    ids=["delay", "cut response", "malformed response", "given response", "connections"],
)
def test_options_are_keys_of_the_rule(ctl: Ctl, words: str, rule: dict[str, object]) -> None:
    fault = ctl.json("faults", "add", *words.split())
    assert {key: fault[key] for key in rule} == rule


def test_every_key_of_a_rule_is_an_option() -> None:
    keys = {key for base in RuleOptions.__mro__ for key in getattr(base, "__annotations__", {})}
    keys |= set(RuleOptions.__required_keys__ | RuleOptions.__optional_keys__)
    assert set(ORDER) == keys - {"optional"}  # this key is for the pytest fixture


@pytest.mark.parametrize("form", ["argument", "stdin", "json", "toml", "yaml"])
def test_rules_are_given_as_json_or_as_a_file(ctl: Ctl, form: str, tmp_path: Path) -> None:
    text = json.dumps(RULE)
    if form == "argument":
        names = ctl.run("faults", "add", text).stdout
    elif form == "stdin":
        names = ctl.run("faults", "add", "-", given=json.dumps([RULE, RULE | {"name": "s"}])).stdout
    else:
        path = tmp_path / f"rules.{form}"
        path.write_text(RULES.replace("initial", "r") if form == "toml" else json.dumps({"fault": [RULE]}))
        names = ctl.run("faults", "add", "--file", str(path)).stdout
    assert names.split() == (["r", "s"] if form == "stdin" else ["r"])


def test_a_rule_is_replaced_only_on_request(ctl: Ctl) -> None:
    ctl.run("faults", "add", "--name", "r", "--api", "Heartbeat", "--hold")
    again = ["faults", "add", "--name", "r", "--api", "Fetch", "--evict"]
    assert (
        "the rule r already exists"
        in ctl.run("faults", "add", "--name", "r", "--api", "Fetch", "--hold", code=1).stderr
    )
    ctl.run("faults", "add", "--replace", "--name", "r", "--api", "Fetch", "--hold")
    assert ctl.json("faults", "show", "r")["match"] == {"api": "Fetch"}
    assert ctl.run(*again, code=1).stderr.startswith("Error: ")


def test_all_problems_of_a_rule_are_printed(ctl: Ctl) -> None:
    refused = ctl.run("faults", "add", "--api", "OfsetCommit", "--error", "NONSENSE\x1b[1m", code=1)
    assert refused.stderr.splitlines() == [
        "Error: the server refused the request:",
        "  match.api: unknown API 'OfsetCommit' (possible: OffsetCommit, TxnOffsetCommit)",
        r"  action.error: unknown value 'NONSENSE\x1b[1m'",
    ]
    problem = json.loads(ctl.run("faults", "add", "--json", "--api", "OfsetCommit", "--hold", code=1).stderr)
    assert problem["errors"][0]["possible"][0] == "OffsetCommit"


def test_warnings_of_a_rule_are_on_stderr(ctl: Ctl) -> None:
    added = ctl.run("faults", "add", "--name", "r", "--api", "Produce", "--error", "MESSAGE_TOO_LARGE")
    assert added.stdout == "r\n"
    assert added.stderr.startswith("warning: action.error: no effect on a Produce with acks=0")


def test_wildcards_remove_rules(ctl: Ctl) -> None:
    for name in ("a-1", "a-2", "b-1"):
        ctl.run("faults", "add", json.dumps(RULE | {"name": name}))
    ctl.run("faults", "remove", "a-*")
    assert [each["name"] for each in ctl.json("faults")["items"]] == ["b-1"]


def test_a_preset_is_shown_and_run(ctl: Ctl) -> None:
    assert "slow-consumer" in ctl.text("presets")
    assert "delay_ms" in ctl.text("presets", "show", "slow-consumer")
    assert ctl.text("presets", "run", "slow-consumer", "topic=7", "delay_ms=20", "name=mine") == "mine"
    assert ctl.json("faults", "show", "mine")["match"] == {"api": "Fetch", "topic": "7"}
    assert "delay_ms" in ctl.run("presets", "run", "slow-consumer", "delay_ms=soon", code=1).stderr
    assert "the presets are" in ctl.run("presets", "run", "none", code=1).stderr
