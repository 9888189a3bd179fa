"""The checks of a new topic, and the creation of the internal topics of streams groups."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kwire import ErrorCode
from kwire.lazy_dataclass import dataclass
from mockbroker.base.release import Release
from mockbroker.base.settings import MAX_NEW_PARTITIONS, Settings
from mockbroker.groups.group_type import NewTopic
from mockbroker.topics import configs as topic_configs
from mockbroker.topics.model import ClusterState, name_error
from mockbroker.topics.placement import assignment_error, no_room

if TYPE_CHECKING:
    from kwire.messages.create_topics import CreateTopicsRequest

    RequestTopic = CreateTopicsRequest.Topic

DEFAULT = -1
CACHED_ERRORS = 1_000  # maximum number of topics whose errors are kept. Source: AutoTopicCreationManager.scala


@dataclass(frozen=True, slots=True)
class TopicError:
    """The reason why the broker cannot create a topic.

    Attributes:
        error: Error code.
        text: Error message.
    """

    error: ErrorCode
    text: str


TOO_MANY = TopicError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def new_replicas(
    cluster: ClusterState, settings: Settings, release: Release, topic: RequestTopic
) -> Sequence[Sequence[int]] | TopicError:
    """Return the replicas (broker ids) for each partition of a new topic, or the result of ``creation_error``.

    The arguments are those of ``creation_error``.
    """
    if (error := creation_error(cluster, settings, release, topic)) is not None:
        return error
    if topic.assignments:
        assigned = {each.partition_index: each.broker_ids for each in topic.assignments}
        return [assigned[index] for index in range(len(assigned))]
    factor = settings.default_replication_factor if topic.replication_factor == DEFAULT else topic.replication_factor
    return cluster.place(requested_partitions(settings, topic), factor)


def requested_partitions(settings: Settings, topic: RequestTopic) -> int:
    """Return the number of partitions of a requested topic, even if the topic cannot be created.

    Args:
        settings: The broker configuration.
        topic: The topic.
    """
    if topic.assignments:
        return len(topic.assignments)
    return settings.num_partitions if topic.num_partitions == DEFAULT else max(topic.num_partitions, 0)


def creation_error(
    cluster: ClusterState, settings: Settings, release: Release, topic: RequestTopic
) -> TopicError | None:
    """Return the first error in Kafka's order that prevents the creation of a topic; None if it can be created.

    Args:
        cluster: The cluster metadata.
        settings: The broker configuration.
        release: The emulated Kafka release.
        topic: The topic.
    """
    configs = {config.name: config.value for config in topic.configs}
    if text := name_error(topic.name):
        return TopicError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    if topic.name in cluster.topics:
        return TopicError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
    if (other := cluster.colliding(topic.name)) is not None:
        text = f"Topic '{topic.name}' collides with existing topic: {other}"
        return TopicError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    if text := topic_configs.configs_error(configs, release):
        return TopicError(ErrorCode.INVALID_CONFIG, text)
    if topic.assignments:
        return _assignment_error(cluster, topic)
    partitions = requested_partitions(settings, topic)
    factor = settings.default_replication_factor if topic.replication_factor == DEFAULT else topic.replication_factor
    if topic.replication_factor < DEFAULT or factor == 0:
        text = "Replication factor must be larger than 0, or -1 to use the default value."
        return TopicError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    if partitions < 1:
        text = "Number of partitions was set to an invalid non-positive value."
        return TopicError(ErrorCode.INVALID_PARTITIONS, text)
    if not cluster.has_room(partitions):
        return TopicError(ErrorCode.INVALID_PARTITIONS, no_room(partitions))
    if factor > len(cluster.nodes):
        text = (
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be "
            f"reached because only {len(cluster.nodes)} broker(s) are registered."
        )
        return TopicError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    return None


def _assignment_error(cluster: ClusterState, topic: RequestTopic) -> TopicError | None:
    """Return the error of a manual assignment; None if it is valid.

    The topic must have neither a partition count nor a replication factor. The partition indexes must begin at 0 and
    have no gaps. The brokers of a partition must exist, and each may occur once. All partitions must have the same
    number of replicas.
    """
    manual = "A manual partition assignment was specified, but"
    if topic.replication_factor != DEFAULT:
        return TopicError(ErrorCode.INVALID_REQUEST, f"{manual} replication factor was not set to -1.")
    if topic.num_partitions != DEFAULT:
        return TopicError(ErrorCode.INVALID_REQUEST, f"{manual} numPartitions was not set to -1.")
    assigned = set[int]()
    for assignment in topic.assignments:
        index = assignment.partition_index
        if index in assigned:
            text = f"Found multiple manual partition assignments for partition {index}"
            return TopicError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        assigned.add(index)
        if message := assignment_error(cluster.broker_ids, assignment.broker_ids, topic.assignments[0].broker_ids):
            return TopicError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    if sorted(assigned) != list(range(len(topic.assignments))):
        text = "partitions should be a consecutive 0-based integer sequence"
        return TopicError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    if not cluster.has_room(len(assigned)):
        return TopicError(ErrorCode.INVALID_PARTITIONS, no_room(len(assigned)))
    return None


class InternalTopicCreator:
    """The creator of the internal topics of streams groups.

    After a failure, the error of the topic is stored; the creation is retried when the stored error has expired.
    Source: Kafka's AutoTopicCreationManager.createStreamsInternalTopics.

    Args:
        cluster: The state of the cluster.
        settings: The settings of the broker.
        release: The emulated Kafka release.
    """

    def __init__(self, cluster: ClusterState, settings: Settings, release: Release) -> None:
        self._cluster, self._settings, self._release = cluster, settings, release
        self._errors: OrderedDict[str, tuple[str, float]] = OrderedDict()  # by topic: message, expiry in seconds

    def create(self, topics: Iterable[NewTopic], now: float, error_ttl: float) -> dict[str, str]:
        """Create topics, except topics whose stored error has not expired.

        If the new topics would have more than MAX_NEW_PARTITIONS partitions in total, none of them is created.

        Args:
            topics: The topics.
            now: The current time in seconds.
            error_ttl: Time in seconds after which a failed creation is retried.

        Returns: topic name -> stored error message that has not expired.
        """
        wanted = list(topics)
        known = {
            topic.name: self._errors[topic.name][0]
            for topic in wanted
            if topic.name in self._errors and self._errors[topic.name][1] > now
        }
        new = [topic for topic in wanted if topic.name not in known]
        too_many = sum(topic.partitions for topic in new) > MAX_NEW_PARTITIONS
        for topic in new:
            error = TOO_MANY if too_many else self._create(topic)
            if error is not None:
                self._errors[topic.name] = error.text, now + error_ttl
                self._errors.move_to_end(topic.name)
        while len(self._errors) > CACHED_ERRORS:
            self._errors.popitem(last=False)
        return known

    def _create(self, topic: NewTopic) -> TopicError | None:
        from kwire.messages.create_topics import CreateTopicsRequest  # on demand: many clusters create none

        kind = CreateTopicsRequest.Topic
        configs = [kind.Config(name=name, value=value) for name, value in topic.configs.items()]
        request = kind(
            name=topic.name,
            num_partitions=topic.partitions,
            replication_factor=topic.replication_factor or DEFAULT,
            configs=configs,
        )
        replicas = new_replicas(self._cluster, self._settings, self._release, request)
        if isinstance(replicas, TopicError):
            return replicas
        self._cluster.create_topic(topic.name, replicas, dict(topic.configs))
        return None
