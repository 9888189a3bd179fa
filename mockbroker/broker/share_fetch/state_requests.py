"""The responses to requests for the share coordinator, with the results grouped by topic and partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

from kwire import ErrorCode
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.base.texts import OF_ERRORS
from mockbroker.broker.broker import Broker
from mockbroker.broker.slices import merge_by_topic, split_by_partition
from mockbroker.share.state import StateKey

NEGATIVE_PARTITION = "The partition id cannot be a negative number."
UNINITIALIZED_WRITE = "Write operation on uninitialized share partition not allowed."
UNINITIALIZED_READ = "Read operation on uninitialized share partition not allowed."

Operation = Callable[[StateKey, Any], Any]  # returns the result of a partition, without its number, or an ErrorCode


def respond(
    broker: Broker, call: Call[Any], response: Callable[..., Any], operation: Operation, uninitialized: str = ""
) -> Effects:
    """Apply an operation to each partition of a request to the share coordinator, and respond.

    A request without a group, without topics, or with a topic without partitions gets no results, as in Kafka.

    Args:
        broker: The state of the cluster.
        call: The request, its client, and its ticket (the object that identifies the request).
        response: Class of the response.
        operation: Function that does the operation on a partition. It returns the result of the partition, or an error
            code.
        uninitialized: Error message for a share partition that is not initialized; the error code is INVALID_REQUEST.

    Returns: the effects, such as responses and journal events.
    """
    request = call.request
    topics: list[Any] = []
    if request.group_id and all(topic.partitions for topic in request.topics):
        kind: Any = response
        for topic in request.topics:
            results = [
                _result(broker, call, StateKey(request.group_id, topic.topic_id, each.partition), each, kind, operation)
                for each in topic.partitions
            ]
            for result in results:
                if result.error_code == ErrorCode.INVALID_REQUEST and result.error_message is None:
                    result.error_message = uninitialized
            topics.append(kind.Topic(topic_id=topic.topic_id, partitions=results))
    return [Reply(call.ticket, response(results=topics))]


def split(broker: Broker, request: Any) -> Iterable[Any]:
    """Return the slices of a large request; none if it is small, or gets no results."""
    if not request.group_id or not all(topic.partitions for topic in request.topics):
        return ()
    return split_by_partition(broker, request)


merge = merge_by_topic("results", attrgetter("topic_id"))


def _result(broker: Broker, call: Call[Any], key: StateKey, given: Any, kind: Any, operation: Operation) -> Any:
    partition = kind.Topic.Partition
    if broker.share_coordinator(key) != call.client.node:
        error = ErrorCode.NOT_COORDINATOR
    elif key.partition < 0:
        invalid = ErrorCode.INVALID_REQUEST
        return partition(partition=key.partition, error_code=invalid, error_message=NEGATIVE_PARTITION)
    else:
        result = operation(key, given)
        if not isinstance(result, ErrorCode):
            return result
        error = result
    text = None if error in (ErrorCode.NONE, ErrorCode.INVALID_REQUEST) else OF_ERRORS.get(error)
    return partition(partition=key.partition, error_code=error, error_message=text)
