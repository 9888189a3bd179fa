"""Retention on the broker's clock and on demand, and long runs in bounded memory."""

from __future__ import annotations

from typing import Any

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kwire.messages.produce import ProduceRequest
from kwire.records.batch import Record, build_batch
from mockbroker.base.timers import OF_LOGS, RetentionDue
from mockbroker.topics.model import Partition

WALL_MS = 1_700_000_000_000
DAY = 86_400


def harness(**configs: str) -> BrokerHarness:
    made = BrokerHarness(topics={})
    made.broker.cluster.create_topic("t", [[0]], {name.replace("_", "."): value for name, value in configs.items()})
    return made


def partition(of: BrokerHarness) -> Partition:
    return of.broker.cluster.topics["t"].partitions[0]


def produce(of: BrokerHarness, size: int = 1, key: bytes | None = None, **batch: Any) -> E:
    timestamp = WALL_MS + round(of.now * 1000)
    records = build_batch([Record(timestamp=timestamp, key=key, value=bytes(size))], **batch)
    data = ProduceRequest.Topic.Partition(index=0, records=records)
    topics = [ProduceRequest.Topic(name="t", partition_data=[data])]
    answer = of.ask(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=topics), 9)
    return E(answer.responses[0].partition_responses[0].error_code)


def test_first_check_after_they_expire_deletes_records():
    of = harness(retention_ms="400000")
    produce(of)
    of.wait(599)
    assert partition(of).log.start == 0
    of.wait(1)
    assert (partition(of).log.start, partition(of).log.end) == (1, 1)
    assert not [key for key in of.broker.deadlines if isinstance(key, RetentionDue)]


def test_append_just_before_a_check_does_not_postpone_it():
    of = harness(retention_bytes="100", segment_bytes="1048576", segment_ms="100")
    for _ in range(4):
        produce(of)
        of.wait(0.2)
    assert partition(of).log.start == 0
    of.now = 300 - 1e-9
    produce(of)
    assert partition(of).log.start == 0
    of.wait(1)
    assert partition(of).log.start > 0


def test_append_just_before_a_check_does_not_postpone_compaction():
    of = harness(cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.01")
    for _ in range(4):
        produce(of, key=b"k")
        of.wait(0.2)
    before = partition(of).log.size
    of.now = 15 - 1e-9
    produce(of, key=b"k")
    assert partition(of).log.size > before
    of.wait(1)
    assert partition(of).log.size < before


def test_default_retention_is_a_week():
    of = harness()
    produce(of)
    of.wait(7 * DAY)
    assert partition(of).log.start == 0
    of.wait(300)
    assert partition(of).log.start == 1


def test_changed_retention_applies_at_the_next_check():
    of = harness()
    produce(of)
    kind = IncrementalAlterConfigsRequest.Resource
    changed = [kind.Config(name="retention.ms", config_operation=0, value="1000")]
    request = IncrementalAlterConfigsRequest(resources=[kind(resource_type=2, resource_name="t", configs=changed)])
    assert of.ask(request, 1).responses[0].error_code == E.NONE
    of.wait(299)
    assert partition(of).log.start == 0
    of.wait(1)
    assert partition(of).log.start == 1


def test_retention_on_demand_does_not_wait_for_the_check():
    of = harness(retention_ms="1000")
    produce(of)
    topics = list(of.broker.cluster.topics.values())
    assert of.broker.logs.run_retention(topics, of.now) == []
    of.wait(1.001)
    assert of.broker.logs.run_retention(topics, of.now) == [partition(of)]
    assert partition(of).log.start == 1


def test_checks_of_a_deleted_topic_are_cancelled():
    of = harness(cleanup_policy="compact,delete", segment_ms="1", min_cleanable_dirty_ratio="1")
    for _ in range(3):
        produce(of, key=b"k", producer_id=5, producer_epoch=0, base_sequence=0)
        of.wait(1)
    assert [key for key in of.broker.deadlines if isinstance(key, OF_LOGS)]
    of.broker.delete_topics([of.broker.cluster.topics["t"]])
    assert not [key for key in of.broker.deadlines if isinstance(key, OF_LOGS) and key.topic_id.int > 1]


@pytest.mark.parametrize("configs", [{"retention_ms": "60000"}, {"retention_bytes": "2000000"}], ids=["ms", "bytes"])
def test_a_long_run_of_a_producer_needs_bounded_memory(configs):
    of = harness(segment_bytes="1048576", **configs)
    sizes = []
    for _ in range(100):
        for _ in range(30):
            assert produce(of, 100_000) == E.NONE
            of.wait(1)
        sizes.append(partition(of).log.size)
    produced = partition(of).log.end * 100_000
    assert produced > 280_000_000
    assert max(sizes[20:]) <= max(sizes[:20]) < 40_000_000
    log = partition(of).log
    assert len(log.stored()) == log.end - log.start
    assert sum(len(each.data) for each in log.stored()) == log.size


def test_a_long_run_of_a_compacted_topic_needs_bounded_memory():
    of = harness(segment_bytes="1048576", cleanup_policy="compact")
    sizes = []
    for number in range(600):
        assert produce(of, 100_000, key=b"%d" % (number % 5)) == E.NONE
        of.wait(1)
        sizes.append(partition(of).log.size)
    assert partition(of).log.end == 600
    assert max(sizes[100:]) < 6_000_000
    keys = {record.key for batch in partition(of).log.batches() for record in batch.records()}
    assert len(keys) == 5


def test_producers_expire_at_the_first_check_after_a_day():
    of = harness()
    assert produce(of, producer_id=5, producer_epoch=0, base_sequence=0) == E.NONE
    of.wait(DAY - 1)
    assert produce(of, producer_id=6, producer_epoch=0, base_sequence=0) == E.NONE
    of.wait(2)
    assert {each.producer_id for each in partition(of).producers} == {6}
    of.wait(DAY + 600)
    assert not list(partition(of).producers)
    assert produce(of, producer_id=5, producer_epoch=0, base_sequence=7) == E.NONE
