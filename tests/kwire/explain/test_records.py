from __future__ import annotations

import gzip
import struct
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire import DecodeError, encode_request
from kwire.engines.varints import uvarint, varint
from kwire.explain import UNREAD, Explanation, Piece, explain_request
from kwire.explain.records import TOO_MANY_FRAME_LEAVES, Allowance, explain_records
from kwire.messages.produce import ProduceRequest
from kwire.records import build_message_set, read
from kwire.records.batch import Record, build_batch
from kwire.records.compression import GZIP, LZ4, NAMES, SNAPPY

RECORDS = [
    Record(key=b"k", value=b"tea", timestamp=1_700_000_000_000, headers=[("h", b"1"), ("none", None)]),
    Record(value=b"\xff\x00", timestamp=1_700_000_000_005),
    Record(key=None, value=None, timestamp=1_700_000_000_005),
]


def explained(data: bytes, base: int = 0) -> Explanation:
    """Return the explanation of a records field whose bytes begin at ``base``."""
    name, pieces = explain_records(data, base, "records", Allowance())
    return Explanation(name, bytes(base) + data, pieces)


def problems(found: Explanation, at: int = 0) -> list[str]:
    """Return the places where the leaves do not follow each other, including those in decompressed data."""
    wrong = []
    for leaf in found.leaves():
        if leaf.offset != at:
            wrong.append(f"{leaf.path} is at {leaf.offset}, expected {at}")
        at = leaf.end
        if leaf.unpacked is not None:
            wrong += problems(leaf.unpacked)
    return wrong if at == len(found.frame) else [*wrong, f"ends at {at} of {len(found.frame)}"]


def values(found: Explanation, name: str) -> list[Any]:
    return [piece.value for _, piece in found.walk() if piece.name == name]


def test_a_batch() -> None:
    data = build_batch(RECORDS, base_offset=7, producer_id=4, producer_epoch=1, base_sequence=9)
    explanation = explained(data, 10)
    assert problems(explanation, 10) == []
    (batch,) = explanation.pieces
    assert (explanation.name, batch.path, batch.type) == ("1 batch", "records[0]", "record batch")
    assert batch.note == f"3 records, offsets 7-9, none, {len(data)} bytes, producer 4 epoch 1 sequence 9"
    assert [(piece.name, piece.value, piece.note) for piece in batch.fields][:9] == [
        ("base_offset", 7, ""),
        ("batch_length", len(data) - 12, ""),
        ("partition_leader_epoch", -1, ""),
        ("magic", 2, ""),
        ("crc", struct.unpack_from(">I", data, 17)[0], "right"),
        ("attributes", 0, "none"),
        ("last_offset_delta", 2, ""),
        ("base_timestamp", 1_700_000_000_000, "2023-11-14T22:13:20.000Z"),
        ("max_timestamp", 1_700_000_000_005, "2023-11-14T22:13:20.005Z"),
    ]
    records = batch.fields[-1]
    assert (records.type, records.value, records.own) == ("array of record", 3, 4)
    assert [record.note for record in records.fields] == [
        "offset 7, 2023-11-14T22:13:20.000Z",
        "offset 8, 2023-11-14T22:13:20.005Z",
        "offset 9, 2023-11-14T22:13:20.005Z",
    ]
    first = records.fields[0]
    assert [(piece.name, piece.type, piece.value) for piece in first.pieces] == [
        ("length", "varint", 20),
        ("attributes", "int8", 0),
        ("timestamp_delta", "varlong", 0),
        ("offset_delta", "varint", 0),
        ("key", "nullable_bytes", "aw=="),
        ("value", "nullable_bytes", "dGVh"),
        ("headers", "array of header", 2),
    ]
    assert values(explanation, "value") == ["dGVh", "MQ==", None, "/wA=", None]


@pytest.mark.parametrize("codec", [codec for codec in NAMES if codec])
def test_compressed_records(codec: int) -> None:
    explanation = explained(build_batch(RECORDS, codec=codec))
    assert problems(explanation) == []
    (packed,) = [leaf for leaf in explanation.leaves() if leaf.unpacked]
    assert (packed.path, packed.type) == (f"records[0].records.{NAMES[codec]}", "compressed")
    assert packed.unpacked is not None
    assert packed.note == f"{packed.length} bytes, {len(packed.unpacked.frame)} unpacked"
    assert values(packed.unpacked, "value") == values(explained(build_batch(RECORDS)), "value")
    assert packed.unpacked.pieces[0].path == "records[0].records[0]"


def test_a_wrong_checksum() -> None:
    data = bytearray(build_batch(RECORDS))
    data[17] ^= 1
    explanation = explained(bytes(data))
    assert explanation.pieces[0].note.endswith("wrong checksum")
    assert [leaf.note for leaf in explanation.leaves() if leaf.name == "crc"] == ["wrong"]
    assert len(values(explanation, "key")) == 5  # explained nevertheless


def test_a_control_batch() -> None:
    data = bytearray(build_batch([Record(key=b"\0\0\0\1", value=bytes(6))]))
    data[22] = 0x30
    explanation = explained(bytes(data))
    assert "transactional, control" in explanation.pieces[0].note
    assert [piece.note for _, piece in explanation.walk() if piece.type == "record"] == [
        "offset 0, 1970-01-01T00:00:00.000Z, COMMIT"
    ]


def unread(found: Explanation) -> list[tuple[str, str]]:
    return [(leaf.path, leaf.error) for leaf in found.leaves() if leaf.type == UNREAD]


def test_damage_in_one_batch_does_not_hide_the_next() -> None:
    one = bytearray(build_batch(RECORDS[:1]))
    one[65] = 0x7E  # the length of the key
    data = bytes(one) + build_batch(RECORDS)
    explanation = explained(data)
    assert problems(explanation) == []
    assert len(explanation.pieces) == 2
    assert unread(explanation) == [("records[0].records[0]", "key has 63 bytes, but only 16 remain")]
    assert len(values(explanation, "key")) == 5


BROKEN = [  # data, the text about its end
    (bytes(5), "a record batch has at least 61 bytes, but only 5 remain"),
    (build_batch(RECORDS)[:70], "remain"),
    (bytes(16) + b"\x07" + bytes(60), "magic is 7, expected 0, 1 or 2"),
    (bytes(16) + b"\x02" + bytes(60), "a batch has 12 bytes, below the minimum of 61"),
    (bytes(16) + b"\x00" + bytes(60), "a message has 12 bytes, below the minimum of 26"),
]


@pytest.mark.parametrize(("data", "said"), BROKEN)
def test_bytes_that_are_not_a_batch(data: bytes, said: str) -> None:
    explanation = explained(build_batch(RECORDS) + data)
    assert problems(explanation) == []
    ((path, error),) = unread(explanation)
    assert path == "records[1]"
    assert said in error


def message(magic: int, value: bytes, attributes: int = 0) -> bytes:
    timestamp = struct.pack(">q", 1_700_000_000_000) if magic else b""
    body = (
        struct.pack(">bb", magic, attributes)
        + timestamp
        + struct.pack(">i", -1)
        + struct.pack(">i", len(value))
        + value
    )
    return struct.pack(">qiI", 3, len(body) + 4, crc32(body)) + body


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_before_there_were_batches(magic: int) -> None:
    explanation = explained(message(magic, b"tea") * 2)
    assert problems(explanation) == []
    assert explanation.name == "2 messages"
    size = len(message(magic, b"tea"))
    assert explanation.pieces[0].note == f"offset 3, magic {magic}, none, {size} bytes"
    assert values(explanation, "value") == ["dGVh", "dGVh"]
    assert {leaf.note for leaf in explanation.leaves() if leaf.name == "crc"} == {"right"}
    stamps = [leaf.note for leaf in explanation.leaves() if leaf.name == "timestamp"]
    assert stamps == ["2023-11-14T22:13:20.000Z"] * (2 * magic)


def test_a_wrong_checksum_of_a_message() -> None:
    data = bytearray(message(1, b"tea"))
    data[-1] ^= 1
    explanation = explained(bytes(data))
    assert explanation.pieces[0].note.count("wrong checksum") == 1
    assert [leaf.note for leaf in explanation.leaves() if leaf.name == "crc"] == ["wrong"]


def test_messages_in_a_message() -> None:
    explanation = explained(message(1, gzip.compress(message(1, b"tea"), mtime=0), GZIP))
    assert problems(explanation) == []
    (packed,) = [leaf for leaf in explanation.leaves() if leaf.unpacked]
    assert packed.unpacked is not None
    assert values(packed.unpacked, "value") == ["dGVh"]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_wrapper_of_each_codec(magic: int, codec: int) -> None:
    explanation = explained(build_message_set([Record(value=b"tea")], magic=magic, codec=codec))
    assert problems(explanation) == []
    (packed,) = [leaf for leaf in explanation.leaves() if leaf.type == "compressed"]
    assert packed.error == ""
    assert packed.unpacked is not None
    assert values(packed.unpacked, "value") == ["dGVh"]


def test_bytes_after_the_value_of_a_wrapper() -> None:
    value = gzip.compress(message(1, b"tea"), mtime=0)
    body = struct.pack(">bbqii", 1, GZIP, 0, -1, len(value)) + value + b"more"
    explanation = explained(struct.pack(">qiI", 3, len(body) + 4, crc32(body)) + body)
    assert problems(explanation) == []
    (packed,) = [leaf for leaf in explanation.leaves() if leaf.unpacked]
    assert (packed.length, unread(explanation)) == (len(value), [("records[0]", "4 trailing bytes after the value")])


@pytest.mark.parametrize(
    ("size", "error"), [(99, "value has 99 bytes, but only 4 remain"), (-1, "4 trailing bytes after the value")]
)
def test_length_of_the_value_of_a_wrapper(size: int, error: str) -> None:
    body = struct.pack(">bbii", 0, GZIP, -1, size) + b"more"
    explanation = explained(struct.pack(">qiI", 3, len(body) + 4, crc32(body)) + body)
    assert problems(explanation) == []
    assert unread(explanation) == [("records[0]", error)]


def batch_of(fields: bytes) -> bytes:
    """Return a batch of one record with these encoded fields, at base offset 7."""
    records = varint(len(fields)) + fields
    head = struct.pack(">qiibIhiqqqhii", 7, 49 + len(records), -1, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1)
    return head + records


FIELDS = [  # encoded fields of a record
    pytest.param(b"\0\0" + uvarint(2**33 + 4) + b"\1\1\0", id="offset delta of 34 bits in five bytes"),
    pytest.param(b"\0\0\x80\x80\x80\x80\x80\0\1\1\0", id="offset delta of six bytes"),
    pytest.param(b"\0\x80\x80\x80\x80\x80\0\0\1\1\0", id="timestamp delta of six bytes"),
    pytest.param(b"\0\0\0\x80\x80\x80\x80\x80\0\1\0", id="key length of six bytes"),
    pytest.param(b"\0\0\0\1\1\2\1\1", id="null key of a header"),
    pytest.param(b"\0\0\0\1\1\2\0\1", id="null value of a header"),
]


def decoded(data: bytes) -> str:
    """Return the offset of the only record as the explanation shows it, or the error of decoding."""
    try:
        (record,) = next(read(data)).records(verify_crc=False)
    except DecodeError as error:
        return error.reason
    return f"offset {record.offset}"


@pytest.mark.parametrize("fields", FIELDS)
def test_records_are_accepted_as_in_decoding(fields: bytes) -> None:
    data = batch_of(fields)
    explanation = explained(data)
    assert problems(explanation) == []
    notes = [piece.note.split(",")[0] for _, piece in explanation.walk() if piece.type == "record" and piece.note]
    assert [*notes, *(reason for _, reason in unread(explanation))] == [decoded(data)]


def test_the_leaves_of_batches_are_limited() -> None:
    one = build_batch([Record(value=b"tea")] * 3)
    data = one * 1000
    allowance = Allowance()
    allowance.frame_leaves = len(list(explained(one).leaves())) + 20
    _, pieces = explain_records(data, 0, "records", allowance)
    shown = Explanation("records", data, pieces)
    assert problems(shown) == []
    *_, last_read, rest = shown.leaves()
    assert last_read.path.startswith("records[1].")
    assert (rest.end, rest.error) == (len(data), TOO_MANY_FRAME_LEAVES)


def test_nothing_is_unpacked_twice() -> None:
    inner = message(1, gzip.compress(message(1, b"tea"), mtime=0), GZIP)
    explanation = explained(message(1, gzip.compress(inner, mtime=0), GZIP))
    (packed,) = [leaf for leaf in explanation.leaves() if leaf.unpacked]
    assert packed.unpacked is not None
    assert [(leaf.unpacked, leaf.error) for leaf in packed.unpacked.leaves() if leaf.type == "compressed"] == [
        (None, "compressed data inside decompressed data is not shown")
    ]


def test_size_of_an_explanation_is_limited() -> None:
    allowance = Allowance()
    allowance.leaves = 20
    data = build_batch(RECORDS, codec=LZ4) * 2
    _, pieces = explain_records(data, 0, "", allowance)
    result = Explanation("", data, pieces)
    assert problems(result) == []
    first, second = [leaf for leaf in result.leaves() if leaf.type == "compressed"]
    assert first.unpacked is not None
    limit = "the decompressed data of the frame has more than 50000 leaves: the rest is not shown"
    assert unread(first.unpacked)[0][1] == limit
    assert (second.unpacked, second.error) == (None, limit)
    allowance = Allowance()
    allowance.bytes = 10
    _, pieces = explain_records(data, 0, "", allowance)
    errors = [leaf.error for leaf in Explanation("", data, pieces).leaves() if leaf.type == "compressed"]
    assert errors == [f"decompressed data exceeds the limit of {limit} bytes" for limit in (10, 5)]


SEEDS = [build_batch(RECORDS, codec=codec) for codec in NAMES] + [message(0, b"v"), message(1, b"v")]


@given(parts=st.lists(st.sampled_from(SEEDS), min_size=1, max_size=3), data=st.data())
def test_never_raises(parts: list[bytes], data: st.DataObject) -> None:
    whole = bytearray(b"".join(parts))
    for _ in range(data.draw(st.integers(0, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(whole[: data.draw(st.integers(1, len(whole)))])
    assert problems(explained(cut)) == []


def test_in_a_request() -> None:
    topic = ProduceRequest.Topic(partition_data=[ProduceRequest.Topic.Partition(records=build_batch(RECORDS))])
    frame = encode_request(ProduceRequest(topic_data=[topic]), 9, correlation_id=1)
    explanation = explain_request(frame)
    assert problems(explanation) == []
    path = "topic_data[0].partition_data[0].records"
    (field,) = [piece for _, piece in explanation.walk() if piece.path == path]
    assert isinstance(field, Piece)
    assert (field.note, field.type, field.fields[0].path) == ("1 batch", "compact_nullable_records", f"{path}[0]")
