"""Transactional ids."""

from __future__ import annotations

from tools.control_api import control_api

from kwire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, Topic
from kwire.messages.init_producer_id import InitProducerIdRequest


async def test_transactions() -> None:
    async with control_api() as api:
        connection = api.cluster.connect()
        for name in ("b/1", "a"):
            begun = await connection.ask(
                InitProducerIdRequest(
                    transactional_id=name, transaction_timeout_ms=5_000, producer_id=-1, producer_epoch=-1
                ),
                4,
            )
        topics = [Topic(name="t", partitions=[1, 0])]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="a",
            v3_and_below_producer_id=begun.producer_id,
            v3_and_below_producer_epoch=begun.producer_epoch,
            v3_and_below_topics=topics,
        )
        await connection.ask(request, 3)
        page = await api.get("/v1/transactions", limit=1)
        assert (page["items"][0]["transactional_id"], page["items"][0]["state"], page["next"]) == (
            "b/1",
            "Empty",
            "b/1",
        )
        (found,) = (await api.get("/v1/transactions", after="b/1"))["items"]
        assert found.pop("started_ms") > 0
        assert found == {
            "transactional_id": "a",
            "producer_id": begun.producer_id,
            "epoch": begun.producer_epoch,
            "state": "Ongoing",
            "timeout_ms": 5_000,
            "partitions": [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 1}],
            "coordinator": 0,
        }
