"""DeleteTopics: v0-6. A topic goes at once, with its records and all offsets committed for it."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kwire.schema import ZERO_UUID, Versions
from mockbroker.broker import Broker
from mockbroker.calls import Call, Effects, Reply
from mockbroker.cluster.model import Topic
from mockbroker.handlers import fetch
from mockbroker.handlers.handler import Handler

Wanted = DeleteTopicsRequest.Topic
Answer = DeleteTopicsResponse.Topic


def handle(broker: Broker, call: Call[DeleteTopicsRequest], now: float) -> Effects:  # noqa: ARG001
    request = call.request
    wanted = request.topics if call.version >= 6 else [Wanted(name=name) for name in request.topic_names]
    effects: Effects = []
    answers: list[Answer] = []
    for asked in wanted:
        topic, error = _find(broker, asked)
        if topic is None:
            answers.append(Answer(name=asked.name, topic_id=asked.topic_id, error_code=error))
            continue
        broker.drop_topic(topic)
        answers.append(Answer(name=topic.name, topic_id=topic.topic_id, error_message=None))
        for partition in topic.partitions:
            effects += fetch.appended(broker, partition)
    return [Reply(call.ticket, DeleteTopicsResponse(responses=answers)), *effects]


def present(response: DeleteTopicsResponse, version: int) -> DeleteTopicsResponse:
    """v5 adds a text to errors."""
    for topic in response.responses:
        if version >= 5 and topic.error_code:
            topic.error_message = ErrorCode(topic.error_code).name
    return response


def _find(broker: Broker, asked: Wanted) -> tuple[Topic | None, ErrorCode]:
    cluster = broker.cluster
    if asked.name is not None and asked.topic_id != ZERO_UUID:
        return None, ErrorCode.INVALID_REQUEST
    if asked.name is None:
        topic = cluster.by_id.get(asked.topic_id)
        return topic, ErrorCode.NONE if topic else ErrorCode.UNKNOWN_TOPIC_ID
    topic = cluster.topics.get(asked.name)
    if topic is None:
        return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic.internal:  # groups live there; Kafka lets an administrator saw off that branch, we do not
        return None, ErrorCode.INVALID_REQUEST
    return topic, ErrorCode.NONE


HANDLER = Handler(Versions.parse("0-6"), handle, present)
