"""Metadata: v0-13. Not modelled: racks, authorized operations, offline replicas.

A topic that is made by asking for it is answered UNKNOWN_TOPIC_OR_PARTITION once, as Kafka does; it is there for the
next request.
"""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from kwire.schema import ZERO_UUID, Versions
from mockbroker.broker import Broker
from mockbroker.calls import Call, Effects, Reply
from mockbroker.cluster.model import Partition, Topic, legal_topic_name
from mockbroker.handlers.handler import Handler

RequestTopic = MetadataRequest.Topic
ResponseTopic = MetadataResponse.Topic
WEIGHT_OF_QUESTION = 3  # bytes for each byte of the request: names in it, in the answer, and encoded
WEIGHT_OF_PARTITION = 400  # bytes of the object, its lists, and encoded
IDS_SINCE = 12  # the first version that may ask by topic id


def handle(broker: Broker, call: Call[MetadataRequest], now: float) -> Effects:  # noqa: ARG001
    """The same question is answered in the same words until the cluster changes."""
    request, epoch = call.request, broker.cluster.epoch
    named = None if request.topics is None else tuple([(topic.name, topic.topic_id.int) for topic in request.topics])
    question = (call.version, request.allow_auto_topic_creation, named)
    answer = broker.metadata.get(epoch, question)
    if answer is None:
        response = _answer(broker, call)
        if broker.cluster.epoch != epoch:  # by asking for a topic
            return [Reply(call.ticket, response)]
        answer = broker.metadata.keep(epoch, question, response, _weight(call, response))
    return [Reply(call.ticket, *answer)]


def _weight(call: Call[MetadataRequest], response: MetadataResponse) -> int:
    partitions = sum(1 + len(topic.partitions) for topic in response.topics or ())
    return WEIGHT_OF_QUESTION * len(call.frame) + WEIGHT_OF_PARTITION * partitions


def _answer(broker: Broker, call: Call[MetadataRequest]) -> MetadataResponse:
    cluster = broker.cluster
    asked = call.request.topics
    if call.version < IDS_SINCE and any(topic.name is None or topic.topic_id != ZERO_UUID for topic in asked or ()):
        return MetadataResponse(topics=[_refused(topic) for topic in asked or ()])
    if asked is None or (call.version == 0 and not asked):  # v0 has no null, empty means all
        topics = [_found(topic) for topic in cluster.topics.values()]
    else:
        topics = [_asked(broker, call, topic) for topic in asked]
    return MetadataResponse(
        brokers=[
            MetadataResponse.Broker(node_id=node.node_id, host=node.host, port=node.port)
            for node in cluster.nodes.values()
        ],
        cluster_id=cluster.cluster_text,
        controller_id=cluster.controller,
        topics=topics,
    )


def _refused(topic: RequestTopic) -> ResponseTopic:
    """v10 and v11 carry topic ids but may not ask by them; Kafka then refuses every topic and tells nothing else."""
    return ResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id)


def _asked(broker: Broker, call: Call[MetadataRequest], asked: RequestTopic) -> ResponseTopic:
    cluster = broker.cluster
    if asked.name is None or asked.topic_id != ZERO_UUID:
        topic = cluster.by_id.get(asked.topic_id)
        if topic is None:
            return ResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id)
        return _found(topic)
    if asked.name in cluster.topics:
        return _found(cluster.topics[asked.name])
    if not legal_topic_name(asked.name):
        return ResponseTopic(error_code=ErrorCode.INVALID_TOPIC_EXCEPTION, name=asked.name)
    wants = call.version < 4 or call.request.allow_auto_topic_creation
    settings = broker.settings
    if wants and settings.auto_create_topics_enable and cluster.has_room(settings.num_partitions):
        replicas = cluster.place(settings.num_partitions, settings.default_replication_factor)
        cluster.create_topic(asked.name, replicas)
    return ResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=asked.name)


def _found(topic: Topic) -> ResponseTopic:
    return ResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=[_partition(partition) for partition in topic.partitions],
    )


def _partition(partition: Partition) -> ResponseTopic.Partition:
    return ResponseTopic.Partition(
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.replicas),
    )


HANDLER = Handler(Versions.parse("0-13"), handle)
