"""Coverage: the cells that runs reach, and the scripts that may reach others."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from mockbroker.cli.simulate import CANDIDATES
from mockbroker.cli.simulate import command as simulate
from mockbroker.lab.simulation.coverage import NO_FAULT, Cell, Coverage
from mockbroker.lab.simulation.run import run
from mockbroker.lab.simulation.schemes import data, swarm
from mockbroker.lab.simulation.script import Fault


@pytest.fixture
def coverage() -> Coverage:
    return Coverage()


def test_states_of_groups_and_transactions_are_counted(coverage):
    run(data(1, 300), coverage)
    states = {cell.state for cell in coverage.cells}
    assert {"classic Stable", "transaction Ongoing"} <= states
    assert NO_FAULT in {cell.fault for cell in coverage.cells}
    assert set(coverage.seeds.values()) == {1}


def test_coverage_does_not_change_the_run(coverage):
    assert run(swarm(3, 200), coverage).hash == run(swarm(3, 200)).hash


def test_steering_prefers_faults_that_were_not_reached(coverage):
    coverage.cells[Cell("classic Stable", "Heartbeat", "clog")] = 9
    clog, crash = (replace(swarm(1, 10), faults=(Fault(0, kind),)) for kind in ("clog", "crash"))
    assert coverage.steer([clog, crash]) is crash


def test_command_prints_the_coverage():
    arguments = ["--seed", "1", "--seeds", "2", "--events", "60", "--coverage", "--steer"]
    result = CliRunner().invoke(simulate, arguments)
    assert result.exit_code == 0
    assert "cells (state, event, fault)" in result.output
    lines = CliRunner().invoke(simulate, [*arguments, "--json"]).stdout.splitlines()
    first, second, last = (json.loads(line) for line in lines)
    assert 1 <= first["seed"] <= CANDIDATES < second["seed"] <= 2 * CANDIDATES
    assert {"state", "event", "count", "faults"} == last["coverage"][0].keys()
