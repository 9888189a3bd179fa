from __future__ import annotations

from typing import Any

import pytest

from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.produce import ProduceRequest
from kwire.records import Record, build_batch
from mockbroker.replay.keys import is_repeated, key_of


def produce(value: bytes, timestamp: int, codec: int = 0) -> Any:
    batch = build_batch([Record(value=value, timestamp=timestamp)], codec=codec)
    partition = ProduceRequest.Topic.Partition(index=0, records=batch)
    return ProduceRequest(acks=-1, topic_data=[ProduceRequest.Topic(name="t", partition_data=[partition])])


def commit(offset: int) -> Any:
    partition = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequest.Topic(name="t", partitions=[partition])])


def join(metadata: bytes, **fields: Any) -> Any:
    return JoinGroupRequest(
        group_id="g", protocols=[JoinGroupRequest.Protocol(name="range", metadata=metadata)], **fields
    )


@pytest.mark.parametrize(
    ("one", "two", "version", "equal", "loosely"),
    [
        (produce(b"v", 1), produce(b"v", 2, codec=1), 9, True, True),
        (produce(b"v", 1), produce(b"w", 1), 9, False, False),
        (commit(1), commit(2), 8, False, True),
        (join(b"a"), join(b"b"), 7, False, True),
        (join(b"a", session_timeout_ms=1), join(b"a", session_timeout_ms=2), 7, True, True),
        (join(b"a", member_id="x"), join(b"a", member_id="y"), 7, True, True),
        (join(b"a", member_id="x"), join(b"a"), 7, False, False),
    ],
    ids=["timestamps", "values", "offsets", "metadata", "timeouts", "ids", "an id or none"],
)
def test_equal_keys(one: Any, two: Any, version: int, equal: bool, loosely: bool) -> None:
    assert (key_of(one, version) == key_of(two, version)) == equal
    assert (key_of(one, version, loose=True) == key_of(two, version, loose=True)) == loosely


def test_the_order_of_elements_does_not_matter() -> None:
    one, two = (
        JoinGroupRequest(protocols=[JoinGroupRequest.Protocol(name=n) for n in names]) for names in ("ab", "ba")
    )
    assert key_of(one, 7) == key_of(two, 7)


def test_a_new_member_is_not_repeated() -> None:
    assert [is_repeated(request) for request in (HeartbeatRequest(), join(b""), join(b"", member_id="m"))] == [
        True,
        False,
        True,
    ]
