"""The handler of CreatePartitions v0-3, which adds partitions to topics.

The leader of a classic group discovers new partitions in a Metadata response, and then rejoins the group.
"""

from __future__ import annotations

from collections import Counter

from kwire import ErrorCode
from kwire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.base.settings import MAX_NEW_PARTITIONS
from mockbroker.broker.broker import Broker
from mockbroker.broker.controller_timeouts import TIMED_OUT, is_expired
from mockbroker.topics.model import Topic
from mockbroker.topics.placement import assignment_error, no_room

RequestTopic = CreatePartitionsRequest.Topic
Result = CreatePartitionsResponse.Result
PartitionsError = tuple[ErrorCode, str | None]
TOO_MANY: PartitionsError = ErrorCode.UNKNOWN_SERVER_ERROR, None  # above MAX_NEW_PARTITIONS; Kafka has no message


def handle(broker: Broker, call: Call[CreatePartitionsRequest], now: float) -> Effects:  # noqa: ARG001
    return begin(call.ticket, _create_partitions(broker, call))


def _create_partitions(broker: Broker, call: Call[CreatePartitionsRequest]) -> Steps:
    counts = Counter(topic.name for topic in call.request.topics)
    if is_expired(call.request.timeout_ms) and 1 in counts.values():
        timed_out = [Result(name=topic.name, error_code=TIMED_OUT) for topic in call.request.topics]
        return [Reply(call.ticket, CreatePartitionsResponse(results=timed_out))]
    results: dict[str, Result] = {}
    room = MAX_NEW_PARTITIONS
    for number, topic in enumerate(call.request.topics):
        if number and number % broker.slice_size == 0:
            yield []
        if counts[topic.name] > 1:
            error: PartitionsError = (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        else:
            created, error = _add_partitions(broker, topic, room, validate_only=call.request.validate_only)
            room -= created
        results[topic.name] = Result(name=topic.name, error_code=error[0], error_message=error[1])
    return [Reply(call.ticket, CreatePartitionsResponse(results=list(results.values())))]


def _add_partitions(
    broker: Broker, requested: RequestTopic, room: int, *, validate_only: bool
) -> tuple[int, PartitionsError]:
    """Add the requested partitions to a topic.

    Args:
        broker: the state of the cluster.
        requested: the topic in the request.
        room: maximum number of partitions that the request may still add.
        validate_only: True to add no partition, and only check the request.

    Returns: the number of partitions that are added, or would be added without ``validate_only``; and error code and
        error message. After an error, the number is 0. If the request exceeds ``room``, the number is ``room``.
    """
    topic = broker.cluster.topics.get(requested.name)
    if topic is None:
        return 0, (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    replicas = _replicas(broker, topic, requested, room)
    if isinstance(replicas, tuple):
        return (room if replicas == TOO_MANY else 0), replicas
    if not validate_only:
        broker.cluster.add_partitions(topic, replicas)
    return len(replicas), (ErrorCode.NONE, None)


def _replicas(broker: Broker, topic: Topic, requested: RequestTopic, room: int) -> list[list[int]] | PartitionsError:
    """Return the broker ids of the replicas of each new partition.

    If the request is not valid, return the error code and the error message.

    Args:
        broker: the state of the cluster.
        topic: the topic.
        requested: the topic in the request.
        room: maximum number of partitions that the request may still add.
    """
    existing = len(topic.partitions)
    added = requested.count - existing
    if added == 0:
        return ErrorCode.INVALID_PARTITIONS, f"Topic already has {existing} partition(s)."
    if added < 0:
        name, count = requested.name, requested.count
        text = f"The topic {name} currently has {existing} partition(s); {count} would not be an increase."
        return ErrorCode.INVALID_PARTITIONS, text
    if not broker.cluster.has_room(added):
        return ErrorCode.INVALID_PARTITIONS, no_room(added)
    if added > room:
        return TOO_MANY
    first = topic.partitions[0].replicas
    if requested.assignments is None:
        return broker.cluster.place(requested.count, len(first))[existing:]
    replicas = [assignment.broker_ids for assignment in requested.assignments]
    if len(replicas) != added:
        text = (
            f"Attempted to add {added} additional partition(s), but only {len(replicas)} assignment(s) were specified."
        )
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, text
    for nodes in replicas:
        if message := assignment_error(broker.cluster.broker_ids, nodes, first):
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, message
    return replicas
