"""Durations and stops are those of the broker's journal and of the members, to the microsecond.

A broker in virtual time, members that act at chosen moments, and a capture in which each frame has exactly the time at
which it was sent.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from effort import amount
from tools.captured_members import CapturedWorld, micros

WORDS = {"rejoined as leader": "metadata"}


def truth(world: CapturedWorld) -> Iterator[tuple[Any, ...]]:
    """Return each rebalance of the journal: generation, trigger, member, begin, end of the joins, end, members."""
    ends: dict[int, float] = {}
    synced: set[tuple[int, str]] = set()
    listed = {(event.generation, member) for _, event in world.happened for member in event.members}
    for now, event in world.happened:
        place = event.generation, event.member_id
        if event.event == "assign" or (event.event == "sync" and event.generation in ends and place in listed - synced):
            ends[event.generation] = now
        if event.event == "sync":
            synced.add(place)
    begun: tuple[float, str] = (0.0, "")
    expired = ""
    for now, event in world.happened:
        if event.event == "expire":
            expired = event.member_id
        if event.event == "rebalance":
            begun = now, event.reason
        elif event.event in ("generation", "empty"):
            began, reason = begun
            trigger, who = said(reason, expired)
            end = now if event.event == "empty" else ends.get(event.generation)
            yield (
                event.generation,
                trigger,
                who,
                micros(began),
                micros(now),
                None if end is None else micros(end),
                sorted(event.members),
            )


def said(reason: str, expired: str) -> tuple[str, str]:
    if reason.endswith(" members did not sync"):
        return "sync timeout", expired
    if reason.startswith("session of "):
        return "expired", reason.removeprefix("session of ").removesuffix(" timed out")
    member, _, why = reason.partition(" ")
    return WORDS.get(why, why), member


def stops(world: CapturedWorld) -> dict[tuple[int, str], tuple[int | None, int]]:
    """Return when each member of a generation stopped, or a former member last read, and when it received its share."""
    waits = {
        (generation, member): (None if asked is None else micros(asked), micros(now))
        for one in world.members
        for generation, member, asked, now in one.waits
    }
    owners: dict[int, str] = {}
    unread: dict[int, int] = {}
    for generation, _, _, _, begun, _, members in truth(world):
        shares = world.plans.get(generation, {})
        if not members:
            owners, unread = {}, {}
        if not any(number == generation for number, _ in waits):
            continue
        for partition, owner in owners.items():
            if owner not in members:
                left = world.named[owner].left
                gone = world.last_frame(world.named[owner], begun) if left is None else micros(left)
                unread.setdefault(partition, gone)
        for (number, member), (asked, now) in list(waits.items()):
            if number == generation:
                since = [unread.pop(partition) for partition in shares.get(member, ()) if partition in unread]
                waits[number, member] = min([*since, *([] if asked is None else [asked])], default=None), now
        owners |= {partition: member for member, share in shares.items() for partition in share}
    return waits


FACTS = ["to_generation", "trigger", "trigger_member", "started_ts", "joined_ts", "ended_ts", "members_after"]


def alone(world: CapturedWorld) -> None:
    world.member("a", 1.000_003)
    world.run(3)


def second_joins(world: CapturedWorld) -> None:
    world.member("a", 1.000_003)
    world.member("b", 2.345_678)
    world.run(5)


def leaves(world: CapturedWorld) -> None:
    world.member("a", 1.000_003)
    b = world.member("b", 2.345_678)
    world.at(4.000_111, b, b.leave)
    world.run(7)


def everybody_leaves(world: CapturedWorld) -> None:
    a, b = world.member("a", 1.000_003), world.member("b", 1.345_678)
    world.at(4.000_111, b, b.leave)
    world.at(6.000_222, a, a.leave)
    world.run(8)


def session_runs_out(world: CapturedWorld) -> None:
    world.member("a", 1.000_003)
    b = world.member("b", 2.345_678)
    world.at(4.000_111, b, b.stop)
    world.run(12)


def static_restart(world: CapturedWorld) -> None:
    world.member("a", 1.000_003, instance="one")
    b = world.member("b", 2.345_678, instance="two")
    world.at(4.000_111, b, b.stop)
    world.member("b2", 5.200_007, instance="two")
    world.run(9)


def never_syncs(world: CapturedWorld) -> None:
    world.member("a", 1.000_003, session=30.0)
    world.member("b", 2.345_678, session=30.0, rebalance=2.0, syncs=False)
    world.run(20)


def never_rejoins(world: CapturedWorld) -> None:
    """B keeps its session, but does not rejoin in the rebalance that C triggers, and is removed after the timeout."""
    world.member("a", 1.000_003, session=30.0, rebalance=2.0)
    b = world.member("b", 2.345_678, session=30.0, rebalance=2.0)
    world.at(4.000_111, b, b.stop)
    world.member("c", 4.100_009, session=30.0, rebalance=2.0)
    world.run(20)


STORIES = [
    alone,
    second_joins,
    leaves,
    everybody_leaves,
    session_runs_out,
    static_restart,
    never_syncs,
    never_rejoins,
]


def check(world: CapturedWorld, tmp_path: Path) -> None:
    tables = world.tables(tmp_path)
    rows = [row for row in tables["rebalances"] if row["to_generation"] is not None]
    last = max(segment.time_us for segment in world.segments())
    expected = [
        line for line in truth(world) if line[4] <= last
    ]  # a rebalance without any response is not in a capture
    assert [tuple(row[name] for name in FACTS) for row in rows] == expected
    for row in rows:
        if row["ended_ts"] is not None:
            assert row["duration_ms"] == (row["ended_ts"] - row["started_ts"]) / 1000
    expected = stops(world)
    back = {row["member_id"] for row in tables["group_events"] if row["event"] == "static_restart"}
    results = {
        (row["generation"], row["member_id"]): (row["stopped_ts"], row["resumed_ts"])
        for row in tables["members"]
        if row["resumed_ts"] is not None and row["member_id"] not in back
    }
    assert results == {place: stop for place, stop in expected.items() if place[1] not in back}
    assert [row for row in tables["violations"] if row["kind"] != "heartbeat_gap"] == []


@pytest.mark.parametrize("story", STORIES)
def test_exact(story: Callable[[CapturedWorld], None], tmp_path: Path) -> None:
    world = CapturedWorld()
    story(world)
    check(world, tmp_path)


@pytest.mark.parametrize("seed", range(amount(20, 60)))
def test_exact_whatever_happens(seed: int, tmp_path: Path) -> None:
    """Five to eight members join, leave and die at any moment."""
    chance = random.Random(seed)
    world = CapturedWorld(**{"group.initial.rebalance.delay.ms": chance.choice([0, 500])})
    for number in range(chance.randint(5, 8)):
        begins = round(chance.uniform(1, 12), 6)
        member = world.member(f"m{number}", begins, session=chance.choice([1.5, 3.0]))
        ends = begins + round(chance.uniform(2, 15), 6)
        what = chance.choice([member.leave, member.stop, None])
        if what is not None:
            world.at(ends, member, what)
    world.run(40)
    check(world, tmp_path)
