"""When all groups have recovered: what they must know of the topics."""

from __future__ import annotations

import pytest

from mockbroker.lab.simulation.liveness import why_not
from mockbroker.lab.simulation.schemes import SCHEMES
from mockbroker.lab.simulation.world import World


class Recovered(Exception):
    """Ends a run when the groups have recovered."""


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
