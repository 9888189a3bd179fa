from __future__ import annotations

from typing import Any

import pytest

from kwire.blobs import encode_stored
from kwire.blobs.control_records import ControlRecordKey, EndTxnMarker, LeaderChangeMessage, VotersRecord
from kwire.errors import DecodeError, Truncated, UnknownApi
from kwire.records.batch import Record, batches, build_batch, read_batch
from kwire.records.control import (
    VALUES,
    ControlRecord,
    ControlType,
    build_marker,
    control_records,
    read_control_record,
)

# The log of a partition after three transactions of librdkafka 2.16.1 on Kafka 4.2.0, the second of them aborted. Below
# is the output of DumpLogSegments of that release for its control batches.
LOG = bytes.fromhex(
    "00000000000000010000004200000000020da20cdb003000000000000001a1fc5b92f4000001a1fc5b92f4"
    "00000000000000000000ffffffff000000012000000008000000010c00000000000000"
    "0000000000000003000000420000000002740eebb8003000000000000001a1fc5b930c000001a1fc5b930c"
    "00000000000000000000ffffffff000000012000000008000000000c00000000000000"
    "0000000000000005000000420000000002d73897fa003000000000000001a1fc5b932c000001a1fc5b932c"
    "00000000000000000000ffffffff000000012000000008000000010c00000000000000"
)
MARKERS = [  # offset, CreateTime, endTxnMarker, coordinatorEpoch
    (1, 1795235222260, "COMMIT", 0),
    (3, 1795235222284, "ABORT", 0),
    (5, 1795235222316, "COMMIT", 0),
]


def test_batches_of_kafka() -> None:
    results = []
    for batch in batches(LOG):
        assert (batch.control, batch.transactional, batch.crc_is_right()) == (True, True, True)
        for record in control_records(batch):
            assert record.marker is not None
            results.append((record.offset, record.timestamp, record.name, record.marker.coordinator_epoch))
    assert results == MARKERS


def test_the_same_bytes_again() -> None:
    (record,) = read_batch(LOG).records()
    assert record.key == encode_stored(ControlRecordKey(type=ControlType.COMMIT), 0)
    assert record.value == encode_stored(EndTxnMarker(coordinator_epoch=0), 0)


def test_markers_are_built_as_kafka_builds_them() -> None:
    built = b""
    for offset, timestamp, name, epoch in MARKERS:
        built += build_marker(
            ControlType[name],
            producer_id=0,
            producer_epoch=0,
            coordinator_epoch=epoch,
            timestamp=timestamp,
            base_offset=offset,
            leader_epoch=0,
        )
    assert built == LOG


def test_marker_of_an_unknown_place() -> None:
    batch = read_batch(build_marker(ControlType.ABORT, producer_id=7, producer_epoch=3, timestamp=5))
    assert (batch.base_offset, batch.leader_epoch, batch.producer_id, batch.producer_epoch) == (0, -1, 7, 3)
    assert (batch.transactional, batch.control, batch.base_sequence) == (True, True, -1)
    (record,) = control_records(batch)
    assert (record.timestamp, record.name, record.marker) == (5, "ABORT", EndTxnMarker(coordinator_epoch=0))


@pytest.mark.parametrize(
    ("other", "name"), [(ControlType.LEADER_CHANGE, "LEADER_CHANGE"), (2, "2"), ("COMMIT", "'COMMIT'")]
)
def test_other_types_end_no_transaction(other: Any, name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} does not end a transaction: use ABORT or COMMIT$"):
        build_marker(other, producer_id=0, producer_epoch=0, timestamp=0)


def test_only_of_control_batches() -> None:
    with pytest.raises(ValueError, match="the batch at offset 0 is not a control batch"):
        control_records(read_batch(build_batch([Record(key=b"\0\0\0\1")])))


@pytest.mark.parametrize(("key", "value", "name"), [
    ("00000007", "ff", "7"),
    ("00000007", None, "7"),
    ("0000ffff", "ff", "-1"),
    ("00050007cafe", "ff", "7"),  # a newer version of the key
])  # fmt: skip
def test_unknown_types_keep_their_bytes(key: str, value: str | None, name: str) -> None:
    data = None if value is None else bytes.fromhex(value)
    result = read_control_record(Record(offset=3, timestamp=4, key=bytes.fromhex(key), value=data))
    assert result == ControlRecord(offset=3, timestamp=4, type=result.type, value=data)
    assert result.name == name


def test_text_of_a_record_has_its_message_and_no_bytes() -> None:
    record = Record(key=bytes.fromhex("00000001"), value=bytes.fromhex("0000" + "00000007"))
    text = repr(read_control_record(record))
    assert text == "ControlRecord(offset=0, timestamp=0, type=1, message=EndTxnMarker(coordinator_epoch=7))"


def test_every_type_has_a_value() -> None:
    assert list(VALUES) == list(ControlType)


# The first batch of __cluster_metadata, of a Kafka 4.2.0 that is broker and controller, node 1.
ELECTED = bytes.fromhex(
    "00000000000000000000004f0000000102fa2e8c54002000000000000001a1fd7dbf93000001a1fd7dbf93"
    "ffffffffffffffffffffffffffff000000013a0000000800000002260000000000010200000001000200000001000000"
)


def test_leader_change_of_kafka() -> None:
    (found,) = control_records(read_batch(ELECTED))
    voters = [LeaderChangeMessage.Voter(voter_id=1)]
    message = LeaderChangeMessage(leader_id=1, voters=voters, granting_voters=voters)
    assert (found.name, found.message, found.marker) == ("LEADER_CHANGE", message, None)
    assert encode_stored(message, 0) == found.value


def test_newer_voters_are_read_as_the_newest() -> None:
    record = Record(key=bytes.fromhex("00000006"), value=bytes.fromhex("0009" + "01" + "00" + "cafe"))
    assert read_control_record(record).message == VotersRecord(version=9)


def test_newer_marker() -> None:
    record = Record(key=bytes.fromhex("00000000"), value=bytes.fromhex("0001" + "00000007" + "cafe"))
    assert read_control_record(record).marker == EndTxnMarker(coordinator_epoch=7)


REFUSED = [
    (None, b"", DecodeError, "the control record has no key, so its type is unknown"),
    ("", b"", Truncated, "expected 2 bytes of version, found 0"),
    ("0000", b"", Truncated, "expected 2 bytes, found 0"),
    ("ffff0000", b"", UnknownApi, "ControlRecordKey has no version -1: its versions are 0"),
    ("00000001", None, DecodeError, "a control record of type 1 needs a value, but the value is null"),
    ("00000006", None, DecodeError, "a control record of type 6 needs a value, but the value is null"),
    ("00000003", b"\0\0\0", Truncated, "expected 8 bytes, found 1"),
    ("00000001", b"\0\0\0", Truncated, "expected 4 bytes, found 1"),
    ("00000000", b"\xff\xff\0\0\0\0", UnknownApi, "EndTxnMarker has no version -1: its versions are 0"),
]


@pytest.mark.parametrize(("key", "value", "kind", "reason"), REFUSED)
def test_damaged(key: str | None, value: bytes | None, kind: type[DecodeError], reason: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read_control_record(Record(key=None if key is None else bytes.fromhex(key), value=value))
    assert type(caught.value) is kind
    assert caught.value.reason == reason


def test_types_have_kafkas_numbers() -> None:
    """ControlRecordType."""
    names = ("ABORT", "COMMIT", "LEADER_CHANGE", "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER", "KRAFT_VERSION", "KRAFT_VOTERS")
    assert {each.name: int(each) for each in ControlType} == {name: number for number, name in enumerate(names)}
