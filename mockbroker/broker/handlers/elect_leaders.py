"""The handler of ElectLeaders v0-2, which elects the preferred leaders of partitions.

In v1+, the request can require an unclean election. If the partition has no leader, an unclean election elects any live
replica.
"""

from __future__ import annotations

from operator import attrgetter

from kwire import ErrorCode
from kwire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker import failover
from mockbroker.broker.broker import Broker
from mockbroker.broker.controller_timeouts import TIMED_OUT, is_expired
from mockbroker.broker.slices import copy_with, in_slices, merge_by_topic, topic_slices
from mockbroker.topics.model import Partition

PREFERRED, UNCLEAN = 0, 1
TEXTS = {
    ErrorCode.ELECTION_NOT_NEEDED: "Leader election not needed for topic partition.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader was not available.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "Eligible topic partition leaders are not available.",
}
Topic = ElectLeadersResponse.Topic


def _handle(broker: Broker, call: Call[ElectLeadersRequest], now: float) -> Effects:
    request = call.request
    effects: Effects = []
    if request.topic_partitions == []:  # as in Kafka, whatever the timeout and the election type are
        return [Reply(call.ticket, ElectLeadersResponse())]
    if is_expired(request.timeout_ms):
        return [Reply(call.ticket, _error_response(request, call.version, TIMED_OUT, None))]
    if request.election_type not in (PREFERRED, UNCLEAN):
        text = f"Unknown election type {request.election_type}"
        return [Reply(call.ticket, _error_response(request, call.version, ErrorCode.INVALID_REQUEST, text))]
    if request.topic_partitions is None:  # all partitions; those that need no election are omitted
        topics = [
            Topic(topic=name, partition_result=_elect_all(broker, request, topic.partitions, now, effects))
            for name, topic in broker.cluster.topics.items()
        ]
    else:
        topics = [
            Topic(
                topic=each.topic,
                partition_result=[
                    _elect_requested(broker, request, each.topic, i, now, effects) for i in each.partitions
                ],
            )
            for each in request.topic_partitions
        ]
    return [*effects, Reply(call.ticket, ElectLeadersResponse(replica_election_results=topics))]


def _error_response(
    request: ElectLeadersRequest, version: int, error: ErrorCode, text: str | None
) -> ElectLeadersResponse:
    """Return the response to a request that fails as a whole: an error for each partition, and one at the top level.

    Args:
        request: The request.
        version: API version; v0 has no top-level error.
        error: The error.
        text: The error message; None without one.
    """
    result = Topic.Partition
    topics = [
        Topic(
            topic=each.topic,
            partition_result=[result(partition_id=i, error_code=error, error_message=text) for i in each.partitions],
        )
        for each in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=error if version else 0, replica_election_results=topics)


def _elect_all(
    broker: Broker, request: ElectLeadersRequest, partitions: list[Partition], now: float, effects: Effects
) -> list[Topic.Partition]:
    results = [_elect(broker, request, partition, now, effects) for partition in partitions]
    return [each for each in results if each.error_code != ErrorCode.ELECTION_NOT_NEEDED]


def _elect_requested(
    broker: Broker, request: ElectLeadersRequest, name: str, index: int, now: float, effects: Effects
) -> Topic.Partition:
    topic = broker.cluster.topics.get(name)
    partition = topic.partition(index) if topic else None
    if partition is None:
        text = f"No such partition as {name}-{index}" if topic else f"No such topic as {name}"
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return Topic.Partition(partition_id=index, error_code=error, error_message=text)
    return _elect(broker, request, partition, now, effects)


def _elect(
    broker: Broker, request: ElectLeadersRequest, partition: Partition, now: float, effects: Effects
) -> Topic.Partition:
    error, new_effects = failover.elect(broker, partition, now, unclean=request.election_type == UNCLEAN)
    effects += new_effects
    return Topic.Partition(partition_id=partition.index, error_code=error, error_message=TEXTS.get(error))


def _split(broker: Broker, request: ElectLeadersRequest) -> list[ElectLeadersRequest]:
    """Return the slices of a large request; [] if it is for all partitions, or has a topic without partitions."""
    topics = request.topic_partitions or []
    if not all(topic.partitions for topic in topics):
        return []
    return [copy_with(request, topic_partitions=part) for part in topic_slices(topics, broker.slice_size)]


_merge = merge_by_topic("replica_election_results", attrgetter("topic"), "partition_result")
handle = in_slices(_handle, _split, _merge)
