"""DeleteTopics: v0-6. A topic goes at once, with its records and all offsets committed for it."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from kwire import ErrorCode
from kwire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kwire.schema import ZERO_UUID, Versions
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.base.texts import OF_ERRORS
from mockbroker.broker.broker import Broker
from mockbroker.broker.fetch.delayed_fetch import complete_delayed_fetches
from mockbroker.broker.handlers.handler import Handler
from mockbroker.broker.slices import chunks, copy_with, in_slices
from mockbroker.topics.model import Topic

Wanted = DeleteTopicsRequest.Topic
Answer = DeleteTopicsResponse.Topic
BY_NAME_AND_ID = "The provided topic name maps to an ID that was already supplied."
DISABLED_SINCE = 3  # the version that knows TOPIC_DELETION_DISABLED


def handle(broker: Broker, call: Call[DeleteTopicsRequest], now: float) -> Effects:  # noqa: ARG001
    """A topic that is named twice, or by name and by id, is refused, once."""
    request = call.request
    wanted = request.topics if call.version >= 6 else [Wanted(name=name) for name in request.topic_names]
    if not broker.settings.delete_topic_enable:
        error = ErrorCode.TOPIC_DELETION_DISABLED if call.version >= DISABLED_SINCE else ErrorCode.INVALID_REQUEST
        disabled = [Answer(name=asked.name, topic_id=asked.topic_id, error_code=error) for asked in wanted]
        return [Reply(call.ticket, DeleteTopicsResponse(responses=disabled))]
    named = Counter((asked.name, asked.topic_id) for asked in wanted)
    refused = [_twice(*key) for key, times in named.items() if times > 1]
    found: dict[UUID, list[Topic]] = {}
    for asked in wanted:
        if named[asked.name, asked.topic_id] > 1:
            continue
        topic, error = _find(broker, asked)
        if topic is None:
            text = _refusal(asked) if error == ErrorCode.INVALID_REQUEST else None
            refused.append(Answer(name=asked.name, topic_id=asked.topic_id, error_code=error, error_message=text))
        else:
            found.setdefault(topic.topic_id, []).append(topic)
    answers = [_found(topics) for topics in found.values()] + refused
    deleted = [topics[0] for topics in found.values() if len(topics) == 1]
    broker.delete_topics(deleted)
    gone = [partition for topic in deleted for partition in topic.partitions]
    return [Reply(call.ticket, DeleteTopicsResponse(responses=answers)), *complete_delayed_fetches(broker, gone)]


def _found(topics: list[Topic]) -> Answer:
    """The answer for a topic. ``topics``: the same one, once for each way in which it was named."""
    name, topic_id = topics[0].name, topics[0].topic_id
    if len(topics) == 1:
        return Answer(name=name, topic_id=topic_id, error_message=None)
    error = ErrorCode.INVALID_REQUEST
    return Answer(name=name, topic_id=topic_id, error_code=error, error_message=BY_NAME_AND_ID)


def _twice(name: str | None, topic_id: UUID) -> Answer:
    text = "Duplicate topic id." if name is None else "Duplicate topic name."
    return Answer(name=name, topic_id=topic_id, error_code=ErrorCode.INVALID_REQUEST, error_message=text)


def adapt_response(response: DeleteTopicsResponse, version: int) -> DeleteTopicsResponse:
    """v5 adds a text to errors."""
    for topic in response.responses:
        if version < 5:
            topic.error_message = None
        elif topic.error_code and not topic.error_message:
            error = ErrorCode(topic.error_code)
            topic.error_message = OF_ERRORS.get(error, error.name)
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


def _refusal(asked: Wanted) -> str:
    if asked.topic_id != ZERO_UUID:
        return "You may not specify both topic name and topic id."
    return f"Topic {asked.name} is not deleted: the coordinators of this cluster keep their records there."


def _split(broker: Broker, request: DeleteTopicsRequest) -> list[DeleteTopicsRequest]:
    """By topics, of requests that name each once, and either all by name or all by id."""
    topics, names, size = request.topics, request.topic_names, broker.slice_size
    if max(len(topics), len(names)) <= size:
        return []
    kinds = {topic.name is None for topic in topics}
    if len({(topic.name, topic.topic_id) for topic in topics}) < len(topics) or len(kinds) > 1:
        return []
    if len(set(names)) < len(names):
        return []
    return [copy_with(request, topic_names=part) for part in chunks(names, size)] or [
        copy_with(request, topics=part) for part in chunks(topics, size)
    ]


def _merge(response: DeleteTopicsResponse, more: DeleteTopicsResponse) -> None:
    response.responses += more.responses


HANDLER = Handler(Versions.parse("0-6"), in_slices(handle, _split, _merge), adapt_response)
