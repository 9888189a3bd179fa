"""The reference engine: a construct like any other, and its errors for bytes and values that it refuses.

test_compiled checks that it reads and writes the same as the compiled engine.
"""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import construct
import pytest

from kwire.codec import ENGINES, decode, encode, struct
from kwire.engines import compiled, reference
from kwire.errors import DecodeError, EncodeError, LimitError, SchemaError, Truncated
from kwire.layout import resolve
from kwire.limits import weight_limit
from kwire.messages.broker_registration import BrokerRegistrationRequest
from kwire.messages.fetch import FetchResponse
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.sync_group import SyncGroupRequest


def test_is_a_construct() -> None:
    schema = struct(HeartbeatRequest, 0)
    assert isinstance(schema, construct.Construct)
    nested = construct.Struct("before" / construct.Int8ub, "beat" / schema)
    value = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    data = nested.build({"before": 7, "beat": value})
    assert data == b"\x07" + encode(value, 0)
    parsed = nested.parse(data)
    assert (parsed.before, parsed.beat) == (7, value)
    assert schema.build({"group_id": "g", "generation_id": 1, "member_id": "m"}) == encode(value, 0)


def test_struct_is_kept() -> None:
    assert reference.struct(HeartbeatRequest, 0) is reference.struct(HeartbeatRequest, 0)
    assert resolve(HeartbeatRequest, 0) is resolve(HeartbeatRequest, 0)


def test_no_such_version() -> None:
    for version in (-1, 5):
        with pytest.raises(SchemaError, match=f"HeartbeatRequest has no version {version}: its versions are 0-4"):
            decode(HeartbeatRequest, b"", version)


Protocol, Assignment = JoinGroupRequest.Protocol, SyncGroupRequest.Assignment

DECODE_ERRORS: list[tuple[type, int, bytes, type[DecodeError], str]] = [
    (JoinGroupRequest, 9, b"\x02g" + bytes(8) + b"\x01\x00\x01\x02\x06range\x28" + b"meta", Truncated,
     "JoinGroupRequest v9 at byte 20, protocols[0].metadata: expected 39 bytes, found 4"),
    (JoinGroupRequest, 0, b"\x00\x01g", Truncated, "JoinGroupRequest v0 at byte 3, session_timeout_ms: expected 4 bytes, found 0"),
    (HeartbeatRequest, 4, b"\x00", DecodeError, "HeartbeatRequest v4 at byte 0, group_id: the field is not nullable in this version"),
    (HeartbeatRequest, 0, b"\xff\xfe", DecodeError, "HeartbeatRequest v0 at byte 0, group_id: the field is not nullable in this version"),
    (MetadataRequest, 0, b"\x00\x00\x00\x01\xff\xff", DecodeError, "MetadataRequest v0 at byte 4, topics[0].name: the field is not nullable in this version"),
    (MetadataRequest, 1, b"\x7f\xff\xff\xff", LimitError, "MetadataRequest v1 at byte 0, topics: 2147483647 elements of at least 2 bytes do not fit into the remaining 0 bytes"),
    (MetadataResponse, 1, bytes(4) + b"\0\0\0\1" + b"\0\0\0\1" + b"\0\0\0\1a\0" + b"\0\0\0\2" + bytes(20), LimitError,
     "MetadataResponse v1 at byte 18, topics[0].partitions: 2 elements of at least 18 bytes do not fit into the remaining 20 bytes"),
    (OffsetFetchRequest, 8, b"\x02\x02g\x02\x02t\x05", LimitError, "OffsetFetchRequest v8 at byte 6, groups[0].topics[0].partition_indexes: 4 elements of at least 4 bytes do not fit into the remaining 0 bytes"),
    (HeartbeatRequest, 4, b"\x01\x00\x00\x00\x00\x01\x00\x80\x80\x80\x80\x08", LimitError, "HeartbeatRequest v4 at byte 7: varint 2147483648 is above the limit of 2147483647"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "version", "data", "kind", "text"), DECODE_ERRORS)
def test_decode_error(message: type, version: int, data: bytes, kind: type[DecodeError], text: str) -> None:
    for engine in ENGINES:
        with pytest.raises(DecodeError) as caught:
            decode(message, data, version, engine=engine)
        assert type(caught.value) is kind
        assert str(caught.value) == text


def test_decode_error_three_levels_down() -> None:
    Partition = MetadataResponse.Topic.Partition  # noqa: N806 - a class
    topic = MetadataResponse.Topic(name="t", partitions=[Partition(replica_nodes=[1, 2]), Partition()])
    data = encode(MetadataResponse(topics=[topic]), 0)
    with pytest.raises(DecodeError) as caught:
        decode(MetadataResponse, data[:-6], 0)
    path = "topics[0].partitions[1].replica_nodes"
    assert str(caught.value) == f"MetadataResponse v0 at byte {len(data) - 8}, {path}: expected 4 bytes, found 2"
    assert (caught.value.path, caught.value.offset) == (path, len(data) - 8)


def test_offsets_count_from_the_start_of_the_data() -> None:
    with pytest.raises(DecodeError) as caught:
        reference.decode(HeartbeatRequest, b"header" + b"\x00\x05g", 6, 0, weight_limit(9))
    assert str(caught.value) == "HeartbeatRequest v0 at byte 6, group_id: expected 5 bytes, found 1"


@pytest.mark.parametrize("weight", [0, 10**6], ids=["no memory", "enough memory"])
def test_a_cut_tagged_field_is_truncated_data(weight: int) -> None:
    """The native engine checks the size of an unknown tagged field before its memory, too."""
    with pytest.raises(Truncated):
        reference.decode(HeartbeatResponse, b"\0\0\0\0\0\0\1\x50\7ab", 0, 4, weight)


ENCODE_ERRORS: list[tuple[Any, int, str]] = [
    (JoinGroupRequest(protocols=[Protocol(name=None)]), 9, ", protocols[0].name: the field is not nullable in this version"),  # type: ignore[arg-type]
    (JoinGroupRequest(group_instance_id="i"), 4, ", group_instance_id: this version does not have the field: leave the field at its default None"),
    (JoinGroupRequest(group_id=7), 9, ", group_id: expected str, got int"),  # type: ignore[arg-type]
    (JoinGroupRequest(session_timeout_ms="7"), 9, ", session_timeout_ms: expected int, got str"),  # type: ignore[arg-type]
    (JoinGroupRequest(session_timeout_ms=2**31), 9, ", session_timeout_ms: 2147483648 does not fit into 4 bytes"),
    (JoinGroupRequest(protocols={}), 9, ", protocols: expected list, got dict"),  # type: ignore[arg-type]
    (JoinGroupRequest(protocols=[Assignment()]), 9, ", protocols[0]: expected Protocol, got Assignment"),  # type: ignore[list-item]
    (JoinGroupRequest(protocols=[Protocol(metadata="m")]), 9, ", protocols[0].metadata: expected bytes, got str"),  # type: ignore[arg-type]
    (JoinGroupRequest(group_id="x" * 32768), 9, ", group_id: a string of 32768 bytes is above the limit of 32767"),
    (JoinGroupRequest(group_id="x" * 32768), 0, ", group_id: a string of 32768 bytes is above the limit of 32767"),
    (JoinGroupRequest(unknown_tags={1: b""}), 5, ", unknown_tags: this version has no tagged fields"),  # type: ignore[call-arg]
    (JoinGroupRequest(unknown_tags={-1: b""}), 9, ": expected a tag from 0 to 2147483647, got -1"),  # type: ignore[call-arg]
]  # fmt: skip


@pytest.mark.parametrize(("value", "version", "text"), ENCODE_ERRORS, ids=range(len(ENCODE_ERRORS)))
def test_encode_error(value: Any, version: int, text: str) -> None:
    for engine in ENGINES:
        with pytest.raises(EncodeError) as caught:
            encode(value, version, engine=engine)
        assert str(caught.value) == f"JoinGroupRequest v{version}{text}"


HUGE: list[tuple[str, type, int, bytes]] = [
    ("array count", MetadataRequest, 1, b"\x7f\xff\xff\xff" + bytes(1000)),
    ("compact array count", MetadataRequest, 9, b"\xff\xff\xff\xff\x07" + bytes(1000)),
    ("array count a little too large", MetadataRequest, 1, (501).to_bytes(4, "big") + bytes(1000)),
    ("count of integers", OffsetFetchRequest, 8, b"\x02\x02g\x02\x02t\xff\xff\xff\xff\x07" + bytes(1000)),
    ("count of uuids", BrokerRegistrationRequest, 2, bytes(4) + b"\x02c" + bytes(16) + b"\1\1\1\0\xff\xff\xff\xff\x07" + bytes(1000)),
    ("bytes length", SyncGroupRequest, 0, bytes(8) + b"\0\0\0\1" + b"\0\0" + b"\x7f\xff\xff\xff" + bytes(1000)),
    ("compact bytes length", FetchResponse, 12, bytes(10) + b"\x02\x02t\x02" + bytes(30) + b"\0" + bytes(4) + b"\xff\xff\xff\xff\x07"),
    ("string length", HeartbeatRequest, 0, b"\x7f\xff" + bytes(1000)),
    ("compact string length", HeartbeatRequest, 4, b"\xff\xff\xff\xff\x07" + bytes(1000)),
    ("tag count", HeartbeatRequest, 4, b"\1" + bytes(4) + b"\1\0" + b"\xff\xff\xff\xff\x07" + bytes(1000)),
    ("tag size", HeartbeatRequest, 4, b"\1" + bytes(4) + b"\1\0" + b"\1\x40\xff\xff\xff\xff\x07" + bytes(1000)),
]  # fmt: skip


@pytest.mark.parametrize(("message", "version", "data"), [row[1:] for row in HUGE], ids=[row[0] for row in HUGE])
def test_huge_declared_length_allocates_nothing(message: type, version: int, data: bytes) -> None:
    struct(message, version)
    compiled.reader_of(message, version, compiled.PLAIN)
    tracemalloc.start()
    began = time.process_time()
    with pytest.raises(DecodeError):
        decode(message, data, version)
    took = time.process_time() - began
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000
    assert took < 0.1
