from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator

import golden
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import cells, values

from kwire.blobs import BLOBS, KEYS, RECORDS, STORED, decode_record, decode_stored, encode_record, encode_stored
from kwire.blobs.offsets_topic import (
    ConsumerGroupMemberMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kwire.errors import DecodeError, Truncated, UnknownApi, UnknownRecordType
from kwire.records.batch import batches

TOPIC = "__consumer_offsets"

# Group g has read topic t, partition 0, up to offset 5. Written by hand: type or version, then field by field.
KEY = bytes.fromhex("0001" + "000167" + "000174" + "00000000")
VALUE = bytes.fromhex("0003" + "0000000000000005" + "00000000" + "0000" + "000001a1fc5b92f4")
COMMIT = (
    OffsetCommitKey(group="g", topic="t"),
    OffsetCommitValue(offset=5, leader_epoch=0, commit_timestamp=1795235222260),
)


def test_a_commit() -> None:
    assert decode_record(TOPIC, KEY, VALUE) == COMMIT
    assert encode_record(*COMMIT, 3) == (KEY, VALUE)


def test_a_tombstone() -> None:
    assert decode_record(TOPIC, KEY, None) == (COMMIT[0], None)
    assert encode_record(COMMIT[0], None, 3) == (KEY, None)


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_logs_of_kafka(topic: str) -> None:
    logs = golden.ROOT / "fixtures" / "logs"
    all_batches = batches((logs / f"{topic}.log").read_bytes())
    records = [record for batch in all_batches if not batch.control for record in batch.records()]
    lines = [json.loads(line) for line in (logs / f"{topic}.jsonl").read_text("utf-8").splitlines()]
    assert [record.offset for record in records] == [line["offset"] for line in lines]
    for record, line in zip(records, lines, strict=True):
        key, value = decode_record(topic, record.key, record.value)
        assert KEYS[type(key).__name__] == int(line["key"]["type"])
        assert golden.value_problems(key, 0, line["key"]["data"]) == []
        version = int(line["value"]["version"]) if line["value"] else 0
        if value is None:
            assert line["value"] is None
        else:
            assert golden.value_problems(value, version, as_bytes(value, line["value"]["data"])) == []
        assert encode_record(key, value, version) == (record.key, record.value)


def as_bytes(value: object, line: golden.Line) -> golden.Line:
    """Return the line with the bytes of classic members, in place of the contents that Kafka's tool shows."""
    if not isinstance(value, GroupMetadataValue):
        return line
    inside = [
        {"subscription": b64encode(member.subscription).decode(), "assignment": b64encode(member.assignment).decode()}
        for member in value.members
    ]
    return {**line, "members": [{**shown, **bytes_} for shown, bytes_ in zip(line["members"], inside, strict=True)]}


def pairs() -> Iterator[tuple[str, bytes, bytes]]:
    for topic, names in RECORDS.items():
        for name in names.values():
            keys, found = golden.blobs("fixtures", f"{name}Key"), golden.blobs("fixtures", f"{name}Value")
            for key, value in zip(keys, found, strict=False):
                yield topic, bytes.fromhex(key["hex_as_stored"]), bytes.fromhex(value["hex_as_stored"])


def test_every_type_of_record() -> None:
    seen = set()
    for topic, key, value in pairs():
        keys, found = decode_record(topic, key, value)
        seen |= {type(keys).__name__}
        assert encode_record(keys, found, int.from_bytes(value[:2], "big")) == (key, value)
    assert seen == KEYS.keys() - {"ShareGroupPartitionMetadataKey"}  # only in Kafka 3.9


@pytest.mark.parametrize("topic", RECORDS)
@pytest.mark.parametrize("number", [-1, 18, 24, 32767])
def test_unknown_record_types_have_their_own_error(topic: str, number: int) -> None:
    with pytest.raises(UnknownRecordType, match=f"{topic} at byte 0: unknown record type {number}") as caught:
        decode_record(topic, number.to_bytes(2, "big", signed=True) + b"whatever", b"\0\0")
    assert caught.value.record_type == number


REFUSED: list[tuple[bytes | None, bytes | None, type[DecodeError], str]] = [
    (None, VALUE, DecodeError, "the record has no key, so its type is unknown"),
    (b"\0", VALUE, Truncated, "expected 2 bytes of record type, found 1"),
    (KEY[:-1], VALUE, Truncated, "expected 4 bytes, found 3"),
    (KEY, b"", Truncated, "expected 2 bytes of version, found 0"),
    (KEY, VALUE[:-1], Truncated, "expected 8 bytes, found 7"),
    (KEY, b"\0\5" + VALUE[2:], UnknownApi, "OffsetCommitValue has no version 5: its versions are 0-4"),
    (KEY, b"\xff\xff" + VALUE[2:], UnknownApi, "OffsetCommitValue has no version -1: its versions are 0-4"),
]


@pytest.mark.parametrize(("key", "value", "kind", "reason"), REFUSED)
def test_damaged(key: bytes | None, value: bytes | None, kind: type[DecodeError], reason: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_record(TOPIC, key, value)
    assert type(caught.value) is kind
    assert caught.value.reason == reason


def test_a_key_of_another_type() -> None:
    with pytest.raises(
        UnknownRecordType, match="the record type is 1, but GroupMetadataKey has record type 2"
    ) as caught:
        decode_stored(GroupMetadataKey, KEY)
    assert caught.value.record_type == 1


def test_classic_group() -> None:
    member = GroupMetadataValue.Member(member_id="m", group_instance_id="i", rebalance_timeout=7, session_timeout=8)
    group = GroupMetadataValue(protocol_type="consumer", generation=3, protocol="range", leader="m", members=[member])
    read, version = decode_stored(GroupMetadataValue, encode_stored(group, 0))
    assert (read.members[0].group_instance_id, read.members[0].rebalance_timeout, version) == (None, -1, 0)
    assert decode_stored(GroupMetadataValue, encode_stored(group, 3)) == (group, 3)


def test_consumer_protocol_member_has_no_classic_metadata() -> None:
    """Kafka writes null; what is not written at all is an empty struct."""
    member = ConsumerGroupMemberMetadataValue(classic_member_metadata=None)
    assert encode_stored(member, 0).endswith(bytes.fromhex("01" + "00" + "01" + "00"))
    absent, _ = decode_stored(ConsumerGroupMemberMetadataValue, encode_stored(ConsumerGroupMemberMetadataValue(), 0))
    assert absent.classic_member_metadata == ConsumerGroupMemberMetadataValue.ClassicMemberMetadata()


@given(data=st.data())
def test_round_trip(data: st.DataObject) -> None:
    topic = data.draw(st.sampled_from(sorted(RECORDS)))
    name = data.draw(st.sampled_from(sorted(RECORDS[topic].values())))
    version = data.draw(st.sampled_from(cells(BLOBS[f"{name}Value"])))
    key: object = data.draw(values(BLOBS[f"{name}Key"], 0))
    value: object = data.draw(st.none() | values(BLOBS[f"{name}Value"], version))
    assert decode_record(topic, *encode_record(key, value, version)) == (key, value)


def test_names() -> None:
    assert [name for name in BLOBS if BLOBS[name].__name__ != name] == []
    assert BLOBS.keys() - STORED.keys() == {"StickyUserData"}
    assert KEYS.keys() <= STORED.keys()
