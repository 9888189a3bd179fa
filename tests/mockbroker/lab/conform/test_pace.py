"""The manual clock of a mockbroker advances only while the player waits; other brokers use the wall clock."""

from __future__ import annotations

import pytest
import trio

from mockbroker import Cluster, open_cluster
from mockbroker.lab.conform.connection import PlayedConnection
from mockbroker.lab.conform.conversation import Conversation, Step
from mockbroker.lab.conform.pace import TICK, LatenessWatch, ManualTime, WallTime
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


def manual_time(cluster: Cluster) -> ManualTime:
    return ManualTime(cluster.clock)


async def silent_connection(cluster: Cluster) -> PlayedConnection:
    return PlayedConnection(await trio.open_tcp_stream(cluster.nodes[0].host, cluster.nodes[0].port))


async def test_manual_time_passes_only_while_the_player_waits():
    async with open_cluster(clock="manual") as cluster:
        pace, connection = manual_time(cluster), await silent_connection(cluster)
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
async def test_timers_are_compared_by_the_manual_clock(recorded, verdict):
    """The initial rebalance delay is 2 s, and the player waits for it; an answer that was recorded after 0.5 s is
    late."""
    steps = [
        Step(n=1, event="request", api="JoinGroup", api_key=11, api_version=1, correlation_id=1, conn="A", fields=JOIN),
        Step(n=2, event="response", api="JoinGroup", api_version=1, to=1, conn="A", held=True, after_ms=recorded),
    ]
    conversation = Conversation(scenario="s", release="x", doc="", config={}, topics={}, names={}, steps=steps)
    async with open_cluster(config=CONFIG, clock="manual") as cluster:
        node = cluster.nodes[0]
        difference = await Player(conversation, node.host, node.port, pace=manual_time(cluster)).play()
        assert difference is not None, "only the code of the answer was recorded"
        assert difference.text.startswith(verdict or "generation_id: recorded")
        assert cluster.clock.now() == pytest.approx(2.0, abs=0.3)


async def test_lateness_of_the_player(monkeypatch):
    late = [0.0]
    monkeypatch.setattr(trio, "current_time", lambda: late[0])

    async def sleep_until(due: float) -> None:
        late[0] = due + 0.3
        await trio.lowlevel.checkpoint()

    monkeypatch.setattr(trio, "sleep_until", sleep_until)
    watch = LatenessWatch()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch.watch)
            for _ in range(3):
                await trio.lowlevel.checkpoint()
            scope.cancel()
    assert watch.lateness == pytest.approx(0.3)


def test_only_manual_time_judges_lateness():
    assert (ManualTime.judges, WallTime.judges) == (True, False)
