from __future__ import annotations

from typing import Any

import pytest

from kwire import codec
from kwire.codec import decode, decode_at, encode, struct
from kwire.errors import DecodeError, EncodeError, LimitError, SchemaError
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest

DATA = bytes.fromhex("000167" + "00000007" + "00016d")
VALUE = HeartbeatRequest(group_id="g", generation_id=7, member_id="m")


@pytest.mark.parametrize("engine", codec.ENGINES)
def test_every_engine(engine: codec.Engine) -> None:
    assert encode(VALUE, 0, engine=engine) == DATA
    assert decode(HeartbeatRequest, DATA, 0, engine=engine) == VALUE
    assert decode_at(HeartbeatRequest, b"??" + DATA + b"!", 2, 0, engine=engine) == (VALUE, len(DATA) + 2)


def test_bytes_behind_the_message() -> None:
    assert decode(HeartbeatRequest, DATA + b"more", 0) == VALUE
    with pytest.raises(DecodeError) as caught:
        decode(HeartbeatRequest, DATA + b"more", 0, strict=True)
    assert str(caught.value) == f"HeartbeatRequest v0 at byte {len(DATA)}: 4 bytes behind the message"


def test_what_a_version_cannot_carry() -> None:
    with pytest.raises(EncodeError, match="group_instance_id: this version cannot carry the field"):
        encode(JoinGroupRequest(group_instance_id="i"), 4)
    assert encode(JoinGroupRequest(reason="ignorable"), 7) == encode(JoinGroupRequest(), 7)


def test_what_a_version_lacks_has_its_default() -> None:
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


def test_the_elements_of_a_message_are_counted_together() -> None:
    topics = [MetadataRequest.Topic(name="t") for _ in range(6)]
    data = encode(MetadataRequest(topics=topics), 9)
    assert decode_at(MetadataRequest, data, 0, 9, elements=6)[0].topics == topics
    with pytest.raises(LimitError, match=r"MetadataRequest v9 at byte 0, topics: more than 5 elements in one message"):
        decode_at(MetadataRequest, data, 0, 9, elements=5)


def test_elements_inside_elements_count_too() -> None:
    partition = OffsetCommitRequest.Topic.Partition()
    request = OffsetCommitRequest(topics=[OffsetCommitRequest.Topic(name="t", partitions=[partition] * 3)] * 2)
    data = encode(request, 8)
    decode_at(OffsetCommitRequest, data, 0, 8, elements=8)
    with pytest.raises(LimitError, match=r"topics\[1\]\.partitions"):
        decode_at(OffsetCommitRequest, data, 0, 8, elements=7)


@pytest.mark.parametrize("version", ["1", None, 1.5, True])
def test_a_version_is_an_int(version: Any) -> None:
    with pytest.raises(SchemaError, match="a version is an int"):
        encode(MetadataRequest(), version)
