"""CreateTopics: v0-7. Configurations that have no effect here (docs/limits.md) are checked, kept and reported."""

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
WORK = 20  # elements of a slice that a topic is worth: it is placed, checked and made


@dataclass(frozen=True, slots=True)
class _Refusal:
    error: ErrorCode
    text: str


DUPLICATE = _Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
TOO_MANY = _Refusal(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def handle(broker: Broker, call: Call[CreateTopicsRequest], now: float) -> Effects:  # noqa: ARG001
    return begin(call.ticket, _created(broker, call))


def _created(broker: Broker, call: Call[CreateTopicsRequest]) -> Steps:
    """A name that is given twice is refused, once."""
    left = broker.slice_size
    named = Counter(topic.name for topic in call.request.topics)
    partitions = sum(_wanted_partitions(broker, topic) for topic in call.request.topics if named[topic.name] == 1)
    answers: dict[str, ResponseTopic] = {}
    for topic in call.request.topics:
        if left <= 0:
            yield []
            left = broker.slice_size
        refused = named[topic.name] > 1 or partitions > MAX_NEW_PARTITIONS
        left -= 1 if refused else WORK
        if named[topic.name] > 1:
            answers[topic.name] = _refused(topic, DUPLICATE)
        elif partitions > MAX_NEW_PARTITIONS:
            answers[topic.name] = _refused(topic, TOO_MANY)
        else:
            answers[topic.name] = _create(broker, topic, validate_only=call.request.validate_only)
    return [Reply(call.ticket, CreateTopicsResponse(topics=list(answers.values())))]


def _wanted_partitions(broker: Broker, topic: RequestTopic) -> int:
    """How many partitions the topic is to have, whether or not it can be created."""
    if topic.assignments:
        return len(topic.assignments)
    return broker.settings.num_partitions if topic.num_partitions == DEFAULT else max(topic.num_partitions, 0)


def _create(broker: Broker, topic: RequestTopic, *, validate_only: bool) -> ResponseTopic:
    configs = {config.name: config.value for config in topic.configs}
    replicas = _replicas(broker, topic, configs)
    if isinstance(replicas, _Refusal):
        return _refused(topic, replicas)
    answer = ResponseTopic(
        name=topic.name,
        error_message=None,
        num_partitions=len(replicas),
        replication_factor=len(replicas[0]),
        configs=_reported(broker, configs),
    )
    if validate_only:
        answer.topic_id = broker.cluster.new_topic_id()
    else:
        answer.topic_id = broker.cluster.create_topic(topic.name, replicas, configs).topic_id
    return answer


def _refused(topic: RequestTopic, refusal: _Refusal) -> ResponseTopic:
    return ResponseTopic(name=topic.name, error_code=refusal.error, error_message=refusal.text)


def _reported(broker: Broker, configs: topic_configs.Configs) -> list[ResponseTopic.Config]:
    """All configurations of a topic, as they were given."""
    found = []
    for name in topic_configs.topic_configs(broker.release):
        first = next(topic_configs.sources(configs, name, broker.settings, broker.release))
        found.append(ResponseTopic.Config(name=name, value=first.value, config_source=first.source))
    return found


def _replicas(
    broker: Broker, topic: RequestTopic, configs: topic_configs.Configs
) -> Sequence[Sequence[int]] | _Refusal:
    """Where the partitions go, or why not. What is wrong is looked for in Kafka's order."""
    cluster, settings = broker.cluster, broker.settings
    if text := name_error(topic.name):
        return _Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    if topic.name in cluster.topics:
        return _Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
    if (other := cluster.colliding(topic.name)) is not None:
        text = f"Topic '{topic.name}' collides with existing topic: {other}"
        return _Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    if text := topic_configs.configs_error(configs, broker.release):
        return _Refusal(ErrorCode.INVALID_CONFIG, text)
    if topic.assignments:
        return _given(broker, topic)
    partitions = settings.num_partitions if topic.num_partitions == DEFAULT else topic.num_partitions
    factor = settings.default_replication_factor if topic.replication_factor == DEFAULT else topic.replication_factor
    if topic.replication_factor < DEFAULT or factor == 0:
        text = "Replication factor must be larger than 0, or -1 to use the default value."
        return _Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    if partitions < 1:
        text = "Number of partitions was set to an invalid non-positive value."
        return _Refusal(ErrorCode.INVALID_PARTITIONS, text)
    if not cluster.has_room(partitions):
        return _Refusal(ErrorCode.INVALID_PARTITIONS, no_room(partitions))
    if factor > len(cluster.nodes):
        text = (
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be "
            f"reached because only {len(cluster.nodes)} broker(s) are registered."
        )
        return _Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    return cluster.place(partitions, factor)


def _given(broker: Broker, topic: RequestTopic) -> Sequence[Sequence[int]] | _Refusal:
    """Replicas as the client wants them: partitions 0 to n, brokers that exist, none twice, as many everywhere."""
    manual = "A manual partition assignment was specified, but"
    if topic.replication_factor != DEFAULT:
        return _Refusal(ErrorCode.INVALID_REQUEST, f"{manual} replication factor was not set to -1.")
    if topic.num_partitions != DEFAULT:
        return _Refusal(ErrorCode.INVALID_REQUEST, f"{manual} numPartitions was not set to -1.")
    given: dict[int, Sequence[int]] = {}
    for assignment in topic.assignments:
        index = assignment.partition_index
        if index in given:
            text = f"Found multiple manual partition assignments for partition {index}"
            return _Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        given[index] = assignment.broker_ids
        if wrong := assignment_error(broker.cluster.broker_ids, given[index], topic.assignments[0].broker_ids):
            return _Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, wrong)
    if sorted(given) != list(range(len(topic.assignments))):
        text = "partitions should be a consecutive 0-based integer sequence"
        return _Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    if not broker.cluster.has_room(len(given)):
        return _Refusal(ErrorCode.INVALID_PARTITIONS, no_room(len(given)))
    return [given[index] for index in range(len(given))]


HANDLER = Handler(Versions.parse("0-7"), handle)
