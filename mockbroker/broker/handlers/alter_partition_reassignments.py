"""The handler of AlterPartitionReassignments v0-1. Source: Kafka's ReplicationControlManager.

A new replica is in sync after ``mockbroker.replica.catch.up.ms``; replication quotas have no effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from kwire import ErrorCode
from kwire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.base.texts import shortened
from mockbroker.broker import reassignments
from mockbroker.broker.broker import Broker
from mockbroker.broker.controller_timeouts import TIMED_OUT, is_expired
from mockbroker.broker.slices import in_slices, merge_by_topic, split_by_partition
from mockbroker.topics.model import Partition
from mockbroker.topics.placement import assignment_error

Request = AlterPartitionReassignmentsRequest
Response = AlterPartitionReassignmentsResponse
Failure = tuple[ErrorCode, str | None]
DONE: Failure = (ErrorCode.NONE, None)
NOT_IN_PROGRESS: Failure = (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None)


def _handle(broker: Broker, call: Call[Request], now: float) -> Effects:
    request = call.request
    effects: Effects = []
    is_changeable = request.allow_replication_factor_change
    if not request.topics:  # Kafka omits allow_replication_factor_change: the response has its default, True
        return [Reply(call.ticket, Response(error_message=""))]
    response = Response(error_message=None, allow_replication_factor_change=is_changeable)
    if is_expired(request.timeout_ms):
        return [Reply(call.ticket, _timed_out(request, response))]
    error: ErrorCode
    text: str | None
    for wanted in request.topics:
        topic = broker.cluster.topics.get(wanted.name)
        answered = Response.Topic(name=wanted.name)
        response.responses.append(answered)
        for each in wanted.partitions:
            if topic is None:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                text = f"Unable to find a topic named {shortened(wanted.name)}."
            elif (partition := topic.partition(each.partition_index)) is None:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                text = f"Unable to find partition {wanted.name}:{each.partition_index}."
            elif each.replicas is None:
                error, text = _cancel(broker, partition, now, effects)
            else:
                error, text = _alter(broker, partition, each.replicas, now, effects, is_changeable=is_changeable)
            answered.partitions.append(
                Response.Topic.Partition(partition_index=each.partition_index, error_code=error, error_message=text)
            )
    return [*effects, Reply(call.ticket, response)]


def _timed_out(request: Request, response: Response) -> Response:
    """Set the error of a request that has expired, also for each partition, and return the response.

    Args:
        request: The request.
        response: The response, still without topics.
    """
    response.error_code = TIMED_OUT
    response.allow_replication_factor_change = True  # the default
    for topic in request.topics:
        indexes = [partition.partition_index for partition in topic.partitions]
        partitions = [
            Response.Topic.Partition(partition_index=index, error_code=TIMED_OUT, error_message=None)
            for index in indexes
        ]
        response.responses.append(Response.Topic(name=topic.name, partitions=partitions))
    return response


def _cancel(broker: Broker, partition: Partition, now: float, effects: Effects) -> Failure:
    if partition.reassignment is None:
        return NOT_IN_PROGRESS
    cancelled = reassignments.cancel(broker, partition, now)
    if cancelled is None:
        name = f"{partition.topic}:{partition.index}"
        text = f"Unable to revert partition assignment for {name} because it would require an unclean leader election."
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, text
    effects += cancelled
    return DONE


def _alter(
    broker: Broker, partition: Partition, target: Sequence[int], now: float, effects: Effects, *, is_changeable: bool
) -> Failure:
    """Begin the reassignment of one partition.

    Args:
        broker: The state of the cluster.
        partition: The partition.
        target: Broker ids of the new replicas.
        now: The broker's time in seconds.
        effects: List to which the effects are added.
        is_changeable: Whether the request may change the replication factor.

    Returns: error code and error message; DONE after success.
    """
    if not is_changeable and len(target) != (factor := len(reassignments.current_replicas(partition))):
        text = f"The replication factor is changed from {factor} to {len(target)}"
        return ErrorCode.INVALID_REPLICATION_FACTOR, text
    if problem := assignment_error(broker.cluster.broker_ids, target, target):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem
    effects += reassignments.begin(broker, partition, target, now)
    return DONE


handle = in_slices(_handle, split_by_partition, merge_by_topic("responses", attrgetter("name")))
