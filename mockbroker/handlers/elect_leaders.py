"""ElectLeaders: v0-2. Leaders stay where they are, so no election is needed."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kwire.schema import Versions
from mockbroker.broker import Broker
from mockbroker.calls import Call, Effects, Reply
from mockbroker.handlers.handler import Handler

Topic = ElectLeadersResponse.Topic


def handle(broker: Broker, call: Call[ElectLeadersRequest], now: float) -> Effects:  # noqa: ARG001
    asked = call.request.topic_partitions
    if asked is None:  # all; those that need none are not told
        topics = [Topic(topic=name) for name in broker.cluster.topics]
    else:
        topics = [
            Topic(topic=each.topic, partition_result=[_answer(broker, each.topic, index) for index in each.partitions])
            for each in asked
        ]
    return [Reply(call.ticket, ElectLeadersResponse(replica_election_results=topics))]


def _answer(broker: Broker, name: str, index: int) -> Topic.Partition:
    error, text = ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
    topic = broker.cluster.topics.get(name)
    if topic is None:
        error, text = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"
    elif topic.partition(index) is None:
        error, text = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
    return Topic.Partition(partition_id=index, error_code=error, error_message=text)


HANDLER = Handler(Versions.parse("0-2"), handle)
