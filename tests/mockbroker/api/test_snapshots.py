"""Snapshots of transactions; those of groups are in test_cluster.py and test_thread.py."""

from __future__ import annotations

from kwire import ErrorCode as E
from kwire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kwire.messages.add_partitions_to_txn import Topic as AddedTopic
from kwire.messages.end_txn import EndTxnRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from mockbroker import TransactionSnapshot, open_cluster


async def test_a_transaction_from_begin_to_commit() -> None:
    async with open_cluster(topics={"t": 2}) as cluster:
        assert cluster.transactions() == {}
        inside = cluster.connect()
        producer = await inside.ask(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 3)
        (begun,) = cluster.transactions().values()
        assert begun == TransactionSnapshot(
            transactional_id="x",
            producer_id=producer.producer_id,
            epoch=0,
            state="Empty",
            timeout_ms=60_000,
            started_ms=None,
            partitions=(),
            coordinator=0,
        )
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_topics=[AddedTopic(name="t", partitions=[1, 0])],
        )
        await inside.ask(request, 3)
        ongoing = cluster.transactions()["x"]
        assert (ongoing.state, ongoing.partitions) == ("Ongoing", (("t", 0), ("t", 1)))
        assert ongoing.started_ms is not None
        assert ongoing.started_ms > 1_600_000_000_000
        end = EndTxnRequest(transactional_id="x", producer_id=producer.producer_id, committed=True)
        assert (await inside.ask(end, 3)).error_code == E.NONE
        assert (cluster.transactions()["x"].state, cluster.transactions()["x"].partitions) == ("CompleteCommit", ())


async def test_coordinator_of_a_transaction_follows_its_partition() -> None:
    config = {"transaction.state.log.replication.factor": 2}
    async with open_cluster(brokers=2, config=config) as cluster:
        for node in (0, 1):  # one of them coordinates
            await cluster.connect(node).ask(
                InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1_000), 3
            )
        before = cluster.transactions()["x"].coordinator
        cluster.stop_broker(before)
        assert cluster.transactions()["x"].coordinator == 1 - before
