from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from kwire import codec
from kwire.codec import ENGINES, decode, decode_at, decode_in_slices, encode, struct
from kwire.engines.chosen import DEFAULT, Engine, implementation
from kwire.errors import DecodeError, EncodeError, LimitError, SchemaError
from kwire.layout import List, Node, element_weight, resolve
from kwire.limits import HEAVIEST, UNWEIGHED
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest

DATA = bytes.fromhex("000167" + "00000007" + "00016d")
VALUE = HeartbeatRequest(group_id="g", generation_id=7, member_id="m")


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine(engine: Engine) -> None:
    assert encode(VALUE, 0, engine=engine) == DATA
    assert decode(HeartbeatRequest, DATA, 0, engine=engine) == VALUE
    assert decode_at(HeartbeatRequest, b"??" + DATA + b"!", 2, 0, engine=engine) == (VALUE, len(DATA) + 2)


def test_trailing_bytes() -> None:
    assert decode(HeartbeatRequest, DATA + b"more", 0) == VALUE
    with pytest.raises(DecodeError) as caught:
        decode(HeartbeatRequest, DATA + b"more", 0, strict=True)
    assert str(caught.value) == f"HeartbeatRequest v0 at byte {len(DATA)}: 4 trailing bytes"


def test_values_that_a_version_cannot_carry() -> None:
    with pytest.raises(EncodeError, match="group_instance_id: this version does not have the field"):
        encode(JoinGroupRequest(group_instance_id="i"), 4)
    assert encode(JoinGroupRequest(reason="ignorable"), 7) == encode(JoinGroupRequest(), 7)


def test_field_absent_in_a_version_has_its_default() -> None:
    assert decode(JoinGroupRequest, encode(JoinGroupRequest(rebalance_timeout_ms=9), 0), 0).rebalance_timeout_ms == -1


def test_not_a_message() -> None:
    for wrong in (object(), JoinGroupRequest.Protocol()):
        with pytest.raises(SchemaError):
            encode(wrong, 0)
    with pytest.raises(SchemaError):
        decode(int, b"", 0)


def test_struct() -> None:
    assert struct(HeartbeatResponse, 0).build(HeartbeatResponse(error_code=27)) == b"\x00\x1b"
    assert struct(HeartbeatResponse, 0).parse(b"\x00\x1b") == HeartbeatResponse(error_code=27)


@pytest.mark.parametrize("engine", ENGINES)
def test_memory_of_a_decoded_message_is_limited(engine: Engine) -> None:
    topics = [MetadataRequest.Topic(name="t") for _ in range(6)]
    data = encode(MetadataRequest(topics=topics), 9)
    weight = element_weight(List(resolve_topic(), True, True))
    assert decode_at(MetadataRequest, data, 0, 9, engine=engine, weight=6 * weight)[0].topics == topics
    with pytest.raises(LimitError, match=rf"byte 0, topics: .* would exceed {6 * weight - 1} bytes of memory"):
        decode_at(MetadataRequest, data, 0, 9, engine=engine, weight=6 * weight - 1)


def resolve_topic() -> Node:
    topics = resolve(MetadataRequest, 9).slots[0].node
    assert isinstance(topics, List)
    return topics.element


@pytest.mark.parametrize("engine", ENGINES)
def test_elements_inside_elements_are_weighed_too(engine: Engine) -> None:
    partition = OffsetCommitRequest.Topic.Partition()
    request = OffsetCommitRequest(topics=[OffsetCommitRequest.Topic(name="t", partitions=[partition] * 3)] * 2)
    data = encode(request, 8)
    most = next(n for n in range(0, 10_000, 8) if fits(data, n, engine))
    with pytest.raises(LimitError, match=r"topics\[1\]\.partitions"):
        decode_at(OffsetCommitRequest, data, 0, 8, engine=engine, weight=most - 8)


def fits(data: bytes, weight: int, engine: Engine) -> bool:
    try:
        decode_at(OffsetCommitRequest, data, 0, 8, engine=engine, weight=weight)
    except LimitError:
        return False
    return True


STRICT: list[tuple[str, type, int, str, int | None]] = [  # input, message, version, hex, byte that is refused
    ("as it should be", HeartbeatRequest, 4, "0267 00000001 026d 00 00", None),
    ("an overlong length", HeartbeatRequest, 4, "8200 67 00000001 026d 00 00", 0),
    ("null as -2", MetadataRequest, 1, "fffffffe", 3),
    ("tags out of order", HeartbeatRequest, 4, "0267 00000001 026d 00 02 2100 2000", 10),
    ("a tag twice", HeartbeatRequest, 4, "0267 00000001 026d 00 02 2000 2000", 9),
    ("bytes behind", HeartbeatRequest, 4, "0267 00000001 026d 00 00 00", 10),
    ("a boolean of 2", MetadataRequest, 4, "ffffffff 02", 4),
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("message", "version", "data", "at"), [row[1:] for row in STRICT], ids=[r[0] for r in STRICT])
def test_strict(message: type, version: int, data: str, at: int | None, engine: Engine) -> None:
    given = bytes.fromhex(data)
    decode(message, given, version, engine=engine)
    if at is None:
        decode(message, given, version, engine=engine, strict=True)
        return
    with pytest.raises(DecodeError, match=f"at byte {at}"):
        decode(message, given, version, engine=engine, strict=True)


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_bytes_like_values(kind: type) -> None:
    data = encode(HeartbeatRequest(group_id="g"), 4)
    assert decode(HeartbeatRequest, kind(data), 4).group_id == "g"


def test_arguments_that_are_wrong() -> None:
    for wrong in (30, "abc", None):
        with pytest.raises(TypeError, match="data must be bytes, bytearray or memoryview"):
            decode(HeartbeatRequest, wrong, 0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown engine 'Reference': use native, compiled or reference"):
        decode(HeartbeatRequest, DATA, 0, engine="Reference")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown engine"):
        encode(VALUE, 0, engine="Reference")  # type: ignore[arg-type]


@pytest.mark.parametrize("version", ["1", None, 1.5])
def test_a_version_is_an_int(version: Any) -> None:
    with pytest.raises(SchemaError, match="version must be an integer"):
        encode(MetadataRequest(), version)


def test_message_begins_at_the_first_byte() -> None:
    for _ in range(2):  # the first decoding creates the reader of the version
        assert decode(HeartbeatResponse, b"\x00\x19\x00\x00", 0).error_code == 25
        assert decode_at(HeartbeatResponse, b"\x01\x00\x19\x00", 1, 0)[0].error_code == 25


def in_slices(data: bytes, offset: int, **given: Any) -> tuple[Any, int]:
    """Decode a Metadata request in slices of one element."""
    steps = decode_in_slices(MetadataRequest, data, offset, 0, 1, **given)
    try:
        while True:
            next(steps)
    except StopIteration as end:
        value: tuple[Any, int] = end.value
        return value


TOPICS = [MetadataRequest.Topic(name=f"topic {number}") for number in range(50)]
MANY = encode(MetadataRequest(topics=TOPICS), 0)
DAMAGED = [
    pytest.param(MANY[:-1], id="cut short"),
    pytest.param(b"\x7f\xff\xff\xff" + MANY[4:], id="more elements than bytes"),
    pytest.param(b"", id="nothing"),
]


@pytest.mark.parametrize("data", DAMAGED)
@pytest.mark.parametrize("beyond", [-1, 0, 1])
@pytest.mark.parametrize("offset", [0, 3])
def test_error_in_slices_is_that_of_the_whole(data: bytes, beyond: int, offset: int) -> None:
    """The size of the message decides whether the error names the invalid field, not that of the bytes before it."""
    explained = len(data) + beyond
    errors = []
    for read in (in_slices, lambda *given, **more: decode_at(MetadataRequest, *given, 0, **more)):
        with pytest.raises(DecodeError) as raised:
            read(bytes(offset) + data, offset, explained=explained)
        errors.append((type(raised.value), str(raised.value)))
    assert errors[0] == errors[1]
    assert in_slices(bytes(offset) + MANY, offset)[0].topics == TOPICS


@pytest.mark.parametrize("read", ["whole", "in slices"])
def test_weight_limits_the_memory_of_the_message(read: str) -> None:
    def decoded(weight: int | None) -> Any:
        if read == "whole":
            return decode_at(MetadataRequest, MANY, 0, 0, weight=weight)[0]
        return in_slices(MANY, 0, weight=weight)[0]

    assert decoded(None).topics == decoded(1_000_000).topics == TOPICS
    for weight in (1, 1_000):
        with pytest.raises(LimitError):
            decoded(weight)


def test_default_weight_is_that_of_the_bytes_from_the_offset_on() -> None:
    """Bytes before the message do not count."""
    count = 60_000
    data = count.to_bytes(4, "big") + bytes(2 * count)  # empty names
    value, end = in_slices(data, 0)
    assert (len(value.topics), end) == (count, len(data))
    hostile = (4 * 1024 * 1024).to_bytes(4, "big") + bytes(8 * 1024 * 1024)
    for before in (0, 8 * 1024 * 1024):
        with pytest.raises(LimitError):
            in_slices(bytes(before) + hostile, before)


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The engines whose modules decode or encode, in order. Functions in use of the default engine are not counted."""
    engines: list[str] = []
    monkeypatch.setattr(codec, "implementation", lambda engine: engines.append(engine) or implementation(engine))
    return engines


@pytest.mark.parametrize("engine", ENGINES)
def test_named_engine_decodes_and_encodes(engine: Engine, used: list[str]) -> None:
    """Comparisons of the engines depend on this: a fast engine in use does not decode in place of the named engine."""
    encode(decode(HeartbeatRequest, DATA, 0), 0)
    used.clear()
    decode(HeartbeatRequest, DATA, 0, engine=engine)
    decode_at(HeartbeatRequest, DATA, 0, 0, engine=engine)
    encode(VALUE, 0, engine=engine)
    decode(HeartbeatRequest, DATA, 0, engine=engine, strict=True)
    assert used == [engine] * 5


@pytest.mark.skipif(DEFAULT == "reference", reason="the reference engine has no functions in use")
def test_message_that_cannot_exceed_its_limit_is_not_weighed(used: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    decode(MetadataRequest, MANY, 0)
    careful = MagicMock(side_effect=decode_at)
    monkeypatch.setattr(codec, "decode_at", careful)
    used.clear()
    largest = MANY + bytes(UNWEIGHED - len(MANY))
    decode(MetadataRequest, largest, 0)
    careful.assert_not_called()
    decode_at(MetadataRequest, largest, 0, 0)
    decode_at(MetadataRequest, b"?" + MANY, 1, 0, weight=HEAVIEST * len(MANY))
    assert used == []
    decode_at(MetadataRequest, largest + b"?", 0, 0)
    decode_at(MetadataRequest, MANY, 0, 0, weight=HEAVIEST * len(MANY) - 1)
    assert used == [DEFAULT] * 2


@pytest.mark.parametrize("explained", [0, len(MANY)])
def test_unknown_version_is_named_for_data_of_any_size(explained: int) -> None:
    with pytest.raises(SchemaError, match="99"):
        decode_at(MetadataRequest, MANY, 0, 99, explained=explained)
    with pytest.raises(SchemaError, match="99"):
        next(decode_in_slices(MetadataRequest, MANY, 0, 99, 10, explained=explained))


def test_large_invalid_message_is_not_decoded_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = MagicMock(side_effect=decode_at)
    monkeypatch.setattr(codec, "decode_at", whole)
    for explained, calls in ((len(MANY) - 2, 0), (len(MANY) - 1, 1)):
        with pytest.raises(DecodeError):
            in_slices(MANY[:-1], 0, explained=explained)
        assert whole.call_count == calls
