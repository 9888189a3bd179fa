"""The cost of one request: work grows no faster than the request and the state that it reads.

Cost is measured in calls of Python functions for two sizes; the second size is ``GROWTH`` times the first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from tools.broker_harness import BrokerHarness, commit_without_member, stable_member
from tools.counting import counted
from tools.share_harness import ShareHarness, Sharer, acquired

from kwire import ErrorCode as E
from kwire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kwire.messages.add_partitions_to_txn import Topic as AddedTopic
from kwire.messages.alter_configs import AlterConfigsRequest
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.create_partitions import CreatePartitionsRequest
from kwire.messages.create_topics import CreateTopicsRequest
from kwire.messages.delete_topics import DeleteTopicsRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.list_offsets import ListOffsetsRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_delete import OffsetDeleteRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.produce import ProduceRequest
from kwire.messages.share_acknowledge import ShareAcknowledgeRequest
from kwire.messages.share_fetch import ShareFetchRequest
from kwire.messages.txn_offset_commit import TxnOffsetCommitRequest
from kwire.records import Record, build_batch
from kwire.records.batch import Batch
from mockbroker.base.effects import Call, Client, Ticket
from mockbroker.base.settings import MAX_NEW_PARTITIONS
from mockbroker.groups.consumer.machine import REGEX_REFRESH_MIN_INTERVAL
from mockbroker.groups.consumer.state import (
    ConsumerGroup,
)
from mockbroker.groups.records.compaction import compact
from mockbroker.topics.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

GROWTH = 8
SLACK = 1.25  # for requests of which only a part grows, and for tables that are made only once
SMALL = 50
Prepare = Callable[[int], tuple[BrokerHarness, Any, int]]


def prepared(**how: Any) -> BrokerHarness:
    harness = BrokerHarness(**how)
    harness.watched = 0  # count only the calls of the broker
    return harness


def unknown_topics(size: int) -> tuple[BrokerHarness, Any, int]:
    topics = [MetadataRequest.Topic(name=f"t{number}") for number in range(size)]
    return prepared(), MetadataRequest(topics=topics, allow_auto_topic_creation=True), 4


def new_topics(size: int) -> tuple[BrokerHarness, Any, int]:
    kind = CreateTopicsRequest.Topic
    topics = [kind(name=f"t{number}", num_partitions=1, replication_factor=1) for number in range(size)]
    return prepared(), CreateTopicsRequest(topics=topics), 2


def repeated_new_topics(size: int) -> tuple[BrokerHarness, Any, int]:
    kind = CreateTopicsRequest.Topic
    topics = [kind(name=f"t{number % size}", num_partitions=1, replication_factor=1) for number in range(2 * size)]
    return prepared(), CreateTopicsRequest(topics=topics), 2


def deleted_topics(size: int) -> tuple[BrokerHarness, Any, int]:
    names = [f"t{number}" for number in range(size)]
    harness = prepared(topics=dict.fromkeys(names, 1) | {"kept": 1})
    for number in range(size):
        commit_without_member(harness, f"g{number}", topic="kept")
    return harness, DeleteTopicsRequest(topic_names=names, timeout_ms=1_000), 1


def one_partition(size: int) -> tuple[BrokerHarness, Any, int]:
    harness = prepared(topics={"t": 1})
    produce(harness, "t", [0], [b""] * 100)
    partition = ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=1)
    topics = [ListOffsetsRequest.Topic(name="t", partitions=[partition] * size)]
    return harness, ListOffsetsRequest(replica_id=-1, topics=topics), 5


def deleted_offsets(size: int) -> tuple[BrokerHarness, Any, int]:
    harness = prepared(topics={f"t{number}": 1 for number in range(size)})
    for number in range(size):
        commit_without_member(harness, "g", topic=f"t{number}")
    kind = OffsetDeleteRequest.Topic
    topics = [kind(name=f"t{n}", partitions=[kind.Partition(partition_index=0)]) for n in range(size)]
    return harness, OffsetDeleteRequest(group_id="g", topics=topics), 0


def unstable_offsets(size: int) -> tuple[BrokerHarness, Any, int]:
    """Let one producer for each partition commit an offset in an open transaction; return the harness and an
    OffsetFetch."""
    harness = prepared(topics={"t": size})
    kind = TxnOffsetCommitRequest.Topic
    for number in range(size):
        identity = producer(harness, f"tx{number}")
        place = kind.Partition(partition_index=number, committed_offset=1)
        topics = [kind(name="t", partitions=[place])]
        request = TxnOffsetCommitRequest(transactional_id=f"tx{number}", group_id="g", topics=topics, **identity)
        assert harness.ask(request, 5).topics[0].partitions[0].error_code == E.NONE
    topic = OffsetFetchRequest.Topic(name="t", partition_indexes=list(range(size)))
    return harness, OffsetFetchRequest(group_id="g", topics=[topic], require_stable=True), 7


def committed_partitions(size: int) -> tuple[BrokerHarness, Any, int]:
    kind = OffsetCommitRequest.Topic
    places = [kind.Partition(partition_index=index, committed_offset=1) for index in range(size)]
    return (
        prepared(topics={"t": size}),
        OffsetCommitRequest(group_id="g", topics=[kind(name="t", partitions=places)]),
        5,
    )


def awaited_partitions(size: int) -> tuple[BrokerHarness, Any, int]:
    """Let a Fetch wait for all partitions; return the harness and a Produce, which does not complete the Fetch."""
    harness = prepared(topics={"t": size})
    kind = FetchRequest.Topic
    wanted = [kind.Partition(partition=index, fetch_offset=0, partition_max_bytes=1000) for index in range(size)]
    topics = [kind(topic="t", partitions=wanted)]
    harness.send(FetchRequest(max_wait_ms=60_000, min_bytes=1 << 30, max_bytes=1 << 30, topics=topics), 11)
    return harness, produced("t", range(size)), 9


def entries_of_a_transaction(size: int) -> tuple[BrokerHarness, Any, int]:
    harness = prepared(topics={"t": size})
    identity = producer(harness, "tx")
    kind = AddPartitionsToTxnRequest.Transaction
    entries = [
        kind(transactional_id="tx", topics=[AddedTopic(name="t", partitions=[number])], **identity)
        for number in range(size)
    ]
    return harness, AddPartitionsToTxnRequest(transactions=entries), 4


def sharing(partitions: int, records: int) -> tuple[BrokerHarness, UUID]:
    """Return a harness with a member of share group ``g`` that has a share session on all partitions and has not
    fetched their records yet."""
    harness = ShareHarness({"t": partitions})
    harness.watched = 0
    Sharer(h=harness).fetch(*range(partitions))
    produce(harness, "t", list(range(partitions)), [b""] * records)
    return harness, harness.topic_id("t")


def share_fetch(**fields: Any) -> ShareFetchRequest:
    given = {
        "share_session_epoch": 1,
        "min_bytes": 1,
        "max_bytes": 1 << 30,
        "max_records": 1 << 20,
        "batch_size": 1 << 20,
    }
    return ShareFetchRequest(group_id="g", member_id="a", **(given | fields))


def shared_partitions(size: int) -> tuple[BrokerHarness, Any, int]:
    harness, _ = sharing(size, 1)
    return harness, share_fetch(), 2


def acknowledged(size: int) -> tuple[BrokerHarness, UUID, list[dict[str, Any]]]:
    """Return acquired records of one partition, and an acknowledgement of each: alternately accept, release and
    reject."""
    harness, topic_id = sharing(1, size)
    assert acquired(harness.ask(share_fetch(), 2)) == [(0, size - 1, 1)]
    each = [{"first_offset": n, "last_offset": n, "acknowledge_types": [1 + n % 3]} for n in range(size)]
    return harness, topic_id, each


def acknowledged_batches(size: int) -> tuple[BrokerHarness, Any, int]:
    harness, topic_id, batches = acknowledged(size)
    kind = ShareAcknowledgeRequest.Topic
    partition = kind.Partition(
        partition_index=0,
        acknowledgement_batches=[kind.Partition.AcknowledgementBatch(**batch) for batch in batches],
    )
    topics = [kind(topic_id=topic_id, partitions=[partition])]
    request = ShareAcknowledgeRequest(group_id="g", member_id="a", share_session_epoch=2, topics=topics)
    return harness, request, 2


def acknowledged_by_a_fetch(size: int) -> tuple[BrokerHarness, Any, int]:
    harness, topic_id, batches = acknowledged(size)
    kind = ShareFetchRequest.Topic
    partition = kind.Partition(
        partition_index=0,
        acknowledgement_batches=[kind.Partition.AcknowledgementBatch(**batch) for batch in batches],
    )
    topics = [kind(topic_id=topic_id, partitions=[partition])]
    return harness, share_fetch(share_session_epoch=2, topics=topics), 2


@pytest.mark.parametrize(
    "prepare",
    [
        unknown_topics,
        new_topics,
        repeated_new_topics,
        deleted_topics,
        one_partition,
        deleted_offsets,
        unstable_offsets,
        committed_partitions,
        awaited_partitions,
        entries_of_a_transaction,
        shared_partitions,
        acknowledged_batches,
        acknowledged_by_a_fetch,
    ],
)
def test_cost_is_linear_in_the_request(prepare: Prepare) -> None:
    costs = []
    for size in (SMALL, GROWTH * SMALL):
        harness, request, version = prepare(size)
        with counted() as calls:
            harness.ask(request, version)
        costs.append(calls.count)
    assert costs[1] < SLACK * GROWTH * costs[0]


def test_partitions_of_one_request_join_a_transaction_at_once() -> None:
    """The transaction log gets each state only once, whatever the number of partitions (KIP-890)."""
    harness = prepared(topics={"t": 20})
    identity = producer(harness, "tx")
    log = harness.broker.cluster.topics[TRANSACTIONS_TOPIC].partition_of("tx").log
    before = log.end
    request = produced("t", range(20), transactional_id="tx", transactional=True, **identity)
    answer = harness.ask(request, 12)
    assert {p.error_code for p in answer.responses[0].partition_responses} == {E.NONE}
    assert log.end == before + 1
    assert len(harness.broker.transactions["tx"].partitions) == 20


def test_unknown_topics_beyond_one_request_are_not_created() -> None:
    harness = prepared(config={"num.partitions": MAX_NEW_PARTITIONS // 2})
    topics = [MetadataRequest.Topic(name=f"t{number}") for number in range(3)]
    for wanted, created in ((topics, 0), (topics[:2], 2)):
        answer = harness.ask(MetadataRequest(topics=wanted), 4)
        assert {topic.error_code for topic in answer.topics} == {E.UNKNOWN_TOPIC_OR_PARTITION}
        assert sum(f"t{number}" in harness.broker.cluster.topics for number in range(3)) == created


def test_new_partitions_of_one_request_are_bounded() -> None:
    harness = prepared(topics={"t": 1, "u": 1})
    kind = CreatePartitionsRequest.Topic
    wanted = [kind(name=name, count=1 + MAX_NEW_PARTITIONS // 2 + n, assignments=None) for n, name in enumerate("tu")]
    answer = harness.ask(CreatePartitionsRequest(topics=wanted, timeout_ms=1_000), 3)
    assert [result.error_code for result in answer.results] == [E.NONE, E.UNKNOWN_SERVER_ERROR]
    assert [len(harness.broker.cluster.topics[name].partitions) for name in "tu"] == [1 + MAX_NEW_PARTITIONS // 2, 1]


def test_a_subscription_is_read_once_for_all_offsets_to_delete() -> None:
    harness = prepared(topics={f"t{number}": 1 for number in range(20)})
    stable_member(harness, "g", metadata=b"\0\1\0\0\0\1\0\2t0\xff\xff\xff\xff\0\0\0\0")
    kind = OffsetDeleteRequest.Topic
    topics = [kind(name=f"t{n}", partitions=[kind.Partition(partition_index=0)]) for n in range(20)]
    answer = harness.ask(OffsetDeleteRequest(group_id="g", topics=topics), 0)
    errors = [topic.partitions[0].error_code for topic in answer.topics]
    assert errors == [E.GROUP_SUBSCRIBED_TO_TOPIC] + [E.NONE] * 19


def test_a_resource_that_alter_configs_repeats_is_refused() -> None:
    """Kafka never answers such a request; mockbroker uses the error that IncrementalAlterConfigs returns."""
    harness = prepared()
    kind = AlterConfigsRequest.Resource
    configs = [kind.Config(name="retention.ms", value="1000")]
    resources = [kind(resource_type=2, resource_name="t", configs=configs)] * 2
    answer = harness.ask(AlterConfigsRequest(resources=resources), 2)
    assert [each.error_code for each in answer.responses] == [E.INVALID_REQUEST] * 2
    assert harness.broker.cluster.topics["t"].configs == {}


def test_a_step_resolves_one_expression() -> None:
    """Each expression is resolved in a separate step, and the last step begins the epoch."""
    topics, members = 50, 8
    harness = prepared(topics={f"t{number}": 1 for number in range(topics)})
    for number in range(members):
        subscribe(harness, f"m{number}", f"t.*|{number}")
    group = harness.broker.groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert all(resolved.topics == {f"t{n}" for n in range(topics)} for resolved in group.resolved_regexes.values())
    harness.now += REGEX_REFRESH_MIN_INTERVAL + 1
    subscribe(harness, "last", "none", wait=False)
    epoch, costs = group.epoch, []
    while harness.router.deadline() <= harness.now:
        assert group.epoch == epoch
        with counted() as calls:
            harness.router.tick(harness.now)
        costs.append(calls.count)
    assert len(costs) == members + 1
    assert max(costs) < sum(costs) / 3


def test_compaction_reads_superseded_batches_once(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = prepared(topics={"t": 1})
    for _ in range(10):
        commit_without_member(harness, "g")
    partition = harness.broker.cluster.topics[OFFSETS_TOPIC].partition_of("g")
    batches, read = len(list(partition.log.batches())), []
    records = Batch.records
    monkeypatch.setattr(Batch, "records", lambda batch, **how: read.append(batch) or records(batch, **how))
    compact(partition, 0)
    assert len(read) == batches + 1  # the latest batch is read twice
    assert len(list(partition.log.batches())) == 1


def subscribe(harness: BrokerHarness, member_id: str, expression: str, *, wait: bool = True) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_regex=expression,
        topic_partitions=[],
    )
    if wait:
        assert harness.ask(request, 1).error_code == E.NONE
        return
    ticket = Ticket(1 << 20, 1, 68, 1)
    harness.router.step(Call(ticket, Client(0, "client", "/127.0.0.1"), request), harness.now)


def producer(harness: BrokerHarness, name: str) -> dict[str, int]:
    answer = harness.ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 4)
    return {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}


def produced(topic: str, indexes: range, *, transactional_id: str | None = None, **how: Any) -> ProduceRequest:
    data = build_batch([Record(timestamp=1, value=b"v")], base_sequence=0 if how else -1, **how)
    placed = [ProduceRequest.Topic.Partition(index=index, records=data) for index in indexes]
    topics = [ProduceRequest.Topic(name=topic, partition_data=placed)]
    return ProduceRequest(transactional_id=transactional_id, acks=-1, topic_data=topics)


def produce(harness: BrokerHarness, topic: str, indexes: list[int], values: list[bytes]) -> None:
    data = build_batch([Record(timestamp=1, value=value) for value in values])
    placed = [ProduceRequest.Topic.Partition(index=index, records=data) for index in indexes]
    harness.ask(ProduceRequest(acks=-1, topic_data=[ProduceRequest.Topic(name=topic, partition_data=placed)]), 9)
