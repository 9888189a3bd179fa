"""Files of fault rules."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from mockbroker.cli.rule_files import RuleFileError, by_number, read_rules, rules_of
from mockbroker.faults.sections import Problem

RULE = {"match": {"api": "OffsetCommit", "group": "billing"}, "action": {"error": "REBALANCE_IN_PROGRESS"}}
TOML = """
[[fault]]
match = { api = "OffsetCommit", group = "billing" }
action = { error = "REBALANCE_IN_PROGRESS" }
"""
YAML = """
fault:
- match: {api: OffsetCommit, group: billing}
  action: {error: REBALANCE_IN_PROGRESS}
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rules.toml", TOML),
        ("rules.yaml", YAML),
        ("rules.YML", YAML),
        ("rules.json", json.dumps([RULE])),
        ("one.json", json.dumps(RULE)),
    ],
)
def test_formats_have_the_same_rules(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert read_rules(tmp_path / name) == [RULE]


def test_the_condition_on_needs_no_quotes_in_yaml(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text("- match: {on: connect, broker: 0}\n  action: {hold: on}")
    assert read_rules(path) == [{"match": {"on": "connect", "broker": 0}, "action": {"hold": True}}]


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_deep_files_are_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"deep.{suffix}"
    path.write_text("[" * 100_000)
    with pytest.raises(RuleFileError):
        read_rules(path)


def test_yaml_constructs_no_objects(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text("!!python/object/apply:os.getcwd []")
    with pytest.raises(RuleFileError, match="could not determine a constructor"):
        read_rules(path)


def test_toml_needs_no_other_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    (tmp_path / "rules.toml").write_text(TOML)
    assert read_rules(tmp_path / "rules.toml") == [RULE]


@pytest.mark.parametrize("content", [None, "fault", {"faults": [RULE]}, {"fault": RULE}, {"fault": [], "more": 1}])
def test_other_content_is_refused(content: object) -> None:
    with pytest.raises(RuleFileError):
        rules_of(content)


def test_problems_are_numbered_by_rule() -> None:
    problems = [Problem("faults[1].match.api", "unknown API 'X'", ("Fetch",)), Problem("faults[0]", "expected")]
    assert by_number(problems) == ["rule 2: match.api: unknown API 'X' (possible: Fetch)", "rule 1: expected"]
    assert by_number([Problem("name", "missing")]) == ["name: missing"]
