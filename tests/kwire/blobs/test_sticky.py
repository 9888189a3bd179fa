from __future__ import annotations

import golden
import pytest
from golden import BLOB_FOLDERS, COUNTS, Line
from hypothesis import given
from strategies import values

from kwire import codec
from kwire.blobs import decode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolSubscription
from kwire.blobs.sticky import CooperativeStickyUserData, StickyUserData, decode_user_data, read_user_data
from kwire.errors import DecodeError

Owned = StickyUserData.TopicPartition
ONE = StickyUserData(previous_assignment=[Owned(topic="t", partitions=[2, 0])], generation=5)


def problems(line: Line) -> list[str]:
    """Return the errors in our decoding of the user data, alone and inside the subscriptions."""
    data = bytes.fromhex(line["user_data_hex"])
    results = []
    if line["assignor"] == "sticky":
        value, version, end = decode_user_data(data)
        results += golden.compare("version and end", (version, end), (1, len(data)))
        results += golden.compare("owned", owned(value), {t: in_order(line, t) for t, _ in line["partitions"]})
        results += golden.compare("generation", value.generation, line["generation"])
        results += golden.compare("encoded again", codec.encode(value, 1), data)
        without = codec.encode(value, 0)
        old = StickyUserData(previous_assignment=value.previous_assignment)
        results += golden.compare("as v0", decode_user_data(without), (old, 0, len(without)))
    else:
        value = codec.decode(CooperativeStickyUserData, data, 0, strict=True)
        results += golden.compare("generation", value.generation, line["generation"])
        results += golden.compare("encoded again", codec.encode(value, 0), data)
    for version in range(4):
        stored = bytes.fromhex(line[f"subscription_v{version}_hex"])
        results += golden.compare("user data", decode_stored(ConsumerProtocolSubscription, stored)[0].user_data, data)
    return results


def owned(value: StickyUserData) -> dict[str, list[int]]:
    return {each.topic: each.partitions for each in value.previous_assignment}


def in_order(line: Line, topic: str) -> list[int]:
    return [partition for name, partition in line["partitions"] if name == topic]


@pytest.mark.parametrize("origin", BLOB_FOLDERS)
def test_user_data_of_kafka(origin: str) -> None:
    lines = list(golden.read(BLOB_FOLDERS[origin] / "StickyUserData.jsonl.gz"))
    assert {line["assignor"] for line in lines} == {"sticky", "cooperative-sticky"}
    assert not [result for line in lines if (result := problems(line))]
    COUNTS[f"blobs of {origin}"] += len(lines)


@pytest.mark.parametrize("size", range(len(codec.encode(ONE, 1))))
def test_cut_short(size: int) -> None:
    data = codec.encode(ONE, 1)[:size]
    if size >= len(codec.encode(ONE, 0)):  # only the generation is cut: then this is v0
        assert read_user_data(data) == StickyUserData(previous_assignment=ONE.previous_assignment)
        return
    assert read_user_data(data) is None
    with pytest.raises(DecodeError):
        decode_user_data(data)


def test_nothing_known() -> None:
    assert read_user_data(None) is None
    assert read_user_data(b"") is None
    assert read_user_data(b"\x00\x00\x02\xd4") is None  # of the cooperative assignor
    assert read_user_data(b"\xff" * 20) is None


def test_trailing_bytes_are_ignored() -> None:
    assert read_user_data(codec.encode(ONE, 1) + b"more") == ONE


@given(value=values(StickyUserData, 1))
def test_round_trip(value: StickyUserData) -> None:
    data = codec.encode(value, 1)
    assert decode_user_data(data) == (value, 1, len(data))
