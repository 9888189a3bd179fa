"""Random groups over several generations: Apache Kafka's assignors and ours return the same assignments."""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Mapping
from itertools import count
from pathlib import Path
from uuid import UUID

import pytest
from client_groups import shares
from effort import amount
from interop.kafka_tools import tool_command
from interop.programs import asked
from interop.stage import MARKS
from random_groups import RandomGroup, decoded
from random_share_groups import RandomShareGroup
from task_groups import groups_of

from kwire.assignors import CLIENT, DEFAULT, assignor, simple
from kwire.json.objects import uuid_text

pytestmark = MARKS

NAMES = [name for name in CLIENT if name != "sticky-0.11"]
STICKY_TASKS = Path(__file__).parents[2] / "fixtures" / "java" / "StickyTasks.java"
ROUNDS = 6  # rounds of each group of StickyTasks.java
USUAL = amount(100, 300)  # number of groups, for all assignors together
MOST_BROKEN = 5  # maximum percentage of groups on which Java throws, because a former owner has left; observed: 0.3


@pytest.mark.parametrize("name", NAMES)
def test_as_java(name: str, request: pytest.FixtureRequest) -> None:
    wanted = (request.config.getoption("--groups", None) or USUAL) // len(NAMES)
    compared = broken = 0
    for seed in count():
        if compared >= wanted:
            break
        group = RandomGroup(name, seed)
        for number, joined in enumerate(group.rounds()):
            where = f"{name}, seed {seed}, round {number}"
            ours = shares(assignor(name).assign(group.topics, decoded(joined)))
            theirs = asked("java").ask(
                "assign",
                assignor=name,
                generation=group.generation,
                topics=group.racks,
                members=[
                    {"member_id": member_id, "subscription": data.hex(), "instance_id": instance_id}
                    for member_id, (data, instance_id) in joined.items()
                ],
            )
            if theirs.get("threw"):
                assert (theirs["threw"], "sticky" in name) == ("NullPointerException", True), where
                broken += 1
                break
            results = {member_id: [(topic, n) for topic, n in listed] for member_id, listed in theirs["shares"].items()}
            assert ours == results, where
            reported = {member_id: data and data.hex() for member_id, data in group.finish(ours).items()}
            assert reported == theirs["next"], where
            compared += 1
    assert broken * 100 <= compared * MOST_BROKEN


def test_a_member_carries_the_same_ones_by_default() -> None:
    ours = [{"name": name, "protocols": list(assignor(name).protocols)} for name in DEFAULT]
    assert asked("java").ask("assignors") == ours


def test_share_groups_as_java(request: pytest.FixtureRequest) -> None:
    wanted = request.config.getoption("--groups", None) or USUAL
    compared = broken = 0
    for seed in count():
        if compared >= wanted:
            break
        group = RandomShareGroup(seed)
        for number, members in enumerate(group.rounds()):
            where = f"seed {seed}, round {number}"
            homogeneous = group.homogeneous
            theirs = asked("java").ask(
                "assign_share",
                homogeneous=homogeneous,
                topics={uuid_text(topic): size for topic, size in group.partitions.items()},
                assignable=by_text(group.assignable),
                members=[
                    {
                        "member_id": member_id,
                        "topics": [uuid_text(topic) for topic in member.topic_ids],
                        "assigned": by_text(member.assigned),
                    }
                    for member_id, member in members.items()
                ],
            )
            if theirs.get("threw"):
                broken += 1
                break
            group.target = simple.assign(members, group.partitions, homogeneous, assignable=group.assignable)
            results = {
                member_id: {topic: indexes for topic, indexes in theirs["shares"].get(member_id, {}).items() if indexes}
                for member_id in members  # without a subscribed topic, Java's map is empty
            }
            assert {member_id: by_text(assigned) for member_id, assigned in group.target.items()} == results, where
            compared += 1
    assert broken * 100 <= compared * MOST_BROKEN


@pytest.mark.long  # it starts a JVM; the groups in fixtures/assignors are compared in every run
def test_tasks_of_streams_groups_as_java(request: pytest.FixtureRequest) -> None:
    wanted = request.config.getoption("--groups", None) or USUAL
    command = [*tool_command(str(STICKY_TASKS)), str(-(-wanted // ROUNDS))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    results = list(groups_of(done.stdout.splitlines()))
    assert len(results) >= wanted
    assert [group.id for group in results if group.assigned() != group.expected] == []


def by_text(assigned: Mapping[UUID, Collection[int]]) -> dict[str, list[int]]:
    return {uuid_text(topic): list(indexes) for topic, indexes in assigned.items()}
