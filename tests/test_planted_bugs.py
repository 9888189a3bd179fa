"""Bugs that break a rule of Kafka: each can be planted, and the test that notices it is known."""

from __future__ import annotations

import ast
import json
import subprocess
import sys

import planted_bugs
import pytest
from golden import ROOT
from planted_rules import RULE_BUGS, RuleBug

FOUND = json.loads(planted_bugs.FOUND.read_text("utf-8"))


@pytest.mark.parametrize("bug", RULE_BUGS, ids=lambda bug: bug.what)
def test_bug_can_be_planted(bug: RuleBug) -> None:
    source = (ROOT / bug.module).read_text("utf-8")
    assert source.count(bug.old) == 1, "the code has changed: write the row again"
    assert bug.old.count("\n") == bug.new.count("\n"), "functions keep their first lines"
    replacement = planted_bugs.Replacement.of(bug)
    assert replacement.function
    assert ast.dump(replacement.tree(source)) != ast.dump(ast.parse(source))


def test_every_bug_has_a_test_that_notices_it() -> None:
    assert list(FOUND) == [bug.what for bug in RULE_BUGS], "python fuzzing/planted_bugs.py --keep"
    for bug in RULE_BUGS:
        assert FOUND[bug.what].startswith(bug.tests)
        file, _, name = FOUND[bug.what].partition("::")
        assert f"def {name.partition('[')[0].rpartition('::')[2]}(" in (ROOT / file).read_text("utf-8")


def test_table_has_every_bug() -> None:
    rows = planted_bugs.table().splitlines()[2:]
    caught = json.loads(planted_bugs.CAUGHT.read_text("utf-8"))
    assert len(rows) == len(RULE_BUGS) + len(caught) >= 150
    assert f"named tests find {len(RULE_BUGS)}" in planted_bugs.summary()
    names = (each["invariant"] for each in caught.values())
    assert all(name in planted_bugs.invariants() for name in names)


@pytest.mark.long
def test_planted_bugs_are_noticed() -> None:
    done = subprocess.run([sys.executable, ROOT / "fuzzing" / "planted_bugs.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
