"""Acknowledgements: types, their errors, and requests that take effect as a whole."""

from __future__ import annotations

import pytest

from kwire import ErrorCode
from mockbroker.share.acknowledge import (
    BATCH_NOT_ACQUIRED,
    FIRST_PAST,
    LAST_PAST,
    MERGE_FROM,
    NOT_FOUND,
    NOT_OWNER_OF_BATCH,
    NOT_OWNER_OF_OFFSET,
    OFFSET_NOT_ACQUIRED,
    AcknowledgementBatch,
    AcknowledgeType,
    acknowledge,
)
from mockbroker.share.share_partition import SharePartition
from mockbroker.share.state import StateBatch
from tests.mockbroker.share.test_share_partition import LOCK, LOG, Batch, Store, loaded, take

ACCEPT, RELEASE, REJECT, GAP, RENEW = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.GAP,
    AcknowledgeType.RENEW,
)
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def partition(store: Store) -> SharePartition:
    """Return a partition with the offsets 0-4 and 5-9 acquired by a, and 10-14 by b."""
    result = loaded(store)
    take(result, LOG, most=10, size=1)
    take(result, LOG, "b")
    return result


CASES = [
    ("not in flight yet", [(20, 21, [ACCEPT])], FIRST_PAST),
    ("beyond the end", [(12, 15, [ACCEPT])], LAST_PAST),
    ("batch of another member", [(10, 14, [ACCEPT])], NOT_OWNER_OF_BATCH),
    ("across members", [(8, 11, [ACCEPT])], NOT_OWNER_OF_BATCH),
    ("offset twice", [(1, 2, [ACCEPT]), (2, 3, [ACCEPT])], OFFSET_NOT_ACQUIRED),
    ("batch twice", [(0, 4, [REJECT]), (4, 4, [ACCEPT])], BATCH_NOT_ACQUIRED),
]


@pytest.mark.parametrize(("batches", "error"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_an_error_undoes_the_request(partition, store, batches, error):
    given = [AcknowledgementBatch(*batch) for batch in batches]
    assert acknowledge(partition, "a", given, LOCK, 0.0) == error
    assert (store.state.batches, partition.complete_count, partition.start) == ([], 0, 0)
    assert acknowledge(partition, "a", [AcknowledgementBatch(0, 9, [ACCEPT])], LOCK, 0.0) is None


def test_each_offset_can_have_its_own_type(partition, store):
    batch = AcknowledgementBatch(0, 9, [ACCEPT, ACCEPT, RELEASE, REJECT, GAP, ACCEPT, RELEASE, RELEASE, ACCEPT, ACCEPT])
    assert acknowledge(partition, "a", [batch], LOCK, 0.0) is None
    assert store.state.batches == [
        StateBatch(0, 1, ACKNOWLEDGED, 1),
        StateBatch(2, 2, AVAILABLE, 1),
        StateBatch(3, 4, ARCHIVED, 1),
        StateBatch(5, 5, ACKNOWLEDGED, 1),
        StateBatch(6, 7, AVAILABLE, 1),
        StateBatch(8, 9, ACKNOWLEDGED, 1),
    ]
    assert (partition.start, partition.complete_count, partition.next_fetch_offset()) == (2, 5, 2)


def test_offset_of_another_member_is_an_error(partition):
    acknowledge(partition, "a", [AcknowledgementBatch(0, 0, [RELEASE])], LOCK, 0.0)
    take(partition, LOG, "b")
    batch = AcknowledgementBatch(0, 1, [ACCEPT])
    assert acknowledge(partition, "a", [batch], LOCK, 0.0) == NOT_OWNER_OF_OFFSET


def test_offsets_before_the_first_in_flight_are_not_found(store):
    store.state.start_offset = 5
    partition = loaded(store)
    take(partition, LOG[1:])
    partition.batches.first.first  # noqa: B018 - in flight from 5 on
    assert acknowledge(partition, "a", [AcknowledgementBatch(0, 3, [ACCEPT])], LOCK, 0.0) is None, "complete before"
    partition.start = 0
    assert acknowledge(partition, "a", [AcknowledgementBatch(0, 3, [ACCEPT])], LOCK, 0.0) == NOT_FOUND


def test_records_deleted_from_the_log_are_skipped(partition):
    partition.move_start_to_log_start(7)
    batches = [AcknowledgementBatch(0, 3, [ACCEPT]), AcknowledgementBatch(4, 9, [ACCEPT])]
    assert acknowledge(partition, "a", batches, LOCK, 0.0) is None
    assert (partition.start, partition.complete_count) == (7, 3), "0-4 are acquired"
    partition.expire_locks(LOCK)
    assert partition.start == 10


def test_renewal_extends_the_lock_only(partition, store):
    batch = AcknowledgementBatch(0, 4, [RENEW])
    assert acknowledge(partition, "a", [batch], LOCK + 10, 10.0) is None
    assert store.state.batches == []
    partition.expire_locks(LOCK)
    assert partition.next_fetch_offset() == 5, "0-4 are still locked"
    partition.expire_locks(LOCK + 10)
    assert partition.next_fetch_offset() == 0


def test_a_failed_write_undoes_the_acknowledgement(partition, store):
    store.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    batch = AcknowledgementBatch(0, 4, [ACCEPT])
    error = acknowledge(partition, "a", [batch], LOCK, 0.0)
    assert error is not None
    assert error.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    store.error = ErrorCode.NONE
    assert acknowledge(partition, "a", [batch], LOCK, 0.0) is None


def test_acknowledged_one_by_one_a_batch_stays_small(store):
    partition = loaded(store)
    take(partition, [Batch(0, 199)])
    for offset in range(199, 0, -1):
        assert acknowledge(partition, "a", [AcknowledgementBatch(offset, offset, [ACCEPT])], LOCK, 0.0) is None
        assert len(partition.batches.first.runs) <= MERGE_FROM
    assert (partition.start, partition.complete_count) == (0, 199)
