"""RecordReader: the records of a Fetch response, in portions, and the next offset."""

from __future__ import annotations

from typing import Any

import pytest
from golden import ROOT, read

from kwire.messages.fetch import FetchResponse
from kwire.records import Record, build_batch, build_message_set
from kwire.records.control import ControlType, build_marker
from mockbroker.client.errors import CorruptRecord
from mockbroker.client.records import RecordReader

Line = FetchResponse.Topic.Partition
END = 1 << 40  # end of a log that has more records than the response


def line(*data: bytes, end: int = END, aborted: tuple[tuple[int, int], ...] = ()) -> Line:
    """Return a response partition. ``aborted``: producer ids with the first offsets of their transactions."""
    gone = [Line.AbortedTransaction(producer_id=p, first_offset=at) for p, at in aborted]
    return Line(records=b"".join(data), high_watermark=end, aborted_transactions=gone)


def reader(*data: bytes, at: int = 0, committed: bool = False, check_crcs: bool = True, **how: Any) -> RecordReader:
    return RecordReader(("t", 0), at, line(*data, **how), read_committed=committed, check_crcs=check_crcs)


def batch(base: int, count: int, **how: Any) -> bytes:
    records = [Record(value=b"%d" % (base + n), timestamp=n) for n in range(count)]
    return build_batch(records, base_offset=base, **how)


def marker(kind: ControlType, base: int, producer: int) -> bytes:
    return build_marker(kind, producer_id=producer, producer_epoch=0, timestamp=1, base_offset=base)


def offsets(some: Any) -> list[int]:
    return [record.offset for record in some]


def remaining(one: RecordReader) -> list[int]:
    return offsets(one.next_records(1 << 30))


def corrupted(data: bytes, at: int = -1) -> bytes:
    """Return the batch with one flipped bit."""
    flipped = bytearray(data)
    flipped[at] ^= 1
    return bytes(flipped)


def test_records_are_read_in_portions():
    one = reader(batch(0, 3, leader_epoch=4), batch(3, 4, leader_epoch=5))
    assert (offsets(one.next_records(2)), one.next_offset, one.epoch) == ([0, 1], 2, 4)
    assert (offsets(one.next_records(2)), one.next_offset, one.epoch) == ([2, 3], 4, 5)
    assert (offsets(one.next_records(9)), one.next_offset) == ([4, 5, 6], 7)
    assert (one.next_records(9), one.next_offset) == ([], 7)


def test_record_has_topic_partition_and_epoch():
    (record,) = reader(
        build_batch([Record(key=b"k", value=b"v", timestamp=7)], base_offset=3, leader_epoch=2)
    ).next_records(9)
    assert (record.topic, record.partition, record.offset, record.leader_epoch) == ("t", 0, 3, 2)
    assert (record.key, record.value, record.timestamp, tuple(record.headers)) == (b"k", b"v", 7, ())


def test_records_before_the_position_are_skipped():
    """Brokers send whole batches, even if their first records were already read."""
    one = reader(batch(0, 5), batch(5, 5), at=3)
    assert (offsets(one.next_records(2)), remaining(one), one.next_offset) == ([3, 4], [5, 6, 7, 8, 9], 10)


def test_repeated_batches_are_skipped():
    """Batches with lower offsets, or repeated ones, return no records."""
    one = reader(batch(0, 3), batch(0, 3), batch(2, 3), batch(1, 2))
    assert (remaining(one), one.next_offset) == ([0, 1, 2, 3, 4], 5)


def test_records_after_the_last_offset_of_their_batch():
    """Records beyond the batch's last offset are not returned again with the next batch."""
    records = [Record(offset=n, value=b"") for n in range(4)]
    one = reader(build_batch(records, keep_offsets=True, last_offset=1), batch(2, 4))
    assert remaining(one) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("codec", range(5))
def test_compressed_batches(codec):
    one = reader(batch(0, 50, codec=codec), batch(50, 50, codec=codec), at=20)
    assert remaining(one) == list(range(20, 100))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", range(3))
def test_message_sets_of_formats_v0_and_v1(magic, codec):
    """Logs from before Kafka 0.11 have message sets, followed by batches of v2."""
    records = [Record(offset=n, value=b"%d" % n, timestamp=n if magic else -1) for n in range(6)]
    sets = build_message_set(records, magic=magic, codec=codec)
    one = reader(sets, batch(6, 2), at=2)
    some = one.next_records(5)
    assert (offsets(some), one.next_offset) == ([2, 3, 4, 5, 6], 7)
    assert [record.value for record in some] == [b"2", b"3", b"4", b"5", b"6"]
    assert {(record.topic, record.partition) for record in some} == {("t", 0)}
    assert [record.leader_epoch for record in some] == [-1] * 5
    legacy = reader(sets)
    assert (offsets(legacy.next_records(9)), legacy.epoch) == ([0, 1, 2, 3, 4, 5], -1)
    assert (legacy.next_records(9), legacy.epoch) == ([], -1)


def test_offsets_of_a_compacted_batch_are_skipped():
    """The position moves past the last offset of a batch, even if compaction removed all its records."""
    some = [Record(offset=n, value=b"") for n in (2, 5)]
    one = reader(
        build_batch(some, keep_offsets=True, base_offset=0, last_offset=9),
        build_batch([], base_offset=10, last_offset=14),
    )
    assert (remaining(one), one.next_offset) == ([2, 5], 15)
    one = reader(build_batch(some, keep_offsets=True, base_offset=0, last_offset=9))
    assert (offsets(one.next_records(2)), one.next_offset) == ([2, 5], 6)
    assert (one.next_records(2), one.next_offset) == ([], 10)


def test_control_batches_are_skipped():
    one = reader(batch(0, 1), marker(ControlType.COMMIT, 1, 7), batch(2, 1), marker(ControlType.ABORT, 3, 7))
    assert (remaining(one), one.next_offset) == ([0, 2], 4)


def test_read_committed_skips_aborted_transactions():
    """Of two producers, one aborts a transaction and commits the next. Records without a transaction are returned."""
    tx = {"producer_epoch": 0, "base_sequence": 0, "transactional": True}
    data = (
        batch(0, 2, producer_id=1, **tx),
        batch(2, 2, producer_id=2, **tx),
        batch(4, 1),
        marker(ControlType.ABORT, 5, 1),
        batch(6, 1, producer_id=1, **tx),
        marker(ControlType.COMMIT, 7, 2),
        marker(ControlType.COMMIT, 8, 1),
    )
    aborted = ((1, 0),)
    assert remaining(reader(*data, committed=True, aborted=aborted)) == [2, 3, 4, 6]
    assert remaining(reader(*data, committed=False, aborted=aborted)) == [0, 1, 2, 3, 4, 6]
    one = reader(*data, committed=True, aborted=aborted)
    assert (offsets(one.next_records(4)), one.next_offset) == ([2, 3, 4, 6], 7)
    assert (one.next_records(4), one.next_offset) == ([], 9)


def test_fetch_begins_inside_an_aborted_transaction():
    """The response lists the transaction although its records were skipped. The next transaction is another one."""
    tx = {"producer_epoch": 0, "base_sequence": 0, "transactional": True}
    data = marker(ControlType.ABORT, 1, 7), batch(2, 3, producer_id=7, **tx), marker(ControlType.COMMIT, 5, 7)
    one = reader(*data, at=1, committed=True, aborted=((7, 0),))
    assert (remaining(one), one.next_offset) == ([2, 3, 4], 6)


def test_two_transactions_of_one_producer_are_aborted():
    tx = {"producer_epoch": 0, "base_sequence": 0, "transactional": True, "producer_id": 7}
    data = batch(0, 1, **tx), marker(ControlType.ABORT, 1, 7), batch(2, 1, **tx), marker(ControlType.ABORT, 3, 7)
    one = reader(*data, batch(4, 1), committed=True, aborted=((7, 2), (7, 0)))
    assert (remaining(one), one.next_offset) == ([4], 5)


def test_idempotent_batch_is_not_part_of_an_aborted_transaction():
    data = batch(0, 1, producer_id=7, producer_epoch=0, base_sequence=0)
    assert remaining(reader(data, committed=True, aborted=((7, 0),))) == [0]


def test_records_after_the_high_watermark_are_held_back():
    """Brokers read the high watermark before the records, so a response may have later ones. They are fetched again."""
    one = reader(batch(0, 3), batch(3, 3), end=3)
    assert (remaining(one), remaining(one), one.next_offset) == ([0, 1, 2], [], 3)
    one = reader(batch(0, 3), end=0)
    assert (remaining(one), one.next_offset) == ([], 0)
    one = reader(batch(0, 3), batch(3, 3), end=4)
    assert (remaining(one), remaining(one), one.next_offset) == ([0, 1, 2], [], 3)


def test_truncated_batch():
    """It is ignored at the end of a response. If it is the only batch, it is an error, since no retry would help."""
    one = reader(batch(0, 3), batch(3, 3)[:-1])
    assert (remaining(one), one.next_offset) == ([0, 1, 2], 3)
    one = reader(batch(0, 3)[:-1])
    with pytest.raises(CorruptRecord, match="no complete record batch"):
        one.next_records(9)
    assert one.next_offset == 0


@pytest.mark.parametrize("codec", [0, 1])
def test_records_before_a_corrupt_batch_are_returned_first(codec):
    one = reader(batch(0, 3), corrupted(batch(3, 3, codec=codec)), batch(6, 3))
    assert (offsets(one.next_records(9)), one.next_offset) == ([0, 1, 2], 3)
    for _ in range(2):  # the error repeats until a seek
        with pytest.raises(CorruptRecord, match=r"t-0 at offset 3: .*CRC") as raised:
            one.next_records(9)
        assert (raised.value.partition, raised.value.offset, one.next_offset) == (("t", 0), 3, 3)


def test_invalid_records_raise_corrupt_record():
    with pytest.raises(CorruptRecord):
        reader(batch(0, 2)[:16] + b"\x09" + bytes(99)).next_records(9)


def test_check_crcs_off_accepts_a_wrong_crc():
    data = bytearray(batch(0, 3))
    data[17] ^= 1  # in the CRC itself
    with pytest.raises(CorruptRecord):
        reader(bytes(data)).next_records(9)
    assert remaining(reader(bytes(data), check_crcs=False)) == [0, 1, 2]


def test_check_crcs_off_accepts_a_wrong_crc_of_a_control_batch():
    data = bytearray(marker(ControlType.ABORT, 0, 7))
    data[17] ^= 1  # in the CRC itself
    one = reader(bytes(data), batch(1, 1), committed=True, check_crcs=False, aborted=((7, 0),))
    assert (remaining(one), one.next_offset) == ([1], 2)


LAST_DELTA = 23 + 3  # low byte of the last offset delta; if it is corrupt, the batch seems to end later than it does


def with_extra_records(data: bytes) -> bytes:
    changed = bytearray(data)
    changed[LAST_DELTA] += 5
    return bytes(changed)


def test_corrupt_control_batch_does_not_move_the_offset():
    """The records of a control batch are not returned, but its last offset is used, so its CRC is checked too."""
    one = reader(with_extra_records(marker(ControlType.COMMIT, 0, 7)), batch(1, 9))
    with pytest.raises(CorruptRecord):
        one.next_records(9)
    assert one.next_offset == 0


def test_corrupt_aborted_batch_does_not_move_the_offset():
    tx = {"producer_epoch": 0, "base_sequence": 0, "transactional": True, "producer_id": 7}
    one = reader(
        with_extra_records(batch(0, 1, **tx)),
        marker(ControlType.ABORT, 1, 7),
        batch(2, 9),
        committed=True,
        aborted=((7, 0),),
    )
    with pytest.raises(CorruptRecord):
        one.next_records(9)
    assert one.next_offset == 0


def sets() -> list[dict]:
    return list(read(ROOT / "fixtures" / "records" / "sets.jsonl.gz"))


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_record_sets_written_by_kafka(most):
    """The reader returns the same records as Kafka's own reader, without control records, in portions of any size."""
    total = 0
    for each in sets():
        expected = [
            (record["offset"], record["timestamp"], record["value"])
            for batch in each["batches"]
            for record in batch["records"]
            if not batch["control"] and batch["valid"]
        ]
        if not all(batch["valid"] for batch in each["batches"]):
            continue
        one = reader(bytes.fromhex(each["hex"]))
        records = []
        while some := one.next_records(most):
            records += [(r.offset, r.timestamp, r.value if r.value is None else r.value.hex()) for r in some]
        assert records == expected, each["what"]
        assert one.next_offset == max(batch["last_offset"] for batch in each["batches"]) + 1
        total += len(records)
    assert total > 100


@pytest.mark.parametrize("portion", [1, 2, 3, 9])
def test_records_before_a_corrupt_record_are_returned(portion: int) -> None:
    """The check of the CRC is disabled, so the reader meets a record that it cannot decode."""
    data = batch(0, 3)
    last = build_batch([Record(value=b"2", timestamp=2)])[61:]
    damaged = data[: -len(last)] + b"\x7f" + data[1 - len(last) :]
    one = reader(damaged, check_crcs=False)
    found: list[int] = []
    while len(found) < 2:
        found += offsets(one.next_records(portion))
    with pytest.raises(CorruptRecord, match="t-0 at offset 2"):
        one.next_records(portion)
    assert (found, one.next_offset, one.corrupt) == ([0, 1], 2, True)


def test_batches_without_records_for_the_user_set_the_epoch():
    one = reader(batch(0, 2, leader_epoch=4), marker(ControlType.COMMIT, 2, 7))
    assert (remaining(one), one.next_offset, one.epoch) == ([0, 1], 3, -1), "the marker has no epoch"
    empty = reader(batch(0, 2, leader_epoch=4), build_batch([], base_offset=2, last_offset=5, leader_epoch=6))
    assert (remaining(empty), empty.next_offset, empty.epoch) == ([0, 1], 6, 6)


def test_empty_response_has_no_records():
    one = reader()
    assert (one.next_records(5), one.next_offset, one.epoch, one.corrupt) == ([], 0, -1, False)
