"""Each check of the demo can fail."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.journal import Event
from mockbroker.lab.demo import KINDS, PARTITIONS, TOPIC
from mockbroker.lab.demo.checks import Story, assignments, check_all

KAFKA_PYTHON, CONFLUENT, AIOKAFKA = KINDS


def assign(client: str, generation: int, partitions: list[int], time_ms: int = 0) -> Event:
    return Event(
        time_ms=time_ms,
        event=EventKind.ASSIGN,
        group="demo",
        client=client,
        generation=generation,
        assignment={TOPIC: partitions},
    )


def good_story() -> Story:
    """Return the story of a run in which every check passes."""
    return Story(
        events=[
            assign(KAFKA_PYTHON, 1, [0, 1]),
            assign(CONFLUENT, 1, [2, 3]),
            assign(AIOKAFKA, 1, [4, 5]),
            Event(time_ms=1100, event=EventKind.LEAVE, group="demo", client=KAFKA_PYTHON),
            Event(time_ms=4000, event=EventKind.EXPIRE, group="demo", client=AIOKAFKA),
        ],
        produced=6,
        read={KAFKA_PYTHON: [0, 1], CONFLUENT: [2, 3], AIOKAFKA: [4, 5, 5]},
        committed=dict.fromkeys(range(PARTITIONS), 1),
        ends=dict.fromkeys(range(PARTITIONS), 1),
        stopped=KAFKA_PYTHON,
        stopped_at=1000,
        killed=AIOKAFKA,
        killed_at=2000,
    )


def held(story: Story) -> list[bool]:
    return [check.held for check in check_all(story)]


def test_all_checks_pass_for_a_good_story() -> None:
    assert held(good_story()) == [True] * 6


def without(story: Story, event: str) -> list[Event]:
    return [e for e in story.events if e.event != event]


SPOILED = [  # what goes wrong, number of the check that fails, the change to the story
    ("a partition has two owners", 1, lambda s: s.events.append(assign("other", 1, [0]))),
    ("a partition has no owner", 1, lambda s: s.events.append(assign(CONFLUENT, 2, [0, 1, 2, 3, 4]))),
    ("two kinds only", 0, lambda s: s.events.remove(s.events[0])),
    ("nothing was assigned", 1, lambda s: s.events.clear()),
    ("a record is missing", 2, lambda s: s.read[CONFLUENT].remove(3)),
    ("nothing was produced", 2, lambda s: setattr(s, "produced", 0)),
    ("no leave", 3, lambda s: setattr(s, "events", without(s, "leave"))),
    ("leaving took a session", 3, lambda s: setattr(s, "stopped_at", -2000)),
    ("no eviction", 4, lambda s: setattr(s, "events", without(s, "expire"))),
    ("evicted too early", 4, lambda s: setattr(s, "killed_at", 3500)),
    ("evicted too late", 4, lambda s: setattr(s, "killed_at", 500)),
    ("a commit is lost", 5, lambda s: setattr(s, "committed", {**s.committed, 3: None})),
    ("nothing was read back", 5, lambda s: setattr(s, "ends", {})),
]


@pytest.mark.parametrize(("_what", "index", "spoil"), SPOILED, ids=[what for what, _, _ in SPOILED])
def test_each_check_can_fail(_what, index, spoil) -> None:
    story = good_story()
    spoil(story)
    assert not held(story)[index]


def test_aborted_story_fails() -> None:
    checks = check_all(replace(good_story(), failure="not within 60 s: aiokafka owns partitions"))
    assert (checks[0].held, checks[0].detail) == (False, "not within 60 s: aiokafka owns partitions")


def test_assignments_by_generation() -> None:
    assert assignments(good_story().events) == {1: {KAFKA_PYTHON: [0, 1], CONFLUENT: [2, 3], AIOKAFKA: [4, 5]}}
