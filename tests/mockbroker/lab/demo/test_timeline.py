"""The timeline that the demo prints."""

from __future__ import annotations

import json

from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.journal import Event
from mockbroker.lab.demo import TOPIC
from mockbroker.lab.demo.checks import Check
from mockbroker.lab.demo.timeline import Action, JsonTimeline, PlainTimeline, choose

MEMBERS = ("a-6a1ff1de-5b3c-4e9e-9d1a-1c2d3e4f5a6b", "b-0b1ff1de-5b3c-4e9e-9d1a-1c2d3e4f5a6b")
EVENTS = [
    Event(time_ms=5, event=EventKind.ID_GIVEN, group="demo", client="a", member_id=MEMBERS[0]),
    Event(time_ms=7, event=EventKind.JOIN, group="demo", client="a", member_id=MEMBERS[0], generation=0),
    Event(time_ms=8, event=EventKind.REBALANCE, group="demo", reason=f"{MEMBERS[0]} joined"),
    Event(
        time_ms=1234,
        event=EventKind.GENERATION,
        group="demo",
        generation=1,
        leader=MEMBERS[0],
        protocol="range",
        members=MEMBERS,
    ),
    Event(
        time_ms=1240,
        event=EventKind.ASSIGN,
        group="demo",
        client="a",
        member_id=MEMBERS[0],
        generation=1,
        assignment={TOPIC: [1, 0]},
    ),
    Event(
        time_ms=1240,
        event=EventKind.ASSIGN,
        group="demo",
        client="b",
        member_id=MEMBERS[1],
        generation=1,
        assignment={},
    ),
    Event(time_ms=1300, event=EventKind.COMMIT, group="demo", client="a", offsets={TOPIC: {1: 20, 0: 10}}),
    Event(time_ms=1400, event=EventKind.EXPIRE, group="demo", client="b", reason="no heartbeat for 2 s"),
]
ACTIONS = [Action(10, "start", "a", "starts"), Action(1500, "kill", "a", "")]
CHECKS = [Check("it works", True, "seen"), Check("it flies", False, "not seen")]


def test_sentences() -> None:
    lines: list[str] = []
    timeline = PlainTimeline(lines.append)
    for event in EVENTS:
        timeline.event(event)
    timeline.checks(CHECKS)
    assert [" ".join(line.split()) for line in lines] == [
        "0.007 s a joins the group",
        "0.008 s rebalance: a joined",
        "1.234 s generation 1 begins: members a, b; leader a, strategy range",
        "1.240 s generation 1 owns b: nothing a: 0 1",
        "1.300 s a commits 0:10 1:20",
        "1.400 s b is evicted: no heartbeat for 2 s",
        "",
        "ok it works (seen)",
        "FAILED it flies (not seen)",
    ]


def test_json_lines() -> None:
    lines: list[str] = []
    timeline = JsonTimeline(lines.append)
    for event in EVENTS:
        timeline.event(event)
    timeline.checks(CHECKS)
    results = [json.loads(line) for line in lines]
    assert results[4] == {
        "time_ms": 1240,
        "client": "a",
        "member_id": MEMBERS[0],
        "event": "assign",
        "generation": 1,
        "assignment": {TOPIC: [1, 0]},
    }
    assert results[-1]["checks"][1] == {"name": "it flies", "held": False, "detail": "not seen"}


def test_sentences_of_actions() -> None:
    lines: list[str] = []
    timeline = PlainTimeline(lines.append)
    for action in ACTIONS:
        timeline.action(action)
    assert [" ".join(line.split()) for line in lines] == ["0.010 s a starts", "1.500 s a is killed"]


def test_json_lines_of_actions() -> None:
    lines: list[str] = []
    timeline = JsonTimeline(lines.append)
    for action in ACTIONS:
        timeline.action(action)
    always = {"client": "a", "member_id": "", "generation": -1, "assignment": {}}
    assert [json.loads(line) for line in lines] == [
        {"time_ms": 10, "event": "start", "reason": "starts", **always},
        {"time_ms": 1500, "event": "kill", **always},
    ]


def test_output_without_terminal_has_no_colours() -> None:
    assert type(choose(as_json=False, write=str)) is PlainTimeline
    assert type(choose(as_json=True, write=str)) is JsonTimeline
