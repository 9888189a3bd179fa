"""CreateTopics: v0-7. Configurations without effect (docs/limits.md) are validated, stored and reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kwire import ErrorCode
from kwire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.base.settings import MAX_NEW_PARTITIONS
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import Handler
from mockbroker.topics import configs as topic_configs
from mockbroker.topics.model import name_error
from mockbroker.topics.placement import assignment_error, no_room

RequestTopic = CreateTopicsRequest.Topic
ResponseTopic = CreateTopicsResponse.Topic
DEFAULT = -1
TOPIC_COST = 20  # elements of a slice that a new topic counts as, because its replicas are checked and created


@dataclass(frozen=True, slots=True)
class _TopicError:
    error: ErrorCode
    text: str


DUPLICATE = _TopicError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
TOO_MANY = _TopicError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def handle(broker: Broker, call: Call[CreateTopicsRequest], now: float) -> Effects:  # noqa: ARG001
    return begin(call.ticket, _create_topics(broker, call))


def _create_topics(broker: Broker, call: Call[CreateTopicsRequest]) -> Steps:
    """Create the topics in slices. A duplicate topic name is rejected, with one result in the response."""
    many = len(call.request.topics) > broker.slice_size
    if many:
        yield []  # a slice has decoded the topics, the next one counts them
    counts = Counter(topic.name for topic in call.request.topics)
    partitions = sum(_requested_partitions(broker, topic) for topic in call.request.topics if counts[topic.name] == 1)
    remaining = 0 if many else broker.slice_size
    responses: dict[str, ResponseTopic] = {}
    for topic in call.request.topics:
        if remaining <= 0:
            yield []
            remaining = broker.slice_size
        rejected = counts[topic.name] > 1 or partitions > MAX_NEW_PARTITIONS
        remaining -= 1 if rejected else TOPIC_COST
        if counts[topic.name] > 1:
            responses[topic.name] = _error_response(topic, DUPLICATE)
        elif partitions > MAX_NEW_PARTITIONS:
            responses[topic.name] = _error_response(topic, TOO_MANY)
        else:
            responses[topic.name] = _create(broker, topic, validate_only=call.request.validate_only)
    return [Reply(call.ticket, CreateTopicsResponse(topics=list(responses.values())))]


def _requested_partitions(broker: Broker, topic: RequestTopic) -> int:
    """Return the requested number of partitions, whether or not the topic can be created."""
    if topic.assignments:
        return len(topic.assignments)
    return broker.settings.num_partitions if topic.num_partitions == DEFAULT else max(topic.num_partitions, 0)


def _create(broker: Broker, topic: RequestTopic, *, validate_only: bool) -> ResponseTopic:
    configs = {config.name: config.value for config in topic.configs}
    replicas = _replicas(broker, topic, configs)
    if isinstance(replicas, _TopicError):
        return _error_response(topic, replicas)
    response = ResponseTopic(
        name=topic.name,
        error_message=None,
        num_partitions=len(replicas),
        replication_factor=len(replicas[0]),
        configs=_reported(broker, configs),
    )
    if validate_only:
        response.topic_id = broker.cluster.new_topic_id()
    else:
        response.topic_id = broker.cluster.create_topic(topic.name, replicas, configs).topic_id
    return response


def _error_response(topic: RequestTopic, error: _TopicError) -> ResponseTopic:
    return ResponseTopic(name=topic.name, error_code=error.error, error_message=error.text)


def _reported(broker: Broker, configs: topic_configs.Configs) -> list[ResponseTopic.Config]:
    """Return all configurations of a topic for the response; the values are not in DescribeConfigs' normal form."""
    reported: list[ResponseTopic.Config] = []
    for name in topic_configs.topic_configs(broker.release):
        first = next(topic_configs.sources(configs, name, broker.settings, broker.release))
        reported.append(ResponseTopic.Config(name=name, value=first.value, config_source=first.source))
    return reported


def _replicas(
    broker: Broker, topic: RequestTopic, configs: topic_configs.Configs
) -> Sequence[Sequence[int]] | _TopicError:
    """Return the broker ids of the replicas of each partition of a new topic, or the first error in Kafka's order."""
    cluster, settings = broker.cluster, broker.settings
    if text := name_error(topic.name):
        return _TopicError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    if topic.name in cluster.topics:
        return _TopicError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
    if (other := cluster.colliding(topic.name)) is not None:
        text = f"Topic '{topic.name}' collides with existing topic: {other}"
        return _TopicError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    if text := topic_configs.configs_error(configs, broker.release):
        return _TopicError(ErrorCode.INVALID_CONFIG, text)
    if topic.assignments:
        return _manual_assignment(broker, topic)
    partitions = settings.num_partitions if topic.num_partitions == DEFAULT else topic.num_partitions
    factor = settings.default_replication_factor if topic.replication_factor == DEFAULT else topic.replication_factor
    if topic.replication_factor < DEFAULT or factor == 0:
        text = "Replication factor must be larger than 0, or -1 to use the default value."
        return _TopicError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    if partitions < 1:
        text = "Number of partitions was set to an invalid non-positive value."
        return _TopicError(ErrorCode.INVALID_PARTITIONS, text)
    if not cluster.has_room(partitions):
        return _TopicError(ErrorCode.INVALID_PARTITIONS, no_room(partitions))
    if factor > len(cluster.nodes):
        text = (
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be "
            f"reached because only {len(cluster.nodes)} broker(s) are registered."
        )
        return _TopicError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    return cluster.place(partitions, factor)


def _manual_assignment(broker: Broker, topic: RequestTopic) -> Sequence[Sequence[int]] | _TopicError:
    """Return the broker ids of the replicas of each partition in a manual assignment, or the error of the assignment.

    The partition indexes must be 0 to n without gaps. The brokers of a partition must exist, without duplicates. All
    partitions must have the same number of replicas.
    """
    manual = "A manual partition assignment was specified, but"
    if topic.replication_factor != DEFAULT:
        return _TopicError(ErrorCode.INVALID_REQUEST, f"{manual} replication factor was not set to -1.")
    if topic.num_partitions != DEFAULT:
        return _TopicError(ErrorCode.INVALID_REQUEST, f"{manual} numPartitions was not set to -1.")
    assigned: dict[int, Sequence[int]] = {}
    for assignment in topic.assignments:
        index = assignment.partition_index
        if index in assigned:
            text = f"Found multiple manual partition assignments for partition {index}"
            return _TopicError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        assigned[index] = assignment.broker_ids
        if message := assignment_error(broker.cluster.broker_ids, assigned[index], topic.assignments[0].broker_ids):
            return _TopicError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    if sorted(assigned) != list(range(len(topic.assignments))):
        text = "partitions should be a consecutive 0-based integer sequence"
        return _TopicError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    if not broker.cluster.has_room(len(assigned)):
        return _TopicError(ErrorCode.INVALID_PARTITIONS, no_room(len(assigned)))
    return [assigned[index] for index in range(len(assigned))]


HANDLER = Handler(Versions.parse("0-7"), handle)
