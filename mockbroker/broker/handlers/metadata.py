"""The handler of Metadata v0-13.

As in Kafka, the response to the Metadata request that creates a topic contains UNKNOWN_TOPIC_OR_PARTITION for this
topic. The response to the next Metadata request contains the new topic.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Hashable, Iterable, Sequence
from typing import TypeAlias
from uuid import UUID

from kwire import ErrorCode
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from kwire.schema import ZERO_UUID
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.base.settings import MAX_NEW_PARTITIONS
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from mockbroker.broker.partition_metadata import partition_metadata
from mockbroker.broker.slices import chunks
from mockbroker.topics.model import ClusterState, Topic, legal_topic_name

RequestTopic = MetadataRequest.Topic
ResponseTopic = MetadataResponse.Topic
TopicResult: TypeAlias = tuple[ResponseTopic, Topic | None]  # the result without partitions; the topic, if it exists
REQUEST_BYTE_WEIGHT = 3  # bytes of memory per byte of the request: names in key, response and encoded form
PARTITION_WEIGHT = 400  # bytes of memory per partition: object, lists and encoded form
IDS_SINCE = 12  # first version that accepts topic ids
TOP_LEVEL_ERROR_SINCE = 13  # first version with a top-level error code


def handle(broker: Broker, call: Call[MetadataRequest], now: float) -> Effects:  # noqa: ARG001
    """Respond with the metadata of the requested topics. If the request allows it, create the topics that do not exist.

    The response is cached: an equal request gets the same response until the metadata changes.

    Args:
        broker: The state of the cluster.
        call: The request, its client, and its ticket (the object that identifies the request).
        now: The broker's time in seconds.
    """
    request, epoch = call.request, broker.cluster.epoch
    requested = (
        None if request.topics is None else tuple([(topic.name, topic.topic_id.int) for topic in request.topics])
    )
    flags = (
        request.allow_auto_topic_creation,
        request.include_topic_authorized_operations,
        request.include_cluster_authorized_operations,
    )
    key = (call.version, call.client.listener, flags, requested)
    cached = None if call.client.node in broker.frozen_metadata else broker.metadata_responses.get(epoch, key)
    if cached is None:
        return begin(call.ticket, _respond(broker, call, epoch, key))
    response, encoded = cached
    reply = Reply(call.ticket, response, encoded)
    if encoded or broker.metadata_responses.weight(key) <= PARTITION_WEIGHT * broker.slice_size:
        return [reply]
    return begin(call.ticket, _respond_cached(reply))  # another request is encoding it


def _respond(broker: Broker, call: Call[MetadataRequest], epoch: int, key: Hashable) -> Steps:
    """Build a Metadata response.

    Cache the response, unless the cluster metadata changed before the response was complete, or the metadata of the
    broker was frozen at its start or end.

    The generator handles the request in slices (parts of limited size); the router handles other requests between two
    slices. The generator yields the effects of each slice, such as journal events. It returns the effects of the last
    slice, which include the response.

    Args:
        broker: The state of the cluster.
        call: The request, its client, and its ticket (the object that identifies the request).
        epoch: Epoch of the cluster metadata at the start.
        key: Key of the request in the cache.
    """
    was_frozen = call.client.node in broker.frozen_metadata
    response = yield from _build_response(broker, call)
    if broker.cluster.epoch != epoch or was_frozen or call.client.node in broker.frozen_metadata:
        return [Reply(call.ticket, response)]
    weight = REQUEST_BYTE_WEIGHT * len(call.frame) + PARTITION_WEIGHT * _element_count(response)
    return [Reply(call.ticket, *broker.metadata_responses.keep(epoch, key, response, weight))]


def _respond_cached(reply: Reply) -> Steps:
    """Respond with a large cached response, after other requests were handled.

    The generator first yields no effects, so that the router handles other requests. Then it returns a list with
    ``reply``, the response.
    """
    yield []
    return [reply]


def _element_count(response: MetadataResponse) -> int:
    return sum(1 + len(topic.partitions) for topic in response.topics or ())


def _build_response(broker: Broker, call: Call[MetadataRequest]) -> Generator[Effects, float, MetadataResponse]:
    cluster = broker.metadata_view(call.client.node)
    requested = call.request.topics
    if error := _request_error(call.version, requested or ()):
        error_code = error if call.version >= TOP_LEVEL_ERROR_SINCE else ErrorCode.NONE
        return MetadataResponse(error_code=error_code, topics=[_error_topic(topic, error) for topic in requested or ()])
    results: Iterable[TopicResult]
    if requested is None or (call.version == 0 and not requested):  # v0 has no null, empty means all
        results = map(_topic_result, list(cluster.topics.values()))
    elif ids := dict.fromkeys(topic.topic_id for topic in requested if topic.topic_id != ZERO_UUID):
        results = (_by_id(cluster, topic_id) for topic_id in ids)  # as Kafka, which then ignores names
    else:  # one result for a duplicate topic
        names = dict.fromkeys(topic.name for topic in requested if topic.name is not None)
        create = _creates_topics(broker, call, cluster, names)
        results = (_by_name(broker, cluster, name, create=create) for name in names)
    topics = yield from _with_partitions(cluster, results, broker.slice_size)
    response = MetadataResponse(
        brokers=[
            MetadataResponse.Broker(
                node_id=node.node_id,
                host=node.host_of(call.client.listener),
                port=node.port_of(call.client.listener),
                rack=broker.rack(node.node_id),
            )
            for node in cluster.nodes.values()
        ],
        cluster_id=cluster.cluster_text,
        controller_id=cluster.controller,
        topics=topics,
    )
    _report_operations(call.request, response)
    return response


def _with_partitions(
    cluster: ClusterState, results: Iterable[TopicResult], size: int
) -> Generator[Effects, float, list[ResponseTopic]]:
    """Return the topics of a response, with the metadata of their partitions.

    After about every ``size`` topics and partitions, the generator yields [] (no effects), so that the router handles
    other requests.

    Args:
        cluster: The cluster metadata.
        results: Each topic of the response, with the topic of the cluster that it describes; None for a topic in the
            response without partitions.
        size: Number of topics and partitions that are added at a time.
    """
    topics: list[ResponseTopic] = []
    remaining = size
    for result, topic in results:
        topics.append(result)
        remaining -= 1
        for chunk in chunks(topic.partitions, size) if topic is not None else ():
            if remaining <= 0:
                yield []
                remaining = size
            result.partitions += [partition_metadata(ResponseTopic.Partition, cluster, each) for each in chunk]
            remaining -= len(chunk)
        if remaining <= 0:
            yield []
            remaining = size
    return topics


def _report_operations(request: MetadataRequest, response: MetadataResponse) -> None:
    """Set the authorized operations in a response, if the request asks for them.

    The operations on topics are set for existing topics and for unknown topic names, but not for unknown topic ids.

    Args:
        request: The Metadata request.
        response: The response to change.
    """
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    if request.include_topic_authorized_operations:
        for topic in response.topics:
            if topic.name is not None:
                topic.topic_authorized_operations = TOPIC_OPERATIONS


def _request_error(version: int, requested: Sequence[RequestTopic]) -> ErrorCode:
    """Return the error of the whole request, or NONE if the request is valid.

    The error is INVALID_REQUEST before Metadata v12, and UNKNOWN_SERVER_ERROR from v12 on. As in Kafka, every topic in
    the response gets this error.

    Requests of v10 and v11 have a field for topic ids, but a request that uses the field gets an error. In all
    versions, a topic without an id must have a name.

    Args:
        version: API version of the request.
        requested: topics in the request.
    """
    by_id, unnamed = any(t.topic_id != ZERO_UUID for t in requested), any(t.name is None for t in requested)
    if version < IDS_SINCE:
        return ErrorCode.INVALID_REQUEST if by_id or unnamed else ErrorCode.NONE
    return ErrorCode.UNKNOWN_SERVER_ERROR if unnamed and not by_id else ErrorCode.NONE


def _error_topic(topic: RequestTopic, error: ErrorCode) -> ResponseTopic:
    return ResponseTopic(error_code=error, name=topic.name or "", topic_id=topic.topic_id)


def _by_id(cluster: ClusterState, topic_id: UUID) -> TopicResult:
    topic = cluster.by_id.get(topic_id)
    if topic is None:
        return ResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id), None
    return _topic_result(topic)


def _creates_topics(
    broker: Broker, call: Call[MetadataRequest], metadata: ClusterState, names: Collection[str]
) -> bool:
    """Return whether a Metadata request creates the requested topics that do not exist.

    The result is False if the request or ``auto.create.topics.enable`` does not allow it, or if the new topics would
    have more than MAX_NEW_PARTITIONS partitions in total.

    Args:
        broker: The state of the cluster.
        call: The request, its client, and its ticket (the object that identifies the request).
        metadata: The cluster metadata that the broker reports.
        names: Names of the topics in the request.
    """
    allowed = call.version < 4 or call.request.allow_auto_topic_creation
    if not allowed or not broker.settings.auto_create_topics_enable:
        return False
    missing = sum(name not in metadata.topics for name in names)
    return missing * broker.settings.num_partitions <= MAX_NEW_PARTITIONS


def _by_name(broker: Broker, metadata: ClusterState, name: str, *, create: bool) -> TopicResult:
    """Return the topic in the response, still without partitions, and the topic in the cluster metadata.

    If the topic does not exist, the topic in the response has an error, and the second value is None. If this call
    creates the topic, the error is UNKNOWN_TOPIC_OR_PARTITION, as in Kafka.

    Args:
        broker: the state of the cluster.
        metadata: the cluster metadata that the broker reports, which may be outdated.
        name: topic name.
        create: True to create the topic if it does not exist.
    """
    if name in metadata.topics:
        return _topic_result(metadata.topics[name])
    if not legal_topic_name(name):
        return ResponseTopic(error_code=ErrorCode.INVALID_TOPIC_EXCEPTION, name=name), None
    settings, cluster = broker.settings, broker.cluster
    if create and cluster.colliding(name) is None and cluster.has_room(settings.num_partitions):
        replicas = cluster.place(settings.num_partitions, settings.default_replication_factor)
        cluster.create_topic(name, replicas)
    return ResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name), None


def _topic_result(topic: Topic) -> TopicResult:
    return ResponseTopic(name=topic.name, topic_id=topic.topic_id, is_internal=topic.internal, partitions=[]), topic
