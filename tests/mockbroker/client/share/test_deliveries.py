from __future__ import annotations

import pytest

from kwire.messages.share_fetch import ShareFetchResponse
from kwire.records import Record, build_batch
from mockbroker.client.errors import CorruptRecord
from mockbroker.client.share import deliveries
from mockbroker.client.share.acknowledgements import AcknowledgeType
from mockbroker.client.share.deliveries import MAX_ACQUIRED, Data, delivery_of

PARTITION = ("t", 3)
GAP, REJECT = AcknowledgeType.GAP, AcknowledgeType.REJECT


def response(records: bytes, *acquired: tuple[int, int, int]) -> Data:
    kind = ShareFetchResponse.Topic.Partition.AcquiredRecords
    ranges = [kind(first_offset=first, last_offset=last, delivery_count=count) for first, last, count in acquired]
    return ShareFetchResponse.Topic.Partition(partition_index=3, records=records, acquired_records=ranges)


def batch(first: int, count: int) -> bytes:
    return build_batch([Record(value=b"%d" % number) for number in range(count)], base_offset=first)


def test_only_acquired_records_are_delivered() -> None:
    data = response(batch(10, 5), (11, 12, 1), (14, 14, 3))
    delivery, error = delivery_of(7, PARTITION, data, check_crcs=True)
    assert error is None
    assert [(record.offset, record.value, record.delivery_count) for record in delivery.records] == [
        (11, b"1", 1),
        (12, b"2", 1),
        (14, b"4", 3),
    ]
    assert {(record.topic, record.partition) for record in delivery.records} == {PARTITION}
    assert (delivery.node_id, delivery.open, delivery.types) == (7, {11, 12, 14}, {})


def test_acquired_offsets_without_record_are_gaps() -> None:
    delivery, _ = delivery_of(7, PARTITION, response(batch(0, 2), (0, 4, 1)), check_crcs=True)
    assert (delivery.open, delivery.types) == ({0, 1}, {2: GAP, 3: GAP, 4: GAP})


def test_corrupt_batch_is_rejected() -> None:
    broken = bytearray(batch(2, 2))
    broken[-1] ^= 1
    data = response(batch(0, 2) + bytes(broken), (0, 3, 1))
    delivery, error = delivery_of(7, PARTITION, data, check_crcs=True)
    assert isinstance(error, CorruptRecord)
    assert error.offset == 2
    assert (delivery.open, delivery.types, delivery.gaps) == ({0, 1}, {2: REJECT, 3: REJECT}, [])


def test_number_of_acquired_records_is_limited() -> None:
    data = response(b"", (0, 5, 1), (100, 100 + MAX_ACQUIRED, 1))
    delivery, error = delivery_of(7, PARTITION, data, check_crcs=True)
    assert str(error) == "t-3: the response delivers more than 1000000 records at once"
    assert delivery.records == []


@pytest.mark.parametrize(("ranges", "fits"), [([(0, 5)], True), ([(0, 6)], False), ([(100, 105)], True)])
def test_limit_counts_the_acquired_records(monkeypatch, ranges: list[tuple[int, int]], fits: bool) -> None:
    monkeypatch.setattr(deliveries, "MAX_ACQUIRED", 6)
    _, error = delivery_of(7, PARTITION, response(b"", *((*each, 1) for each in ranges)), check_crcs=True)
    assert (error is None) is fits


def test_limit_is_for_all_ranges_of_a_response_together(monkeypatch) -> None:
    monkeypatch.setattr(deliveries, "MAX_ACQUIRED", 6)
    for last, fits in ((12, True), (13, False)):
        _, error = delivery_of(7, PARTITION, response(b"", (0, 2, 1), (10, last, 1)), check_crcs=True)
        assert (error is None) is fits


def test_corrupt_batch_without_acquired_records_is_an_error() -> None:
    records = batch(0, 1)
    delivery, error = delivery_of(1, ("t", 0), response(records[:-1] + bytes([records[-1] ^ 1])), check_crcs=True)
    assert (delivery.records, delivery.types) == ([], {})
    assert str(error).startswith("t-0 at offset 0: ")
