"""Values of primitive types at their limits, one fact per row."""

import io
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.codec import decode, encode
from kwire.engines import primitives
from kwire.engines.varints import uvarint
from kwire.envelope import decode_request, encode_request
from kwire.errors import DecodeError, EncodeError, LimitError, Truncated
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.create_topics import CreateTopicsRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.sync_group import SyncGroupRequest
from kwire.schema import Float64, Uuid, data, unknown_tags


@data(versions="0", flexible="none")
class Measured:
    value: float = Float64()
    unit: UUID = Uuid()


@given(st.integers(0, 2**31 - 1))
def test_uvarint_round_trip(value: int) -> None:
    data = uvarint(value)
    assert primitives.read_uvarint(io.BytesIO(data), "(parsing)", 0) == value
    assert 1 <= len(data) <= 5


UVARINTS: list[tuple[str, int]] = [
    ("00", 0), ("01", 1), ("7f", 127), ("8001", 128), ("ff7f", 16383), ("808001", 16384), ("ffffffff07", 2**31 - 1),
    ("808000", 0), ("8080808000", 0),  # longer than needed: accepted as Kafka does
]  # fmt: skip


@pytest.mark.parametrize(("data", "value"), UVARINTS)
def test_uvarint(data: str, value: int) -> None:
    assert primitives.read_uvarint(io.BytesIO(bytes.fromhex(data)), "(parsing)", 0) == value


BAD_UVARINTS: list[tuple[str, type[DecodeError], str]] = [
    ("", Truncated, "expected 1 bytes, found 0"),
    ("80", Truncated, "expected 1 bytes, found 0"),
    ("8080808080", LimitError, "the varint is longer than the limit of 5 bytes"),
    ("808080808001", LimitError, "the varint is longer than the limit of 5 bytes"),
    ("ff" * 100_000, LimitError, "the varint is longer than the limit of 5 bytes"),
    ("8080808008", LimitError, "varint 2147483648 is above the limit of 2147483647"),
    ("ffffffff0f", LimitError, "varint 4294967295 is above the limit of 2147483647"),
]


@pytest.mark.parametrize(("data", "kind", "reason"), BAD_UVARINTS, ids=range(len(BAD_UVARINTS)))
def test_bad_uvarint(data: str, kind: type[DecodeError], reason: str) -> None:
    with pytest.raises(kind) as caught:
        primitives.read_uvarint(io.BytesIO(bytes.fromhex(data)), "(parsing) -> count", 3)
    assert (caught.value.reason, caught.value.path, caught.value.offset) == (reason, "count", 3)


H4 = "01" + "00000000" + "01" + "00"  # HeartbeatRequest v4 with empty strings and null, before its tagged section

REFUSED: list[tuple[str, type, int, str, str]] = [  # input, message, version, bytes, reason
    ("count 2^31-1, nothing left", MetadataRequest, 0, "7fffffff", "2147483647 elements of at least 2 bytes do not fit into the remaining 0 bytes"),
    ("count 10^6, 6 bytes left", MetadataRequest, 0, "000f4240" + "00" * 6, "1000000 elements of at least 2 bytes do not fit into the remaining 6 bytes"),
    ("null array", SyncGroupRequest, 0, "0000" + "00000000" + "0000" + "ffffffff", "the field is not nullable in this version"),
    ("null string in an array", MetadataRequest, 0, "00000001" + "ffff", "the field is not nullable in this version"),
    ("compact length 0", HeartbeatRequest, 4, "00", "the field is not nullable in this version"),
    ("varint too long", HeartbeatRequest, 4, "8080808080", "the varint is longer than the limit of 5 bytes"),
    ("varint above 2^31-1", HeartbeatRequest, 4, "ffffffff0f", "varint 4294967295 is above the limit of 2147483647"),
    ("tag size past the end", HeartbeatRequest, 4, H4 + "01" + "28" + "05" + "00", "expected 5 bytes, found 1"),
    ("tag size above 2^31-1", HeartbeatRequest, 4, H4 + "01" + "28" + "ffffffff0f", "varint 4294967295 is above the limit of 2147483647"),
    ("tag count 2^31", HeartbeatRequest, 4, H4 + "8080808008", "varint 2147483648 is above the limit of 2147483647"),
    ("tag count 2^31-1", HeartbeatRequest, 4, H4 + "ffffffff07", "2147483647 tagged fields do not fit into the remaining 0 bytes"),
    ("tag count too large by one", HeartbeatRequest, 4, H4 + "01" + "28", "1 tagged fields do not fit into the remaining 1 bytes"),
    ("string length past the end", HeartbeatRequest, 0, "7530" + "61", "expected 30000 bytes, found 1"),
    ("compact string above 32767 bytes", HeartbeatRequest, 4, "818002" + "61" * 32768, "a string of 32768 bytes is above the limit of 32767"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("message", "version", "data", "reason"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_refused(message: type, version: int, data: str, reason: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(message, bytes.fromhex(data), version)
    assert caught.value.reason == reason


FETCH = encode(FetchRequest(), 12)[:-1].hex()  # before its tagged section

KNOWN_TAG: list[tuple[str, str, str, str]] = [  # input, tagged section, path, reason
    ("shorter than its type", "01" + "00" + "01" + "0361", "cluster_id", "expected 2 bytes, found 1"),
    (
        "longer than its type",
        "01" + "00" + "04" + "02610000",
        "cluster_id",
        "tag 0 has size 4, but its value takes 2 bytes",
    ),
    ("past the end", "01" + "00" + "05" + "0261", "cluster_id", "expected 5 bytes, found 2"),
]


@pytest.mark.parametrize(("section", "path", "reason"), [r[1:] for r in KNOWN_TAG], ids=[r[0] for r in KNOWN_TAG])
def test_known_tag_of_a_wrong_size(section: str, path: str, reason: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(FetchRequest, bytes.fromhex(FETCH + section), 12)
    assert (caught.value.path, caught.value.reason) == (path, reason)


ACCEPTED: list[tuple[str, type, int, str, Any]] = [  # bytes that Kafka accepts although no client writes them
    ("array count -2 is null", MetadataRequest, 1, "fffffffe", MetadataRequest(topics=None)),
    ("a varint longer than needed", HeartbeatRequest, 4, "818000" + H4[2:] + "00", HeartbeatRequest()),
    ("boolean 2", CreateTopicsRequest, 1, "00000000" + "00000000" + "02", CreateTopicsRequest(timeout_ms=0, validate_only=True)),
    ("boolean 255", CreateTopicsRequest, 1, "00000000" + "00000000" + "ff", CreateTopicsRequest(timeout_ms=0, validate_only=True)),
    ("bytes behind the body", FindCoordinatorRequest, 0, "0000" + "cafe", FindCoordinatorRequest()),
    ("text that is not UTF-8", HeartbeatRequest, 0, "0002ff61" + "00000000" + "0000", HeartbeatRequest(group_id="\udcffa")),
    ("uuid 0, infinity", Measured, 0, "7ff0000000000000" + "00" * 16, Measured(value=float("inf"))),
]  # fmt: skip


@pytest.mark.parametrize(
    ("message", "version", "data", "value"), [r[1:] for r in ACCEPTED], ids=[r[0] for r in ACCEPTED]
)
def test_accepted(message: type, version: int, data: str, value: Any) -> None:
    assert decode(message, bytes.fromhex(data), version) == value


def test_client_id_of_length_minus_2_is_null() -> None:
    frame = bytes.fromhex("000c0000" + "00000001" + "fffe" + "0000" + "00000000" + "0000")
    assert decode_request(frame).header.client_id is None


def test_unknown_tags_in_any_order_last_wins() -> None:
    section = "03" + "2a01" + "01" + "2801" + "02" + "2a01" + "03"
    value = decode(HeartbeatRequest, bytes.fromhex(H4 + section), 4)
    assert unknown_tags(value) == {42: b"\x03", 40: b"\x02"}
    assert encode(value, 4).hex() == H4 + "02" + "280102" + "2a0103"


def test_unknown_tag_of_a_header_survives() -> None:
    body = encode(ApiVersionsRequest(), 3)
    frame = bytes.fromhex("00120003" + "00000001" + "ffff" + "01" + "0901ee") + body
    request = decode_request(frame)
    assert unknown_tags(request.header) == {9: b"\xee"}
    assert encode_request(request.body, 3, correlation_id=0, header=request.header) == frame


def test_nan_keeps_its_value() -> None:
    data = bytes.fromhex("7ff8000000000000" + "00" * 16)
    assert encode(decode(Measured, data, 0), 0) == data


@pytest.mark.parametrize("data", [b"\x00" * 24, b"\x80" + b"\x00" * 23])
def test_zero_keeps_its_sign(data: bytes) -> None:
    assert encode(decode(Measured, data, 0), 0) == data


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Measured(value="1"), "Measured v0, value: expected float, got str"),  # type: ignore[arg-type]
        (Measured(value=10**400), "Measured v0, value: an integer of 1329 bits does not fit into 8 bytes"),
        (Measured(unit="a"), "Measured v0, unit: expected UUID, got str"),  # type: ignore[arg-type]
        (Measured(unit=None), "Measured v0, unit: expected UUID, got NoneType"),  # type: ignore[arg-type]
    ],
)
def test_wrong_type(value: Measured, text: str) -> None:
    with pytest.raises(EncodeError) as caught:
        encode(value, 0)
    assert str(caught.value) == text


def test_where() -> None:
    assert primitives.where("(parsing) -> topics -> [0] -> partitions -> [12] -> x") == "topics[0].partitions[12].x"
    assert primitives.where("(parsing)") == ""


def test_bytes_left_of_any_stream() -> None:
    class Slow(io.RawIOBase):
        def __init__(self) -> None:
            self.inner = io.BytesIO(b"abcdef")

        def tell(self) -> int:
            return self.inner.tell()

        def seek(self, offset: int, whence: int = 0) -> int:
            return self.inner.seek(offset, whence)

    stream = Slow()
    stream.seek(2)
    assert primitives.bytes_left(stream) == 4  # type: ignore[arg-type]
    assert stream.tell() == 2
