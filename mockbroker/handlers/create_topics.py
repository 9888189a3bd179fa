"""CreateTopics: v0-7. Not modelled: what topic configurations do; they are checked by name, kept and told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kwire import ErrorCode
from kwire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kwire.schema import Versions
from mockbroker.broker import Broker
from mockbroker.calls import Call, Effects, Reply
from mockbroker.cluster.model import legal_topic_name
from mockbroker.cluster.topic_configs import TOPIC_CONFIGS
from mockbroker.handlers.handler import Handler
from mockbroker.settings import MAX_NEW_PARTITIONS

RequestTopic = CreateTopicsRequest.Topic
ResponseTopic = CreateTopicsResponse.Topic
DYNAMIC_TOPIC_CONFIG = 1
DEFAULT = -1
LONGEST_SHOWN = 249  # characters, the most that a legal name has


@dataclass(frozen=True, slots=True)
class _Refusal:
    error: ErrorCode
    text: str


DUPLICATE = _Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
TOO_MANY = _Refusal(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def handle(broker: Broker, call: Call[CreateTopicsRequest], now: float) -> Effects:  # noqa: ARG001
    """A name that is given twice is refused, once."""
    named = Counter(topic.name for topic in call.request.topics)
    partitions = sum(_wanted_partitions(broker, topic) for topic in call.request.topics if named[topic.name] == 1)
    answers: dict[str, ResponseTopic] = {}
    for topic in call.request.topics:
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
    replicas = _replicas(broker, topic)
    if isinstance(replicas, _Refusal):
        return _refused(topic, replicas)
    configs = {config.name: config.value for config in topic.configs}
    answer = ResponseTopic(
        name=topic.name,
        error_message=None,
        num_partitions=len(replicas),
        replication_factor=len(replicas[0]),
        configs=[
            ResponseTopic.Config(name=name, value=value, config_source=DYNAMIC_TOPIC_CONFIG)
            for name, value in configs.items()
        ],
    )
    if not validate_only:
        answer.topic_id = broker.cluster.create_topic(topic.name, replicas, configs).topic_id
    return answer


def _refused(topic: RequestTopic, refusal: _Refusal) -> ResponseTopic:
    return ResponseTopic(name=topic.name, error_code=refusal.error, error_message=refusal.text)


def _shown(name: str) -> str:
    """A name in a message; what a client sends may fill the room of a text by itself."""
    return repr(name) if len(name) <= LONGEST_SHOWN else f"{name[:LONGEST_SHOWN]!r}..."


def _replicas(broker: Broker, topic: RequestTopic) -> Sequence[Sequence[int]] | _Refusal:
    """Where the partitions go, or why not."""
    cluster, settings = broker.cluster, broker.settings
    if not legal_topic_name(topic.name):
        return _Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{_shown(topic.name)} is not a topic name.")
    if topic.name in cluster.topics:
        return _Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic {topic.name!r} already exists.")
    for config in topic.configs:
        if config.name not in TOPIC_CONFIGS:
            return _Refusal(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {_shown(config.name)}")
    if topic.assignments:
        return _given(broker, topic)
    partitions = settings.num_partitions if topic.num_partitions == DEFAULT else topic.num_partitions
    factor = settings.default_replication_factor if topic.replication_factor == DEFAULT else topic.replication_factor
    if partitions < 1 or not cluster.has_room(partitions):
        return _Refusal(ErrorCode.INVALID_PARTITIONS, f"There is no room for {partitions} partitions.")
    if not 0 < factor <= len(cluster.nodes):
        return _Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, f"{factor} replicas on {len(cluster.nodes)} brokers.")
    return cluster.place(partitions, factor)


def _given(broker: Broker, topic: RequestTopic) -> Sequence[Sequence[int]] | _Refusal:
    """Replicas as the client wants them: partitions 0 to n, brokers that exist, none twice, as many everywhere."""
    if topic.num_partitions != DEFAULT or topic.replication_factor != DEFAULT:
        return _Refusal(ErrorCode.INVALID_REQUEST, "Assignments stand instead of partitions and replicas, give -1.")
    given = {assignment.partition_index: assignment.broker_ids for assignment in topic.assignments}
    if sorted(given) != list(range(len(topic.assignments))):
        return _Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Partitions must be counted up from 0.")
    replicas = [given[index] for index in range(len(given))]
    if not all(map(broker.cluster.can_hold, replicas)) or len({len(ids) for ids in replicas}) != 1:
        return _Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Each partition needs as many brokers, all known.")
    return replicas


HANDLER = Handler(Versions.parse("0-7"), handle)
