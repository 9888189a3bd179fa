from __future__ import annotations

import pytest

from kwire.blobs import decode_stored, encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kwire.errors import DecodeError, Truncated, UnknownApi

Owned = ConsumerProtocolSubscription.TopicPartition


@pytest.mark.parametrize("blob", [ConsumerProtocolSubscription, ConsumerProtocolAssignment])
@pytest.mark.parametrize("version", [-1, -32768])
def test_negative_version_is_a_decode_error(blob: type, version: int) -> None:
    with pytest.raises(UnknownApi, match=f"has no version {version}: its versions are 0-3"):
        decode_stored(blob, version.to_bytes(2, "big", signed=True) + bytes(8))


@pytest.mark.parametrize("blob", [ConsumerProtocolSubscription, ConsumerProtocolAssignment])
@pytest.mark.parametrize("size", [0, 1])
def test_no_room_for_a_version(blob: type, size: int) -> None:
    with pytest.raises(Truncated, match=f"expected 2 bytes of version, found {size}"):
        decode_stored(blob, bytes(size))


def test_newer_version_is_read_as_the_newest() -> None:
    value = ConsumerProtocolSubscription(topics=["t"], generation_id=7, rack_id="a")
    stored = b"\x00\x09" + encode_stored(value, 3)[2:] + b"fields of v9"
    assert decode_stored(ConsumerProtocolSubscription, stored) == (value, 9)


def test_fields_beyond_the_version_are_left_out() -> None:
    value = ConsumerProtocolSubscription(topics=["t"], owned_partitions=[Owned(topic="t", partitions=[1])], rack_id="a")
    read, version = decode_stored(ConsumerProtocolSubscription, encode_stored(value, 0))
    assert (read, version) == (ConsumerProtocolSubscription(topics=["t"]), 0)


def test_error_offset_counts_the_version() -> None:
    stored = encode_stored(ConsumerProtocolAssignment(), 0)
    with pytest.raises(DecodeError) as caught:
        decode_stored(ConsumerProtocolAssignment, stored[:-1])
    assert str(caught.value) == "ConsumerProtocolAssignment v0 at byte 6, user_data: expected 4 bytes, found 3"
