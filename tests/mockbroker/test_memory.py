"""docs/limits.md declares the memory that a broker holds for each thing; the tests measure it for a thousand of
each."""

from __future__ import annotations

import gc
import re
import socket
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import Any

import pytest
import trio
from effort import amount
from golden import ROOT
from tools.broker_harness import BrokerHarness, commit_without_member, stable_member
from tools.served_broker import serving
from tools.streams_group_harness import STATELESS

from kwire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kwire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, Topic
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.create_acls import CreateAclsRequest
from kwire.messages.create_topics import CreateTopicsRequest
from kwire.messages.end_txn import EndTxnRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.produce import ProduceRequest
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from kwire.messages.sync_group import SyncGroupRequest
from kwire.records.batch import Record, build_batch
from mockbroker.groups.records.compaction import compact
from mockbroker.topics.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

NUMBER = amount(300, 1_000)
ROW = re.compile(r"^\| (\w[^|]*) \| ([\d,]+) \|$", re.MULTILINE)
LONG_RUN = amount(1_000, 10_000)  # rounds of requests
WALL_MS = 1_700_000_000_000
JOIN_PHASE = 3.0  # seconds of the first join phase of a group with many members
CONFIGS: dict[str, dict[str, Any]] = {
    "ACL": {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"},
    "member of a classic group": {"group.initial.rebalance.delay.ms": int(JOIN_PHASE * 1_000)},
    "member of a consumer group": {"group.consumer.max.size": NUMBER},
    "member of a share group": {"group.share.max.size": NUMBER},
    "streams group of one member": {"group.streams.initial.rebalance.delay.ms": 0},
}


def declared() -> dict[str, int]:
    """Return the declared bytes of each thing, from the table of docs/limits.md."""
    text = (ROOT / "docs" / "limits.md").read_text("utf-8")
    table = text.partition("### Memory")[2].partition("\n#")[0]
    return {name: int(size.replace(",", "")) for name, size in ROW.findall(table)}


@contextmanager
def held(release: Callable[[], None]) -> Iterator[list[int]]:
    """Measure the bytes that are allocated inside the block and still held after it, without those that ``release``
    drops."""
    gc.collect()
    tracemalloc.start()
    try:
        before, sizes = tracemalloc.get_traced_memory()[0], list[int]()
        yield sizes
        release()
        gc.collect()
        sizes.append(tracemalloc.get_traced_memory()[0] - before)
    finally:
        tracemalloc.stop()


def topics(harness: BrokerHarness, name: str, number: int, partitions: int = 1) -> None:
    kind = CreateTopicsRequest.Topic
    rows = [kind(name=f"{name}{each}", num_partitions=partitions, replication_factor=1) for each in range(number)]
    harness.ask(CreateTopicsRequest(topics=rows, timeout_ms=1_000), 7)


def partitions(harness: BrokerHarness, name: str, number: int) -> None:
    topics(harness, name, 1, number)


def classic_groups(harness: BrokerHarness, name: str, number: int) -> None:
    for each in range(number):
        stable_member(harness, f"{name}{each}")


def classic_members(harness: BrokerHarness, name: str, number: int) -> None:
    """Let all members of a group join in its first join phase, which the configuration prolongs."""
    requests = [harness.send(BrokerHarness.join(name), 3) for _ in range(number)]
    harness.wait(2 * JOIN_PHASE)  # new members extend the join phase once
    joined = [request.answer for request in requests]
    kind = SyncGroupRequest.Assignment
    plan = [kind(member_id=each.member_id, assignment=b"") for each in joined]
    for each in sorted(joined, key=lambda each: each.member_id != each.leader):
        is_leader = each.member_id == each.leader
        sync = SyncGroupRequest(
            group_id=name,
            generation_id=each.generation_id,
            member_id=each.member_id,
            assignments=plan if is_leader else [],
        )
        assert harness.ask(sync, 2).error_code == 0
    assert harness.broker.groups[name].state_name == "Stable"


def consumer_members(harness: BrokerHarness, name: str, number: int) -> None:
    for each in range(number):
        join = ConsumerGroupHeartbeatRequest(
            group_id=name,
            member_id=f"{name}-{each:030}",
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        assert harness.ask(join, 1).error_code == 0


def share_groups(harness: BrokerHarness, name: str, number: int) -> None:
    for each in range(number):
        join = ShareGroupHeartbeatRequest(
            group_id=f"{name}{each}", member_id=f"{name}-{each:030}", subscribed_topic_names=["t"]
        )
        assert harness.ask(join, 1).error_code == 0


def share_members(harness: BrokerHarness, name: str, number: int) -> None:
    for each in range(number):
        join = ShareGroupHeartbeatRequest(group_id=name, member_id=f"{name}-{each:030}", subscribed_topic_names=["t"])
        assert harness.ask(join, 1).error_code == 0


def streams_groups(harness: BrokerHarness, name: str, number: int) -> None:
    for each in range(number):
        join = StreamsGroupHeartbeatRequest(
            group_id=f"{name}{each}",
            member_id=f"{name}-{each:030}",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            topology=STATELESS,
            process_id=f"{name}{each}",
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
        )
        assert harness.ask(join, 0).error_code == 0


def further_offsets(harness: BrokerHarness, name: str, number: int) -> None:
    kind = OffsetCommitRequest.Topic.Partition
    partitions = [kind(partition_index=each, committed_offset=5) for each in range(number)]
    commit = OffsetCommitRequest(group_id=name, topics=[OffsetCommitRequest.Topic(name="wide", partitions=partitions)])
    answer = harness.ask(commit, 5)
    assert not any(partition.error_code for partition in answer.topics[0].partitions)


def offsets(harness: BrokerHarness, name: str, number: int) -> None:
    for each in range(number):
        commit_without_member(harness, f"{name}{each}")


def transactional_ids(harness: BrokerHarness, name: str, number: int) -> list[tuple[int, int]]:
    producers = []
    for each in range(number):
        init = InitProducerIdRequest(transactional_id=f"{name}{each}", transaction_timeout_ms=60_000)
        answer = harness.ask(init, 4)
        assert answer.error_code == 0
        producers.append((answer.producer_id, answer.producer_epoch))
    return producers


def open_transactions(harness: BrokerHarness, name: str, number: int) -> None:
    for each, (producer_id, epoch) in enumerate(transactional_ids(harness, name, number)):
        add = AddOffsetsToTxnRequest(
            transactional_id=f"{name}{each}", producer_id=producer_id, producer_epoch=epoch, group_id="g"
        )
        assert harness.ask(add, 3).error_code == 0


def idempotent_producers(harness: BrokerHarness, name: str, number: int) -> None:
    for _ in range(number):
        answer = harness.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), 4)
        batch = build_batch(
            [Record(value=b"")], producer_id=answer.producer_id, producer_epoch=answer.producer_epoch, base_sequence=0
        )
        part = ProduceRequest.Topic.Partition(index=0, records=batch)
        topic = ProduceRequest.Topic(name="t", partition_data=[part])
        answer = harness.ask(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic]), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0


def acls(harness: BrokerHarness, name: str, number: int) -> None:
    kind = CreateAclsRequest.Creation
    rows = [
        kind(
            resource_type=2,
            resource_name=f"{name}{each}",
            resource_pattern_type=3,
            principal="User:alice",
            host="*",
            operation=3,
            permission_type=3,
        )
        for each in range(number)
    ]
    harness.ask(CreateAclsRequest(creations=rows), 3)


THINGS: dict[str, Callable[[BrokerHarness, str, int], object]] = {
    "topic with one partition": topics,
    "further partition of a topic": partitions,
    "classic group of one member": classic_groups,
    "member of a classic group": classic_members,
    "member of a consumer group": consumer_members,
    "share group of one member": share_groups,
    "member of a share group": share_members,
    "streams group of one member": streams_groups,
    "group with one committed offset": offsets,
    "further committed offset of a group": further_offsets,
    "transactional id": transactional_ids,
    "transactional id with an open transaction": open_transactions,
    "idempotent producer in a partition, with its batch": idempotent_producers,
    "ACL": acls,
}


@pytest.mark.parametrize("thing", THINGS)
def test_memory_of_each_thing_is_bounded(thing: str) -> None:
    harness = BrokerHarness(topics={"t": 1, "wide": NUMBER}, config=CONFIGS.get(thing))
    harness.watched = 0  # count only the memory of the broker

    def release() -> None:
        harness.router.requests.restart(0.0)
        harness.journal.restart(0.0)
        harness.sent.clear()

    THINGS[thing](harness, "warm", 2)
    with held(release) as sizes:
        THINGS[thing](harness, "x", NUMBER)
    assert sizes[0] / NUMBER <= declared()[thing]
    assert sizes[0] / NUMBER > declared()[thing] / 2, "the declared size is too large to say anything"


async def test_memory_of_a_connection_is_bounded() -> None:
    number = NUMBER
    async with serving() as place:
        with ExitStack() as sockets:

            async def connect(count: int) -> None:
                for _ in range(count):
                    sockets.enter_context(socket.create_connection(("127.0.0.1", place.port)))
                while len(place.server.pump.connections) < count:
                    await trio.sleep(0.01)

            await connect(2)
            with held(lambda: None) as sizes:
                await connect(number)
    assert sizes[0] / number <= declared()["connection"]


def produce(harness: BrokerHarness, transactional_id: str | None = None, **batch: Any) -> None:
    timestamp = WALL_MS + int(harness.now * 1_000)
    records = build_batch([Record(value=bytes(40), timestamp=timestamp)], **batch)
    topic = ProduceRequest.Topic(name="t", partition_data=[ProduceRequest.Topic.Partition(index=0, records=records)])
    request = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=1_000, topic_data=[topic])
    assert harness.ask(request, 9).responses[0].partition_responses[0].error_code == 0


def transaction(harness: BrokerHarness, sequence: int, producer_id: int, epoch: int) -> None:
    """Commit a transaction with one record."""
    who: dict[str, Any] = {"transactional_id": "x0", "producer_id": producer_id, "producer_epoch": epoch}
    places = [Topic(name="t", partitions=[0])]
    names = {f"v3_and_below_{name}": value for name, value in who.items()}
    answer = harness.ask(AddPartitionsToTxnRequest(v3_and_below_topics=places, **names), 3)
    assert answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
    produce(harness, "x0", producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True)
    assert harness.ask(EndTxnRequest(committed=True, **who), 3).error_code == 0


def test_memory_of_a_long_run_with_retention_is_level() -> None:
    limits = {"log.retention.bytes": 2_048, "log.roll.ms": 1_000, "log.retention.check.interval.ms": 1_000}
    harness = BrokerHarness(topics={"t": 1}, config=limits)
    harness.watched = 0
    topics = harness.broker.cluster.topics
    (producer,) = transactional_ids(harness, "x", 1)
    fetch = FetchRequest.Topic(topic="t", partitions=[FetchRequest.Topic.Partition(partition=0)])
    rounds = iter(range(10 * LONG_RUN))

    def run() -> None:
        for number in islice(rounds, LONG_RUN):
            produce(harness)
            commit_without_member(harness, f"g{number % 2}", offset=number)
            fetch.partitions[0].fetch_offset = topics["t"].partitions[0].log.end
            harness.ask(FetchRequest(max_wait_ms=0, topics=[fetch]), 11)
            if number % 10 == 0:
                transaction(harness, number // 10, *producer)
            harness.wait(0.05)

    def release() -> None:
        """Compact the internal topics, which the broker compacts only from 1 MiB on, and empty the bounded logs of
        requests and events."""
        for name in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
            for partition in topics[name].partitions:
                compact(partition, WALL_MS)
        harness.router.requests.restart(0.0)
        harness.journal.restart(0.0)
        harness.sent.clear()

    run()
    release()
    with held(release) as sizes:
        run()
    assert sizes[0] < 100_000, "the batches of a partition, and caches"
    assert topics["t"].partitions[0].log.size < 8_192


def test_every_declared_size_is_measured() -> None:
    assert declared().keys() == {*THINGS, "connection"}
