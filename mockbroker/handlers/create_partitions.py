"""CreatePartitions: v0-3. Members see the new partitions with their next metadata, and their leader rebalances."""

from __future__ import annotations

from collections import Counter

from kwire import ErrorCode
from kwire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from kwire.schema import Versions
from mockbroker.broker import Broker
from mockbroker.calls import Call, Effects, Reply
from mockbroker.cluster.model import Topic
from mockbroker.handlers.handler import Handler
from mockbroker.settings import MAX_NEW_PARTITIONS

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
        broker.cluster.grow(topic, replicas)
    return len(replicas), (ErrorCode.NONE, None)


def _replicas(broker: Broker, topic: Topic, asked: Wanted, room: int) -> list[list[int]] | Refusal:
    """Where the new partitions go, or why not."""
    had = len(topic.partitions)
    if asked.count <= had or not broker.cluster.has_room(asked.count - had):
        return (
            ErrorCode.INVALID_PARTITIONS,
            f"{asked.name} has {had} partitions; {asked.count} cannot be.",
        )
    if asked.count - had > room:
        return TOO_MANY
    if asked.assignments is None:
        factor = len(topic.partitions[0].replicas)
        return broker.cluster.place(asked.count, factor)[had:]
    replicas = [assignment.broker_ids for assignment in asked.assignments]
    if len(replicas) != asked.count - had:
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{asked.count - had} partitions, {len(replicas)} assignments."
    if not all(broker.cluster.can_hold(nodes) for nodes in replicas):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Each partition needs brokers that are there, each once."
    return replicas


HANDLER = Handler(Versions.parse("0-3"), handle)
