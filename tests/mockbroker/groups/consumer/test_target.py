"""The target assignment of a consumer group: an update for a few members equals a computation for all members."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from effort import amount
from tools.consumer_group_harness import ConsumerGroupHarness

from mockbroker.groups.consumer.target import compute_target
from mockbroker.topics.model import OFFSETS_TOPIC


def story(seed: int, *, for_all: bool) -> tuple[list[Any], int]:
    """Return the records of the group after random joins and leaves, and how often the target was updated."""
    harness, random, updates = ConsumerGroupHarness(), Random(seed), 0
    harness.broker.cluster.create_topic("wide", [[0]] * 17)
    names = [f"m{number}" for number in range(25)]
    for _ in range(120):
        name = random.choice(names)
        before = None
        if "g" in harness.broker.groups:
            if for_all:
                harness.group.uniform_target = None
            before = harness.group.uniform_target
        if name not in harness.clients:
            harness.join(name, topics=("wide",), instance_id=name if random.random() < 0.2 else None)
        elif random.random() < 0.3:
            harness.leave(name)
        else:
            harness.poll(name)
        updates += before is not None and harness.group.uniform_target is before
    harness.settle()
    partition = harness.broker.cluster.topics[OFFSETS_TOPIC].partition_of("g")
    return [(record.key, record.value) for batch in partition.log.batches() for record in batch.records()], updates


@pytest.mark.parametrize("seed", range(amount(2, 8)))
def test_records_are_those_of_a_target_computed_for_all(seed):
    records, updates = story(seed, for_all=False)
    assert (records, 0) == story(seed, for_all=True)
    assert updates > 50


@pytest.mark.parametrize(
    ("release", "homogeneous", "updated"), [("4.2", True, True), ("4.2", False, False), ("3.9", True, False)]
)
def test_only_the_newest_uniform_assignor_updates_its_target(release: str, homogeneous: bool, updated: bool):
    harness = ConsumerGroupHarness()
    harness.join("a")
    group, broker = harness.group, harness.broker
    group.uniform_target = None
    compute_target(group, broker.cluster, broker.settings, homogeneous=homogeneous, uniform_release=release)
    assert (group.uniform_target is not None) is updated


def test_group_without_members_has_no_target() -> None:
    harness = ConsumerGroupHarness()
    harness.join("a")
    group = harness.group
    harness.leave("a")
    compute_target(group, harness.broker.cluster, harness.broker.settings, homogeneous=True, uniform_release="4.2")
    assert (group.target, group.uniform_target, group.assignment_epoch) == ({}, None, group.epoch)


def test_range_does_not_continue_the_target_of_uniform():
    harness = ConsumerGroupHarness(topics={"t": 6})
    for name in "ab":
        harness.join(name)
    harness.settle()
    assert harness.group.uniform_target is not None
    for name in "ab":
        harness.poll(name, server_assignor="range")
    harness.join("c", server_assignor="range")
    harness.settle()
    assert sorted(harness.owned().values()) == [[0, 1], [2, 3], [4, 5]]
