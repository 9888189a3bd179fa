"""The demo of ``mockbroker serve --demo``, at a higher speed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from mockbroker.api.cluster import Cluster, open_cluster
from mockbroker.lab import live_demo
from mockbroker.lab.live_demo import GROUP, TOPIC, Pace, run_demo

PATIENCE = 30.0
QUICK = Pace(period=1.5, produce=0.01, slow=0.05, session_timeout=0.6)
CONFIG = {"group.initial.rebalance.delay.ms": 200, "group.min.session.timeout.ms": 100}


@asynccontextmanager
async def demo() -> AsyncIterator[Cluster]:
    async with open_cluster(topics={TOPIC: 6}, config=CONFIG) as cluster, trio.open_nursery() as nursery:
        nursery.start_soon(run_demo, cluster, cluster.bootstrap_servers, 6, QUICK)
        yield cluster
        nursery.cancel_scope.cancel()


def kinds(cluster: Cluster, kind: str) -> list[str]:
    """Return the clients of the events of a kind."""
    return [event.client for event in cluster.events() if event.event == kind]


async def test_members_crash_leave_and_return() -> None:
    with trio.fail_after(PATIENCE):
        async with demo() as cluster:
            await cluster.wait_group(GROUP, members=3, timeout=PATIENCE)
            while kinds(cluster, "join").count("demo-slow") < 2:
                await trio.sleep(0.05)
            assert kinds(cluster, "expire") == ["demo-2"]
            assert "demo-slow" in kinds(cluster, "leave")
            assert kinds(cluster, "join").count("demo-2") == 2
            assert kinds(cluster, "join").count("demo-1") == 1
            assert cluster.committed(GROUP)


def lags(cluster: Cluster) -> dict[str, int]:
    """Return the lag of each member, by client id."""
    committed = cluster.committed(GROUP)
    return {
        member.client_id: sum(
            len(cluster.records(TOPIC, partition)) - committed.get((TOPIC, partition), 0)
            for partition in (member.assignment or {}).get(TOPIC, [])
        )
        for member in cluster.groups()[GROUP].members
    }


async def test_the_slow_member_lags() -> None:
    with trio.fail_after(PATIENCE):
        async with demo() as cluster:
            await cluster.wait_group(GROUP, members=3, timeout=PATIENCE)
            while lags(cluster).get("demo-slow", 0) < 20 or max(lags(cluster).values()) > lags(cluster)["demo-slow"]:
                await trio.sleep(0.05)


async def test_the_demo_survives_a_reset_and_a_deleted_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_demo, "RETRY", 0.1)
    with trio.fail_after(PATIENCE):
        async with demo() as cluster:
            await cluster.wait_group(GROUP, members=3, timeout=PATIENCE)
            cluster.delete_topic(TOPIC)
            await trio.sleep(0.3)
            cluster.reset()
            await cluster.wait_group(GROUP, members=3, timeout=PATIENCE)
            while not cluster.committed(GROUP):
                await trio.sleep(0.05)


async def test_the_demo_ends_at_once_while_a_fault_holds_requests() -> None:
    async with demo() as cluster:
        await cluster.wait_group(GROUP, members=3, timeout=PATIENCE)
        cluster.faults.add(api=["LeaveGroup", "Heartbeat", "Fetch", "OffsetCommit"], hold=True, times="always")
        await trio.sleep(0.5)
        began = trio.current_time()
    assert trio.current_time() - began < 1


async def test_old_records_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_demo, "RECORDS_KEPT", 5)
    with trio.fail_after(PATIENCE):
        async with demo() as cluster:
            while not (records := cluster.records(TOPIC, 0)) or records[0].offset == 0:
                await trio.sleep(0.05)
            assert len(records) <= 10
