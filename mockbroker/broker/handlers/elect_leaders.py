"""ElectLeaders: v0-2. Elects the preferred replica; an unclean election finds nobody else than a clean one."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker import failover
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import Handler
from mockbroker.topics.model import Partition

PREFERRED, UNCLEAN = 0, 1
TEXTS = {
    ErrorCode.ELECTION_NOT_NEEDED: "Leader election not needed for topic partition.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader was not available.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "Eligible topic partition leaders are not available.",
}
Topic = ElectLeadersResponse.Topic


def handle(broker: Broker, call: Call[ElectLeadersRequest], now: float) -> Effects:
    request = call.request
    effects: Effects = []
    if request.election_type not in (PREFERRED, UNCLEAN):
        return [Reply(call.ticket, _refused(request))]
    if request.topic_partitions is None:  # all; those that need none are not told
        topics = [
            Topic(topic=name, partition_result=_of_all(broker, request, topic.partitions, now, effects))
            for name, topic in broker.cluster.topics.items()
        ]
    else:
        topics = [
            Topic(
                topic=each.topic,
                partition_result=[_asked(broker, request, each.topic, i, now, effects) for i in each.partitions],
            )
            for each in request.topic_partitions
        ]
    return [*effects, Reply(call.ticket, ElectLeadersResponse(replica_election_results=topics))]


def _refused(request: ElectLeadersRequest) -> ElectLeadersResponse:
    """An election of a type that does not exist, refused for each partition."""
    error, text = ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}"
    kind = Topic.Partition
    topics = [
        Topic(
            topic=each.topic,
            partition_result=[kind(partition_id=i, error_code=error, error_message=text) for i in each.partitions],
        )
        for each in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=error, replica_election_results=topics)


def _of_all(
    broker: Broker, request: ElectLeadersRequest, partitions: list[Partition], now: float, effects: Effects
) -> list[Topic.Partition]:
    found = [_elect(broker, request, partition, now, effects) for partition in partitions]
    return [each for each in found if each.error_code != ErrorCode.ELECTION_NOT_NEEDED]


def _asked(
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
    error, told = failover.elect(broker, partition, now, unclean=request.election_type == UNCLEAN)
    effects += told
    return Topic.Partition(partition_id=partition.index, error_code=error, error_message=TEXTS.get(error))


HANDLER = Handler(Versions.parse("0-2"), handle)
