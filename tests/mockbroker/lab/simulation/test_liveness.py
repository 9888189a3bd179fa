"""The phase without faults: when all groups have recovered, and what the error says if they do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mockbroker.lab.simulation import liveness
from mockbroker.lab.simulation import world as worlds
from mockbroker.lab.simulation.liveness import why_not
from mockbroker.lab.simulation.schemes import SCHEMES, swarm
from mockbroker.lab.simulation.script import Fault
from mockbroker.lab.simulation.watching import Broken
from mockbroker.lab.simulation.world import World


class Recovered(Exception):
    """The exception that ends a run when the groups have recovered."""


def test_groups_need_not_know_every_metadata_version(monkeypatch):
    """An operator may change the metadata more often than members send heartbeats."""

    def stop(_: World) -> None:
        raise Recovered

    monkeypatch.setattr(World, "_check_history", stop)
    world = World(SCHEMES["mix"](3, 400))
    with pytest.raises(Recovered):
        world.run()
    broker = world.shell.broker
    assert why_not(broker, world.clients) == ""
    broker.cluster.epoch += 1
    assert why_not(broker, world.clients) == ""
    for topic in broker.cluster.topics.values():
        broker.cluster.add_partitions(topic, broker.cluster.place(1, 1))
    assert "of g0 has no owner" in why_not(broker, world.clients)
    broker.cluster.topics.clear()
    assert why_not(broker, world.clients) == "g0 has not processed the newest topic metadata"


def test_swizzle_clogs_no_link_after_the_faults(monkeypatch):
    """``swizzle`` clogs the links one by one, some of them when the phase with faults would already have ended."""
    script = swarm(1, 300)
    world = World(replace(script, faults=(Fault(script.events - 1, "swizzle", 0, 8.0),), rules=()))
    clogged: list[str] = []

    def observe(*_: object) -> str:
        clogged.extend(client.name for client in world.clients if client.link.clogged)
        return "" if world.queue.now >= until else "not yet"

    def heal() -> None:
        nonlocal until
        until = world.queue.now + 8.0
        real()

    until, real = 0.0, world._heal
    monkeypatch.setattr(liveness, "why_not", observe)
    monkeypatch.setattr(world, "_heal", heal)
    world.run()
    assert world.clients
    assert clogged == []


@pytest.mark.parametrize(
    ("most", "text"),
    [
        (worlds.MOST_EVENTS, r"no progress [\d.]+ s after the last fault ended: g0 is Empty"),
        (0, "no progress in 0 events after the last fault: g0 is Empty"),
    ],
    ids=["time", "events"],
)
def test_groups_that_do_not_recover(monkeypatch, most, text):
    monkeypatch.setattr(liveness, "why_not", lambda *_: "g0 is Empty")
    monkeypatch.setattr(worlds, "MOST_EVENTS", most)
    with pytest.raises(Broken, match=f"^I9: {text}$"):
        World(swarm(1, 100)).run()
