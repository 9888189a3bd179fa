"""The producer state of a partition."""

from __future__ import annotations

from typing import Any

import pytest

from kwire import ErrorCode as E
from kwire.records.batch import Record, build_batch, read_batch
from mockbroker.topics.producers import REMEMBERED, SEQUENCES, Appended, Producer, Producers


def batch(sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 7) -> Any:
    records = [Record(value=b"v", timestamp=5)] * count
    return read_batch(build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence))


def producers_with(*batches: Any) -> Any:
    """Return the producers after these batches were appended, with one offset per record."""
    producers, offset = Producers(), 0
    for stored in batches:
        assert producers.check(stored) is E.NONE
        producers.record(stored, offset)
        offset += stored.count
    return producers


CASES = [  # appended batches, next batch, result
    ([], batch(0), E.NONE),
    ([], batch(9), E.NONE),  # the first sequence is not checked before KIP-890
    ([batch(0)], batch(1), E.NONE),
    ([batch(0, 3)], batch(3), E.NONE),
    ([batch(0, 3)], batch(4), E.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ([batch(0, 3)], batch(1), E.OUT_OF_ORDER_SEQUENCE_NUMBER),  # a part of a batch is not a duplicate of it
    ([batch(0)], batch(0, epoch=1), E.NONE),
    ([batch(0)], batch(1, epoch=1), E.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ([batch(0), batch(0, epoch=1)], batch(1), E.INVALID_PRODUCER_EPOCH),
    ([batch(0)], batch(5, producer_id=8), E.NONE),
    ([batch(SEQUENCES - 1)], batch(0), E.NONE),  # sequences wrap around to 0
    ([batch(SEQUENCES - 1, 2)], batch(1), E.NONE),
    ([batch(0)], batch(-1, producer_id=-1, epoch=-1), E.NONE),
]


@pytest.mark.parametrize(("stored", "following", "result"), CASES)
def test_sequence_and_epoch_are_checked(stored, following, result):
    assert producers_with(*stored).check(following) is result


def test_duplicate_returns_the_earlier_batch():
    producers = producers_with(batch(0, 3), batch(3, 2))
    assert producers.check(batch(0, 3)) == Appended(0, 2, 0, 5)
    assert producers.check(batch(3, 2)) == Appended(3, 4, 3, 5)


def test_only_the_last_five_batches_are_remembered():
    producers = producers_with(*(batch(number) for number in range(REMEMBERED + 1)))
    assert producers.check(batch(0)) is E.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert isinstance(producers.check(batch(1)), Appended)


MARKERS = [  # producer and coordinator epoch of the marker, after a marker with epochs 3 and 5
    (3, 5, E.NONE),
    (4, 6, E.NONE),
    (2, 5, E.INVALID_PRODUCER_EPOCH),  # the previous epoch
    (0, 9, E.INVALID_PRODUCER_EPOCH),
    (3, 4, E.TRANSACTION_COORDINATOR_FENCED),
    (4, 4, E.TRANSACTION_COORDINATOR_FENCED),
]


@pytest.mark.parametrize(("epoch", "coordinator_epoch", "error"), MARKERS)
def test_marker_of_an_older_epoch_or_coordinator_is_refused(epoch, coordinator_epoch, error):
    producers = producers_with(batch(0, epoch=3))
    producers.end(7, 3, 5, 0)
    assert producers.marker_error(7, epoch, coordinator_epoch) is error


def test_marker_of_a_producer_that_never_wrote_here():
    assert Producers().marker_error(7, 0, 0) is E.NONE


def in_transaction(sequence: int, epoch: int = 0) -> Any:
    data = build_batch(
        [Record(value=b"v", timestamp=5)],
        producer_id=7,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )
    return read_batch(data)


def test_sequences_have_31_bits() -> None:
    assert producers_with(batch(2**31 - 1)).check(batch(0)) is E.NONE
    assert producers_with(batch(2**31 - 1)).check(batch(2**30)) is E.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_lowest_verified_sequence_is_appended_first() -> None:
    producers = Producers()
    for sequence in (5, 3, 5, 4):
        producers.begin_verification(in_transaction(sequence))
    for sequence in (5, 4):
        assert producers.check(in_transaction(sequence)) is E.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.check(in_transaction(3)) is E.NONE
    producers.record(in_transaction(3), 0)
    assert producers.check(in_transaction(4)) is E.NONE


def test_verification_in_a_new_epoch_starts_again() -> None:
    producers = Producers()
    producers.begin_verification(in_transaction(3))
    producers.begin_verification(in_transaction(7, epoch=1))
    assert producers.check(in_transaction(7, epoch=1)) is E.NONE
    assert producers.check(in_transaction(8, epoch=1)) is E.OUT_OF_ORDER_SEQUENCE_NUMBER
    producers.begin_verification(in_transaction(9, epoch=1))
    producers.begin_verification(in_transaction(9, epoch=0))  # in an old epoch: the lowest sequence remains
    assert producers.check(in_transaction(8, epoch=1)) is E.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_open_transaction_refuses_a_batch_outside() -> None:
    producers = producers_with(in_transaction(0))
    assert producers.check(batch(1)) is E.INVALID_TXN_STATE
    assert producers.check(in_transaction(1)) is E.NONE
    producers.end(7, 0, 0, 5)
    assert producers.check(batch(1)) is E.NONE


def test_batch_without_a_sequence_is_recorded_without_one() -> None:
    producers = Producers()
    producers.record(batch(-1), 4)
    [producer] = producers
    assert [(each.first_sequence, each.last_sequence) for each in producer.batches] == [(-1, -1)]


def test_appended_batch_knows_its_last_offset_across_the_wrap() -> None:
    assert Appended(3, 5, 100, 0).last_offset == 102
    assert Appended(SEQUENCES - 1, 1, 100, 0).last_offset == 102
    assert (SEQUENCES, REMEMBERED) == (2**31, 5)


def test_sequences_of_a_batch_wrap_around() -> None:
    producers = producers_with(batch(SEQUENCES - 1, 3))
    [producer] = producers
    [appended] = producer.batches
    assert (appended.first_sequence, appended.last_sequence, producer.last_sequence) == (SEQUENCES - 1, 1, 1)
    assert producers.check(batch(SEQUENCES - 1, 3)) is appended


def test_new_producer_has_no_batches_or_times() -> None:
    producer = Producer(7, 3)
    assert (producer.last_sequence, producer.coordinator_epoch, producer.last_timestamp, producer.opened) == (
        *(-1, -1, -1),
        None,
    )


@pytest.mark.parametrize(("sequence", "result"), [(0, E.NONE), (1, E.OUT_OF_ORDER_SEQUENCE_NUMBER)])
def test_new_producer_starts_at_zero_since_kip_890(sequence: int, result: E) -> None:
    assert Producers().check(batch(sequence), starts_at_zero=True) is result
    assert producers_with(batch(0)).check(batch(1), starts_at_zero=True) is E.NONE


def test_open_transactions_are_listed_the_oldest_first() -> None:
    producers = Producers()
    assert (producers.first_unstable, producers.open(), producers.oldest_timestamp()) == (None, [], None)
    for offset, (producer_id, timestamp) in enumerate(((9, 70), (7, 50), (8, 60)), 3):
        producers.record(of_producer(producer_id, timestamp), offset)
    assert ([each.producer_id for each in producers.open()], producers.first_unstable) == ([9, 7, 8], 3)
    assert producers.oldest_timestamp() == 50
    assert producers.end(9, 0, 1, 80) == 3
    assert ([each.producer_id for each in producers.open()], producers.first_unstable) == ([7, 8], 4)
    assert producers.end(9, 0, 1, 80) is None, "no transaction is open"


def of_producer(producer_id: int, timestamp: int, *, transactional: bool = True) -> Any:
    data = build_batch(
        [Record(value=b"v", timestamp=timestamp)],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=transactional,
    )
    return read_batch(data)


@pytest.mark.parametrize(
    ("producer_id", "epoch", "is_open"), [(7, None, True), (7, 0, True), (7, 1, False), (8, None, False)]
)
def test_transaction_is_open_in_its_epoch(producer_id: int, epoch: int | None, is_open: bool) -> None:
    producers = producers_with(in_transaction(0))
    assert producers.is_open(producer_id, epoch) is is_open
    producers.end(7, 0, 1, 5)
    assert not producers.is_open(producer_id, epoch)


def test_transaction_opens_with_its_first_batch() -> None:
    producers = producers_with(in_transaction(0), in_transaction(1))
    assert [(each.opened, each.last_timestamp) for each in producers] == [(0, 5)]
    assert not producers_with(batch(0)).open()


@pytest.mark.parametrize(("before", "left"), [(49, [7, 8]), (50, [8]), (59, [8]), (60, [])])
def test_unused_producer_expires(before: int, left: list[int]) -> None:
    producers = Producers()
    producers.record(of_producer(7, 50, transactional=False), 0)
    producers.record(of_producer(8, 60, transactional=False), 1)
    producers.remove_expired(before)
    assert [each.producer_id for each in producers] == left


def test_producer_with_an_open_transaction_does_not_expire() -> None:
    producers = producers_with(in_transaction(0))
    producers.remove_expired(1_000)
    assert len(list(producers)) == 1
    producers.end(7, 0, 1, 70)
    producers.remove_expired(69)
    assert len(list(producers)) == 1
    producers.begin_verification(in_transaction(5))
    producers.remove_expired(70)
    assert list(producers) == []
    assert producers.check(in_transaction(6)) is E.NONE, "the verified sequence expired too"


def test_marker_sets_epoch_coordinator_and_time() -> None:
    producers = producers_with(batch(0), batch(1))
    producers.end(7, 4, 9, 80)
    [producer] = producers
    assert (producer.epoch, producer.coordinator_epoch, producer.last_timestamp) == (4, 9, 80)
    assert list(producer.batches) == [], "a new epoch starts at sequence 0"
    producers = producers_with(batch(0))
    producers.end(7, 0, 9, 80)
    assert [each.last_sequence for each in producers] == [0]


def test_marker_ends_the_verification() -> None:
    producers = Producers()
    producers.begin_verification(in_transaction(3))
    producers.end(7, 0, 1, 5)
    assert producers.check(in_transaction(4)) is E.OUT_OF_ORDER_SEQUENCE_NUMBER, "the producer is known by its marker"
    assert producers.check(in_transaction(0)) is E.NONE
    producers = producers_with(*(in_transaction(sequence) for sequence in range(4)))
    producers.end(7, 0, 1, 5)
    producers.begin_verification(in_transaction(2))
    assert producers.check(in_transaction(4)) is E.OUT_OF_ORDER_SEQUENCE_NUMBER
    producers.end(7, 0, 1, 5)
    assert producers.check(in_transaction(4)) is E.NONE


def test_first_producer_makes_a_check_for_expiry_necessary() -> None:
    producers = Producers()
    assert not producers.unchecked
    producers.record(batch(0), 0)
    assert producers.unchecked
    producers.unchecked = False
    producers.record(batch(0, producer_id=8), 1)
    assert not producers.unchecked


def test_batch_of_no_producer_has_no_state() -> None:
    producers = Producers()
    producers.record(read_batch(build_batch([Record()])), 0)
    assert list(producers) == []


def test_verified_sequence_binds_transactional_batches_only() -> None:
    producers = Producers()
    producers.begin_verification(in_transaction(3))
    assert producers.check(batch(5)) is E.NONE
    assert producers.check(in_transaction(4)) is E.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("version", [0, 1, 2])
def test_marker_of_version_2_has_a_later_epoch(version: int) -> None:
    producers = producers_with(of_producer(7, 5))
    refused = E.INVALID_PRODUCER_EPOCH if version == 2 else E.NONE
    assert producers.marker_error(7, 0, 5, version) is refused
    assert producers.marker_error(7, 1, 5, version) is E.NONE
    producers.end(7, 1, 5, 0)
    assert producers.marker_error(7, 1, 5, version) is E.NONE, "a retry, without an open transaction"
