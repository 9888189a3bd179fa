"""Two consumers of aiokafka on one event loop share a topic, and one of them leaves."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer

from mockbroker import ThreadCluster


@pytest.mark.kafka(topics={"orders": 4})
def test_partitions_are_shared(kafka_cluster: ThreadCluster) -> None:
    asyncio.run(share(kafka_cluster))  # with pytest-asyncio or anyio the test itself is ``async def``


async def share(cluster: ThreadCluster) -> None:
    def consumer(name: str) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            "orders",
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="billing",
            client_id=name,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=100,
        )

    first, second = consumer("first"), consumer("second")
    await first.start()
    await second.start()
    group = await cluster.wait_group_async("billing", state="Stable", members=2)
    shares = {member.client_id: member.assignment for member in group.members}
    assert shares == {"first": {"orders": [0, 2]}, "second": {"orders": [1, 3]}}

    await second.stop()
    await cluster.wait_group_async("billing", state="Stable", members=1)
    cluster.produce("orders", ["tea"], partition=3)
    record = await asyncio.wait_for(first.getone(), 10)
    assert record.value == b"tea"
    await first.stop()
