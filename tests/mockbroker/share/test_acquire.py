"""Acquisition: limits, batch sizes, throttled deliveries, compacted records and aborted transactions."""

from __future__ import annotations

from mockbroker.share.acknowledge import AcknowledgementBatch, AcknowledgeType, acknowledge
from mockbroker.share.acquire import AcquireMode, Acquisition, acquire, remove_aborted
from mockbroker.share.share_partition import SharePartition
from tests.mockbroker.share.test_share_partition import LOCK, LOG, Batch, Store, loaded, take

STRICT = AcquireMode.RECORD_LIMIT


def release(partition: SharePartition, first: int, last: int) -> None:
    batch = AcknowledgementBatch(first, last, [AcknowledgeType.RELEASE])
    assert acknowledge(partition, "a", [batch], LOCK, 0.0) is None


def test_last_record_batch_is_acquired_as_a_whole():
    partition = loaded(Store())
    assert take(partition, LOG, most=6) == [(0, 9, 1)]
    assert take(partition, LOG, most=1) == [(10, 14, 1)]


def test_record_limit_is_exact():
    partition = loaded(Store())
    assert take(partition, LOG, most=6, mode=STRICT) == [(0, 5, 1)]
    assert take(partition, LOG, most=7, mode=STRICT) == [(6, 9, 1), (10, 12, 1)]
    assert take(partition, LOG, most=7, mode=STRICT) == [(13, 14, 1)]


def test_new_records_are_divided_at_record_batches():
    assert take(loaded(Store()), LOG, size=6) == [(0, 9, 1), (10, 14, 1)]
    assert take(loaded(Store()), LOG, size=15) == [(0, 14, 1)]
    assert take(loaded(Store()), LOG, size=0) == [(0, 4, 1), (5, 9, 1), (10, 14, 1)]


def test_released_parts_are_acquired_before_new_records():
    partition = loaded(Store())
    take(partition, LOG, most=5)
    release(partition, 1, 2)
    assert partition.next_fetch_offset() == 1
    assert take(partition, LOG) == [(1, 2, 2), (5, 14, 1)]


def test_full_of_records_in_flight_only_released_are_acquired():
    partition = loaded(Store(), in_flight=10)
    assert take(partition, LOG) == [(0, 9, 1)]
    assert not partition.can_acquire()
    release(partition, 5, 9)
    assert take(partition, LOG) == [(5, 9, 2)]


def test_last_delivery_is_of_one_record_alone():
    partition = loaded(Store(), deliveries=3)
    for expected in ([(0, 4, 1)], [(0, 4, 2)]):
        assert take(partition, LOG[:1]) == expected
        release(partition, 0, 4)
    assert take(partition, LOG[:1]) == [(0, 0, 3)]
    assert take(partition, LOG[:1]) == [(1, 1, 3)]
    release(partition, 0, 0)
    assert partition.start == 1, "archived after the last delivery"


def test_often_delivered_records_come_in_smaller_numbers():
    partition = loaded(Store(), deliveries=8)
    log = [Batch(0, 15)]
    for _ in range(4):
        take(partition, log)
        release(partition, 0, 15)
    assert take(partition, log) == [(0, 7, 5)]
    assert take(partition, log) == [(8, 15, 5)]
    release(partition, 0, 15)
    assert take(partition, log) == [(0, 3, 6)]


def test_throttled_records_are_not_mixed_with_others():
    partition = loaded(Store(), deliveries=4)
    take(partition, LOG[:2], size=1)
    release(partition, 0, 9)
    take(partition, LOG[1:2])
    take(partition, LOG[:2])
    release(partition, 5, 9)
    assert take(partition, LOG[1:]) == [(5, 6, 3)]
    assert take(partition, LOG[1:]) == [(7, 8, 3)]


def test_compacted_records_are_archived():
    partition = loaded(Store())
    take(partition, LOG, size=1)
    release(partition, 0, 14)
    request = Acquisition("a", AcquireMode.BATCH_OPTIMIZED, 500, 500, LOCK)
    acquire(partition, request, 0, LOG[2:])
    assert request.acquired == [(10, 14, 2)]
    assert partition.complete_count == 10


def test_no_batches_acquire_nothing():
    partition = loaded(Store())
    request = Acquisition("a", AcquireMode.BATCH_OPTIMIZED, 500, 500, LOCK)
    acquire(partition, request, 0, [])
    partition.move_start_to_log_start(20)
    acquire(partition, request, 0, LOG)
    assert request.acquired == []


def test_aborted_records_are_archived_when_acquired():
    partition = loaded(Store())
    request = Acquisition("a", AcquireMode.BATCH_OPTIMIZED, 500, 500, LOCK)
    acquire(partition, request, 0, LOG)
    remove_aborted(partition, request, [LOG[0], Batch(7, 8)])
    assert (request.acquired, request.count) == ([(5, 6, 1), (9, 14, 1)], 8)
    assert partition.move_start()
    assert (partition.start, partition.complete_count) == (5, 2)
