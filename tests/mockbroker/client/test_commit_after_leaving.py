"""Commits of a member that left its group because it did not poll within max_poll_interval."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from tools.in_process_streams import InProcessNetwork

from mockbroker import Cluster, open_cluster
from mockbroker.consumer import CommitFailed, Consumer, ConsumerError, open_consumer

CONFIG = {"group.initial.rebalance.delay.ms": 0}


def billing(cluster: Cluster, **options: Any) -> AbstractAsyncContextManager[Consumer]:
    connect = InProcessNetwork(cluster).connect
    return open_consumer(cluster.bootstrap_servers, group="billing", connect=connect, **options)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_commit_fails_until_the_member_has_rejoined(autojump_clock, protocol: str) -> None:
    calls: list[ConsumerError | None] = []
    settings = {"group_protocol": protocol, "auto_offset_reset": "earliest", "max_poll_interval": 0.2}
    async with open_cluster(topics={"orders": 1}, config=CONFIG) as cluster:
        cluster.produce("orders", ["tea", "milk"])
        async with billing(cluster, topics=["orders"], enable_auto_commit=False, **settings) as consumer:
            assert len(await consumer.poll()) == 2
            await cluster.wait_group("billing", "Empty", members=0)
            with pytest.raises(CommitFailed):
                await consumer.commit()
            consumer.commit_nowait({("orders", 0): 1}, lambda _, error: calls.append(error))
            assert cluster.committed("billing") == {}
            while len(await consumer.poll()) < 2:  # the member rejoins and reads the uncommitted records again
                pass
            assert [type(error) for error in calls] == [CommitFailed]
            await consumer.commit()
            assert cluster.committed("billing") == {("orders", 0): 2}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_auto_commit_on_close_fails_too(autojump_clock, protocol: str) -> None:
    async with open_cluster(topics={"orders": 1}, config=CONFIG) as cluster:
        cluster.produce("orders", ["tea", "milk"])
        async with billing(
            cluster,
            topics=["orders"],
            group_protocol=protocol,
            auto_offset_reset="earliest",
            max_poll_interval=0.2,
        ) as consumer:
            assert len(await consumer.poll()) == 2
            await cluster.wait_group("billing", "Empty", members=0)
        assert cluster.committed("billing") == {}


async def test_assigned_consumer_commits_without_a_membership(autojump_clock) -> None:
    async with open_cluster(topics={"orders": 1}, config=CONFIG) as cluster:
        async with billing(cluster, partitions=[("orders", 0)], enable_auto_commit=False) as consumer:
            await consumer.commit({("orders", 0): 5})
            await consumer.unsubscribe()
            await consumer.commit({("orders", 0): 6})
        assert cluster.committed("billing") == {("orders", 0): 6}
