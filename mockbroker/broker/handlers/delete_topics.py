"""The handler of DeleteTopics v0-6, which immediately deletes topics, their records and their committed offsets."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from kwire import ErrorCode
from kwire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kwire.schema import ZERO_UUID
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.base.texts import OF_ERRORS
from mockbroker.broker.broker import Broker
from mockbroker.broker.controller_timeouts import TIMED_OUT, is_expired
from mockbroker.broker.fetch.completion import complete_delayed_fetches
from mockbroker.broker.slices import chunks, copy_with, in_slices, merge_array
from mockbroker.topics.model import Topic

RequestTopic = DeleteTopicsRequest.Topic
ResponseTopic = DeleteTopicsResponse.Topic
NEITHER_NAME_NOR_ID = "Neither topic name nor id were specified."
BY_NAME_AND_ID = "The provided topic name maps to an ID that was already supplied."
WITHOUT_TEXT = (ErrorCode.NONE, TIMED_OUT, ErrorCode.THROTTLING_QUOTA_EXCEEDED)  # as in Kafka's responses
DISABLED_SINCE = 3  # first version with TOPIC_DELETION_DISABLED


def _handle(broker: Broker, call: Call[DeleteTopicsRequest], now: float) -> Effects:  # noqa: ARG001
    """Delete topics. If a topic occurs twice, even once by name and once by id, it is not deleted and gets one error.

    If ``delete.topic.enable`` is false, every topic gets an error. If the request has expired, each topic gets
    REQUEST_TIMED_OUT, unless no topic of the request is valid.

    Args:
        broker: The state of the cluster.
        call: The request, its client, and its ticket (the object that identifies the request).
        now: The broker's time in seconds.

    Returns: the effects, such as responses and journal events.
    """
    request = call.request
    requested_topics = (
        request.topics if call.version >= 6 else [RequestTopic(name=name) for name in request.topic_names]
    )
    if not broker.settings.delete_topic_enable:
        error = ErrorCode.TOPIC_DELETION_DISABLED if call.version >= DISABLED_SINCE else ErrorCode.INVALID_REQUEST
        disabled = [
            ResponseTopic(name=requested.name, topic_id=requested.topic_id, error_code=error)
            for requested in requested_topics
        ]
        return [Reply(call.ticket, DeleteTopicsResponse(responses=disabled))]
    counts = Counter((requested.name, requested.topic_id) for requested in requested_topics)
    del counts[None, ZERO_UUID]  # each gets its own error
    if is_expired(request.timeout_ms) and any(
        times == 1 and (name is None or topic_id == ZERO_UUID) for (name, topic_id), times in counts.items()
    ):
        timed_out = [
            ResponseTopic(name=requested.name, topic_id=requested.topic_id, error_code=TIMED_OUT)
            for requested in requested_topics
        ]
        return [Reply(call.ticket, DeleteTopicsResponse(responses=timed_out))]
    errors = [_duplicate(*key) for key, times in counts.items() if times > 1]
    topics: dict[UUID, list[Topic]] = {}
    for requested in requested_topics:
        if counts[requested.name, requested.topic_id] > 1:
            continue
        topic, error = _find(broker, requested)
        if topic is None:
            text = _error_message(requested) if error == ErrorCode.INVALID_REQUEST else None
            errors.append(
                ResponseTopic(name=requested.name, topic_id=requested.topic_id, error_code=error, error_message=text)
            )
        else:
            topics.setdefault(topic.topic_id, []).append(topic)
    responses = [_response(same) for same in topics.values()] + errors
    deleted = [same[0] for same in topics.values() if len(same) == 1]
    broker.delete_topics(deleted)
    partitions = [partition for topic in deleted for partition in topic.partitions]
    return [
        Reply(call.ticket, DeleteTopicsResponse(responses=responses)),
        *complete_delayed_fetches(broker, partitions),
    ]


def _response(topics: list[Topic]) -> ResponseTopic:
    """Return the result for a topic. ``topics``: the topic, repeated as often as it occurs in the request."""
    name, topic_id = topics[0].name, topics[0].topic_id
    if len(topics) == 1:
        return ResponseTopic(name=name, topic_id=topic_id, error_message=None)
    error = ErrorCode.INVALID_REQUEST
    return ResponseTopic(name=name, topic_id=topic_id, error_code=error, error_message=BY_NAME_AND_ID)


def _duplicate(name: str | None, topic_id: UUID) -> ResponseTopic:
    text = "Duplicate topic id." if name is None else "Duplicate topic name."
    return ResponseTopic(name=name, topic_id=topic_id, error_code=ErrorCode.INVALID_REQUEST, error_message=text)


def adapt_response(response: DeleteTopicsResponse, version: int) -> DeleteTopicsResponse:
    """Set or remove the error messages of a response, as its API version requires, and return the response.

    Before v5, the response has no error messages. From v5 on, an error without a message gets a default message, except
    those in WITHOUT_TEXT.
    """
    for topic in response.responses:
        if version < 5:
            topic.error_message = None
        elif topic.error_code not in WITHOUT_TEXT and not topic.error_message:
            error = ErrorCode(topic.error_code)
            topic.error_message = OF_ERRORS.get(error, error.name)
    return response


def _find(broker: Broker, requested: RequestTopic) -> tuple[Topic | None, ErrorCode]:
    cluster = broker.cluster
    if requested.name is not None and requested.topic_id != ZERO_UUID:
        return None, ErrorCode.INVALID_REQUEST
    if requested.name is None and requested.topic_id == ZERO_UUID:
        return None, ErrorCode.INVALID_REQUEST
    if requested.name is None:
        topic = cluster.by_id.get(requested.topic_id)
        return topic, ErrorCode.NONE if topic else ErrorCode.UNKNOWN_TOPIC_ID
    topic = cluster.topics.get(requested.name)
    if topic is None:
        return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic.internal:  # Kafka would delete it, with all groups
        return None, ErrorCode.INVALID_REQUEST
    return topic, ErrorCode.NONE


def _error_message(requested: RequestTopic) -> str:
    if requested.name is None:
        return NEITHER_NAME_NOR_ID
    if requested.topic_id != ZERO_UUID:
        return "You may not specify both topic name and topic id."
    return f"Topic {requested.name} cannot be deleted: the coordinators store their records in it."


def _split(broker: Broker, request: DeleteTopicsRequest) -> list[DeleteTopicsRequest]:
    """Return the parts of a large request, with ``Broker.slice_size`` topics each; [] if the request must not be split.

    A request must not be split if it is small, has duplicates, or has both names and ids.
    """
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


handle = in_slices(_handle, _split, merge_array("responses"))
