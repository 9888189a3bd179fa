"""The log cleaner: the times and the steps of a compaction."""

from __future__ import annotations

from typing import Any

from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.produce import ProduceRequest
from kwire.records.batch import Record, build_batch
from mockbroker.base.timers import CompactionDue
from mockbroker.broker import log_cleaner
from mockbroker.topics.log import PartitionLog
from mockbroker.topics.model import Topic

WALL_MS = 1_700_000_000_000


def harness(settings: dict[str, Any] | None = None, **configs: str) -> BrokerHarness:
    made = BrokerHarness(topics={}, config=settings)
    named = {name.replace("_", "."): value for name, value in configs.items()}
    made.broker.cluster.create_topic("t", [[0]], {"cleanup.policy": "compact", "segment.ms": "1"} | named)
    return made


def topic(of: BrokerHarness) -> Topic:
    return of.broker.cluster.topics["t"]


def log(of: BrokerHarness) -> PartitionLog:
    return topic(of).partitions[0].log


def produce(of: BrokerHarness, *keys: bytes, step: float = 1.0) -> None:
    timestamp = WALL_MS + round(of.now * 1000)
    records = build_batch([Record(timestamp=timestamp, key=key, value=b"v") for key in keys])
    data = ProduceRequest.Topic.Partition(index=0, records=records)
    topics = [ProduceRequest.Topic(name="t", partition_data=[data])]
    answer = of.ask(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=topics), 9)
    assert answer.responses[0].partition_responses[0].error_code == E.NONE
    of.wait(step)


def offsets(of: BrokerHarness) -> list[int]:
    return [record.offset for batch in log(of).batches() for record in batch.records()]


def test_dirty_log_is_compacted_at_the_next_check():
    of = harness()
    for _ in range(4):
        produce(of, b"k")
    assert offsets(of) == [0, 1, 2, 3]
    of.wait(11)
    assert offsets(of) == [2, 3]
    assert not [key for key in of.broker.deadlines if isinstance(key, CompactionDue)]


def test_younger_records_than_the_lag_are_not_compacted():
    of = harness(min_compaction_lag_ms="60000", min_cleanable_dirty_ratio="0")
    for _ in range(4):
        produce(of, b"k")
    of.wait(54)
    assert offsets(of) == [0, 1, 2, 3]
    of.wait(21)
    assert offsets(of) == [2, 3]


def test_disabled_cleaner_compacts_only_on_demand():
    of = harness({"log.cleaner.enable": "false"})
    for _ in range(4):
        produce(of, b"k")
    of.wait(1_000)
    assert offsets(of) == [0, 1, 2, 3]
    assert list(of.broker.logs.compact([topic(of)], of.now)) == []
    assert offsets(of) == [3]


def test_large_compaction_takes_many_steps_of_limited_cost(monkeypatch):
    monkeypatch.setattr(log_cleaner, "STEP", 20_000)
    of = harness()
    for _ in range(50):
        produce(of, *[b"k"] * 100, step=0.01)
    steps = 0
    due = of.broker.logs.compaction_due

    def counted(*given: Any) -> None:
        nonlocal steps
        steps += 1
        due(*given)

    monkeypatch.setattr(of.broker.logs, "compaction_due", counted)
    of.wait(15)
    assert steps > 20
    assert len(offsets(of)) == 1 + 100


def test_records_produced_during_a_compaction_stay(monkeypatch):
    monkeypatch.setattr(log_cleaner, "STEP", 1)
    of = harness()
    for _ in range(4):
        produce(of, b"k", step=0.01)
    steps = of.broker.logs.compact([topic(of)], of.now)
    next(steps)
    produce(of, b"k", step=0)
    produce(of, b"other", step=0)
    assert len(list(steps)) > 3
    assert offsets(of) == [3, 4, 5]


def test_log_that_cannot_be_decoded_is_not_compacted(caplog):
    of = harness()
    for _ in range(3):
        produce(of, b"k")
    stored = log(of).stored()[0]
    stored.data = stored.data[:-1] + b"\xff"
    of.wait(15)
    assert "t-0 was not compacted: " in caplog.text
    assert [each.base_offset for each in log(of).stored()] == [0, 1, 2]
    assert not [key for key in of.broker.deadlines if isinstance(key, CompactionDue)]
