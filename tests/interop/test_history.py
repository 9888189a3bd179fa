"""The history derived from a capture of real clients equals the broker's journal.

The clients reach the broker through a forwarder that records both directions, byte by byte, into a pcap file; the
journal is written by the broker, independently of the forwarder.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import trio
from interop.stage import CONFIG, MARKS, Member, Stage, stage_of

from kwire.analysis.columns import Row
from kwire.analysis.run import analyse
from kwire.capture import Call, Connection, read
from mockbroker import Event, run_cluster

pytestmark = MARKS

RECORDER = Path(__file__).parents[1] / "tools" / "recorder.py"
NEAR = 50.0  # ms by which most times of capture and journal may differ
FAR = 1000.0  # ms by which any of these times may differ, because a busy machine sometimes delays a process


@dataclass
class Played:
    """A story in the broker's journal and in the capture. ``begin``: time 0 of the journal, in µs since 1970."""

    events: list[Event]
    begin: float
    tables: dict[str, Sequence[Row]]


@contextmanager
def recorded(file: Path) -> Iterator[Callable[[int], int]]:
    """Yield a function that starts a forwarder to a port; the file is complete after the block."""
    processes: list[subprocess.Popen[str]] = []

    def start(port: int) -> int:
        words = [sys.executable, str(RECORDER), str(port), str(file)]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        return int(process.stdout.readline())

    try:
        yield start
    finally:
        for process in processes:
            process.communicate()
    assert [process.returncode for process in processes] == [0] * len(processes)


def play(file: Path, story: Callable[[Stage], None]) -> Played:
    """Let clients play a story over a recorded wire."""
    with recorded(file) as start, run_cluster(topics={Stage.topic: Stage.partitions}, config=CONFIG) as cluster:
        port = start(cluster.nodes[0].port)

        def move(inside: Any) -> float:
            """Advertise the forwarder's address; return time 0 of the journal."""
            nodes = inside._router.broker.cluster.nodes
            for number, node in list(nodes.items()):
                nodes[number] = replace(node, port=port, ports=dict.fromkeys(node.ports, port))
            return time.time() - trio.current_time() + float(inside.journal.begin)

        begin = cluster._perform(move) * 1e6
        cluster.bootstrap_servers = f"127.0.0.1:{port}"
        with stage_of(cluster) as stage:  # type: ignore[arg-type]
            story(stage)
        events = cluster.events()
    reading = read(file)
    items = list(reading)
    assert reading.problems == []
    calls = [item for item in items if isinstance(item, Call)]
    connections = [item for item in items if isinstance(item, Connection)]
    return Played(events, begin, analyse(calls, connections, "story"))


def three_families(stage: Stage) -> None:
    """Play joins, a leave and a kill of members of three clients."""
    values = [f"value-{number}" for number in range(60)]
    stage.cluster.produce(stage.topic, values)
    first = stage.joined("aiokafka")
    stage.wait_values(values, first)
    first.commit()
    second = stage.joined("confluent-kafka")
    third = stage.joined("kafka-python")
    second.leave()
    stage.wait_stable({first.name, third.name})
    third.kill()
    stage.wait_stable({first.name})
    first.leave()
    stage.wait("the group to be empty", lambda: stage.events("empty"))


def incremental(stage: Stage) -> None:
    """Play a group of cooperative members, which keep as many partitions as possible."""
    first = stage.joined("confluent-kafka", assignor="cooperative-sticky")
    second = stage.joined("kafka-python", assignor="cooperative-sticky")
    first.leave()
    stage.wait_stable({second.name})
    second.leave()
    stage.wait("the group to be empty", lambda: stage.events("empty"))


def statics(stage: Stage) -> None:
    """Play a static member that is killed and returns within its session: no rebalance."""
    first = stage.joined("kafka-python", instance="one")
    second = stage.joined("confluent-kafka", "second", instance="two")
    old = stage.member_id("second")
    second.kill()
    back = stage.member("confluent-kafka", "second", instance="two")
    stage.wait("the instance to be back", lambda: back.assigned and stage.member_id("second") != old)
    gone: list[Member] = [first, back]
    for member in gone:
        member.leave()


# The names of triggers in the journal, and in the tables.
WORDS = {"rejoined as leader": "metadata", "rejoined with other metadata": "revocation"}
STORIES = [three_families, incremental, statics]


@pytest.fixture(scope="module", params=STORIES, ids=lambda story: story.__name__)
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Played:
    return play(tmp_path_factory.mktemp("capture") / "story.pcap", request.param)


def test_rebalances_are_those_of_the_journal(played: Played) -> None:
    expected = list(_rebalances(played))
    result = played.tables["rebalances"]
    complete = [row for row in result if row["to_generation"] is not None]
    assert len(expected) >= 2
    assert [_facts(row) for row in complete] == [facts for facts, *_ in expected]
    lags = []
    for row, (_, started, ended) in zip(complete, expected, strict=True):
        lags.append(abs(row["started_ts"] - started) / 1000)
        if ended is not None:
            lags.append(abs(row["ended_ts"] - ended) / 1000)
            lags.append(abs(row["duration_ms"] - (ended - started) / 1000))
    assert median(lags) <= NEAR, lags
    assert max(lags) <= FAR, lags


def test_members_are_those_of_the_journal(played: Played) -> None:
    expected = {
        (event.generation, member) for event in played.events if event.event == "generation" for member in event.members
    }
    back = {  # static members that returned without a new generation
        (event.generation, event.member_id)
        for event in played.events
        if event.event == "sync" and _is_back(event, played)
    }
    results = {(row["generation"], row["member_id"]) for row in played.tables["members"]}
    assert results == expected | back
    ends = {event.member_id: event.event for event in played.events if event.event in ("leave", "expire")}
    how = {row["member_id"]: row["left_how"] for row in played.tables["members"]}
    reported = {"leave": "leave", "expire": "silent"}
    assert {member: reported[end] for member, end in ends.items() if member in how} == {
        member: end for member, end in how.items() if end in reported.values()
    }


def test_assignments_are_those_of_the_journal(played: Played) -> None:
    synced = {(event.generation, event.member_id) for event in played.events if event.event == "sync"}
    expected = {
        (event.generation, event.member_id, topic, partition)
        for event in played.events
        if event.event == "assign"
        for topic, partitions in (event.assignment or {}).items()
        for partition in partitions
    }
    results = {
        (row["generation"], row["member_id"], row["topic"], row["partition"]) for row in played.tables["assignments"]
    }
    taken_over = {line for line in results if (line[0], line[1]) not in {e[:2] for e in expected}}
    assert {line[:2] for line in taken_over} <= synced
    assert results - taken_over == expected
    assert not [row for row in played.tables["violations"] if row["kind"] == "two_owners"]


def test_commits_are_those_of_the_journal(played: Played) -> None:
    expected = [
        (topic, partition, offset)
        for event in played.events
        if event.event == "commit"
        for topic, offsets in event.offsets.items()
        for partition, offset in offsets.items()
    ]
    results = [
        (row["topic"], row["partition"], row["offset"])
        for row in played.tables["offset_commits"]
        if row["error_code"] == 0
    ]
    assert sorted(results) == sorted(expected)


def _is_back(event: Event, played: Played) -> bool:
    """Return whether a static member returned without a new generation."""
    listed = {member for e in played.events if e.event == "generation" for member in e.members}
    return event.member_id not in listed


def _facts(row: Row) -> dict[str, Any]:
    return {
        "to": row["to_generation"],
        "trigger": row["trigger"],
        "by": row["trigger_member"],
        "members": sorted(row["members_after"]),
        "leader": row["leader"] or "",
        "protocol": row["protocol_name"] or "",
    }


def _rebalances(played: Played) -> Iterator[tuple[dict[str, Any], float, float | None]]:
    """Yield facts, begin and end of each rebalance, from the journal."""
    begun: Event | None = None
    first_told: set[tuple[int, str]] = set()
    last: dict[int, int] = {}
    assigned: set[int] = set()
    for event in played.events:
        if event.event == "assign":
            assigned.add(event.generation)
            last[event.generation] = event.time_ms
        first = (event.generation, event.member_id) not in first_told and not _is_back(event, played)
        if event.event == "sync" and event.generation in assigned and first:
            last[event.generation] = event.time_ms
        if event.event == "sync":
            first_told.add((event.generation, event.member_id))
    for event in played.events:
        if event.event == "rebalance":
            begun = event
        elif event.event in ("generation", "empty"):
            assert begun is not None
            kind, member = _reason(begun.reason)
            facts = {
                "to": event.generation,
                "trigger": kind,
                "by": member,
                "members": sorted(event.members),
                "leader": event.leader,
                "protocol": event.protocol,
            }
            ended = last.get(event.generation, event.time_ms if event.event == "empty" else None)
            end = None if ended is None else played.begin + ended * 1000
            yield facts, played.begin + begun.time_ms * 1000, end


def _reason(reason: str) -> tuple[str, str]:
    """Return the trigger of a rebalance and its member, from the reason in the journal."""
    if reason.startswith("session of "):
        return "expired", reason.removeprefix("session of ").removesuffix(" timed out")
    member, _, why = reason.partition(" ")
    return WORDS.get(why, why), member
