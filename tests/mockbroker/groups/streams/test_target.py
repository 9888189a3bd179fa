"""The target assignment of a streams group: an update for a member that joins equals a computation for all members."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from effort import amount
from tools.streams_group_harness import STATEFUL, StreamsGroupHarness, part, topology

from mockbroker.groups.streams.target import STANDBY_REPLICAS, compute_target
from mockbroker.topics.model import OFFSETS_TOPIC


def story(seed: int, *, for_all: bool) -> tuple[list[Any], int]:
    """Return the records of the group after random joins and leaves, and how often the target was updated."""
    harness, random, updates = StreamsGroupHarness(topics={"t": 7, "u": 11}), Random(seed), 0
    described = topology(part("0", "t"), part("1", "u"))
    names = [f"m{number}" for number in range(40)]
    for _ in range(100):
        name = random.choice(names)
        before = None
        if "g" in harness.broker.groups:
            if for_all:
                harness.group.balanced_tasks = None
            before = harness.group.balanced_tasks
        joins = name not in harness.clients
        if joins:
            harness.join(name, described, process_id=name if random.random() < 0.98 else "shared")
        elif random.random() < 0.04:
            harness.leave(name)
        else:
            harness.poll(name)
        updates += joins and before is not None and harness.group.balanced_tasks is before
    harness.settle()
    partition = harness.broker.cluster.topics[OFFSETS_TOPIC].partition_of("g")
    return [(record.key, record.value) for batch in partition.log.batches() for record in batch.records()], updates


@pytest.mark.parametrize("seed", range(amount(2, 8)))
def test_records_are_those_of_a_target_computed_for_all(seed):
    records, updates = story(seed, for_all=False)
    assert (records, 0) == story(seed, for_all=True)
    assert updates >= 3


def test_standby_tasks_need_a_target_for_all() -> None:
    harness = StreamsGroupHarness()
    for name in "ab":
        harness.join(name, STATEFUL)
    harness.settle()
    group = harness.group
    assert group.balanced_tasks is not None
    for replicas, standby in (("0", set()), ("1", {("0", 0), ("0", 1), ("0", 2)})):
        compute_target(group, group.configured, {STANDBY_REPLICAS: replicas})
        assert {task for tasks in group.target.values() for task in tasks.standby} == standby
