"""What a partition remembers of idempotent producers."""

from __future__ import annotations

from typing import Any

import pytest

from kwire import ErrorCode as E
from kwire.records.batch import Record, build_batch, read_batch
from mockbroker.topics.producers import REMEMBERED, SEQUENCES, Appended, Producers


def batch(sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 7) -> Any:
    records = [Record(value=b"v", timestamp=5)] * count
    return read_batch(build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence))


def known(*batches: Any) -> Any:
    """Producers that stored these, one offset a record."""
    producers, offset = Producers(), 0
    for stored in batches:
        assert producers.judge(stored) is E.NONE
        producers.remember(stored, offset)
        offset += stored.count
    return producers


CASES = [  # stored before, what comes, verdict
    ([], batch(0), E.NONE),
    ([], batch(9), E.NONE),  # nobody knows where it should begin
    ([batch(0)], batch(1), E.NONE),
    ([batch(0, 3)], batch(3), E.NONE),
    ([batch(0, 3)], batch(4), E.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ([batch(0, 3)], batch(1), E.OUT_OF_ORDER_SEQUENCE_NUMBER),  # a part of a batch is not that batch
    ([batch(0)], batch(0, epoch=1), E.NONE),
    ([batch(0)], batch(1, epoch=1), E.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ([batch(0), batch(0, epoch=1)], batch(1), E.INVALID_PRODUCER_EPOCH),
    ([batch(0)], batch(5, producer_id=8), E.NONE),
    ([batch(SEQUENCES - 1)], batch(0), E.NONE),  # they begin anew
    ([batch(SEQUENCES - 1, 2)], batch(1), E.NONE),
    ([batch(0)], batch(-1, producer_id=-1, epoch=-1), E.NONE),
]


@pytest.mark.parametrize(("stored", "comes", "verdict"), CASES)
def test_verdicts(stored, comes, verdict):
    assert known(*stored).judge(comes) is verdict


def test_what_came_before_is_known_by_its_place():
    producers = known(batch(0, 3), batch(3, 2))
    assert producers.judge(batch(0, 3)) == Appended(0, 2, 0, 5)
    assert producers.judge(batch(3, 2)) == Appended(3, 4, 3, 5)


def test_only_the_last_few_are_remembered():
    producers = known(*(batch(number) for number in range(REMEMBERED + 1)))
    assert producers.judge(batch(0)) is E.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert isinstance(producers.judge(batch(1)), Appended)


MARKERS = [  # epoch and coordinator epoch of the marker, after one of epoch 3 by coordinator 5
    (3, 5, E.NONE),
    (4, 6, E.NONE),
    (2, 5, E.INVALID_PRODUCER_EPOCH),  # the epoch before
    (0, 9, E.INVALID_PRODUCER_EPOCH),
    (3, 4, E.TRANSACTION_COORDINATOR_FENCED),
    (4, 4, E.TRANSACTION_COORDINATOR_FENCED),
]


@pytest.mark.parametrize(("epoch", "coordinator_epoch", "error"), MARKERS)
def test_marker_of_an_older_epoch_or_coordinator_is_refused(epoch, coordinator_epoch, error):
    producers = known(batch(0, epoch=3))
    producers.end(7, 3, 5, 0)
    assert producers.may_end(7, epoch, coordinator_epoch) is error


def test_marker_of_a_producer_that_never_wrote_here():
    assert Producers().may_end(7, 0, 0) is E.NONE
