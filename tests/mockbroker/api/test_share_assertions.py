"""The assertions about the records of share groups, with a real share consumer."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import pytest
import trio

from kwire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from mockbroker import Cluster, open_cluster, run_cluster
from mockbroker.consumer import AcknowledgeType, ShareConsumer, open_share_consumer

CONFIG = {
    "group.share.delivery.count.limit": 2,
    "group.share.heartbeat.interval.ms": 20,
    "group.share.min.heartbeat.interval.ms": 20,
}
PATIENCE = 30.0  # seconds
ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
GROUP = 32  # resource type


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """Yield a cluster with four records, which share group g reads from the first one."""
    async with open_cluster(topics={"orders": 1, "other": 1}, config=CONFIG) as cluster:
        kind = IncrementalAlterConfigsRequest.Resource
        reset = kind.Config(name="share.auto.offset.reset", value="earliest")
        resource = kind(resource_type=GROUP, resource_name="g", configs=[reset])
        await cluster.connect().ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        cluster.produce("orders", ["a", "b", "c", "d"])
        with trio.fail_after(PATIENCE):
            yield cluster


def worker(cluster: Cluster, name: str = "worker") -> AbstractAsyncContextManager[ShareConsumer]:
    return open_share_consumer(
        cluster.bootstrap_servers, group="g", topics=["orders"], client_id=name, share_acknowledgement_mode="explicit"
    )


async def process(consumer: ShareConsumer, count: int, **kinds: AcknowledgeType) -> None:
    """Acknowledge a number of deliveries. ``kinds``: acknowledgement by record value; other records are accepted."""
    while count > 0:
        for record in await consumer.poll():
            assert record.value is not None
            consumer.acknowledge(record, kinds.get(record.value.decode(), ACCEPT))
            count -= 1
        await consumer.commit()


async def test_accepted_records(cluster: Cluster) -> None:
    async with worker(cluster) as consumer:
        await process(consumer, 4)
        cluster.assert_delivered("g")
        cluster.assert_acknowledged("g", "orders")
    cluster.assert_delivered("g", "orders")
    cluster.assert_acknowledged("g")  # the assertion also works after the members have left
    with pytest.raises(AssertionError, match="0 records were rejected or archived, expected 1\n"):
        cluster.assert_acknowledged("g", rejected=1)


async def test_released_record_is_delivered_twice(cluster: Cluster) -> None:
    async with worker(cluster) as consumer:
        await process(consumer, 4, b=RELEASE)
        with pytest.raises(AssertionError) as not_acknowledged:
            cluster.assert_acknowledged("g")
        await process(consumer, 1)
    cluster.assert_delivered("g", at_most=2)
    cluster.assert_acknowledged("g")
    with pytest.raises(AssertionError) as raised:
        cluster.assert_delivered("g")
    problem, title, *lines = str(raised.value).splitlines()
    assert problem == "orders-0 offset 1: delivered 2 times, expected at most 1"
    assert title == "deliveries and acknowledgements of these records:"
    assert [line.split(" s  orders-0 ")[1] for line in lines[:4]] == [
        "offsets 0 to 3  client=worker  acquired (delivery 1)",
        "offset 1  client=worker  released",
        "offset 1  client=worker  acquired (delivery 2)",
        "offset 1  client=worker  accepted",
    ]
    assert lines[4] == "events:"
    assert "orders-0 offset 1: not acknowledged; released by worker at " in str(not_acknowledged.value).splitlines()[0]


async def test_rejected_and_archived_records(cluster: Cluster) -> None:
    async with worker(cluster) as consumer:
        await process(consumer, 5, a=REJECT, d=RELEASE)
    cluster.assert_acknowledged("g", rejected=2)
    with pytest.raises(AssertionError) as raised:
        cluster.assert_acknowledged("g")
    lines = str(raised.value).splitlines()
    assert lines[0] == "2 records were rejected or archived, expected 0"
    assert re.fullmatch(r"orders-0 offset 0: rejected by worker at [0-9.]+ s", lines[1])
    assert lines[2] == "orders-0 offset 3: archived after 2 deliveries"


async def test_records_that_were_not_delivered(cluster: Cluster) -> None:
    for check in (cluster.assert_delivered, cluster.assert_acknowledged):
        with pytest.raises(AssertionError, match="no record of topic orders was delivered to share group 'g'"):
            check("g", "orders")
    async with worker(cluster) as consumer:
        await process(consumer, 4)
    cluster.produce("orders", ["e", "f"])
    cluster.assert_delivered("g")
    with pytest.raises(AssertionError, match="orders-0 offsets 4 to 5: never delivered"):
        cluster.assert_acknowledged("g")
    with pytest.raises(AssertionError, match="no record of topic other was delivered"):
        cluster.assert_acknowledged("g", "other")


async def test_faulty_acknowledgement_is_in_the_timeline(cluster: Cluster) -> None:
    cluster.faults.error("ShareAcknowledge", "COORDINATOR_NOT_AVAILABLE", name="lost")
    async with worker(cluster) as consumer:
        await process(consumer, 4)
    with pytest.raises(AssertionError, match="client=worker  accepted  error=COORDINATOR_NOT_AVAILABLE  fault=lost"):
        cluster.assert_acknowledged("g")


def test_handle_of_a_thread_has_the_assertions() -> None:
    with run_cluster() as cluster:
        with pytest.raises(AssertionError, match="no record was delivered to share group 'g'"):
            cluster.assert_delivered("g", at_most=2)
        with pytest.raises(AssertionError, match="no record was delivered to share group 'g'"):
            cluster.assert_acknowledged("g", rejected=1)
