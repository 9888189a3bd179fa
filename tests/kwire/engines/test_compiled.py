"""The engines agree for every message and version: they read and write the same bytes, and they refuse the same
bytes and values.
"""

from __future__ import annotations

import random
import re
from array import array
from collections import UserString
from collections.abc import Generator
from typing import Any, TypeVar

import effort
import pytest
from effort import amount, every
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import MESSAGES, cells, layouts, values

from kwire import codegen
from kwire.buffers import STEP
from kwire.codec import ENGINES, decode, decode_at, decode_in_slices, encode, encode_in_slices
from kwire.engines import compiled, generated, native, reference
from kwire.engines.chosen import implementation
from kwire.errors import DecodeError, EncodeError, LimitError, SchemaError
from kwire.fuzz.values import full
from kwire.json.objects import from_json, to_json
from kwire.layout import heaviest, resolve
from kwire.limits import COPIED_LIKE_AN_ELEMENT, HEAVIEST, UNWEIGHED, weight_limit
from kwire.messages.describe_groups import DescribeGroupsResponse
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.produce import ProduceRequest
from kwire.schema import Array, Bool, Int32, Nested, String
from kwire.schema import data as message_of
from kwire.schema import struct as declare

FAST = [engine for engine in ENGINES if engine != "reference"]  # the compiled engine, and the native one if installed
T = TypeVar("T")
EVERY_MESSAGE = pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
EVERY_THIRD_MESSAGE = pytest.mark.parametrize("message", every(3, MESSAGES), ids=lambda message: message.__name__)


@EVERY_MESSAGE
@settings(max_examples=amount(2, 6))
@given(data=st.data())
def test_values(message: type, data: st.DataObject) -> None:
    for version in layouts(message):
        value = data.draw(values(message, version))
        encoded = both_encode(value, version)
        assert encoded is not None
        assert both_decode(message, version, encoded) == value
        assert decode(message, encoded, version, strict=True) == value
        assert decode(message, encoded + b"more", version) == value
        assert from_json(message, to_json(value, version), version) == value


@EVERY_MESSAGE
def test_cut_short_anywhere(message: type) -> None:
    for version in layouts(message):
        encoded = encode(full(message, version), version)
        for size in range(len(encoded)):
            with pytest.raises(DecodeError) as caught:
                decode(message, encoded[:size], version)
            assert caught.value.offset <= size
            assert (caught.value.message, caught.value.version) == (message.__name__, version)


@EVERY_THIRD_MESSAGE
@settings(max_examples=amount(2, 6))
@given(data=st.data())
def test_damaged(message: type, data: st.DataObject) -> None:
    for version in layouts(message):
        encoded = encode(data.draw(values(message, version)), version)
        at = data.draw(st.integers(0, len(encoded)))
        byte = bytes([data.draw(st.integers(0, 255))])
        for damaged in (encoded[:at] + byte + encoded[at + 1 :], encoded[:at] + encoded[at + 1 :], encoded[:at] + byte):
            value = both_decode(message, version, damaged)
            assert value is None or alike(decode(message, encode(value, version), version), value)


@EVERY_THIRD_MESSAGE
def test_every_byte_other(message: type) -> None:
    for version in layouts(message):
        encoded = encode(full(message, version), version)
        for at in range(len(encoded)):
            others = (0x00, 0x7F, 0xFF)
            for byte in others if effort.LONG else others[at % 3 :][:1]:
                both_decode(message, version, encoded[:at] + bytes([byte]) + encoded[at + 1 :])


@EVERY_THIRD_MESSAGE
@settings(max_examples=amount(2, 4))
@given(noise=st.binary(max_size=60))
def test_noise(message: type, noise: bytes) -> None:
    for version in layouts(message):
        both_decode(message, version, noise)


@EVERY_MESSAGE
def test_message_in_slices_has_the_same_bytes(message: type) -> None:
    for version in layouts(message):
        value = full(message, version)
        assert run_to_end(encode_in_slices(value, version, 1))[1] == encode(value, version)


@EVERY_MESSAGE
def test_message_decoded_in_slices_has_the_same_fields(message: type) -> None:
    for version in layouts(message):
        encoded = encode(full(message, version), version)
        for size in (1, 3, 1_000):
            assert run_to_end(decode_in_slices(message, encoded, 0, version, size))[1] == (
                decode(message, encoded, version),
                len(encoded),
            )


def test_decoding_stops_after_so_many_elements() -> None:
    partitions = [MetadataResponse.Topic.Partition(partition_index=number) for number in range(60)]
    value = MetadataResponse(topics=[MetadataResponse.Topic(name="t", partitions=partitions)])
    encoded = encode(value, 12)
    for size in (1, 2, 7, 61, 62):
        stops, (decoded, _) = run_to_end(decode_in_slices(MetadataResponse, encoded, 0, 12, size))
        assert decoded == value
        assert stops == 61 // size


@pytest.mark.parametrize("version", [8, 9], ids=["fixed lengths", "compact lengths"])
def test_copied_bytes_count_as_elements(version: int) -> None:
    kind = ProduceRequest.Topic
    pieces = [kind.Partition(index=n, records=bytes([n]) * (6 * COPIED_LIKE_AN_ELEMENT)) for n in range(10)]
    value = ProduceRequest(topic_data=[kind(name="t", partition_data=pieces)])
    encoded = encode(value, version)
    for size, expected in ((1, 11), (7, 10), (14, 5), (80, 0)):
        stops, (decoded, end) = run_to_end(decode_in_slices(ProduceRequest, encoded, 0, version, size))
        assert (decoded, end, stops) == (value, len(encoded), expected)


@pytest.mark.parametrize("version", [8, 9], ids=["fixed lengths", "compact lengths"])
def test_long_bytes_field_is_copied_in_steps(version: int) -> None:
    kind = ProduceRequest.Topic
    data = random.Random(1).randbytes(3 * STEP + 1)
    value = ProduceRequest(topic_data=[kind(name="t", partition_data=[kind.Partition(index=0, records=data)])])
    encoded = encode(value, version)
    stops, (decoded, end) = run_to_end(decode_in_slices(ProduceRequest, encoded, 0, version, 1_000_000))
    assert (decoded, end, stops) == (value, len(encoded), 3)
    with pytest.raises(DecodeError) as caught:
        run_to_end(decode_in_slices(ProduceRequest, encoded[:-STEP], 0, version, 1_000_000))
    assert str(caught.value).endswith("the data ends before the message does")


def test_memory_limit_of_decoding_in_slices() -> None:
    encoded = encode(MetadataResponse(topics=[MetadataResponse.Topic(name="topic")] * 9), 12)
    for explained, text in ((0, "its memory limit"), (1_000, "100 bytes of memory")):
        with pytest.raises(LimitError, match=f"the decoded message would exceed {text}"):
            run_to_end(decode_in_slices(MetadataResponse, encoded, 0, 12, 1, weight=100, explained=explained))


def test_decoding_in_slices_refuses_the_same_bytes() -> None:
    encoded = encode(MetadataResponse(topics=[MetadataResponse.Topic(name="topic")] * 9), 12)
    for damaged in (encoded[:-3], encoded[:20], b"", encoded[:5] + b"\x7f" + encoded[6:]):
        with pytest.raises(DecodeError) as at_once:
            decode(MetadataResponse, damaged, 12)
        with pytest.raises(DecodeError) as in_slices:
            run_to_end(decode_in_slices(MetadataResponse, damaged, 0, 12, 1))
        assert str(in_slices.value) == str(at_once.value)


def test_text_that_is_not_utf8_is_decoded_in_slices() -> None:
    encoded = encode(MetadataResponse(cluster_id="cluster"), 12).replace(b"cluster", b"cl\xffster")
    assert run_to_end(decode_in_slices(MetadataResponse, encoded, 0, 12, 1))[1][0].cluster_id == "cl\udcffster"


def run_to_end(steps: Generator[None, None, T]) -> tuple[int, T]:
    """Return the number of yields, and the result."""
    stops = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return stops, end.value
        stops += 1


def test_encoding_stops_after_so_many_elements() -> None:
    """Elements of all arrays of structs or texts count."""
    topic = MetadataResponse.Topic(name="t", partitions=[MetadataResponse.Topic.Partition() for _ in range(5)])
    value = MetadataResponse(topics=[topic] * 3)  # 18 elements
    assert [run_to_end(encode_in_slices(value, 12, size))[0] for size in (1, 6, 7, 100)] == [18, 3, 2, 0]


def test_encoding_in_slices_refuses_the_same_values() -> None:
    value = HeartbeatRequest(group_id="g" * 40_000, member_id="\ud800")
    with pytest.raises(EncodeError) as at_once:
        encode(value, 4)
    with pytest.raises(EncodeError) as in_slices:
        run_to_end(encode_in_slices(value, 4, 1))
    assert str(in_slices.value) == str(at_once.value)


WRONG = [None, "", "x", "\ud800", b"", b"x", [], [None], ["x"], [1], (), {}, True, 2, -1, 2**31, 2**63, 1.5, 10**400]
WRONG += ["x" * 40_000, object(), HeartbeatRequest(), {1: b""}, {-1: b""}, {"1": b""}, {1: "x"}]


@EVERY_THIRD_MESSAGE
def test_values_that_are_wrong(message: type) -> None:
    """One attribute of each value is replaced by another object."""
    chance = random.Random(message.__name__)
    for version in layouts(message):
        for wrong in chance.sample(WRONG, 8):
            value = full(message, version)
            spoil(value, wrong, chance)
            both_encode(value, version)


def spoil(value: Any, wrong: Any, chance: random.Random) -> None:
    structs = [value]
    for each in structs:
        for name in each.__slots__:
            inner = getattr(each, name)
            structs += [x for x in (inner if isinstance(inner, list) else [inner]) if hasattr(x, "__kafka__")]
    chosen = chance.choice(structs)
    setattr(chosen, chance.choice(chosen.__slots__), wrong)


def both_decode(message: type, version: int, data: bytes) -> Any:
    """Return the value that all engines read in every way; None if all refuse the bytes."""
    try:
        expected, end = reference.decode(message, data, 0, version, weight_limit(len(data)))
    except DecodeError as error:
        for engine in FAST:
            with pytest.raises(DecodeError, match=f"^{re.escape(str(error))}$"):
                decode(message, data, version, engine=engine)
        return None
    assert alike(compiled.decode(message, data, 0, version, weight_limit(len(data))), (expected, end))
    for way in (compiled.WEIGHED, compiled.WEIGHED_ESCAPED):
        try:
            assert alike(compiled.reader_of(message, version, way)(data, 0, 2**40), (expected, end))
        except UnicodeDecodeError:
            assert not way.escaped
    if native.package():
        assert alike(native.reader_of(message, version)(data, 0), (expected, end))
        assert alike(native.decode(message, data, 0, version, weight_limit(len(data))), (expected, end))
    return expected


def alike(one: object, other: object) -> bool:
    """Return whether two values are equal; NaN counts as equal to itself."""
    return one == other or repr(one) == repr(other)


def both_encode(value: Any, version: int) -> bytes | None:
    """Return the bytes that all engines write; None if all refuse the value."""
    try:
        expected = reference.encode(value, version)
    except EncodeError as error:
        for engine in FAST:
            with pytest.raises(EncodeError, match=f"^{re.escape(str(error))}$"):
                encode(value, version, engine=engine)
        return None
    assert all(implementation(engine).encode(value, version) == expected for engine in FAST)
    return expected


# Arrays whose elements are read as rows, and elements that cannot be read as a row.

PARTITION = OffsetCommitRequest.Topic.Partition
ODD = {
    "longer text": {"committed_metadata": "longer than the others"},
    "long text": {"committed_metadata": "x" * 200},
    "null": {"committed_metadata": None},
    "unknown tag": {"unknown_tags": {99: b"?"}},
    "not UTF-8": {"committed_metadata": "\udcff!"},
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("places", [[0], [1], [40], [99], [30, 60], list(range(0, 100, 2)), list(range(100))])
def test_rows(odd: str, places: list[int]) -> None:
    partitions = [
        PARTITION(
            partition_index=n,
            committed_offset=n * n,
            **{"committed_metadata": "ab", **(ODD[odd] if n in places else {})},
        )
        for n in range(100)
    ]
    value = OffsetCommitRequest(topics=[OffsetCommitRequest.Topic(name="t", partitions=partitions)])
    encoded = encode(value, 8)
    for _ in range(3):
        assert both_decode(OffsetCommitRequest, 8, encoded) == value
    for size in range(0, len(encoded), 131):
        assert both_decode(OffsetCommitRequest, 8, encoded[:size]) is None


@pytest.mark.parametrize("version", range(14))
def test_rows_in_every_version(version: int) -> None:
    partition = MetadataResponse.Topic.Partition(replica_nodes=[1, 2, 3], isr_nodes=[1, 2])
    value = MetadataResponse(topics=[MetadataResponse.Topic(name="t", partitions=[partition] * 60)] * 3)
    encoded = encode(value, version)
    assert both_decode(MetadataResponse, version, encoded) == value
    assert decode(MetadataResponse, encoded, version).topics[2].partitions[59] == partition


def test_rows_of_lengths_in_two_bytes() -> None:
    groups = [DescribeGroupsResponse.Group(group_id="g" * 300, members=[]) for _ in range(40)]
    value = DescribeGroupsResponse(groups=groups)
    assert both_decode(DescribeGroupsResponse, 5, encode(value, 5)) == value
    protocols = [JoinGroupRequest.Protocol(name="p" * 5, metadata=bytes(200 + n % 2)) for n in range(100)]
    request = JoinGroupRequest(protocols=protocols)
    assert both_decode(JoinGroupRequest, 9, encode(request, 9)) == request


# Weights of messages.


def test_nothing_weighs_more_than_the_heaviest() -> None:
    """Therefore a message of UNWEIGHED bytes is not weighed."""
    assert max(heaviest(resolve(message, version)) for message in MESSAGES for version in cells(message)) <= HEAVIEST
    assert weight_limit(UNWEIGHED) >= UNWEIGHED * HEAVIEST


def test_a_message_of_a_user_may_be_heavier() -> None:
    fields = {f"absent{n}": Array(Int32, "1+") for n in range(100)}
    annotations = {"flag": bool, **dict.fromkeys(fields, list[int])}
    inner = declare(type("Inner", (), {"__annotations__": annotations, "flag": Bool(), **fields}))
    body = {"__annotations__": {"items": list[inner]}, "items": Array(inner)}
    heavy: Any = message_of(versions="0-1", flexible="none")(type("Heavy", (), body))
    few = decode(heavy, b"\0\0\0\x64" + bytes(100), 0)
    assert len(few.items) == 100
    for engine in ENGINES:
        with pytest.raises(LimitError):
            decode(heavy, b"\0\0\x4e\x20" + bytes(20_000), 0, engine=engine)


# Declarations of users.

NAMES = [
    "Struct",
    "new",
    "len",
    "uuid",
    "o",
    "o1",
    "n1",
    "a1",
    "buf",
    "p",
    "p1",
    "out",
    "read",
    "write",
    "left",
    "uvarint",
]
NAMES += [
    "packers",
    "unpackers",
    "FLAGS",
    "COUNTS",
    "min",
    "memoryview",
    "repeat",
    "size",
    "map",
    "b1",
    "s1",
    "Refused",
    "pack_i",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_struct_may_be_called_anything(name: str) -> None:
    inside = {"__annotations__": {"number": int, "text": str}, "number": Int32(), "text": String()}
    inner = declare(type(name, (), inside))
    body = {"__annotations__": {"items": list[inner]}, "items": Array(inner)}
    outer: Any = message_of(versions="0", flexible="none")(type(name, (), body))
    value = outer(items=[inner(number=n, text="abc") for n in range(100)])
    encoded = both_encode(value, 0)
    assert encoded is not None
    assert both_decode(outer, 0, encoded) == value


def test_tagged_fields_with_colliding_names() -> None:
    foo = declare(type("Foo", (), {"__annotations__": {"bar_x": int}, "bar_x": Int32("1+", tag=0)}))
    foo_bar = declare(type("Foo_bar", (), {"__annotations__": {"x": str}, "x": String("1+", tag=0)}))
    body = {"__annotations__": {"one": foo, "two": foo_bar}, "one": Nested(foo), "two": Nested(foo_bar)}
    outer: Any = message_of(versions="0-1", flexible="1+")(type("Outer", (), body))
    value = outer(one=foo(bar_x=5), two=foo_bar(x="x"))
    encoded = both_encode(value, 1)
    assert encoded is not None
    assert both_decode(outer, 1, encoded) == value


LIKE_OTHERS = [  # a field, a value of another type
    ("metadata", memoryview(array("i", [1, 2, 3]))),
    ("metadata", memoryview(b"abcdef")[::2]),
    ("metadata", bytearray(b"abc")),
    ("metadata", type("Odd", (bytes,), {"__len__": lambda _: 1})(b"abc")),
    ("name", type("Name", (str,), {})("name")),
    ("name", UserString("name")),
]


@pytest.mark.parametrize(("field", "value"), LIKE_OTHERS)
def test_bytes_like_and_str_subclasses(field: str, value: Any) -> None:
    request = JoinGroupRequest(protocols=[JoinGroupRequest.Protocol(**{field: value})])
    encoded = both_encode(request, 9)
    assert encoded is not None
    expected = bytes(value) if field == "metadata" else str(value)
    assert getattr(decode(JoinGroupRequest, encoded, 9).protocols[0], field) == expected


def test_a_subclass_is_read_without_its_constructor() -> None:
    class Heir(HeartbeatRequest):
        def __init__(self) -> None:
            raise AssertionError("must not be called")

    encoded = encode(HeartbeatRequest(group_id="g"), 4)
    for engine in ENGINES:
        read = decode(Heir, encoded, 4, engine=engine)
        assert (type(read), read.group_id) == (Heir, "g")


def test_large_messages_are_weighed() -> None:
    topics = [MetadataRequest.Topic(name="") for _ in range(UNWEIGHED)]
    value = MetadataRequest(topics=topics)
    encoded = encode(value, 9)
    assert decode(MetadataRequest, encoded, 9) == value
    with pytest.raises(DecodeError, match="would exceed its memory limit"):
        decode_at(MetadataRequest, encoded, 0, 9, weight=1_000_000)


# Generated code.


def test_made_once() -> None:
    assert compiled.reader_of(HeartbeatRequest, 3, compiled.PLAIN) is compiled.reader_of(
        HeartbeatRequest, 3, compiled.PLAIN
    )


def test_source_compiles_and_names_its_message() -> None:
    source = compiled.source(HeartbeatRequest, 4)
    assert source.count("# HeartbeatRequest v4\n") == 2
    space = {**codegen.SPACE, **generated.NAMES, "_HeartbeatRequest": HeartbeatRequest}
    exec(source, space)
    value = HeartbeatRequest(group_id="g", generation_id=7, member_id="m")
    assert space["write"](value) == encode(value, 4)
    assert space["read"](encode(value, 4), 0) == (value, len(encode(value, 4)))
    assert "def read(buf, p):" in source
    assert "def write(o):" in source


def test_no_such_version() -> None:
    for version in (-1, 5):
        with pytest.raises(SchemaError, match=f"HeartbeatRequest has no version {version}: its versions are 0-4"):
            compiled.source(HeartbeatRequest, version)
        with pytest.raises(SchemaError):
            decode(HeartbeatRequest, b"", version)
        with pytest.raises(SchemaError):
            encode(HeartbeatRequest(), version)
