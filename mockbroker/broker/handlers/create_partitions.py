"""CreatePartitions: v0-3. Members see the new partitions with their next metadata, and their leader rebalances."""

from __future__ import annotations

from collections import Counter

from kwire import ErrorCode
from kwire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.base.settings import MAX_NEW_PARTITIONS
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import Handler
from mockbroker.topics.model import Topic
from mockbroker.topics.placement import assignment_error, no_room

Wanted = CreatePartitionsRequest.Topic
Result = CreatePartitionsResponse.Result
Refusal = tuple[ErrorCode, str | None]
TOO_MANY: Refusal = ErrorCode.UNKNOWN_SERVER_ERROR, None  # more than MAX_NEW_PARTITIONS: Kafka has no words for it


def handle(broker: Broker, call: Call[CreatePartitionsRequest], now: float) -> Effects:  # noqa: ARG001
    named = Counter(topic.name for topic in call.request.topics)
    results: dict[str, Result] = {}
    room = MAX_NEW_PARTITIONS
    for topic in call.request.topics:
        if named[topic.name] > 1:
            refusal: Refusal = (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        else:
            created, refusal = _grow(broker, topic, room, validate_only=call.request.validate_only)
            room -= created
        results[topic.name] = Result(name=topic.name, error_code=refusal[0], error_message=refusal[1])
    return [Reply(call.ticket, CreatePartitionsResponse(results=list(results.values())))]


def _grow(broker: Broker, asked: Wanted, room: int, *, validate_only: bool) -> tuple[int, Refusal]:
    """How many partitions are new, and the error. ``room``: how many there may be."""
    topic = broker.cluster.topics.get(asked.name)
    if topic is None:
        return 0, (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    replicas = _replicas(broker, topic, asked, room)
    if isinstance(replicas, tuple):
        return (room if replicas == TOO_MANY else 0), replicas
    if not validate_only:
        broker.cluster.add_partitions(topic, replicas)
    return len(replicas), (ErrorCode.NONE, None)


def _replicas(broker: Broker, topic: Topic, asked: Wanted, room: int) -> list[list[int]] | Refusal:
    """Where the new partitions go, or why not."""
    had = len(topic.partitions)
    wanted = asked.count - had
    if wanted == 0:
        return ErrorCode.INVALID_PARTITIONS, f"Topic already has {had} partition(s)."
    if wanted < 0:
        text = f"The topic {asked.name} currently has {had} partition(s); {asked.count} would not be an increase."
        return ErrorCode.INVALID_PARTITIONS, text
    if not broker.cluster.has_room(wanted):
        return ErrorCode.INVALID_PARTITIONS, no_room(wanted)
    if wanted > room:
        return TOO_MANY
    first = topic.partitions[0].replicas
    if asked.assignments is None:
        return broker.cluster.place(asked.count, len(first))[had:]
    replicas = [assignment.broker_ids for assignment in asked.assignments]
    if len(replicas) != wanted:
        text = (
            f"Attempted to add {wanted} additional partition(s), but only {len(replicas)} assignment(s) were specified."
        )
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, text
    for nodes in replicas:
        if wrong := assignment_error(broker.cluster.broker_ids, nodes, first):
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, wrong
    return replicas


HANDLER = Handler(Versions.parse("0-3"), handle)
