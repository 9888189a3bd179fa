"""Every planted bug is caught, by an invariant that is there for it, with the seed that was found for it.

``make simulate-check`` searches the seeds again.
"""

from __future__ import annotations

import json

import pytest

from tests.mockbroker.lab.simulation.planted import BUGS, Bug
from tests.mockbroker.lab.simulation.search import CAUGHT, SEEDS, caught_by

FOUND = json.loads(CAUGHT.read_text("utf-8"))


def test_every_bug_has_its_seed():
    assert {bug.name for bug in BUGS} == FOUND.keys()
    assert len(FOUND) >= 30
    seeds = sorted(each["seed"] for each in FOUND.values())
    assert seeds[-1] < SEEDS
    assert seeds[len(seeds) // 2] < 100


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_planted_bug_is_caught(bug: Bug):
    found = FOUND[bug.name]
    outcome = caught_by(bug, found["seed"])
    assert outcome.broken == found["invariant"], outcome.text
    assert outcome.broken in bug.by
