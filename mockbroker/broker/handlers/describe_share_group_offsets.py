"""The handler of DescribeShareGroupOffsets v0-1.

A partition that does not exist is returned without a start offset. Kafka 4.2 does not answer a request for such a
partition.
Source: Kafka's GroupCoordinatorService.describeShareGroupOffsets and describeShareGroupAllOffsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

from kwire import ErrorCode
from kwire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.base.texts import OF_ERRORS
from mockbroker.broker.broker import Broker
from mockbroker.broker.slices import chunks
from mockbroker.share.state import UNINITIALIZED, StateKey
from mockbroker.topics.model import NO_LEADER, Topic

Group = DescribeShareGroupOffsetsResponse.Group
Partition = Group.Topic.Partition
PARTITION_SIZE = 25  # approximate bytes of a partition in a response
UNKNOWN_LAG = -1
SERVER_ERROR = "The server experienced an unexpected error when processing the request."


def handle(broker: Broker, call: Call[DescribeShareGroupOffsetsRequest], now: float) -> Effects:  # noqa: ARG001
    return begin(call.ticket, _describe_groups(broker, call))


def _describe_groups(broker: Broker, call: Call[DescribeShareGroupOffsetsRequest]) -> Steps:
    """Describe each group in the request, including duplicates.

    The generator handles the request in slices (parts of limited size); the router handles other requests between two
    slices. The generator yields the effects of each slice, such as journal events. It returns the effects of the last
    slice, which include the response.
    """
    room, groups, handled = broker.response_room(), [], 0
    for requested in call.request.groups:
        group = Group(group_id=requested.group_id)
        groups.append(group)
        group.error_code = error = _error(broker, call, requested)
        group.error_message = SERVER_ERROR if error == ErrorCode.UNKNOWN_SERVER_ERROR else OF_ERRORS.get(error)
        for name, topic, indexes in () if error else list(_topics(broker, requested)):
            element = Group.Topic(topic_name=name, partitions=[])
            if topic is not None:
                element.topic_id = topic.topic_id
            group.topics.append(element)
            for chunk in chunks(list(indexes), broker.slice_size):
                if handled >= broker.slice_size:
                    handled = 0
                    yield []
                handled += len(chunk)
                room.reserve(len(name) + PARTITION_SIZE * len(chunk))
                element.partitions += [_describe(broker, requested.group_id, topic, index) for index in chunk]
    return [Reply(call.ticket, DescribeShareGroupOffsetsResponse(groups=groups))]


def _error(
    broker: Broker, call: Call[DescribeShareGroupOffsetsRequest], requested: DescribeShareGroupOffsetsRequest.Group
) -> ErrorCode:
    """Return the error code of a group in a request; NONE if the group can be described.

    As in Kafka, the broker need not be the coordinator of the group if the request lists partitions, and the request of
    the coordinator to the share coordinator fails if the group id is empty, a topic has no partitions, or a partition
    index is negative. Unknown topics are not in that request.

    Args:
        broker: the state of the cluster.
        call: the request, its client, and its ticket (the object that identifies the request).
        requested: the group in the request.
    """
    if not broker.serves_share_groups:
        return ErrorCode.UNSUPPORTED_VERSION
    if requested.topics is not None:
        listed = [topic.partitions for topic in requested.topics if topic.topic_name in broker.cluster.topics]
        is_invalid = not requested.group_id or any(min(indexes, default=-1) < 0 for indexes in listed)
        return ErrorCode.UNKNOWN_SERVER_ERROR if listed and is_invalid else ErrorCode.NONE
    return broker.coordinator_error(requested.group_id, call.client.node)


def _topics(
    broker: Broker, requested: DescribeShareGroupOffsetsRequest.Group
) -> Iterator[tuple[str, Topic | None, Iterable[int]]]:
    """Yield name, topic and partition indexes of each topic to describe. The topic is None if it does not exist.

    If the request lists no topics, yield all topics that have initialized share partitions of the group.

    Args:
        broker: The state of the cluster.
        requested: The group in the request.
    """
    topics = broker.cluster.topics
    if requested.topics is not None:
        for each in requested.topics:
            yield each.topic_name, topics.get(each.topic_name), each.partitions
        return
    for topic_id, indexes in _initialized(broker, requested.group_id):
        topic = broker.cluster.by_id.get(topic_id)
        if topic is not None:
            yield topic.name, topic, indexes


def _initialized(broker: Broker, group_id: str) -> Iterator[tuple[UUID, Sequence[int]]]:
    group = broker.groups.get(group_id)
    if group is not None:
        yield from broker.groups.types.of(group).share_partitions(group).items()


def _describe(broker: Broker, group_id: str, topic: Topic | None, index: int) -> Partition:
    """Return the start offset and the lag of a share partition.

    The lag is UNKNOWN_LAG if the start offset or the number of completed deliveries is unknown. If the lag cannot be
    computed because the partition has no leader, the result is the error LEADER_NOT_AVAILABLE.

    Args:
        broker: The state of the cluster.
        group_id: The group id.
        topic: The topic; None if it does not exist.
        index: Partition index.
    """
    partition = None if topic is None else topic.partition(index)
    summary = None
    if topic is not None and partition is not None:
        summary = broker.share_states.summary(StateKey(group_id, topic.topic_id, index))
    if summary is None or partition is None:
        return Partition(partition_index=index, start_offset=UNINITIALIZED, lag=UNKNOWN_LAG)
    lag = UNKNOWN_LAG
    if UNINITIALIZED not in (summary.start_offset, summary.complete_count):
        if partition.leader == NO_LEADER:
            error = ErrorCode.LEADER_NOT_AVAILABLE
            return Partition(partition_index=index, error_code=error, error_message=OF_ERRORS[error])
        lag = partition.log.end - summary.start_offset - summary.complete_count
    return Partition(
        partition_index=index, start_offset=summary.start_offset, leader_epoch=summary.leader_epoch, lag=lag
    )
