"""The handler of DeleteTopics v0-6, which immediately deletes topics, their records and their committed offsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from uuid import UUID

from kwire import ErrorCode
from kwire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kwire.schema import ZERO_UUID
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.base.texts import OF_ERRORS
from mockbroker.broker.broker import Broker
from mockbroker.broker.controller_timeouts import TIMED_OUT, is_expired
from mockbroker.broker.fetch.completion import complete_delayed_fetches
from mockbroker.broker.slices import copy_with, weighted_chunks
from mockbroker.topics.model import Topic

RequestTopic = DeleteTopicsRequest.Topic
ResponseTopic = DeleteTopicsResponse.Topic
NEITHER_NAME_NOR_ID = "Neither topic name nor id were specified."
BY_NAME_AND_ID = "The provided topic name maps to an ID that was already supplied."
WITHOUT_TEXT = (ErrorCode.NONE, TIMED_OUT, ErrorCode.THROTTLING_QUOTA_EXCEEDED)  # as in Kafka's responses
DISABLED_SINCE = 3  # first version with TOPIC_DELETION_DISABLED


def handle(broker: Broker, call: Call[DeleteTopicsRequest], now: float) -> Effects:  # noqa: ARG001
    return begin(call.ticket, _delete_topics(broker, call))


def _delete_topics(broker: Broker, call: Call[DeleteTopicsRequest]) -> Steps:
    """Delete topics, and then their committed offsets. Respond after the last slice (part of limited size).

    The router handles other requests between two slices. A topic is deleted in one slice.

    Args:
        broker: The state of the cluster.
        call: The request, its client, and its ticket (the object that identifies the request).
    """
    responses: list[ResponseTopic] = []
    deleted: dict[UUID, str] = {}  # without the partitions, whose memory is freed in each slice
    effects: Effects = []
    for number, request in enumerate(_split(broker, call.request)):
        if number:
            yield effects
        results, topics = _results(broker, request, call.version)
        broker.remove_topics(topics)
        effects = complete_delayed_fetches(broker, [partition for topic in topics for partition in topic.partitions])
        responses += results
        deleted |= {topic.topic_id: topic.name for topic in topics}
        del topics
    for _ in broker.groups.delete_topics_in_slices(deleted, broker.slice_size):
        yield effects
        effects = []
    return [Reply(call.ticket, DeleteTopicsResponse(responses=responses)), *effects]


def _results(broker: Broker, request: DeleteTopicsRequest, version: int) -> tuple[list[ResponseTopic], list[Topic]]:
    """Return the topics of the response, and the topics to delete.

    If a topic occurs twice, even once by name and once by id, it is not deleted and gets one error.

    If ``delete.topic.enable`` is false, every topic gets an error. If the request has expired, each topic gets
    REQUEST_TIMED_OUT, unless no topic of the request is valid.

    Args:
        broker: The state of the cluster.
        request: The request, or a slice of it.
        version: API version of the request.
    """
    requested_topics = request.topics if version >= 6 else [RequestTopic(name=name) for name in request.topic_names]
    if not broker.settings.delete_topic_enable:
        error = ErrorCode.TOPIC_DELETION_DISABLED if version >= DISABLED_SINCE else ErrorCode.INVALID_REQUEST
        disabled = [
            ResponseTopic(name=requested.name, topic_id=requested.topic_id, error_code=error)
            for requested in requested_topics
        ]
        return disabled, []
    counts = Counter((requested.name, requested.topic_id) for requested in requested_topics)
    del counts[None, ZERO_UUID]  # each gets its own error
    if is_expired(request.timeout_ms) and any(
        times == 1 and (name is None or topic_id == ZERO_UUID) for (name, topic_id), times in counts.items()
    ):
        timed_out = [
            ResponseTopic(name=requested.name, topic_id=requested.topic_id, error_code=TIMED_OUT)
            for requested in requested_topics
        ]
        return timed_out, []
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
    return responses, [same[0] for same in topics.values() if len(same) == 1]


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


def _split(broker: Broker, request: DeleteTopicsRequest) -> Iterator[DeleteTopicsRequest]:
    """Yield the slices of a request, with at most ``Broker.slice_size`` topics each.

    A slice ends when its topics have ``Broker.slice_size`` partitions. A request that has duplicates, or both names and
    ids, is one slice.
    """
    topics, names = request.topics, request.topic_names
    kinds = {topic.name is None for topic in topics}
    if (
        len({(topic.name, topic.topic_id) for topic in topics}) < len(topics)
        or len(kinds) > 1
        or len(set(names)) < len(names)
    ):
        yield request
        return

    def weight(element: RequestTopic | str) -> int:
        topic, _ = _find(broker, element if isinstance(element, RequestTopic) else RequestTopic(name=element))
        return 1 if topic is None else len(topic.partitions)

    elements: Sequence[RequestTopic | str] = topics or names
    for part in weighted_chunks(elements, weight, broker.slice_size):
        yield copy_with(request, **{"topics" if topics else "topic_names": part})
