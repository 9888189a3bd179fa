"""Metadata: v0-13. Not modelled: racks.

A topic that is made by asking for it is answered UNKNOWN_TOPIC_OR_PARTITION once, as Kafka does; it is there for the
next request.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Hashable, Iterable, Sequence
from typing import TypeAlias
from uuid import UUID

from kwire import ErrorCode
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from kwire.schema import ZERO_UUID, Versions
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.base.settings import MAX_NEW_PARTITIONS
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, Handler
from mockbroker.broker.partition_metadata import partition_metadata
from mockbroker.broker.slices import chunks
from mockbroker.topics.model import Cluster, Topic, legal_topic_name

RequestTopic = MetadataRequest.Topic
ResponseTopic = MetadataResponse.Topic
Answered: TypeAlias = tuple[ResponseTopic, Topic | None]  # without its partitions, and the topic that has them
WEIGHT_OF_QUESTION = 3  # bytes for each byte of the request: names in it, in the answer, and encoded
WEIGHT_OF_PARTITION = 400  # bytes of the object, its lists, and encoded
IDS_SINCE = 12  # the first version that may ask by topic id
ERROR_SINCE = 13  # the first version with an error of the whole answer


def handle(broker: Broker, call: Call[MetadataRequest], now: float) -> Effects:  # noqa: ARG001
    """The same question is answered in the same words until the cluster changes."""
    request, epoch = call.request, broker.cluster.epoch
    named = None if request.topics is None else tuple([(topic.name, topic.topic_id.int) for topic in request.topics])
    flags = (
        request.allow_auto_topic_creation,
        request.include_topic_authorized_operations,
        request.include_cluster_authorized_operations,
    )
    question = (call.version, call.client.listener, flags, named)
    answer = None if call.client.node in broker.frozen_metadata else broker.metadata_responses.get(epoch, question)
    if answer is None:
        return begin(call.ticket, _answered(broker, call, epoch, question))
    response, encoded = answer
    reply = Reply(call.ticket, response, encoded)
    if encoded or broker.metadata_responses.weight(question) <= WEIGHT_OF_PARTITION * broker.slice_size:
        return [reply]
    return begin(call.ticket, _made(reply))  # another request is encoding it


def _answered(broker: Broker, call: Call[MetadataRequest], epoch: int, question: Hashable) -> Steps:
    """Answer a question, and keep the answer unless the cluster has changed meanwhile, as by asking for a topic."""
    response = yield from _answer(broker, call)
    if broker.cluster.epoch != epoch or call.client.node in broker.frozen_metadata:
        return [Reply(call.ticket, response)]
    weight = WEIGHT_OF_QUESTION * len(call.frame) + WEIGHT_OF_PARTITION * _elements(response)
    return [Reply(call.ticket, *broker.metadata_responses.keep(epoch, question, response, weight))]


def _made(reply: Reply) -> Steps:
    """The work on a request whose answer is there, but for its bytes."""
    yield []
    return [reply]


def _elements(response: MetadataResponse) -> int:
    return sum(1 + len(topic.partitions) for topic in response.topics or ())


def _answer(broker: Broker, call: Call[MetadataRequest]) -> Generator[Effects, float, MetadataResponse]:
    cluster = broker.metadata_view(call.client.node)
    asked = call.request.topics
    if error := _error(call.version, asked or ()):
        top = error if call.version >= ERROR_SINCE else ErrorCode.NONE
        return MetadataResponse(error_code=top, topics=[_refused(topic, error) for topic in asked or ()])
    found: Iterable[Answered]
    if asked is None or (call.version == 0 and not asked):  # v0 has no null, empty means all
        found = map(_found, list(cluster.topics.values()))
    elif ids := dict.fromkeys(topic.topic_id for topic in asked if topic.topic_id != ZERO_UUID):
        found = (_by_id(cluster, topic_id) for topic_id in ids)  # Kafka forgets those that were asked for by name
    else:  # a topic that is named twice is answered once
        names = dict.fromkeys(topic.name for topic in asked if topic.name is not None)
        creates = _creates_topics(broker, call, cluster, names)
        found = (_by_name(broker, cluster, name, creates=creates) for name in names)
    topics = yield from _with_partitions(cluster, found, broker.slice_size)
    response = MetadataResponse(
        brokers=[
            MetadataResponse.Broker(
                node_id=node.node_id, host=node.host_of(call.client.listener), port=node.port_of(call.client.listener)
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
    cluster: Cluster, found: Iterable[Answered], size: int
) -> Generator[Effects, float, list[ResponseTopic]]:
    """The topics with their partitions; it stops after each ``size`` of both."""
    topics: list[ResponseTopic] = []
    left = size
    for answer, topic in found:
        topics.append(answer)
        left -= 1
        for part in chunks(topic.partitions, size) if topic is not None else ():
            if left <= 0:
                yield []
                left = size
            answer.partitions += [partition_metadata(ResponseTopic.Partition, cluster, each) for each in part]
            left -= len(part)
        if left <= 0:
            yield []
            left = size
    return topics


def _report_operations(request: MetadataRequest, response: MetadataResponse) -> None:
    """Fill in what the client may do, if it asks: also with topics that are not there, but for unknown ids."""
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    if request.include_topic_authorized_operations:
        for topic in response.topics:
            if topic.name is not None:
                topic.topic_authorized_operations = TOPIC_OPERATIONS


def _error(version: int, asked: Sequence[RequestTopic]) -> ErrorCode:
    """What is wrong with the whole request, or NONE. v10 and v11 carry topic ids but may not ask by them; and where
    there is no id there must be names. Kafka then refuses every topic and tells nothing else."""
    by_id, nameless = any(t.topic_id != ZERO_UUID for t in asked), any(t.name is None for t in asked)
    if version < IDS_SINCE:
        return ErrorCode.INVALID_REQUEST if by_id or nameless else ErrorCode.NONE
    return ErrorCode.UNKNOWN_SERVER_ERROR if nameless and not by_id else ErrorCode.NONE


def _refused(topic: RequestTopic, error: ErrorCode) -> ResponseTopic:
    return ResponseTopic(error_code=error, name=topic.name or "", topic_id=topic.topic_id)


def _by_id(cluster: Cluster, topic_id: UUID) -> Answered:
    topic = cluster.by_id.get(topic_id)
    if topic is None:
        return ResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id), None
    return _found(topic)


def _creates_topics(broker: Broker, call: Call[MetadataRequest], seen: Cluster, names: Collection[str]) -> bool:
    """True if the topics that are not there are created: all of them, or none if they are too many for one request."""
    wants = call.version < 4 or call.request.allow_auto_topic_creation
    if not wants or not broker.settings.auto_create_topics_enable:
        return False
    missing = sum(name not in seen.topics for name in names)
    return missing * broker.settings.num_partitions <= MAX_NEW_PARTITIONS


def _by_name(broker: Broker, seen: Cluster, name: str, *, creates: bool) -> Answered:
    """``seen``: the cluster as the broker believes it to be."""
    if name in seen.topics:
        return _found(seen.topics[name])
    if not legal_topic_name(name):
        return ResponseTopic(error_code=ErrorCode.INVALID_TOPIC_EXCEPTION, name=name), None
    settings, cluster = broker.settings, broker.cluster
    if creates and name not in cluster.topics and cluster.has_room(settings.num_partitions):
        replicas = cluster.place(settings.num_partitions, settings.default_replication_factor)
        cluster.create_topic(name, replicas)
    return ResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name), None


def _found(topic: Topic) -> Answered:
    return ResponseTopic(name=topic.name, topic_id=topic.topic_id, is_internal=topic.internal, partitions=[]), topic


HANDLER = Handler(Versions.parse("0-13"), handle)
