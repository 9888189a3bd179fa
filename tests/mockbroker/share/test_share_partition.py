"""A share partition: loading, releases, locks and the start offset, and invariants for random operations."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kwire import ErrorCode
from mockbroker.share.acknowledge import AcknowledgementBatch, AcknowledgeType, acknowledge
from mockbroker.share.acquire import Acquired, AcquireMode, Acquisition, acquire
from mockbroker.share.in_flight import ACQUIRED, ARCHIVED, AVAILABLE, TERMINAL, RecordState
from mockbroker.share.share_partition import SharePartition, merged
from mockbroker.share.state import ShareState, StateBatch, StateKey
from mockbroker.share.states import StateChange

KEY = StateKey("g", UUID(int=1), 0)
LOCK = 30.0  # seconds
ACKNOWLEDGED = RecordState.ACKNOWLEDGED


@dataclass
class Batch:
    base_offset: int
    last_offset: int


class Store:
    """The share coordinator. ``error``: its response to writes."""

    def __init__(self) -> None:
        self.state = ShareState(1, 0)
        self.error = ErrorCode.NONE

    def write(self, key: StateKey, change: StateChange, now: float) -> ErrorCode:
        if not self.error:
            self.state.start_offset = change.start_offset
            self.state.complete_count = change.complete_count
            self.state.add(change.batches)
        return self.error


def partition_of(store: Store, *, deliveries: int = 5, in_flight: int = 2_000) -> SharePartition:
    return SharePartition(KEY, 0, max_deliveries=deliveries, max_in_flight=in_flight, write=store.write)


def loaded(store: Store, **limits: int) -> SharePartition:
    result = partition_of(store, **limits)
    result.load(store.state, store.state.start_offset)
    return result


def take(
    partition: SharePartition, log: list[Batch], member: str = "a", most: int = 500, now: float = 0.0, **how: Any
) -> list[Acquired]:
    """Acquire the records that a fetch of the log would return."""
    if not partition.can_acquire():
        return []
    offset = partition.next_fetch_offset()
    batches = [batch for batch in log if batch.last_offset >= offset]
    request = Acquisition(member, how.get("mode", AcquireMode.BATCH_OPTIMIZED), how.get("size", 500), most, now + LOCK)
    acquire(partition, request, offset, batches)
    assert request.count == sum(each.size for each in request.acquired)
    return request.acquired


def accept(partition: SharePartition, first: int, last: int, kind: AcknowledgeType = AcknowledgeType.ACCEPT) -> Any:
    return acknowledge(partition, "a", [AcknowledgementBatch(first, last, [kind])], LOCK, 0.0)


LOG = [Batch(0, 4), Batch(5, 9), Batch(10, 14)]


def test_start_offset_moves_over_complete_records_only():
    store = Store()
    partition = loaded(store)
    take(partition, LOG, size=1)
    accept(partition, 5, 9)
    assert (partition.start, partition.complete_count, partition.end) == (0, 5, 14)
    accept(partition, 0, 2)
    assert (partition.start, partition.complete_count) == (3, 5)
    accept(partition, 3, 4)
    assert (partition.start, partition.complete_count, len(partition.batches)) == (10, 0, 1)
    accept(partition, 10, 14)
    assert (partition.start, partition.end, partition.in_flight_count, partition.next_fetch_offset()) == (15, 15, 0, 15)


def test_stored_gaps_are_acquired_again():
    store = Store()
    store.state.add([StateBatch(5, 9, ACKNOWLEDGED, 1), StateBatch(12, 12, ACKNOWLEDGED, 2)])
    partition = loaded(store)
    assert (partition.start, partition.end, partition.next_fetch_offset()) == (0, 12, 0)
    assert take(partition, LOG, most=5) == [(0, 4, 1)]
    assert accept(partition, 0, 4) is None
    assert partition.start == 5, "a gap may follow"
    assert take(partition, LOG) == [(10, 11, 1), (13, 14, 1)]
    assert accept(partition, 10, 11) is None
    assert (partition.start, partition.complete_count) == (13, 0)


def test_loaded_records_keep_their_delivery_count():
    store = Store()
    store.state.add([StateBatch(0, 4, AVAILABLE, 2)])
    assert take(loaded(store), LOG, most=5) == [(0, 4, 3)]


def test_loaded_complete_records_move_the_start_offset():
    store = Store()
    store.state.add([StateBatch(0, 4, ACKNOWLEDGED, 1)])
    partition = loaded(store)
    assert (partition.start, partition.end, partition.complete_count) == (5, 5, 0)


def test_records_deleted_from_the_log_are_archived():
    partition = loaded(Store())
    take(partition, LOG, size=1)
    accept(partition, 0, 4, AcknowledgeType.RELEASE)
    accept(partition, 5, 9)
    partition.move_start_to_log_start(7)
    assert (partition.start, partition.complete_count) == (7, 3)
    assert take(partition, LOG) == []
    partition.move_start_to_log_start(20)
    assert (partition.start, partition.end, partition.complete_count) == (20, 20, 0)


def test_log_start_moves_an_idle_partition():
    partition = loaded(Store())
    partition.move_start_to_log_start(9)
    assert (partition.start, partition.end) == (9, 9)
    partition.move_start_to_log_start(3)
    assert partition.start == 9


def test_released_records_are_available_at_once():
    store = Store()
    partition = loaded(store)
    take(partition, LOG[:1])
    assert partition.release_member("b", 0.0) == ErrorCode.NONE
    assert take(partition, LOG[:1], "b") == []
    partition.release_member("a", 0.0)
    assert take(partition, LOG[:1], "b") == [(0, 4, 2)]
    assert store.state.batches == [StateBatch(0, 4, AVAILABLE, 1)]


def test_release_fails_as_a_whole_without_the_coordinator():
    store = Store()
    partition = loaded(store, deliveries=1)
    take(partition, LOG[:1])
    store.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert partition.release_member("a", 0.0) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert [run.state for batch in partition.batches for run in batch.runs] == [ACQUIRED]
    assert partition.complete_count == 0


def test_locks_end_at_their_own_times():
    partition = loaded(Store())
    take(partition, LOG[:1])
    take(partition, LOG[:2], "b", now=10.0)
    assert partition.next_lock_end == LOCK
    assert not partition.expire_locks(LOCK - 1)
    assert partition.expire_locks(LOCK)
    assert partition.next_lock_end == LOCK + 10
    assert take(partition, LOG[:2], now=LOCK) == [(0, 4, 2)]
    assert partition.expire_locks(LOCK + 10)
    assert partition.next_lock_end == 2 * LOCK
    assert partition.expire_locks(10**6)
    assert partition.next_lock_end == inf


def test_expired_last_delivery_is_archived():
    store = Store()
    partition = loaded(store, deliveries=1)
    take(partition, LOG[:1])
    partition.expire_locks(LOCK)
    assert partition.start == 5
    assert store.state.batches == [StateBatch(0, 4, ARCHIVED, 1)]


def test_state_batches_are_merged():
    batches = [StateBatch(0, 1, 2, 1), StateBatch(2, 2, 2, 1), StateBatch(3, 3, 2, 2), StateBatch(5, 5, 2, 2)]
    assert merged(batches) == [StateBatch(0, 2, 2, 1), StateBatch(3, 3, 2, 2), StateBatch(5, 5, 2, 2)]


class SharePartitionMachine(RuleBasedStateMachine):
    """Members that acquire, acknowledge and lose records at random, changes of the leader, and invariants."""

    def __init__(self) -> None:
        super().__init__()
        self.store = Store()
        self.limits = {"deliveries": 4, "in_flight": 40}
        self.partition = loaded(self.store, **self.limits)
        self.log: list[Batch] = []
        self.now = 0.0
        self.owners: dict[
            int, str
        ] = {}  # the member that acquired an offset last, and has neither acknowledged nor lost it
        self.deliveries: dict[int, int] = {}  # since the last change of the leader
        self.done: set[int] = set()
        self.start = 0
        self.log_start = 0

    @rule(count=st.integers(1, 9), gap=st.integers(0, 2))
    def produce(self, count: int, gap: int) -> None:
        """Append a batch. Compaction may have left a gap before it."""
        base = (self.log[-1].last_offset + 1 if self.log else 0) + gap
        self.log.append(Batch(base, base + count - 1))

    @rule(
        member=st.sampled_from("ab"),
        most=st.integers(1, 20),
        size=st.integers(1, 20),
        mode=st.sampled_from(list(AcquireMode)),
    )
    def acquire(self, member: str, most: int, size: int, mode: AcquireMode) -> None:
        if self.partition.next_fetch_offset() < self.log_start:
            self.partition.move_start_to_log_start(self.log_start)  # as a fetch with an offset out of range does
        result = take(self.partition, self.log, member, most, self.now, size=size, mode=mode)
        if mode is AcquireMode.RECORD_LIMIT:
            assert sum(each.size for each in result) <= most
        for each in result:
            for offset in range(each.first, each.last + 1):
                assert offset not in self.owners, "acquired by two members"
                assert offset not in self.done, "acknowledged before"
                assert each.deliveries > self.deliveries.get(offset, 0), "the delivery count did not grow"
                assert each.deliveries <= self.limits["deliveries"], "delivered too often"
                self.owners[offset] = member
                self.deliveries[offset] = each.deliveries

    @precondition(lambda self: self.owners)
    @rule(data=st.data(), kind=st.sampled_from(list(AcknowledgeType)), fails=st.booleans())
    def acknowledge(self, data: st.DataObject, kind: AcknowledgeType, fails: bool) -> None:
        first = data.draw(st.sampled_from(sorted(self.owners)))
        last = first
        while last + 1 in self.owners and data.draw(st.booleans()):
            last += 1
        member = data.draw(st.sampled_from("ab"))
        mine = all(self.owners[offset] == member for offset in range(max(first, self.partition.start), last + 1))
        start = self.partition.start
        deleted = last < start
        self.store.error = ErrorCode.COORDINATOR_NOT_AVAILABLE if fails else ErrorCode.NONE
        batches = [AcknowledgementBatch(first, last, [kind])]
        error = acknowledge(self.partition, member, batches, self.now + LOCK, self.now)
        self.store.error = ErrorCode.NONE
        renews = kind is AcknowledgeType.RENEW
        if deleted:
            assert error is None
            return
        assert (error is None) == (mine and (renews or not fails)), error
        if error is None and not renews:
            for offset in range(max(first, start), last + 1):
                del self.owners[offset]
                if kind is not AcknowledgeType.RELEASE:
                    self.done.add(offset)

    @precondition(lambda self: self.log)
    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.log_start = data.draw(st.integers(self.log_start, self.log[-1].last_offset))
        self.partition.move_start_to_log_start(self.log_start)

    @rule(member=st.sampled_from("ab"))
    def leave(self, member: str) -> None:
        self.partition.release_member(member, self.now)
        self.owners = {offset: owner for offset, owner in self.owners.items() if owner != member}

    @rule(seconds=st.sampled_from([1.0, 20.0, 40.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        if self.partition.next_lock_end <= self.now:
            self.partition.expire_locks(self.now)
        held = {
            offset
            for batch in self.partition.batches
            for run in batch.runs
            if run.state is ACQUIRED
            for offset in range(run.first, run.last + 1)
        }
        self.owners = {offset: owner for offset, owner in self.owners.items() if offset in held}

    @rule()
    def change_leader(self) -> None:
        """Load the partition on a new leader, which has only the stored state."""
        self.partition = loaded(self.store, **self.limits)
        self.owners.clear()
        self.deliveries.clear()
        self.start = 0

    @invariant()
    def start_offset_never_moves_back(self) -> None:
        assert self.partition.start >= self.start
        self.start = self.partition.start

    @invariant()
    def batches_are_in_order_and_counted(self) -> None:
        previous = -1
        complete = 0
        for batch in self.partition.batches:
            assert batch.first > previous
            assert (batch.runs[0].first, batch.runs[-1].last) == (batch.first, batch.last)
            previous = batch.last
            for run in batch.runs:
                if run.state in TERMINAL:
                    complete += max(0, run.last - max(run.first, self.partition.start) + 1)
                assert run.state is not ACQUIRED or run.locked_until >= self.partition.next_lock_end
        assert complete == self.partition.complete_count

    @invariant()
    def acquired_records_are_those_of_the_owners(self) -> None:
        results = {
            offset: run.member_id
            for batch in self.partition.batches
            for run in batch.runs
            if run.state is ACQUIRED
            for offset in range(run.first, run.last + 1)
        }
        assert results == self.owners


SharePartitionMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestSharePartition = SharePartitionMachine.TestCase
