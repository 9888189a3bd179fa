"""The memory of decoded bytes: at most 48 times their size and 8 MiB, for any bytes."""

import tracemalloc

import pytest

from kwire.codec import decode, encode
from kwire.errors import DecodeError, LimitError, Truncated
from kwire.limits import MAX_WEIGHT, UNWEIGHED, WEIGHT_ALLOWANCE, weight_limit
from kwire.messages.create_partitions import CreatePartitionsRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.sync_group import SyncGroupRequest


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def many(count: int, element: bytes) -> bytes:
    return varint(count + 1) + element * count


def tags(count: int) -> bytes:
    return varint(count) + b"".join(varint(n + 300) + b"\0" for n in range(count))


SIZES = [UNWEIGHED, 400_000]
HOSTILE = {  # the contents of a frame, and a function that makes a frame of this size
    "groups without anything": (OffsetFetchRequest, 8, lambda size: many(size // 3, b"\1\1\0") + b"\0\0"),
    "empty arrays": (CreatePartitionsRequest, 3, lambda size: b"\2\1\0\0\0\1" + many(size // 2, b"\1\0") + b"\0" * 7),
    "unknown tags": (HeartbeatRequest, 4, lambda size: b"\1" + bytes(4) + b"\1\0" + tags(size // 3)),
    "a tag in each struct": (OffsetFetchRequest, 8, lambda size: many(size // 6, b"\1\1\1\x90\x03\0") + b"\0\0"),
    "strings of a byte that is not UTF-8": (
        MetadataRequest,
        9,
        lambda size: many(size // 3, b"\2\xff\0") + b"\1\0\0\0",
    ),
    "strings of a letter": (MetadataRequest, 9, lambda size: many(size // 4, b"\3\xd0\xb6\0") + b"\1\0\0\0"),
}


REFUSED = {"groups without anything", "empty arrays", "unknown tags", "a tag in each struct"}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("what", HOSTILE)
def test_limits_of_kept_data(what: str, size: int) -> None:
    message, version, make = HOSTILE[what]
    data = make(size)
    tracemalloc.start()
    try:
        value = decode(message, data, version)
    except LimitError:
        value = None
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept <= 48 * len(data) + 8 * 1024 * 1024
    assert (value is None) == (what in REFUSED and size != UNWEIGHED)


def test_messages_that_are_as_large_as_they_come() -> None:
    """The message of a real cluster with 60,000 partitions is not refused."""
    partition = MetadataResponse.Topic.Partition(replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3])
    topics = [MetadataResponse.Topic(name=f"topic-{n}", partitions=[partition] * 6) for n in range(10_000)]
    data = encode(MetadataResponse(topics=topics), 12)
    assert len(decode(MetadataResponse, data, 12).topics) == 10_000


def test_the_limit() -> None:
    assert weight_limit(0) == WEIGHT_ALLOWANCE
    assert weight_limit(2**31) == MAX_WEIGHT
    with pytest.raises(LimitError, match="memory limit"):
        decode(OffsetFetchRequest, many(400_000, b"\1\1\0") + b"\0\0", 8)


def test_large_messages_are_refused_without_reading_them_again() -> None:
    data = encode(MetadataRequest(topics=[MetadataRequest.Topic(name=f"topic-{n}") for n in range(10_000)]), 12)
    with pytest.raises(
        Truncated, match=r"MetadataRequest v12 at byte \d+: the data ends before the message does"
    ) as cut:
        decode(MetadataRequest, data[:-5], 12)
    assert len(data) - 40 < cut.value.offset <= len(data)
    at = data.index(b"topic-5000") - 1
    large = encode(SyncGroupRequest(assignments=[SyncGroupRequest.Assignment(assignment=bytes(70_000))]), 0)
    with pytest.raises(Truncated) as cut:
        decode(SyncGroupRequest, large[:-1], 0)
    assert cut.value.offset == len(large) - 1
    broken = data[:at] + b"\xff" * 6 + data[at + 6 :]
    with pytest.raises(DecodeError, match="invalid data near this offset") as caught:
        decode(MetadataRequest, broken, 12)
    assert at <= caught.value.offset < at + 10
