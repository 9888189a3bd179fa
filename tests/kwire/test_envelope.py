from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from tools.counting import in_slices

from kwire.envelope import (
    decode_request,
    decode_request_header,
    decode_request_in_slices,
    decode_response,
    encode_request,
    encode_response,
    produce_acks,
    string_length,
)
from kwire.errors import DecodeError, SchemaError, Truncated, UnknownApi
from kwire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.offset_commit import OffsetCommitRequest

UNKNOWN = [
    (999, 0, "RequestHeader at byte 0, request_api_key: unknown API key 999"),
    (-5, 0, "RequestHeader at byte 0, request_api_key: unknown API key -5"),
    (3, 99, "RequestHeader at byte 2, request_api_version: Metadata has no version 99: its versions are 0-13"),
    (3, -1, "RequestHeader at byte 2, request_api_version: Metadata has no version -1: its versions are 0-13"),
    (18, 99, "RequestHeader at byte 2, request_api_version: ApiVersions has no version 99: its versions are 0-4"),
]


@pytest.mark.parametrize(("key", "version", "text"), UNKNOWN)
def test_unknown_request(key: int, version: int, text: str) -> None:
    frame = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True) + bytes(7)
    with pytest.raises(UnknownApi) as caught:
        decode_request(frame)
    assert str(caught.value) == text


@pytest.mark.parametrize(("version", "tags"), [(99, b"\0"), (-1, b"")])
def test_header_of_an_api_versions_request_that_does_not_exist(version: int, tags: bytes) -> None:
    frame = b"\x00\x12" + version.to_bytes(2, "big", signed=True) + b"\0\0\0\7" + b"\0\1c" + tags + b"what is new"
    api, header, at = decode_request_header(frame)
    assert (api.name, header.request_api_version, header.correlation_id, header.client_id) == (
        "ApiVersions",
        version,
        7,
        "c",
    )
    assert frame[at:] == b"what is new"


@pytest.mark.parametrize("size", range(4))
def test_too_short_for_a_key(size: int) -> None:
    with pytest.raises(Truncated, match=f"expected 4 bytes of API key and version, found {size}"):
        decode_request(bytes(size))


def test_offsets_count_from_the_start_of_the_frame() -> None:
    frame = encode_request(HeartbeatRequest(group_id="g"), 0, correlation_id=1, client_id="me")
    with pytest.raises(DecodeError) as caught:
        decode_request(frame[:-1])
    assert str(caught.value) == f"HeartbeatRequest v0 at byte {len(frame) - 2}, member_id: expected 2 bytes, found 1"


@pytest.mark.parametrize("asked", [0, 1, 2, 3, 4, 5, 99, -1])
def test_api_versions_answer_to_a_version_too_new(asked: int) -> None:
    value = ApiVersionsResponse(error_code=35, api_keys=[ApiVersionsResponse.ApiVersion(api_key=18, max_version=3)])
    response = decode_response(encode_response(value, 0, correlation_id=7), 18, asked)
    assert (response.header.correlation_id, response.body) == (7, value)
    if asked not in (1, 2):  # their body begins like that of v0, and is cut short
        assert response.version == 0


@pytest.mark.parametrize("error", [0, 34])
def test_another_short_answer_is_an_error(error: int) -> None:
    frame = encode_response(ApiVersionsResponse(error_code=error), 0, correlation_id=7)
    with pytest.raises(DecodeError, match="ApiVersionsResponse v4"):
        decode_response(frame, 18, 4)


def test_trailing_bytes() -> None:
    for decoded in (
        decode_request(encode_request(HeartbeatRequest(), 0, correlation_id=1) + b"more"),
        decode_response(encode_response(HeartbeatResponse(), 0, correlation_id=1) + b"more", 12, 0),
    ):
        assert decoded.trailing == b"more"
    with pytest.raises(DecodeError, match="HeartbeatRequest v0 at byte 18: 4 trailing bytes"):
        decode_request(encode_request(HeartbeatRequest(), 0, correlation_id=1) + b"more", strict=True)
    with pytest.raises(DecodeError, match="HeartbeatResponse v0 at byte 6: 4 trailing bytes"):
        decode_response(encode_response(HeartbeatResponse(), 0, correlation_id=1) + b"more", 12, 0, strict=True)


def test_null_client_id() -> None:
    frame = encode_request(HeartbeatRequest(), 4, correlation_id=1)
    assert decode_request(frame).header.client_id is None


def test_no_such_version() -> None:
    with pytest.raises(SchemaError, match="HeartbeatRequest has no version 5: its versions are 0-4"):
        encode_request(HeartbeatRequest(), 5, correlation_id=1)


@pytest.mark.parametrize(
    ("key", "version", "reason"),
    [(999, 0, "unknown API key 999"), (12, 5, "Heartbeat has no version 5: its versions are 0-4")],
)
def test_unknown_response(key: int, version: int, reason: str) -> None:
    with pytest.raises(UnknownApi) as caught:
        decode_response(bytes(10), key, version)
    assert str(caught.value) == f"ResponseHeader at byte 0: {reason}"
    assert (caught.value.path, caught.value.offset) == ("", 0)


@pytest.mark.parametrize("body", [HeartbeatResponse(), JoinGroupRequest.Protocol()])
def test_not_a_request(body: object) -> None:
    with pytest.raises(SchemaError, match="is not a request"):
        encode_request(body, 0, correlation_id=1)


def test_not_a_response() -> None:
    with pytest.raises(SchemaError, match="HeartbeatRequest is not a response"):
        encode_response(HeartbeatRequest(), 0, correlation_id=1)


def test_empty_api_versions_request() -> None:
    assert encode_request(ApiVersionsRequest(), 0, correlation_id=7).hex() == "0012000000000007ffff"


def test_request_decoded_in_slices_is_equal() -> None:
    partition = OffsetCommitRequest.Topic.Partition
    topics = [OffsetCommitRequest.Topic(name="t", partitions=[partition(partition_index=n) for n in range(5_000)])]
    frame = encode_request(OffsetCommitRequest(group_id="g", topics=topics), 8, correlation_id=1) + b"more"
    slices, request = in_slices(decode_request_in_slices(frame, 1_000))
    assert request == decode_request(frame)
    assert slices >= 5
    with pytest.raises(DecodeError) as refused:
        in_slices(decode_request_in_slices(frame[:-10], 1_000))
    with pytest.raises(DecodeError) as expected:
        decode_request(frame[:-10])
    assert str(refused.value) == str(expected.value)


@pytest.mark.parametrize("size", [6, 10, 1_000])
def test_overlong_varint_has_no_string_length(size: int) -> None:
    overlong = b"\xff" * size + b"\x01"
    with pytest.raises(IndexError):
        string_length(overlong, 0, compact=True)
    assert produce_acks(overlong + bytes(10), 0, 9) is None
    assert string_length(b"\xff\xff\xff\xff\x0f", 0, compact=True) == (2**32 - 2, 5)


@pytest.mark.parametrize(
    "again",
    [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_copies_have_the_same_api(again: Callable[[Any], Any]) -> None:
    request = decode_request(encode_request(HeartbeatRequest(group_id="g"), 4, correlation_id=1))
    response = decode_response(encode_response(HeartbeatResponse(), 4, correlation_id=1), 12, 4)
    for message in (request, response):
        assert again(message) == message
        assert again(message).api is message.api
