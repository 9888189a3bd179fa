"""max_poll_records bounds the processing time of a poll, which must stay below max_poll_interval."""

from __future__ import annotations

import pytest
import trio
from tools.in_process_streams import InProcessNetwork

from mockbroker import open_cluster
from mockbroker.consumer import open_consumer

QUICK = {"group.initial.rebalance.delay.ms": 0, "mockbroker.join.settle.ms": 0}
WORK = 1.0  # seconds of processing for one record


@pytest.mark.parametrize(("most", "alive"), [(500, False), (30, True)])
async def test_max_poll_records_limits_the_time_between_polls(most, alive, autojump_clock):
    """One minute between polls is allowed. At one second for each record, 200 records exceed it and 30 do not."""
    async with open_cluster(topics={"t": 1}, config=QUICK) as cluster:
        cluster.produce("t", [b"x"] * 200)

        async with open_consumer(
            cluster.bootstrap_servers,
            group="g",
            topics=["t"],
            auto_offset_reset="earliest",
            connect=InProcessNetwork(cluster, "slow").connect,
            max_poll_interval=60.0,
            max_poll_records=most,
        ) as consumer:
            for _ in range(200 // most or 1):
                records = await consumer.poll()
                assert len(records) == min(most, 200)
                await trio.sleep(WORK * len(records))
            left = [event for event in cluster.events() if event.event == "leave"]
            assert (left == []) is alive
            members = cluster.groups()["g"].members
            assert (len(members) == 1) is alive
