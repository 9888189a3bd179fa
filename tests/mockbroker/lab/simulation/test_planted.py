"""Every planted bug is caught by one of its invariants, with the seed that was found for it.

``make simulate-check`` searches for the seeds again.
"""

from __future__ import annotations

import json
import re

import pytest
from effort import every
from golden import ROOT

from tests.mockbroker.lab.simulation.planted import BUGS, Bug
from tests.mockbroker.lab.simulation.search import CAUGHT, SEEDS, caught_by

FOUND = json.loads(CAUGHT.read_text("utf-8"))
RECORDS = [bug for bug in BUGS if bug.scheme in ("data", "admin", "mix", "upkeep")]
TRIED = [*(bug for bug in BUGS if bug not in RECORDS), *every(3, RECORDS)]  # ``make test-long`` runs all


def test_every_bug_has_its_seed():
    assert {bug.name for bug in BUGS} == FOUND.keys()
    assert len(FOUND) >= 30
    seeds = sorted(each["seed"] for each in FOUND.values())
    assert seeds[-1] < SEEDS
    assert seeds[len(seeds) // 2] < 100


def test_every_invariant_notices_a_bug():
    sources = (path.read_text("utf-8") for path in (ROOT / "mockbroker/lab/simulation").rglob("*.py"))
    invariants = {name for source in sources for name in re.findall(r'"(I\d+)"', source)}
    rows = re.findall(r"^\| (I\d+) \|", (ROOT / "docs/simulation.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(invariants)
    assert invariants - {each["invariant"] for each in FOUND.values()} == set()


@pytest.mark.parametrize("bug", TRIED, ids=lambda bug: bug.name)
def test_planted_bug_is_caught(bug: Bug):
    result = FOUND[bug.name]
    outcome = caught_by(bug, result["seed"])
    assert outcome.broken == result["invariant"], outcome.text
    assert outcome.broken in bug.by
