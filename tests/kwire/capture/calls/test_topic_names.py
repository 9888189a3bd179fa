"""The names of topic ids."""

from __future__ import annotations

from uuid import UUID

from captures import COMMITTED

from kwire.capture import read
from kwire.capture.calls.model import Call
from kwire.capture.calls.topic_names import TopicNames
from kwire.messages.metadata import MetadataResponse


def call(key: int, response: object) -> Call:
    return Call(connection="c", client="a", broker="b", number=1, api_key=key, response=response)


def test_learned_from_metadata() -> None:
    names = TopicNames()
    topics = [MetadataResponse.Topic(name="orders", topic_id=UUID(int=1)), MetadataResponse.Topic(name="old")]
    names.learn(call(3, MetadataResponse(topics=topics)))
    names.learn(call(3, None))
    assert names == {UUID(int=1): "orders"}


def test_a_name_from_later_in_the_capture() -> None:
    path = next(path for path in COMMITTED if "kip848" in path.name)
    whole = read(path)
    for _ in whole:
        pass
    assert whole.topic_names
    for topic_id, name in whole.topic_names.items():
        assert read(path).name_of(topic_id) == name
    assert read(path).name_of(UUID(int=1)) is None
