"""Seeds of every scheme, reproducible runs, and the report of a failure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from effort import amount, usual_and_long

from mockbroker.cli.simulate import SCHEME_NAMES
from mockbroker.cli.simulate import command as simulate
from mockbroker.lab.simulation.history import READ_COMMITTED, READ_UNCOMMITTED, Result
from mockbroker.lab.simulation.run import Outcome, repeated, run
from mockbroker.lab.simulation.schemes import SCHEMES, swarm
from mockbroker.lab.simulation.script import Fault, Script
from mockbroker.lab.simulation.shrink import Shrinker
from mockbroker.lab.simulation.world import World
from tests.mockbroker.lab.simulation.planted import BUGS

PARTS, SEEDS, EVENTS = 5, amount(20, 300), 400
FAILED_ONCE = [  # what was wrong
    "answer after its coordinator",
    "two JoinGroups at once",
    "static leader of a lost generation",
    "two JoinGroups of a fenced member",
    "metadata of a lost generation",
    "producer id that was given twice",
    "JoinGroup of a leader that was replaced",
    "member id that a static member had",
    "partition given back while reconciling",
    "commit that was decided before a crash",
    "generation of an earlier group",
    "static member that stopped before it revoked",
    "followers of a topic that grew",
    "static leader that stopped before it revoked",
    "marker of a group without a coordinator",
    "static member that is away at a load",
    "static member that is fenced while it is away",
    "InitProducerId before the group is loaded",
]
ONE_SEED = "from mockbroker.lab.simulation.run import run; from mockbroker.lab.simulation.schemes import swarm; print(run(swarm(7, 300)).hash)"


def planted(name: str, patch: pytest.MonkeyPatch) -> None:
    next(bug for bug in BUGS if bug.name == name).plant(patch)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(
    "scheme", ["swarm", "rules", "migration", "streams", "shares", "data", "admin", "mix", "bytes", "upkeep"]
)
def test_no_invariant_is_violated(scheme, part):
    seeds = SEEDS // {"swarm": 1, "migration": 4, "data": 4, "admin": 10, "mix": 10, "bytes": 4, "upkeep": 4}.get(
        scheme, 2
    )
    for seed in range(part, seeds, PARTS):
        outcome = run(SCHEMES[scheme](seed, EVENTS))
        assert not outcome.broken, (
            f"mockbroker simulate --scheme {scheme} --seed {seed} --events {EVENTS}: {outcome.broken} {outcome.text}"
        )


def test_fault_rules_are_applied():
    applied = 0
    for seed in range(5):
        world = World(SCHEMES["rules"](seed, EVENTS))
        rules = list(world.shell.rules)
        world.run()
        applied += sum(rule.counters.applied for rule in rules)
    assert applied


@pytest.mark.parametrize(
    "seed",
    [
        120038,
        900182,
        918352,
        3884039826,
        3884040943,
        1833343020,
        2829768356,
        2829776849,
        1200218420,
        2975488033,
        2975478899,
        2975488926,
        2975490245,
        2975480740,
        2975492197,
        2975483577,
        2975493715,
        2975490110,
    ],
    ids=FAILED_ONCE,
)
def test_seeds_that_failed_in_the_past(seed):
    outcome = run(swarm(seed, 1_000))
    assert not outcome.broken, outcome.text


@pytest.mark.parametrize(
    ("scheme", "seed"),
    usual_and_long(
        [("migration", 900_201), ("migration", 920_135), ("migration", 920_193)],
        [("mix", 900_045), ("mix", 920_005), ("admin", 900_037), ("mix", 900_001), ("admin", 920_145)],
    ),
)
def test_seeds_of_other_schemes_that_failed_in_the_past(scheme, seed):
    outcome = run(SCHEMES[scheme](seed, 1_000))
    assert not outcome.broken, outcome.text


@pytest.mark.parametrize("scheme", ["lite", "calm"])
def test_the_other_schemes(scheme):
    for seed in range(10):
        outcome = run(SCHEMES[scheme](seed, EVENTS))
        assert not outcome.broken, f"seed {seed}: {outcome.broken} {outcome.text}"


def test_clients_of_the_scheme_data_read_and_write():
    world = World(SCHEMES["data"](0, EVENTS))
    world.run()
    history = world.history
    assert any(write.result is Result.DONE for write in history.writes)
    assert any(transaction.is_committed for transaction in history.transactions)
    assert {read.isolation for read in history.reads} == {READ_UNCOMMITTED, READ_COMMITTED}
    assert any(operation.transaction for operation in history.offsets)


def test_members_of_migrating_groups_change_their_protocol():
    events: set[str] = set()
    for seed in range(8):
        world = World(SCHEMES["migration"](seed, EVENTS))
        world.shell.router.journal.listeners.append(lambda event: events.add(event.event))
        world.run()
    assert {"upgrade", "downgrade"} <= events


def test_the_command_knows_the_schemes():
    assert tuple(SCHEMES) == SCHEME_NAMES


def test_runs_of_one_seed_are_the_same():
    outcome = repeated(swarm(3, EVENTS))
    assert not outcome.broken
    assert outcome.hash != run(swarm(4, EVENTS)).hash


@pytest.mark.parametrize("hash_seed", ["0", "1", "4711"])
def test_the_hash_is_the_same_in_every_process(hash_seed):
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", ONE_SEED], env=environment, capture_output=True, text=True, check=True, cwd=Path.cwd()
    )
    assert done.stdout.strip() == run(swarm(7, 300)).hash


def test_everything_that_can_go_wrong_does():
    kinds = {fault.kind for seed in range(60) for fault in swarm(seed, EVENTS).faults}
    assert {
        "power",
        "fsync",
        "kill-broker",
        "move",
        "stall",
        "jump",
        "swizzle",
        "lose-answer",
        "clog",
        "crash",
    } <= kinds


def test_failing_script_is_shrunk(monkeypatch):
    planted("a_static_member_joins_twice", monkeypatch)
    seed = next(seed for seed in range(100) if run(swarm(seed, EVENTS)).broken == "I13")
    outcome = run(swarm(seed, EVENTS))
    best = Shrinker(outcome).shrink()
    assert best.broken == "I13"
    assert len(best.script.members) <= len(outcome.script.members)
    assert len(best.script.faults) < len(outcome.script.faults)
    assert run(best.script).hash == best.hash


def test_smaller_scripts_raise_the_same_exception():
    script = swarm(7, EVENTS)

    def attempt(smaller: Script) -> Outcome:
        text = "KeyError: 6" if smaller.members == script.members else "AssertionError: no member"
        return Outcome(smaller, "", 10, 20, 0.0, "raised", text)

    best = Shrinker(Outcome(script, "", 300, 600, 0.0, "raised", "KeyError: 5"), attempt).shrink()
    assert (best.text, best.script.members, best.script.faults) == ("KeyError: 6", script.members, ())


def test_fault_as_text():
    assert str(Fault(12, "clog", 3, 0.5)) == "    12  clog 3 0.500"


def test_command_prints_the_violated_invariant(monkeypatch):
    planted("a_rebalance_increases_the_generation_by_two", monkeypatch)
    result = CliRunner().invoke(simulate, ["--seed", "2", "--events", "300"])
    assert result.exit_code == 1
    assert result.output.startswith("seed 2 of swarm: I2 is broken: ")
    assert "the smallest of" in result.output
    assert "last " in result.output


def test_the_command_in_json():
    result = CliRunner().invoke(simulate, ["--seed", "5", "--seeds", "2", "--events", "100", "--json"])
    assert result.exit_code == 0
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(line["seed"], line["scheme"], line["broken"]) for line in lines] == [
        (5, "swarm", None),
        (6, "swarm", None),
    ]
