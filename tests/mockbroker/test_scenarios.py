"""The fifteen scenarios of scenarios.py in virtual time: every kind of member in every condition, with all errors that
members get."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from golden import ROOT
from scenarios import MOMENTS, SCENARIOS, Scenario
from scenarios import page as table
from tools.coordinator_kill import CoordinatorKill
from tools.failover_members import (
    GROUP,
    PARTITIONS,
    REBALANCE,
    RECORDS,
    FailoverClassicMember,
    FailoverConsumerMember,
    FailoverMember,
    FailoverWorld,
)

from mockbroker.groups.classic.state import ClassicGroup, State

KINDS: dict[str, tuple[type[FailoverMember], bool]] = {  # kind of member -> class, whether it is static
    "classic": (FailoverClassicMember, False),
    "static": (FailoverClassicMember, True),
    "consumer": (FailoverConsumerMember, False),
    "static consumer": (FailoverConsumerMember, True),
}
CONDITIONS = {
    "at once": {},
    "read for a second": {"mockbroker.coordinator.load.ms": 1_000},
    "noticed late": {"noticed_after": 2.0},
    "stale metadata": {"stale": True},
    "everything": {"mockbroker.coordinator.load.ms": 1_000, "noticed_after": 2.0, "stale": True},
}
BOUND = 2 * REBALANCE + 4.0  # seconds; the last part is for the delays of the conditions
CASES = [
    (scenario, request, kind)
    for scenario in SCENARIOS
    for kind, (member, _) in KINDS.items()
    for request in getattr(scenario.step, member.group_type)
]
OUTCOMES = ROOT / "fixtures" / "failover" / "outcomes.txt"  # PYTHONPATH=tests python tests/mockbroker/test_scenarios.py


@dataclass
class Outcome:
    """The end of a scenario.

    Attributes:
        world: the world, when it was at rest again.
        killed: the broker that was killed.
        before: the generation when the coordinator died.
        seconds: time from the death of the coordinator until the last assignment of a member.
        joined: how often each member has joined since then.
        heard: API and error of each failed request of each member.
    """

    world: FailoverWorld
    killed: int
    before: int
    seconds: float
    joined: dict[str, int]
    heard: dict[str, list[tuple[str, str]]]

    def line(self) -> str:
        """Return the generations, the members that joined, and the members that got each error, in the order of their
        names."""
        by_answer: dict[str, list[str]] = {}
        for name, received in sorted(self.heard.items()):
            for api, error in dict.fromkeys(received):
                by_answer.setdefault(f"{api} {error}", []).append(name)
        received = "; ".join(f"{what}: {' '.join(names)}" for what, names in sorted(by_answer.items()))
        joined = " ".join(f"{name}{times if times > 1 else ''}" for name, times in sorted(self.joined.items()) if times)
        return f"{self.before} -> {generation_of(self.world)}, {self.seconds:.1f} s, joins: {joined or '-'}, {received or '-'}"


def play(scenario: Scenario, request: str, kind: str, condition: str = "at once") -> Outcome:
    """Kill the coordinator while an actor and other members use a group; return the state when it is at rest again.
    Raises: AssertionError if the group does not recover."""
    of, static = KINDS[kind]
    world = FailoverWorld(**CONDITIONS[condition])
    leaves = request in ("LeaveGroup", "ConsumerGroupHeartbeat, epoch -1")
    standing = ["a", "b", "c"] if leaves else ["a", "b"]
    for name in standing:
        world.member(name, of, f"instance-{name}" if static else None)
    world.run(2.0)
    assert at_rest(world)
    before = generation_of(world)
    received = {name: len(member.errors) for name, member in world.members.items()}
    joins = {name: member.joins for name, member in world.members.items()}
    actor = "c" if scenario.step.newcomer or leaves else "a"
    kill = CoordinatorKill(world, GROUP, request, scenario.moment, "" if request == "SyncGroup" else actor)
    if scenario.step.newcomer:
        world.member("c", of, "instance-c" if static else None)
    elif leaves:
        world.members["c"].leave()
    world.run(10.0, lambda: kill.killed is not None)
    assert kill.killed is not None, "no request was made"
    world.run(1.0)
    while not at_rest(world):
        world.run(0.5)
        assert world.now < world.struck_at + BOUND, [event.to_json() for event in world.journal.events]
    world.run(1.0)
    assert at_rest(world)
    return Outcome(
        world,
        kill.killed,
        before,
        max(0.0, *(member.changed_at - world.struck_at for member in world.members.values())),
        {name: member.joins - joins.get(name, 0) for name, member in world.members.items()},
        {
            name: [failed[1:] for failed in member.errors[received.get(name, 0) :]]
            for name, member in world.members.items()
        },
    )


def generation_of(world: FailoverWorld) -> int:
    group = world.broker.groups[GROUP]
    return group.generation if isinstance(group, ClassicGroup) else group.epoch


def at_rest(world: FailoverWorld) -> bool:
    """Return whether the group and its members agree on the generation, and each partition has exactly one reader."""
    group, there = world.broker.groups.get(GROUP), [each for each in world.members.values() if not each.gone]
    if group is None or set(group.members) != {member.member_id for member in there}:
        return False
    if isinstance(group, ClassicGroup):
        agreed = group.state is State.STABLE
    else:
        agreed = all(member.epoch == group.epoch for member in group.members.values())
    current = {member.generation for member in there} == {generation_of(world)}
    owned = sorted(index for member in there for index in member.owned)
    return agreed and current and owned == list(range(PARTITIONS)) and all(None not in m.owned.values() for m in there)


def check_nothing_lost(world: FailoverWorld) -> None:
    """Check that every record was read, and that acknowledged commits are stored. Each member checks that it reads no
    record twice."""
    read = {record for member in world.members.values() for record in member.records}
    assert read == {(index, at) for index in range(PARTITIONS) for at in range(RECORDS)}
    committed = {place[1]: each.offset for place, each in world.broker.groups[GROUP].offsets.committed.items()}
    assert all(committed.get(index, 0) >= offset for index, offset in world.acknowledged.items())


def written(world: FailoverWorld) -> list[int]:
    """Return the generations that coordinators loaded, and those that members got, in order."""
    return [event.generation for event in world.journal.events if event.event in ("load", "assign")]


USUAL = 2  # number of conditions of each case, which rotate; ``make test-long`` runs all


def cases() -> Iterator[Any]:
    """Yield every case in every condition."""
    for number, case in enumerate(CASES):
        for turn, condition in enumerate(CONDITIONS):
            usual = (turn - number) % len(CONDITIONS) < USUAL
            names = [case[0].name, *case[1:], condition]
            yield pytest.param(*case, condition, marks=[] if usual else pytest.mark.long, id="-".join(names))


@pytest.mark.parametrize(("scenario", "asked", "kind", "condition"), list(cases()))
def test_the_group_survives(scenario: Scenario, asked: str, kind: str, condition: str) -> None:
    outcome = play(scenario, asked, kind, condition)
    world, generation = outcome.world, generation_of(outcome.world)
    if KINDS[kind][0] is FailoverClassicMember:
        assert written(world) == sorted(written(world))
    world.start(outcome.killed)
    before = {name: (len(member.errors), member.joins) for name, member in world.members.items()}
    while any(at < RECORDS for member in world.members.values() for at in member.owned.values()):
        world.run(0.5)
    assert at_rest(world)
    assert generation_of(world) == generation
    assert {name: (len(member.errors), member.joins) for name, member in world.members.items()} == before
    check_nothing_lost(world)


def outcomes() -> str:
    """Return the outcomes of all cases, for a next coordinator that is available at once."""
    lines = []
    for scenario, request, kind in CASES:
        lines += [f"{scenario.name}: {request}, {kind}", f"    {play(scenario, request, kind).line()}"]
    return "\n".join(lines) + "\n"


def test_to_the_last_error() -> None:
    assert outcomes() == OUTCOMES.read_text("utf-8")


def test_page_has_all_scenarios() -> None:
    page = (ROOT / "docs" / "failover.md").read_text("utf-8")
    assert "\n".join(table()) in page
    assert all(f"- {name}: {what}" in page for name, what in MOMENTS.items())


def test_the_example_of_the_page() -> None:
    (block,) = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "docs" / "failover.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    exec(compile(block, "docs/failover.md", "exec"), {})


if __name__ == "__main__":
    OUTCOMES.write_text(outcomes(), "utf-8")
