"""Snapshots and events of transactions; those of groups are in test_cluster.py and test_thread.py."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
import trio

from kwire import ErrorCode as E
from kwire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kwire.messages.add_partitions_to_txn import Topic as AddedTopic
from kwire.messages.end_txn import EndTxnRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from mockbroker import Cluster, TransactionSnapshot, WaitTimeoutError, open_cluster
from mockbroker.cli.journal_file import write_journal
from mockbroker.lab.demo.timeline import JsonTimeline, PlainTimeline


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
        for node in (0, 1):  # one of the brokers is the coordinator
            await cluster.connect(node).ask(
                InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1_000), 3
            )
        before = cluster.transactions()["x"].coordinator
        cluster.stop_broker(before)
        assert cluster.transactions()["x"].coordinator == 1 - before


async def begin(cluster: Cluster) -> None:
    inside = cluster.connect()
    producer = await inside.ask(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 3)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_topics=[AddedTopic(name="t", partitions=[0])],
    )
    await inside.ask(request, 3)


async def test_a_wait_for_a_group_shows_events_of_transactions() -> None:
    async with open_cluster(topics={"t": 1}, clock="manual") as cluster:
        waited = trio.Event()

        async def wait() -> None:
            with pytest.raises(WaitTimeoutError, match=r"0\.000 s  txn_begin   x  producer_id=0  producer_epoch=0"):
                await cluster.wait_group("g", timeout=0.1)
            waited.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await begin(cluster)
        assert waited.is_set()


async def test_readers_of_the_journal_accept_events_without_a_group(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines: list[str] = []
    path = tmp_path / "journal"
    with path.open("w", encoding="utf-8") as file, caplog.at_level(logging.ERROR):
        async with open_cluster(topics={"t": 1}) as cluster:
            write_journal(cluster.journal, cluster.clock.wall() - cluster.clock.now(), file)
            await begin(cluster)
            (event,) = cluster.events()
            for timeline in (JsonTimeline(lines.append), PlainTimeline(lines.append)):
                timeline.event(event)
            assert await cluster.clock.advance(120.0)  # the transaction times out
            kinds = [each.event.value for each in cluster.events()]
    assert kinds == ["txn_begin", "txn_expire", "txn_prepare", "txn_abort"]
    written = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [(each["event"], each["group"], each["transactional_id"]) for each in written] == [
        (kind, "", "x") for kind in kinds
    ]
    assert json.loads(lines[0])["event"] == "txn_begin"
    assert len(lines) == 1, "the text of the demo omits it"
    assert not caplog.records
