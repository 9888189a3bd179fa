"""Seeds that depend on the day, scripts that ``make farm`` has kept, and the farm itself."""

from __future__ import annotations

import pytest
from effort import amount, seed_of_the_day

from mockbroker.lab.simulation.run import run
from mockbroker.lab.simulation.schemes import SCHEMES
from tests.mockbroker.lab.simulation import farm
from tests.mockbroker.lab.simulation.kept import files, from_json, to_json
from tests.mockbroker.lab.simulation.planted import BUGS

SEEDS, EVENTS = amount(2, 20), 200


@pytest.mark.parametrize("scheme", farm.DEFAULT_SCHEMES)
def test_seeds_of_the_day(scheme):
    first = seed_of_the_day()
    for seed in range(first, first + SEEDS):
        outcome = run(SCHEMES[scheme](seed, EVENTS))
        assert not outcome.broken, (
            f"mockbroker simulate --scheme {scheme} --seed {seed} --events {EVENTS}: {outcome.broken} {outcome.text}"
        )


def test_kept_scripts_violate_nothing():
    for file in files():
        outcome = run(from_json(file.read_text()))
        assert not outcome.broken, f"{file.name}: {outcome.broken} {outcome.text}"


@pytest.mark.parametrize("scheme", ["data", "rules"])
def test_a_script_is_the_same_after_json(scheme):
    script = SCHEMES[scheme](7, 100)
    assert run(from_json(to_json(script, "I1", "text"))).hash == run(script).hash


def test_the_farm_keeps_a_failing_script(monkeypatch, tmp_path):
    next(bug for bug in BUGS if bug.name == "a_rebalance_increases_the_generation_by_two").plant(monkeypatch)
    seeds, failures, coverage = farm.farm(0.01, ("swarm",), 2, tmp_path)
    assert (seeds, failures) == (1, 1)
    assert coverage.cells
    (file,) = tmp_path.iterdir()
    assert run(from_json(file.read_text())).broken == "I2"
