"""Share consumers of a cluster in the same process, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any
from uuid import UUID

import pytest
import trio
import trio.testing
from tools.in_process_streams import InProcessNetwork

from kwire.messages.metadata import METADATA, MetadataRequest
from mockbroker import Cluster, open_cluster
from mockbroker.client.share.acknowledgements import Delivery
from mockbroker.client.share.engine import ShareEngine
from mockbroker.client.share.settings import ShareSettings
from mockbroker.consumer import (
    AcknowledgeType,
    BrokerError,
    ConcurrentUse,
    IllegalUse,
    ShareConsumer,
    ShareRecord,
    TimedOut,
    Wakeup,
    open_share_consumer,
)

QUICK = {
    "default.replication.factor": 2,
    "group.share.heartbeat.interval.ms": 20,
    "group.share.min.heartbeat.interval.ms": 20,
}
LIMIT = 30.0  # seconds


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with open_cluster(brokers=2, topics={"orders": 2, "one": 1}, config=QUICK) as cluster:
        with trio.fail_after(LIMIT):
            yield cluster


def share_consumer_of(cluster: Cluster, **options: Any) -> AbstractAsyncContextManager[ShareConsumer]:
    connect = InProcessNetwork(cluster).connect
    return open_share_consumer(cluster.bootstrap_servers, group="g", connect=connect, **options)


@asynccontextmanager
async def joined(cluster: Cluster, *, topic: str = "orders", **options: Any) -> AsyncIterator[ShareConsumer]:
    """Yield a consumer that has its partitions. The leaders have loaded them: they begin at the end of the logs."""
    loaded = cluster._router.broker.share_partitions.loaded
    async with share_consumer_of(cluster, topics=[topic], **options) as consumer:
        while not consumer.assignment or len(loaded) < len(consumer.assignment):
            await consumer.poll(0.02)
        yield consumer


def rejoined(cluster: Cluster) -> AbstractAsyncContextManager[ShareConsumer]:
    """Open a consumer of the group that ``joined`` has used before."""
    return share_consumer_of(cluster, topics=["orders"])


async def records(consumer: ShareConsumer, count: int) -> list[ShareRecord]:
    """Poll until ``count`` records were returned by the same poll or, in implicit mode, by several."""
    result = await consumer.poll()
    while len(result) < count:
        result += await consumer.poll()
    return result


def brief(found: list[ShareRecord]) -> list[tuple[bytes | None, int]]:
    return sorted((record.value, record.delivery_count) for record in found)


async def test_polled_records_are_accepted_by_the_next_poll(autojump_clock, cluster: Cluster) -> None:
    results = []
    async with joined(cluster, on_acknowledged=lambda *result: results.append(result)) as consumer:
        assert consumer.subscription == {"orders"}
        assert consumer.assignment == {("orders", 0), ("orders", 1)}
        cluster.produce("orders", ["a", "b"], partition=1)
        assert brief(await records(consumer, 2)) == [(b"a", 1), (b"b", 1)]
        assert await consumer.poll(0.1) == []
    assert results == [(("orders", 1), (0, 1), None)]
    assert cluster.groups()["g"].state == "Empty"


@pytest.mark.parametrize("rack", ["", "r1"])
async def test_rack_of_a_member(autojump_clock, cluster: Cluster, rack: str) -> None:
    async with joined(cluster, client_rack=rack):
        (member,) = cluster._router.broker.groups["g"].members.values()
        assert member.rack_id == (rack or None)


async def test_records_of_a_failed_block_are_released(autojump_clock, cluster: Cluster) -> None:
    async def fail() -> None:
        async with joined(cluster) as consumer:
            cluster.produce("orders", ["a"])
            await records(consumer, 1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    async with rejoined(cluster) as consumer:
        assert brief(await records(consumer, 1)) == [(b"a", 2)]


async def test_iteration_releases_records_that_it_has_not_returned(autojump_clock, cluster: Cluster) -> None:
    async with joined(cluster) as consumer:
        cluster.produce("orders", ["a", "b", "c"], partition=0)
        async for record in consumer:
            assert record.value == b"a"
            break
    async with rejoined(cluster) as consumer:
        assert brief(await records(consumer, 2)) == [(b"b", 2), (b"c", 2)]


async def test_each_type_of_acknowledgement(autojump_clock, cluster: Cluster) -> None:
    async with joined(cluster, share_acknowledgement_mode="explicit") as consumer:
        cluster.produce("orders", ["accept", "release", "reject", "renew"], partition=0)
        batch = await records(consumer, 4)
        for record in batch:
            consumer.acknowledge(record, AcknowledgeType[str(record.value, "ascii").upper()])
        with pytest.raises(IllegalUse, match="offset 0 of orders-0 is not a record of the latest poll"):
            consumer.acknowledge(batch[0])
        assert await consumer.commit() == {("orders", 0): None}
        with pytest.raises(IllegalUse, match="1 records of the last poll are not acknowledged"):
            await consumer.poll()
        consumer.acknowledge(batch[3])
        again = await records(consumer, 1)
        assert brief(again) == [(b"release", 2)]
        consumer.acknowledge(again[0])
        assert await consumer.commit() == {("orders", 0): None}


async def test_two_members_share_the_records(autojump_clock, cluster: Cluster) -> None:
    options: dict[str, Any] = {"topic": "one", "max_poll_records": 1}
    async with joined(cluster, **options) as first, joined(cluster, **options) as second:
        assert first.assignment == second.assignment
        for number in range(6):  # one batch for each record, because a batch is acquired as a whole
            cluster.produce("one", [str(number)])
        counts = [0, 0]
        while sum(counts) < 6:
            for index, consumer in enumerate((first, second)):
                counts[index] += len(await consumer.poll(0.05))
        assert min(counts) > 0
        assert await first.poll(0.05) == await second.poll(0.05) == []


async def test_record_limit_divides_a_batch(autojump_clock, cluster: Cluster) -> None:
    async with joined(cluster, share_acquire_mode="record_limit", max_poll_records=2) as consumer:
        cluster.produce("orders", ["a", "b", "c"], partition=0)
        sizes = []
        while sum(sizes) < 3:
            sizes.append(len(await consumer.poll()))
        assert sizes == [2, 1]


async def test_leader_may_move(autojump_clock, cluster: Cluster) -> None:
    async with joined(cluster) as consumer:
        cluster.produce("orders", ["a"], partition=0)
        await records(consumer, 1)
        await consumer.commit()  # without a commit, the next leader would begin at the end of the log again
        for node in (0, 1):
            cluster.move_leader("orders", 0, node)
            cluster.produce("orders", [f"b{node}"], partition=0)
            assert brief(await records(consumer, 1)) == [(b"b%d" % node, 1)]
            await consumer.commit()


async def test_coordinator_may_move(autojump_clock, cluster: Cluster) -> None:
    async with joined(cluster) as consumer:
        cluster.move_coordinator("g", 1 - cluster.coordinator("g"))
        await consumer.poll(0.3)
        cluster.produce("orders", ["a"])
        assert brief(await records(consumer, 1)) == [(b"a", 1)]


async def test_session_that_is_lost_begins_again(autojump_clock, cluster: Cluster) -> None:
    results: list[Any] = []
    async with joined(cluster, on_acknowledged=lambda *result: results.append(result)) as consumer:
        cluster.produce("orders", ["a"], partition=0)
        await records(consumer, 1)
        cluster.faults.add(api="ShareFetch", error="SHARE_SESSION_NOT_FOUND", times=2)
        while not results:
            await consumer.poll(0.05)
        ((partition, offsets, error),) = results
        assert (partition, offsets) == (("orders", 0), (0,))
        assert isinstance(error, BrokerError)
        cluster.produce("orders", ["b"], partition=0)
        assert (b"b", 1) in brief(await records(consumer, 1))


async def test_evicted_member_joins_again(autojump_clock, cluster: Cluster) -> None:
    async with joined(cluster) as consumer:
        cluster.faults.add(api="ShareGroupHeartbeat", error="UNKNOWN_MEMBER_ID")
        await consumer.poll(0.2)
        cluster.produce("orders", ["a"])
        assert (b"a", 1) in brief(await records(consumer, 1))


async def test_refused_heartbeat_raises(autojump_clock, cluster: Cluster) -> None:
    async with joined(cluster) as consumer:
        cluster.faults.add(api="ShareGroupHeartbeat", error="GROUP_AUTHORIZATION_FAILED")
        with pytest.raises(BrokerError, match="ShareGroupHeartbeat of g"):
            await consumer.poll(5)


async def test_commit_calls_back_before_it_returns(autojump_clock, cluster: Cluster) -> None:
    results: list[tuple[tuple[str, int], tuple[int, ...]]] = []

    def store(partition: tuple[str, int], offsets: tuple[int, ...], error: Exception | None) -> None:
        assert error is None
        results.append((partition, offsets))

    async with joined(cluster, on_acknowledged=store) as consumer:
        cluster.produce("orders", ["a"], partition=0)
        await records(consumer, 1)
        await consumer.commit()
        assert results == [(("orders", 0), (0,))]


async def test_commit_that_gets_no_response_times_out(autojump_clock, cluster: Cluster) -> None:
    async with joined(cluster) as consumer:
        cluster.produce("orders", ["a"], partition=0)
        await records(consumer, 1)
        fault = cluster.faults.add(api="ShareAcknowledge", hold=True, times="always")
        with pytest.raises(TimedOut):
            await consumer.commit(timeout=0.1)
        cluster.faults.remove(fault.name)


async def test_wakeup_ends_a_poll(autojump_clock, cluster: Cluster) -> None:
    async with joined(cluster) as consumer:
        consumer.wakeup()
        with pytest.raises(Wakeup):
            await consumer.poll()


async def test_misuse_is_refused(autojump_clock, cluster: Cluster) -> None:
    async with joined(cluster) as consumer:
        cluster.produce("orders", ["a"])
        (record,) = await records(consumer, 1)
        with pytest.raises(IllegalUse, match="needs explicit acknowledgement"):
            consumer.acknowledge(record)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(consumer.poll, 0.2)
            await trio.sleep(0.05)
            with pytest.raises(ConcurrentUse):
                await consumer.poll()
            with pytest.raises(ConcurrentUse):
                await consumer.close()
    with pytest.raises(IllegalUse, match="the consumer is closed"):
        await consumer.poll()
    async with share_consumer_of(cluster) as idle:
        with pytest.raises(IllegalUse, match="nothing to poll"):
            await idle.poll()
        with pytest.raises(TypeError, match="topics must be a list of names"):
            await idle.subscribe("orders")


async def test_poll_continues_after_a_delivery_of_gaps_only(autojump_clock, cluster: Cluster) -> None:
    """The consumer also acknowledges offsets that have no record."""
    async with joined(cluster, topic="one") as consumer:
        fetcher = consumer._engine.fetcher
        cluster.produce("one", ["a"], partition=0)
        real, sent = fetcher.take_deliveries, []

        def gaps_first() -> list[Delivery]:
            fetcher.take_deliveries = real  # type: ignore[method-assign]
            return [Delivery(0, ("one", 0), [], [70, 71])]

        fetcher.take_deliveries = gaps_first  # type: ignore[method-assign]
        fetcher.send_later = lambda deliveries: sent.extend(  # type: ignore[method-assign]
            (each.partition, each.types) for each in deliveries
        )
        assert brief(await records(consumer, 1)) == [(b"a", 1)]
        assert sent == [(("one", 0), {70: AcknowledgeType.GAP, 71: AcknowledgeType.GAP})]


async def test_invalid_topic_is_raised_by_poll(autojump_clock, cluster: Cluster) -> None:
    async with share_consumer_of(cluster, topics=["no topic"]) as consumer:
        with pytest.raises(BrokerError, match="Metadata request for topic no topic failed: INVALID_TOPIC_EXCEPTION"):
            await consumer.poll(5)


@pytest.mark.parametrize("held", [False, True])
async def test_later_acknowledgements_are_sent_with_a_fetch(autojump_clock, cluster: Cluster, held: bool) -> None:
    """A commit sends its acknowledgements at once, and ends with or without a response."""
    async with joined(cluster, topic="one") as consumer:
        cluster.produce("one", ["a"])
        await records(consumer, 1)
        if held:
            cluster.faults.add(api="ShareAcknowledge", hold=True)
            with pytest.raises(TimedOut):
                await consumer.commit(timeout=0.5)
        else:
            await consumer.commit()
        assert len(cluster.requests("ShareAcknowledge")) == 1
        assert not consumer._engine.fetcher.committing
        await consumer.poll(1)
        assert len(cluster.requests("ShareAcknowledge")) == 1


async def test_acknowledgement_is_for_the_partition_of_the_record(autojump_clock, cluster: Cluster) -> None:
    async with joined(cluster, share_acknowledgement_mode="explicit") as consumer:
        for partition in (0, 1):
            cluster.produce("orders", [str(partition)], partition=partition)
        while len(consumer._engine.fetcher._deliveries) < 2:
            consumer._engine.fetching = True
            consumer._driver.advance()
            await trio.sleep(0.01)
        batch = await records(consumer, 2)
        assert {record.offset for record in batch} == {0}
        consumer.acknowledge(batch[1], AcknowledgeType.REJECT)
        opened = {delivery.partition: delivery.open for delivery in consumer._returned}
        rejected = ("orders", batch[1].partition)
        assert {partition for partition, offsets in opened.items() if not offsets} == {rejected}
        consumer.acknowledge(batch[0])


async def test_close_releases_the_records_of_a_pending_fetch(autojump_clock, cluster: Cluster) -> None:
    async with joined(cluster, topic="one", fetch_max_wait=1.0) as consumer:
        assert await consumer.poll(0.01) == []
        assert consumer._engine.fetcher.waiting
        cluster.produce("one", ["a"])
    (request,) = cluster.requests("ShareAcknowledge")
    (topic,) = request.body.topics
    (batch,) = topic.partitions[0].acknowledgement_batches
    assert (request.body.share_session_epoch, batch.acknowledge_types) == (-1, [AcknowledgeType.RELEASE])


async def test_lost_connections_are_opened_again(autojump_clock, cluster: Cluster) -> None:
    network = InProcessNetwork(cluster)
    options: dict[str, Any] = {"group": "g", "connect": network.connect, "topics": ["orders"]}
    async with open_share_consumer(cluster.bootstrap_servers, **options) as consumer:
        while not consumer.assignment:
            await consumer.poll(0.02)
        await consumer.poll(1)
        lost = list(network.streams)
        for _, stream in lost:
            stream.hang_up()
        await consumer.poll(1)
        cluster.produce("orders", ["a"])
        assert (b"a", 1) in brief(await records(consumer, 1))
        assert len(network.streams) > len(lost)


async def test_close_closes_all_connections(autojump_clock, cluster: Cluster) -> None:
    network = InProcessNetwork(cluster)
    options: dict[str, Any] = {"group": "g", "connect": network.connect, "topics": ["orders"]}
    async with open_share_consumer(cluster.bootstrap_servers, **options) as consumer:
        await consumer.poll(1)
        await consumer.close()
        await trio.testing.wait_all_tasks_blocked()
        assert len(network.streams) > 1
        assert all(stream.cut for _, stream in network.streams)


async def test_new_subscription_is_reported_without_a_poll(autojump_clock) -> None:
    topics = {"a": 1, "b": 1}
    async with open_cluster(brokers=1, topics=topics) as slow, share_consumer_of(slow, topics=["a"]) as consumer:
        while not consumer.assignment:
            await consumer.poll(1.0)
        await trio.sleep(1.0)  # after this time no request is in flight
        await consumer.subscribe(["b"])
        await trio.sleep(0.2)
        (member,) = slow._router.broker.groups["g"].members.values()
        assert set(member.topics) == {"b"}


@pytest.mark.parametrize(("topics", "at"), [((), 50.0), (("t",), 0.0)])
def test_coordinator_is_looked_up_for_a_subscription(topics: tuple[str, ...], at: float) -> None:
    engine = ShareEngine([("a", 1)], "g", ShareSettings(), jitter=lambda: 0.5, member_id="m")
    engine.member.subscribe(topics)
    engine.metadata._refresh_at = 50.0
    assert engine.next_deadline() == at


@pytest.mark.parametrize("kind", ["accept", 99, AcknowledgeType.GAP])
async def test_acknowledgement_of_another_kind_is_rejected(autojump_clock, cluster: Cluster, kind: Any) -> None:
    async with joined(cluster, share_acknowledgement_mode="explicit") as consumer:
        cluster.produce("orders", ["a"])
        (record,) = await records(consumer, 1)
        with pytest.raises(ValueError, match="use AcknowledgeType"):
            consumer.acknowledge(record, kind)
        consumer.acknowledge(record)
        assert await consumer.commit() == {("orders", 0): None}


async def test_explicit_mode_releases_on_close(autojump_clock, cluster: Cluster) -> None:
    """When the consumer closes, records that it has not acknowledged are released, not accepted."""
    async with joined(cluster, share_acknowledgement_mode="explicit") as consumer:
        cluster.produce("orders", ["a", "b"], partition=0)
        first, _ = await records(consumer, 2)
        consumer.acknowledge(first)
    async with rejoined(cluster) as consumer:
        assert brief(await records(consumer, 1)) == [(b"b", 2)]


async def test_assignment_leaves_out_unknown_topics(autojump_clock, cluster: Cluster) -> None:
    async with joined(cluster) as consumer:
        member = consumer._engine.member
        member.assigned |= {(UUID(int=9), 0)}
        assert consumer.assignment == {("orders", 0), ("orders", 1)}


def test_lost_connection_makes_the_coordinator_unknown() -> None:
    engine = ShareEngine([("boot", 9000)], "g", ShareSettings(), jitter=lambda: 0.5, member_id="m")
    engine.coordinator.node = node = engine.network.coordinator(1, "node1", 9001)
    engine.network.send_request(node, METADATA.key, lambda _: MetadataRequest())
    assert node.link
    node.link.closed()
    engine.network.tick()
    assert engine.coordinator.node is None


async def test_close_ignores_an_earlier_wakeup(autojump_clock, cluster: Cluster) -> None:
    async with joined(cluster) as consumer:
        consumer.wakeup()
    assert cluster.groups()["g"].state == "Empty"


async def test_close_ignores_a_wakeup(autojump_clock, cluster: Cluster) -> None:
    async with trio.open_nursery() as nursery:
        async with joined(cluster) as consumer:
            cluster.faults.add(api="ShareGroupHeartbeat", delay_ms=1000)

            async def later() -> None:
                await trio.sleep(0.5)
                consumer.wakeup()

            nursery.start_soon(later)
        assert cluster.groups()["g"].state == "Empty"


async def test_close_without_a_poll_is_quick(autojump_clock, cluster: Cluster) -> None:
    async with share_consumer_of(cluster, topics=["orders"]):
        await trio.sleep(1.0)
        before = trio.current_time()
    assert trio.current_time() - before < 1.0


async def test_topics_of_a_share_consumer_are_a_list(autojump_clock, cluster: Cluster) -> None:
    with pytest.raises(TypeError, match="topics must be a list of names"):
        async with share_consumer_of(cluster, topics="orders"):
            pass


async def test_close_waits_for_the_last_acknowledgements(autojump_clock, cluster: Cluster) -> None:
    results: list[Any] = []
    async with joined(cluster, topic="one", on_acknowledged=lambda *result: results.append(result)) as consumer:
        cluster.produce("one", ["a"])
        assert len(await records(consumer, 1)) == 1
        cluster.faults.add(api="ShareAcknowledge", delay_ms=1000)
    assert results == [(("one", 0), (0,), None)]


async def test_close_accepts_the_records_of_the_latest_poll(autojump_clock, cluster: Cluster) -> None:
    async with joined(cluster, topic="one") as consumer:
        cluster.produce("one", ["a"])
        assert len(await records(consumer, 1)) == 1
        await consumer.close()
    async with share_consumer_of(cluster, topics=["one"]) as consumer:
        assert await consumer.poll(1.0) == []
