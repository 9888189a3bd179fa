"""CreatePartitions: v0-3. Members see the new partitions with their next metadata, and their leader rebalances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kwire import ErrorCode
from kwire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from kwire.schema import Versions
from mockbroker.broker import Broker
from mockbroker.calls import Call, Effects, Reply
from mockbroker.handlers.handler import Handler

Wanted = CreatePartitionsRequest.Topic
Result = CreatePartitionsResponse.Result
Refusal = tuple[ErrorCode, str | None]


def handle(broker: Broker, call: Call[CreatePartitionsRequest], now: float) -> Effects:  # noqa: ARG001
    named = Counter(topic.name for topic in call.request.topics)
    results: dict[str, Result] = {}
    for topic in call.request.topics:
        if named[topic.name] > 1:
            refusal: Refusal = (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        else:
            refusal = _grow(broker, topic, validate_only=call.request.validate_only)
        results[topic.name] = Result(name=topic.name, error_code=refusal[0], error_message=refusal[1])
    return [Reply(call.ticket, CreatePartitionsResponse(results=list(results.values())))]


def _grow(broker: Broker, asked: Wanted, *, validate_only: bool) -> Refusal:
    topic = broker.cluster.topics.get(asked.name)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
    had = len(topic.partitions)
    if asked.count <= had or not broker.cluster.has_room(asked.count - had):
        return (
            ErrorCode.INVALID_PARTITIONS,
            f"{asked.name} has {had} partitions; {asked.count} cannot be.",
        )
    replicas: Sequence[Sequence[int]]
    if asked.assignments is None:
        factor = len(topic.partitions[0].replicas)
        replicas = broker.cluster.place(asked.count, factor)[had:]
    else:
        replicas = [assignment.broker_ids for assignment in asked.assignments]
        if len(replicas) != asked.count - had:
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{asked.count - had} partitions, {len(replicas)} assignments."
        if not all(broker.cluster.can_hold(nodes) for nodes in replicas):
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Each partition needs brokers that are there, each once."
    if not validate_only:
        broker.cluster.grow(topic, replicas)
    return ErrorCode.NONE, None


HANDLER = Handler(Versions.parse("0-3"), handle)
