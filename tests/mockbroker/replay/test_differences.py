"""The text about the difference between a live and a recorded request."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kwire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.produce import ProduceRequest
from kwire.records import Record, build_batch
from mockbroker.replay.differences import differences, nearest
from mockbroker.replay.script import Answered

UNREADABLE = build_batch([Record(value=b"v")])[:-2] + bytes(2)  # its CRC is wrong


def beat(group: str = "g", generation: int = 1, member: str = "m") -> Any:
    return HeartbeatRequest(group_id=group, generation_id=generation, member_id=member)


def commit(*partitions: int, topic: str = "t", offset: int = 0) -> Any:
    parts = [OffsetCommitRequest.Topic.Partition(partition_index=n, committed_offset=offset) for n in partitions]
    return OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequest.Topic(name=topic, partitions=parts)])


def metadata(*names: str) -> Any:
    topics = [MetadataRequest.Topic(topic_id=UUID(int=0), name=name) for name in names]
    return MetadataRequest(topics=topics)


def produce(*records: Record) -> Any:
    partition = ProduceRequest.Topic.Partition(records=build_batch(records) if records else UNREADABLE)
    return ProduceRequest(topic_data=[ProduceRequest.Topic(name="t", partition_data=[partition])])


def scram(password: bytes) -> Any:
    user = AlterUserScramCredentialsRequest.Upsertion(
        name="alice", mechanism=1, iterations=4096, salt=b"pepper", salted_password=password
    )
    return AlterUserScramCredentialsRequest(deletions=[], upsertions=[user])


RECORDS = "topic_data[0].partition_data[0].records"
ROWS = [
    (beat("h"), beat(), 4, ["group_id is 'h', recorded 'g'"]),
    (beat(generation=2, member="n"), beat(), 4, ["generation_id is 2, recorded 1", "member_id is 'n', recorded 'm'"]),
    (beat(member=""), beat(), 4, ["member_id is '', recorded 'm'"]),
    (commit(0, 2), commit(1, 0), 8, ["topics[0].partitions[1].partition_index is 2, recorded 1"]),
    (commit(0, offset=1), commit(0), 8, []),
    (metadata("a"), metadata("a", "b"), 12, [f"topics[1] is none, recorded {{'topic_id': '{'A' * 22}', 'name': 'b'}}"]),
    (metadata("b", "a"), metadata("a"), 12, [f"topics[0] is {{'topic_id': '{'A' * 22}', 'name': 'b'}}, recorded none"]),
    (metadata("b", "a"), metadata("a", "b"), 12, []),
    (MetadataRequest(topics=None), metadata(), 12, ["topics is none, recorded []"]),
    (produce(Record(value=b"a")), produce(Record(value=b"b")), 9, [f"{RECORDS}[0].value is b'a', recorded b'b'"]),
    (produce(Record(), Record(key=b"k")), produce(Record()), 9, [f"{RECORDS}[1] is {{'key': b'k', 'value': None, 'headers': ()}}, recorded none"]),
    (produce(), produce(Record()), 9, [f"{RECORDS} is {UNREADABLE[:60]!r}... ({len(UNREADABLE)} bytes), recorded ((None, None, ()),)"]),
    (beat("a" * 99), beat("b"), 4, [f"group_id is '{'a' * 60}'... (99 characters), recorded 'b'"]),
    (beat("a" * 99 + "b"), beat("a" * 99 + "c"), 4, [f"group_id is ...'{'a' * 10}b', recorded ...'{'a' * 10}c'"]),
    (beat("a" * 99), beat("a" * 90), 4, [f"group_id is ...'{'a' * 19}', recorded ...'{'a' * 10}'"]),
    (JoinGroupRequest(session_timeout_ms=1, protocol_type="a"), JoinGroupRequest(protocol_type="b"), 7, ["protocol_type is 'a', recorded 'b'"]),
]  # fmt: skip


@pytest.mark.parametrize(("live", "recorded", "version", "texts"), ROWS)
def test_the_differences_are_named(live: Any, recorded: Any, version: int, texts: list[str]) -> None:
    assert list(differences(live, recorded, version, str.__eq__)) == texts


def test_ids_that_may_be_the_same_are_no_difference() -> None:
    one, two = (ConsumerGroupHeartbeatRequest(group_id="g", member_id=member) for member in "ab")
    assert list(differences(one, two, 1, lambda _one, _two: True)) == []
    assert list(differences(one, two, 1, lambda _one, _two: False)) == ["member_id is 'a', recorded 'b'"]


def test_secrets_are_not_in_a_difference() -> None:
    (text,) = differences(
        scram(b"secret"), AlterUserScramCredentialsRequest(deletions=[], upsertions=[]), 0, str.__eq__
    )
    assert text == "upsertions[0] is {'name': 'alice', 'mechanism': 1, 'iterations': 4096}, recorded none"


def recorded(request: Any, *, is_used: bool = False) -> Answered:
    return Answered(12, 4, "app", request, None, 4, 0.0, is_used=is_used)


def test_the_request_with_the_fewest_differences_is_nearest() -> None:
    calls = [recorded(beat("h", 7)), recorded(beat("g", 7, "n")), recorded(beat("g", 3)), recorded(beat("g", 4))]
    assert nearest(beat(), 4, calls, str.__eq__) == ("generation_id is 1, recorded 3", 0)
    calls[2].is_used = True
    assert nearest(beat(), 4, calls, str.__eq__) == ("generation_id is 1, recorded 4", 0)
    assert nearest(beat(), 4, [*calls, recorded(beat()), recorded(beat())], str.__eq__) == (None, 2)
