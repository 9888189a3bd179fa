"""A member that left its group because nobody polled: what it still commits is not the group's any more."""

from __future__ import annotations

import pytest

from mockbroker import open_cluster
from mockbroker.consumer import CommitFailed, ConsumerError, open_consumer

CONFIG = {"group.initial.rebalance.delay.ms": 0}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_it_commits_nothing_until_it_is_back(protocol: str) -> None:
    heard: list[ConsumerError | None] = []
    settings = {"group_protocol": protocol, "auto_offset_reset": "earliest", "max_poll_interval": 0.2}
    async with open_cluster(topics={"orders": 1}, config=CONFIG) as cluster:
        cluster.produce("orders", ["tea", "milk"])
        async with open_consumer(
            cluster.bootstrap_servers, group="billing", topics=["orders"], enable_auto_commit=False, **settings
        ) as consumer:
            assert len(await consumer.poll()) == 2
            await cluster.wait_group("billing", "Empty", members=0)
            with pytest.raises(CommitFailed):
                await consumer.commit()
            consumer.commit_nowait({("orders", 0): 1}, lambda _, error: heard.append(error))
            assert cluster.committed("billing") == {}
            while len(await consumer.poll()) < 2:  # it joins again, and reads again what was not committed
                pass
            assert [type(error) for error in heard] == [CommitFailed]
            await consumer.commit()
            assert cluster.committed("billing") == {("orders", 0): 2}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_its_last_commit_by_itself_is_not_stored_either(protocol: str) -> None:
    async with open_cluster(topics={"orders": 1}, config=CONFIG) as cluster:
        cluster.produce("orders", ["tea", "milk"])
        async with open_consumer(
            cluster.bootstrap_servers,
            group="billing",
            topics=["orders"],
            group_protocol=protocol,
            auto_offset_reset="earliest",
            max_poll_interval=0.2,
        ) as consumer:
            assert len(await consumer.poll()) == 2
            await cluster.wait_group("billing", "Empty", members=0)
        assert cluster.committed("billing") == {}


async def test_who_never_meant_to_be_a_member_commits_as_nobody() -> None:
    async with open_cluster(topics={"orders": 1}, config=CONFIG) as cluster:
        async with open_consumer(
            cluster.bootstrap_servers, group="billing", partitions=[("orders", 0)], enable_auto_commit=False
        ) as consumer:
            await consumer.commit({("orders", 0): 5})
            await consumer.unsubscribe()
            await consumer.commit({("orders", 0): 6})
        assert cluster.committed("billing") == {("orders", 0): 6}
