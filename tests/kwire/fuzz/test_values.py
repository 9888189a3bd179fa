from __future__ import annotations

from random import Random
from typing import Any

import pytest
from strategies import MESSAGES, cells

from kwire.codec import decode, encode
from kwire.fuzz.values import any_value, full
from kwire.layout import List, Maybe, Node, Record, resolve
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.schema import unknown_tags

EVERY_MESSAGE = pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)


@EVERY_MESSAGE
def test_full_has_everything(message: type) -> None:
    for version in cells(message):
        value = full(message, version)
        assert everything(value, resolve(message, version))
        assert decode(message, encode(value, version), version) == value


def everything(value: Any, node: Node) -> bool:
    match node:
        case List(element):
            return len(value) == 1 and everything(value[0], element)
        case Maybe(record):
            return value is not None and everything(value, record)
        case Record():
            slots = (*node.slots, *node.tagged)
            tags = bool(unknown_tags(value)) == node.flexible
            return tags and all(everything(getattr(value, slot.name), slot.node) for slot in slots)
        case _:
            return value is not None


@EVERY_MESSAGE
def test_any_value_can_be_written(message: type) -> None:
    random = Random(7)
    for version in cells(message):
        for _ in range(5):
            encode(any_value(message, version, random), version)


def test_the_same_seed_gives_the_same_values() -> None:
    first, second = Random(1), Random(1)
    assert [any_value(MetadataRequest, 12, first) for _ in range(20)] == [
        any_value(MetadataRequest, 12, second) for _ in range(20)
    ]


def test_known_names_are_used() -> None:
    random, known = Random(3), {"groupId": "mine", "member_id": ["a", "b"], "topicName": "t"}
    beats = [any_value(HeartbeatRequest, 4, random, known) for _ in range(100)]
    assert sum(beat.group_id == "mine" for beat in beats) > 70
    assert {"a", "b"} <= {beat.member_id for beat in beats}
    commits = [any_value(OffsetCommitRequest, 2, random, known) for _ in range(100)]
    assert sum(topic.name == "t" for commit in commits for topic in commit.topics) > 50
    fetches = [any_value(OffsetFetchRequest, 1, random, known) for _ in range(100)]
    assert sum(topic.name == "t" for fetch in fetches for topic in fetch.topics or []) > 50
