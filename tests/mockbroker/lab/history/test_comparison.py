"""One story under every scheme: it always runs the same way, agrees with docs/history.md, and ends with an owner for
every partition."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from click.testing import CliRunner
from effort import amount, usual_and_long
from golden import ROOT

from mockbroker.cli.history_lines import ALL
from mockbroker.cli.simulate import HISTORY_NAMES
from mockbroker.cli.simulate import command as simulate
from mockbroker.lab.history.comparison import SCHEMES, Measured, measure
from mockbroker.lab.history.experiments import experiments
from mockbroker.lab.history.story import CRASH, DEFAULT, GROW, JOIN, LAG, LEAVE, Step, Story, drawn
from mockbroker.lab.simulation.watching import Broken

SEEDS = amount(8, 25)


@pytest.fixture(scope="module")
def measured() -> dict[str, Measured]:
    return {name: measure(name, DEFAULT) for name in SCHEMES}


def lines(*args: str) -> list[str]:
    result = CliRunner().invoke(simulate, args)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def test_the_command_knows_the_schemes():
    assert tuple(SCHEMES) == HISTORY_NAMES


def test_one_report_of_all_schemes(measured):
    """The schemes differ in messages, notifications of watches, time to settle, and partitions with two readers or
    none."""
    results = [each.line() for each in measured.values()]
    assert [line["scheme"] for line in results] == list(SCHEMES)
    by_name = {line["scheme"]: line for line in results}
    assert [line["watchers"] for line in results] == [
        8,
        3,
        2,
        0,
        0,
        0,
    ]  # consumers; coordinators; coordinators that have groups; none
    notifications = [line["notifications"] for line in results]
    assert notifications == sorted(notifications, reverse=True)
    assert notifications[0] > 3 * notifications[1] > notifications[2] > 0
    assert notifications[3:] == [0, 0, 0]
    assert [line["double_reads"] > 0 for line in results] == [True, False, False, False, False, False]
    assert by_name["zookeeper"]["rebalances"] > 4 * by_name["classic"]["rebalances"]
    assert by_name["cooperative"]["moved"] < by_name["classic"]["moved"]
    assert by_name["zookeeper"]["settle_longest_seconds"] > 2 * by_name["classic"]["settle_longest_seconds"]


def test_history_page_has_the_output_of_the_command():
    page = (ROOT / "docs" / "history.md").read_text("utf-8")
    for line in lines("--scheme", ALL):
        assert line in page


@pytest.mark.long
def test_history_page_has_the_experiments():
    page = (ROOT / "docs" / "history.md").read_text("utf-8")
    tried = experiments(SCHEMES)
    for name in SCHEMES:
        herds = map(str, tried.herds[name].values())
        splits = (f"{each.unread:.2f} / {each.double:.2f}" for each in tried.splits[name].values())
        slows = (f"{seconds:.2f}" for seconds in tried.slows[name].values())
        for cells in (herds, splits, slows):
            assert f"| {name} | {' | '.join(cells)} |" in page


def test_changes_add_up_to_the_totals(measured):
    for each in measured.values():
        for what in ("messages", "notifications", "rebalances", "moved"):
            assert sum(getattr(change, what) for change in each.changes) <= getattr(each, what)
        assert each.double == pytest.approx(sum(o.end - o.begin for o in each.overlaps))
        assert 0 <= each.stopped <= each.unread


def test_every_scheme_reads_everything_in_the_end(measured):
    """The bands of each partition cover the time with a reader, and at the end every partition has one."""
    for each in measured.values():
        assert each.changes[-1].settled is not None
        last = {(band.group, band.place) for band in each.bands if band.end == DEFAULT.end}
        assert last == {(group, ("orders", number)) for group in "AB" for number in range(16)}


@pytest.mark.parametrize("name", SCHEMES)
def test_the_same_story_runs_the_same_way(name):
    first = measure(name, drawn(4))
    assert measure(name, drawn(4)) == first
    assert measure(name, drawn(5)) != first


@pytest.mark.parametrize("hash_seed", usual_and_long(["4711"], ["0"]))
def test_run_is_the_same_in_every_process(hash_seed, measured):
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-m", "mockbroker", "simulate", "--scheme", ALL, "--json"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert [json.loads(line) for line in result.splitlines()] == [each.line() for each in measured.values()]


@pytest.mark.parametrize("name", [name for name, kind in SCHEMES.items() if kind.exclusive])
def test_random_stories(name):
    """In schemes with a coordinator, a partition never has two readers, and each change settles before the next."""
    for seed in range(amount(5, 25)):
        result = measure(name, drawn(seed))
        assert (result.overlaps, result.unsettled) == ((), 0), f"mockbroker simulate --scheme {name} --seed {seed}"


def test_random_stories_give_two_readers_with_watchers():
    """Some of the same stories give two readers, or a change that has not settled when the next one begins."""
    results = [measure("zookeeper", drawn(seed)) for seed in range(SEEDS)]
    assert any(each.overlaps for each in results)
    assert any(each.unsettled for each in results)


def test_watchers_have_no_two_readers_without_a_lag():
    """Without lagging servers, the same stories never give two readers, so only stale data causes them."""
    for seed in range(2 * SEEDS):
        story = drawn(seed)
        steps = tuple(step for step in story.steps if step.kind != LAG)
        result = measure("zookeeper", replace(story, steps=steps))
        assert (result.overlaps, result.unsettled) == ((), 0), f"seed {seed}"


def test_random_stories_have_all_kinds_of_steps():
    stories = [drawn(seed) for seed in range(SEEDS)]
    assert {step.kind for story in stories for step in story.steps} == {JOIN, LEAVE, CRASH, GROW, LAG}
    assert len({story.steps for story in stories}) == SEEDS
    for story in stories:
        up: set[str] = set()
        for step in story.steps:  # check that no consumer joins twice or leaves without having joined
            if step.kind == JOIN:
                assert step.name not in up
                up.add(step.name)
            elif step.kind in (LEAVE, CRASH):
                up.remove(step.name)


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (Step(0, JOIN, "c1"), "c1 joins"),
        (Step(0, LEAVE, "c1"), "c1 leaves"),
        (Step(0, CRASH, "c1"), "c1 crashes"),
        (Step(0, GROW, "t", 4), "t grows to 4 partitions"),
        (Step(0, LAG, value=2.5), "a ZooKeeper server lags 2.5 s"),
        (Step(0, LAG), "no server lags any more"),
    ],
)
def test_step_as_text(step, text):
    assert str(step) == text


def test_one_scheme_prints_each_change():
    result = lines("--scheme", "server", "--seed", "3")
    assert result[0].startswith("the story of seed 3: ")
    assert result[2].startswith("server ")
    assert len(result) == 3 + len({step.at for step in drawn(3).steps})


def test_seeds_one_after_another():
    results = [json.loads(line) for line in lines("--scheme", "consumer", "--seed", "7", "--seeds", "3", "--json")]
    assert [(line["scheme"], line["seed"]) for line in results] == [("consumer", n) for n in (7, 8, 9)]


@pytest.mark.parametrize(
    "args", [("--html", "x"), ("--scheme", "lite", "--html", "x"), ("--scheme", ALL, "--seeds", "2", "--html", "x")]
)
def test_story_without_bands_has_a_page(args):
    result = CliRunner().invoke(simulate, args)
    assert result.exit_code == 2
    assert "--html " in result.stderr


def test_exclusive_scheme_with_two_readers_is_reported(monkeypatch):
    def broken(name: str, story: Story) -> Measured:
        raise Broken("I1", "two of them")

    monkeypatch.setattr("mockbroker.cli.history_lines.measure", broken)
    result = CliRunner().invoke(simulate, ["--scheme", "classic", "--seed", "11"])
    assert result.exit_code == 1
    assert result.stderr == "Error: seed 11 under classic: invariant I1 is broken: two of them\n"


@pytest.mark.parametrize("name", SCHEMES)
def test_a_broker_reads_a_topic_before_it_is_created(name: str) -> None:
    """With this seed, the first broker is connected to a server that is not the leader, so its read
    is answered before the leader has decided about its write."""
    assert measure(name, drawn(71_387)).messages


@pytest.mark.parametrize("option", [["--events", "1000"], ["--coverage"], ["--steer"]], ids=lambda option: option[0])
def test_option_of_the_fault_schemes_is_rejected(option: list[str]) -> None:
    result = CliRunner().invoke(simulate, ["--scheme", "server", *option])
    assert result.exit_code == 2
    assert f"{option[0]} has no effect with the rebalance protocols" in result.stderr
