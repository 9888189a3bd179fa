"""The time of our own broker stands while the player does anything but wait; that of others is the world's."""

from __future__ import annotations

import pytest
import trio

from mockbroker import Cluster, open_cluster
from mockbroker.lab.conform.connection import PlayedConnection
from mockbroker.lab.conform.conversation import Conversation, Step
from mockbroker.lab.conform.pace import TICK, OwnTime, Watch, WorldTime
from mockbroker.lab.conform.player import Player

JOIN = {
    "group_id": "g",
    "session_timeout_ms": 1_000,
    "rebalance_timeout_ms": 1_000,
    "member_id": "",
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": ""}],
}
CONFIG = {"group.initial.rebalance.delay.ms": 2_000, "group.min.session.timeout.ms": 100}


def own(cluster: Cluster) -> OwnTime:
    return OwnTime(cluster.clock)


async def silent(cluster: Cluster) -> PlayedConnection:
    return PlayedConnection(await trio.open_tcp_stream(cluster.nodes[0].host, cluster.nodes[0].port))


async def test_time_passes_only_while_we_wait():
    async with open_cluster(clock="manual") as cluster:
        pace, connection = own(cluster), await silent(cluster)
        began = pace.now()
        await trio.sleep(0.2)
        assert pace.now() == began
        await pace.sleep(0.25)
        assert pace.now() == pytest.approx(began + 0.25)
        await pace.settle(connection, lambda: True, 1.0)
        assert pace.now() == pytest.approx(began + 0.25), "nothing is parked"
        assert not await pace.wait(connection, lambda: False, 0.1)
        assert began + 0.35 <= pace.now() < began + 0.35 + 10 * TICK
        await connection.stream.aclose()


@pytest.mark.parametrize(("recorded", "verdict"), [(2_000, None), (500, "answered after")])
async def test_a_timer_is_judged_by_the_clock_of_our_own_broker(recorded, verdict):
    """The initial rebalance delay is 2 s, which the player waits for; it is late where 0.5 s was recorded."""
    steps = [
        Step(n=1, event="request", api="JoinGroup", api_key=11, api_version=1, correlation_id=1, conn="A", fields=JOIN),
        Step(n=2, event="response", api="JoinGroup", api_version=1, to=1, conn="A", held=True, after_ms=recorded),
    ]
    told = Conversation(scenario="s", release="x", doc="", config={}, topics={}, names={}, steps=steps)
    async with open_cluster(config=CONFIG, clock="manual") as cluster:
        node = cluster.nodes[0]
        found = await Player(told, node.host, node.port, pace=own(cluster)).play()
        assert found is not None, "only the code of the answer was recorded"
        assert found.what.startswith(verdict or "generation_id: recorded")
        assert cluster.clock.now() == pytest.approx(2.0, abs=0.3)


async def test_how_late_the_player_is(monkeypatch):
    late = [0.0]
    monkeypatch.setattr(trio, "current_time", lambda: late[0])

    async def sleep_until(due: float) -> None:
        late[0] = due + 0.3
        await trio.lowlevel.checkpoint()

    monkeypatch.setattr(trio, "sleep_until", sleep_until)
    watch = Watch()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch.watch)
            for _ in range(3):
                await trio.lowlevel.checkpoint()
            scope.cancel()
    assert watch.behind == pytest.approx(0.3)


def test_only_our_own_broker_can_be_late():
    assert (OwnTime.judges, WorldTime.judges) == (True, False)
