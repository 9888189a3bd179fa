"""A cluster that starts from the data directory of another: groups, offsets and transactions continue."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest
from effort import amount
from hypothesis import settings
from hypothesis.stateful import rule
from tools.broker_harness import BrokerHarness, commit_without_member, committed, stable_member
from tools.durable_broker_harness import DurableBrokerHarness
from tools.producer import Producer, read_committed

from kwire import ErrorCode as E
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.records.batch import Record, build_batch, read_batch
from mockbroker.groups.records import compaction
from mockbroker.topics import compaction as topic_compaction
from mockbroker.transactions import records as transaction_records
from mockbroker.transactions.state import State
from tests.mockbroker.transactions.test_registry import CHECK_INTERVAL, Transactions


@pytest.fixture
def harness() -> DurableBrokerHarness:
    return DurableBrokerHarness()


def test_groups_survive_a_restart(harness):
    member_id = stable_member(harness, "g", assignment=b"its share")
    commit_without_member(harness, "simple", offset=7)
    harness.restart()
    assert harness.ask(HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id), 3).error_code == E.NONE
    assert harness.broker.groups["g"].members[member_id].assignment == b"its share"
    assert committed(harness, "simple") == {("t", 0): 7}
    assert [event.event for event in harness.journal.events][-2:] == ["load", "load"]


def test_deleted_groups_stay_deleted(harness):
    commit_without_member(harness, "g")
    assert harness.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code == E.NONE
    harness.lose_power()
    assert "g" not in harness.broker.groups


def test_unsynced_changes_are_lost_and_were_not_answered(harness):
    commit_without_member(harness, "g", offset=1)
    harness.data_dir.flush()
    commit_without_member(harness, "g", offset=2)  # the response is held until the change is synced
    harness.restart(lambda _: 0, flushed=False)
    assert committed(harness, "g") == {("t", 0): 1}


def test_an_open_transaction_continues_after_a_restart(harness):
    producer = Producer(harness, "tx", new=True)
    assert producer.init() == E.NONE
    assert producer.produce(b"v") == E.NONE
    assert producer.commit("g", 5) == E.NONE
    harness.restart()
    assert harness.broker.transactions["tx"].state is State.ONGOING
    assert read_committed(harness) == []
    assert producer.produce(b"w") == E.NONE
    assert producer.end(committed=True) == E.NONE
    assert read_committed(harness) == [b"v", b"w"]
    harness.restart()
    assert read_committed(harness) == [b"v", b"w"]
    assert committed(harness, "g") == {("t", 0): 5}


def test_a_transaction_times_out_after_a_restart():
    harness = DurableBrokerHarness(config=CHECK_INTERVAL)
    producer = Producer(harness, "tx", new=True, timeout_ms=3_000)
    producer.init()
    producer.produce(b"v")
    harness.wait(2.0)
    harness.restart()
    harness.wait(2.5)
    assert harness.broker.transactions["tx"].state is State.COMPLETE_ABORT


def test_markers_are_written_after_a_restart():
    harness = DurableBrokerHarness(config={"mockbroker.transaction.completion.ms": 1_000})
    producer = Producer(harness, "tx", new=True)
    producer.init()
    producer.produce(b"v")
    assert producer.end(committed=True) == E.NONE
    harness.restart()
    assert harness.broker.transactions["tx"].state is State.PREPARE_COMMIT
    harness.wait(0.0)
    assert harness.broker.transactions["tx"].state is State.COMPLETE_COMMIT
    assert read_committed(harness) == [b"v"]


class Restarting(Transactions):
    """The transaction machine with a broker that is killed between any two requests."""

    def __init__(self) -> None:
        super().__init__()
        harness = DurableBrokerHarness(config=CHECK_INTERVAL)
        for producer in self.producers:
            producer.harness = harness
        self.harness = harness

    @rule()
    def restart(self) -> None:
        self.harness.restart()


TestRestarting = Restarting.TestCase
TestRestarting.settings = settings(max_examples=amount(30, 60), stateful_step_count=40, deadline=None)


# --- compaction ---------------------------------------------------------------------------------------------------


def test_a_log_stays_small(monkeypatch, harness):
    monkeypatch.setattr(compaction, "FIRST_COMPACTION", 2_000)
    producer = Producer(harness, "tx", new=True)
    producer.init()
    for offset in range(200):
        commit_without_member(harness, "g", offset=offset)
        if offset % 20 == 0:
            assert producer.commit("g", 1_000 + offset) == E.NONE
            assert producer.end(committed=offset % 40 == 0) == E.NONE
    log = harness.broker.cluster.partition(*harness.broker.offsets_partition("g")).log
    assert log.size < 8_000
    assert log.end > 200
    before = committed(harness, "g")
    harness.lose_power()
    assert committed(harness, "g") == before == {("t", 0): 199}
    log = harness.broker.cluster.partition(*harness.broker.offsets_partition("g")).log
    assert log.end > 200


def test_compaction_does_a_step_with_each_append(monkeypatch, harness):
    """Records that are appended during a compaction are retained, and the next coordinator loads them."""
    monkeypatch.setattr(compaction, "FIRST_COMPACTION", 20_000)
    monkeypatch.setattr(compaction, "MIN_COMPACTED_PER_APPEND", 500)
    read = list[bytes]()
    monkeypatch.setattr(topic_compaction, "read_batch", lambda data: read.append(data) or read_batch(data))
    log = harness.broker.cluster.partition(*harness.broker.offsets_partition("g")).log
    sizes, most, offset = [log.size], 0, 0
    while sizes[-1] >= sizes[-2:][0]:
        read.clear()
        commit_without_member(harness, "g", offset=offset)
        sizes.append(log.size)
        most, offset = max(most, len(read)), offset + 1
    assert max(sizes) > 20_000 + 3_000  # the log has grown during its compaction
    assert sizes[-1] < 20_000
    assert 0 < most < 15
    monkeypatch.undo()
    harness.lose_power()
    assert committed(harness, "g") == {("t", 0): offset - 1}


def test_log_is_compacted_again_when_it_has_doubled(monkeypatch, harness):
    monkeypatch.setattr(compaction, "FIRST_COMPACTION", 2_000)
    place = harness.broker.offsets_partition("g")
    log = harness.broker.cluster.partition(*place).log
    others = (f"g{number}" for number in range(500) if harness.broker.offsets_partition(f"g{number}") == place)
    for group_id in islice(others, 20):
        commit_without_member(harness, group_id, offset=1)
    begun: list[int] = []
    real = compaction.compaction_of
    monkeypatch.setattr(compaction, "compaction_of", lambda *how: begun.append(log.size) or real(*how))
    sizes: list[int] = []
    for offset in range(400):
        commit_without_member(harness, "g", offset=offset)
        if len(begun) > len(sizes):
            sizes.append(log.size)
    assert len(sizes) > 2
    for compacted, started in zip(sizes, begun[1:], strict=False):
        assert 2 * compacted < started < 2 * compacted + 300, "one more record starts it"
    assert min(begun) > 2_000


def test_compaction_gives_up_if_its_batches_are_deleted(harness):
    for offset in range(20):
        commit_without_member(harness, "g", offset=offset)
    partition = harness.broker.cluster.partition(*harness.broker.offsets_partition("g"))
    steps = compaction.compaction_of(partition, 1_700_000_000_000)
    next(steps)
    partition.log.delete_before(5)
    before = partition.log.stored()
    assert list(steps) != []
    assert partition.log.stored() == before


@pytest.mark.parametrize("committed_", [False, True], ids=["aborted", "committed"])
def test_transaction_that_ends_during_compaction_stays(harness, committed_):
    producer = Producer(harness, "tx", new=True)
    producer.init()
    commit_without_member(harness, "g", offset=1)
    commit_without_member(harness, "g", offset=2)
    assert producer.commit("g", 9) == E.NONE
    commit_without_member(harness, "h", offset=5)
    partition = harness.broker.cluster.partition(*harness.broker.offsets_partition("g"))
    steps = compaction.compaction_of(partition, 1_700_000_000_000)
    assert producer.end(committed=committed_) == E.NONE
    assert list(steps) != []
    harness.lose_power()
    assert committed(harness, "g") == {("t", 0): 9 if committed_ else 2}


def test_a_transaction_log_stays_small(monkeypatch, harness):
    monkeypatch.setattr(compaction, "FIRST_COMPACTION", 2_000)
    producers = [Producer(harness, name, new=True) for name in ("tx", "other")]
    for producer in producers:
        assert producer.init() == E.NONE
    for offset in range(50):
        assert producers[0].commit("g", offset) == E.NONE
        assert producers[0].end(committed=True) == E.NONE
    logs = [partition.log for partition in harness.broker.cluster.topics["__transaction_state"].partitions]
    assert sum(log.end for log in logs) > 150
    assert sum(log.size for log in logs) < 5_000
    harness.lose_power()
    assert (producers[0].commit("g", 50), producers[0].end(committed=True)) == (E.NONE, E.NONE)
    assert committed(harness, "g") == {("t", 0): 50}
    assert set(harness.broker.transactions) == {"tx", "other"}


def test_tombstones_are_retained_for_a_day():
    harness = BrokerHarness()
    commit_without_member(harness, "g")
    commit_without_member(harness, "h")
    partition = harness.broker.cluster.partition(*harness.broker.offsets_partition("g"))
    harness.ask(DeleteGroupsRequest(groups_names=["g"]), 2)
    commit_without_member(harness, "g")
    harness.ask(DeleteGroupsRequest(groups_names=["g"]), 2)
    commit_without_member(harness, "g2")
    keys = []
    for days in (0.5, 2):
        partition.append(read_batch(build_batch([Record(key=b"other", value=b"v")])))
        compaction.compact(partition, round((1_700_000_000 + days * 86_400) * 1_000))
        keys.append([record.value is None for batch in partition.log.batches() for record in batch.records()])
    assert keys == [[True, True, False], [False]]
    assert [batch.last_offset + 1 for batch in partition.log.batches()] == [partition.log.end]


@pytest.mark.parametrize("ended", [None, False, True])
def test_uncommitted_records_do_not_supersede_others(harness, ended):
    producer = Producer(harness, "tx", new=True)
    producer.init()
    commit_without_member(harness, "g", offset=1)
    assert producer.commit("g", 9) == E.NONE
    partition = harness.broker.cluster.partition(*harness.broker.offsets_partition("g"))
    compaction.compact(partition, 1_700_000_000_000)
    harness.lose_power()
    if ended is not None:
        assert producer.end(committed=ended) == E.NONE
    assert committed(harness, "g") == {("t", 0): 9 if ended else 1}


def test_aborted_records_are_removed(harness):
    producers = [Producer(harness, name, new=True) for name in ("tx", "other")]
    assert [producer.init() for producer in producers] == [E.NONE, E.NONE]
    for offset, producer in enumerate(producers * 3):
        assert (producer.commit("g", offset), producer.end(committed=offset == 2)) == (E.NONE, E.NONE)
    partition = harness.broker.cluster.partition(*harness.broker.offsets_partition("g"))
    batches = [batch for batch in partition.log.batches() if not batch.control]
    assert [partition.is_committed(batch) for batch in batches] == [False, False, True, False, False, False]
    assert len(partition.aborted) == 5
    compaction.compact(partition, 1_700_000_000_000)
    results = [batch.base_offset for batch in partition.log.batches() if not batch.control and batch.count]
    assert results == [batches[2].base_offset]
    assert len(partition.aborted) == 5  # their markers are retained for a day
    assert committed(harness, "g") == {("t", 0): 2}
    harness.lose_power()
    assert committed(harness, "g") == {("t", 0): 2}


def test_open_transactions_are_not_compacted(harness):
    producer = Producer(harness, "tx", new=True)
    producer.init()
    commit_without_member(harness, "g", offset=1)
    commit_without_member(harness, "g", offset=2)
    producer.commit("g", 9)
    commit_without_member(harness, "g", offset=3)
    partition = harness.broker.cluster.partition(*harness.broker.offsets_partition("g"))
    compaction.compact(partition, 1_700_000_000_000)
    assert [batch.base_offset for batch in partition.log.batches()] == [0, 1, 2, 3]
    harness.restart()
    assert producer.end(committed=True) == E.NONE
    partition = harness.broker.cluster.partition(*harness.broker.offsets_partition("g"))
    compaction.compact(partition, 1_700_000_000_000)
    assert [batch.base_offset for batch in partition.log.batches() if batch.count] == [3, 4]
    assert committed(harness, "g") == {("t", 0): 3}


def test_a_transactional_id_is_written_when_it_changes(harness):
    producer = Producer(harness, "tx", new=True)
    producer.init()
    producer.produce(b"v")
    log = harness.broker.cluster.topics["__transaction_state"].partition_of("tx").log
    before = log.end
    producer.produce(b"w")
    assert log.end == before
    assert {
        each.transactional_id
        for each in transaction_records.rebuilt(log.batches(), harness.broker.transaction_keeper._wall)
    } == {"tx"}


@pytest.mark.parametrize(("size", "begins"), [(1_048_576, False), (1_048_577, True)])
def test_first_compaction_begins_above_1_mib(monkeypatch: pytest.MonkeyPatch, size: int, begins: bool) -> None:
    begun: list[object] = []

    def compaction_of(partition: object, now_ms: int) -> Iterator[int]:
        begun.append(partition)
        return iter(())

    monkeypatch.setattr(compaction, "compaction_of", compaction_of)
    partition: Any = SimpleNamespace(index=0, log=SimpleNamespace(size=size))
    compaction.Compactor().compact_if_grown(partition, 0)
    assert begun == [partition] * begins
