"""Messages of the share consumer, ``mockbroker.consumer.open_share_consumer``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio
from messages.row import Row

from kwire.messages.share_fetch import ShareFetchResponse
from mockbroker import ThreadCluster, run_cluster
from mockbroker.client.share.deliveries import delivery_of
from mockbroker.consumer import ShareConsumer, ShareRecord, open_share_consumer

QUICK = {"group.share.heartbeat.interval.ms": 20, "group.share.min.heartbeat.interval.ms": 20}
LIMIT = 30.0  # seconds
EXPLICIT = {"share_acknowledgement_mode": "explicit"}
Use = Callable[[ShareConsumer], Awaitable[object]]


def opened(use: Use, **options: Any) -> Callable[[], None]:
    """Return a function that opens a share consumer without a broker and calls ``use``."""

    async def run() -> None:
        async with open_share_consumer("127.0.0.1:1", group="g", **options) as consumer:
            await use(consumer)

    return lambda: trio.run(run)


def used(
    use: Callable[[ShareConsumer, ThreadCluster, ShareRecord], Awaitable[object]], **options: Any
) -> Callable[[], None]:
    """Return a function that polls one record of a cluster, and calls ``use``."""

    async def run(cluster: ThreadCluster) -> None:
        with trio.fail_after(LIMIT):
            async with open_share_consumer(
                cluster.bootstrap_servers, group="g", topics=["orders"], **options
            ) as consumer:
                while not cluster._perform(lambda served: bool(served._router.broker.share_partitions.loaded)):
                    await consumer.poll(0.02)  # the group begins at the end of the log when a leader has loaded it
                cluster.produce("orders", ["a"])
                (record,) = await consumer.poll()
                await use(consumer, cluster, record)

    def start() -> None:
        with run_cluster(topics={"orders": 1}, config=QUICK) as cluster:
            trio.run(run, cluster)

    return start


def with_error(
    api: str, error: str, **match: str
) -> Callable[[ShareConsumer, ThreadCluster, ShareRecord], Awaitable[object]]:
    """Return a function for ``used`` that polls while requests of an API get an error."""

    async def use(consumer: ShareConsumer, cluster: ThreadCluster, _: ShareRecord) -> None:
        cluster.faults.add(api=api, error=error, times="always", **match)
        await consumer.poll(LIMIT)

    return use


def commit_error(error: str) -> Callable[[ShareConsumer, ThreadCluster, ShareRecord], Awaitable[object]]:
    """Return a function for ``used`` that raises the error of a commit."""

    async def use(consumer: ShareConsumer, cluster: ThreadCluster, _: ShareRecord) -> None:
        cluster.faults.add(api="ShareAcknowledge", topic="orders", error=error, times="always")
        (result,) = (await consumer.commit()).values()
        assert result is not None
        raise result

    return use


async def lose_session(consumer: ShareConsumer, cluster: ThreadCluster, _: ShareRecord) -> None:
    fault = cluster.faults.add(api="ShareFetch", error="SHARE_SESSION_NOT_FOUND", times="always")
    await consumer.poll(0.3)
    consumer._engine.fetcher._pending = {0: {("orders", 0): {0: 1}}}  # type: ignore[dict-item]
    (result,) = (await consumer.commit()).values()
    fault.remove()
    assert result is not None
    raise result


async def acknowledge(consumer: ShareConsumer, _: ThreadCluster, record: ShareRecord) -> None:
    consumer.acknowledge(record)


async def acknowledge_twice(consumer: ShareConsumer, _: ThreadCluster, record: ShareRecord) -> None:
    consumer.acknowledge(record)
    consumer.acknowledge(record)


async def acknowledge_in_words(consumer: ShareConsumer, _: ThreadCluster, record: ShareRecord) -> None:
    consumer.acknowledge(record, "accept")  # type: ignore[arg-type]


async def poll(consumer: ShareConsumer, _: ThreadCluster, __: ShareRecord) -> None:
    await consumer.poll()


def deliver_too_many() -> None:
    acquired = ShareFetchResponse.Topic.Partition.AcquiredRecords(first_offset=0, last_offset=2**62, delivery_count=1)
    _, error = delivery_of(
        0, ("orders", 0), ShareFetchResponse.Topic.Partition(acquired_records=[acquired]), check_crcs=True
    )
    assert error is not None
    raise error


ROWS = [
    Row("one name as topics of a share consumer", opened(lambda consumer: consumer.poll(), topics="orders"), "TypeError: topics must be a list of names, got 'orders': use ['orders']"),
    Row("acknowledgement mode", opened(lambda consumer: consumer.poll(), share_acknowledgement_mode="auto"), "ValueError: share_acknowledgement_mode is 'auto': use implicit or explicit"),
    Row("acquire mode", opened(lambda consumer: consumer.poll(), share_acquire_mode="all"), "ValueError: share_acquire_mode is 'all': use batch_optimized or record_limit"),
    Row("share poll without topics", opened(lambda consumer: consumer.poll()), "IllegalUse: nothing to poll: call subscribe() first"),
    Row("acknowledgement in implicit mode", used(acknowledge), "IllegalUse: acknowledge() needs explicit acknowledgement: set share_acknowledgement_mode to explicit"),
    Row("second acknowledgement", used(acknowledge_twice, **EXPLICIT), "IllegalUse: offset 0 of orders-0 is not a record of the latest poll that is still to be acknowledged: acknowledge each record once, before the next poll"),
    Row("kind of an acknowledgement", used(acknowledge_in_words, **EXPLICIT), "ValueError: kind is 'accept': use AcknowledgeType.ACCEPT, RELEASE, REJECT or RENEW"),
    Row("record without acknowledgement", used(poll, **EXPLICIT), "IllegalUse: 1 records of the last poll are not acknowledged: acknowledge each before the next poll"),
    Row("too many acquired records", deliver_too_many, "ConsumerError: orders-0: the response delivers more than 1000000 records at once"),
    Row("share heartbeat that is refused", used(with_error("ShareGroupHeartbeat", "INVALID_REQUEST")), "BrokerError: ShareGroupHeartbeat of g: INVALID_REQUEST"),
    Row("share fetch that is not authorized", used(with_error("ShareFetch", "TOPIC_AUTHORIZATION_FAILED", topic="orders")), "AuthorizationFailed: ShareFetch of orders-0: TOPIC_AUTHORIZATION_FAILED"),
    Row("share session that is not authorized", used(with_error("ShareFetch", "GROUP_AUTHORIZATION_FAILED")), "AuthorizationFailed: share session of g with broker 0: GROUP_AUTHORIZATION_FAILED"),
    Row("acknowledgement that is refused", used(commit_error("INVALID_RECORD_STATE")), "BrokerError: ShareAcknowledge of orders-0: INVALID_RECORD_STATE"),
    Row("acknowledgement after the session", used(lose_session), "BrokerError: ShareAcknowledge: SHARE_SESSION_NOT_FOUND"),
]  # fmt: skip
