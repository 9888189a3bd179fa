"""Buggify points: off unless a script names them, and their effects."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mockbroker.base.buggify import BATCH_DIFFERENTLY, METHODS
from mockbroker.lab.simulation.buggify import POINTS
from mockbroker.lab.simulation.coverage import Coverage
from mockbroker.lab.simulation.run import run
from mockbroker.lab.simulation.schemes import data
from mockbroker.lab.simulation.world import World
from mockbroker.net.pump import Pump

SCRIPT = replace(data(4, 150), sync=0.02, buggify=())


def test_points_are_off_by_default():
    world = World(SCRIPT)
    assert "flush" not in vars(world.shell.pump)
    assert type(world.shell.pump).flush is Pump.flush
    assert "set" not in vars(world.shell.broker.client_deadlines)
    assert "next_work" not in vars(world.shell.disk._data)


def test_points_of_the_simulator_are_those_of_the_broker():
    assert METHODS.keys() == POINTS.keys()


@pytest.mark.parametrize("point", sorted(METHODS.keys() - {BATCH_DIFFERENTLY}))  # the simulator calls ``turn`` itself
def test_an_active_point_replaces_its_method_only(point):
    world = World(replace(SCRIPT, buggify=(point,)))
    objects = (world.shell.pump, world.shell.broker.client_deadlines, world.shell.disk._data)
    methods = {method.__name__ for method in METHODS.values()}
    replaced = [name for each in objects for name in vars(each).keys() & methods]
    assert replaced == [METHODS[point].__name__]


@pytest.mark.parametrize("point", POINTS)
def test_a_point_changes_the_run(point):
    changed = run(replace(SCRIPT, buggify=(point,)))
    assert not changed.broken, changed.text
    assert changed.hash != run(SCRIPT).hash


def test_the_coverage_counts_the_points():
    coverage = Coverage()
    run(replace(SCRIPT, buggify=tuple(POINTS)), coverage)
    assert coverage.points.keys() == POINTS.keys()
    assert [line for line in coverage.lines() if line.startswith("buggify point respond-late: ")]
    run(SCRIPT, unchanged := Coverage())
    assert not unchanged.points


def test_seeds_have_different_points():
    assert {point for seed in range(20) for point in data(seed, 10).buggify} == POINTS.keys()
    assert any(not data(seed, 10).buggify for seed in range(20))


def test_a_part_of_the_changes_is_flushed():
    world = World(replace(SCRIPT, buggify=("flush-partially",)))
    disk = world.shell.disk
    world.shell.begin()
    partition = world.shell.broker.cluster.topics["t0"].partitions[0]
    numbers = set()
    for _ in range(30):
        partition.end_transaction(1, 0, committed=True, coordinator_epoch=0, timestamp=1)
        partition.end_transaction(1, 0, committed=True, coordinator_epoch=0, timestamp=1)
        work = disk._data.next_work()
        disk._data.perform(work)
        numbers.add(disk.collected - disk.synced)
        disk.flush()
        assert disk.collected == disk.synced
    assert numbers == {0, 1}
