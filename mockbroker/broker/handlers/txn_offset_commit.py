"""The handler of TxnOffsetCommit v0-5. From v5 on, the request also adds the group to the transaction (KIP-890)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kwire import ErrorCode
from kwire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import SLICE_SIZE, Broker
from mockbroker.broker.slices import in_slices, merge_topics, split_partitions
from mockbroker.groups.coordinated import CoordinatedGroup
from mockbroker.groups.events import Commit
from mockbroker.groups.offsets import Committed, is_metadata_too_large
from mockbroker.transactions.state import Identity

NONE = ErrorCode.NONE
ABORTABLE_SINCE = 4  # first version that returns TRANSACTION_ABORTABLE
KIP_890_SINCE = 5
RequestPartition = TxnOffsetCommitRequest.Topic.Partition
ResponseTopic = TxnOffsetCommitResponse.Topic


def _handle(broker: Broker, call: Call[TxnOffsetCommitRequest], now: float) -> Effects:
    """Commit the offsets of a request in the transaction of the producer.

    A large request is handled in slices (parts of limited size), and this function is called for each slice. If the
    transaction ends between two slices, the partitions of the later slices get an error. The response contains each
    topic once, with unknown partitions first.

    Args:
        broker: The state of the cluster.
        call: The request, its client, and its ticket (the object that identifies the request).
        now: The broker's time in seconds.

    Returns: the effects, such as responses and journal events.
    """
    partitions = [(topic.name, partition) for topic in call.request.topics for partition in topic.partitions]
    existing, missing = list[tuple[str, RequestPartition]](), list[tuple[str, RequestPartition]]()
    for topic, partition in partitions:
        (existing if broker.cluster.partition(topic, partition.partition_index) else missing).append((topic, partition))
    group, error = _admit(broker, call, existing, now) if existing else (None, NONE)
    errors = {(topic, partition.partition_index): error for topic, partition in existing}
    if group is not None:
        for topic, partition in existing:
            errors[topic, partition.partition_index] = _add_pending_offset(broker, call, group, topic, partition, now)
    topics: dict[str, ResponseTopic] = {}
    for topic, partition in [*missing, *existing]:
        index = partition.partition_index
        error = errors.get((topic, index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        result = ResponseTopic.Partition(partition_index=index, error_code=error)
        topics.setdefault(topic, ResponseTopic(name=topic)).partitions.append(result)
    return [Reply(call.ticket, TxnOffsetCommitResponse(topics=list(topics.values())))]


def _admit(
    broker: Broker, call: Call[TxnOffsetCommitRequest], partitions: Sequence[tuple[str, RequestPartition]], now: float
) -> tuple[CoordinatedGroup | None, ErrorCode]:
    """Check that a producer may commit offsets to a group: its producer id and epoch, and the group member.

    If the producer may commit and the group does not exist, create the group. In v5, the partition of the offsets topic
    that stores the group is added to the transaction.

    Args:
        broker: the state of the cluster.
        call: the request, its client, and its ticket (the object that identifies the request).
        partitions: topic and entry of each partition in the request.
        now: the broker's time in seconds.

    Returns: the group and NONE if the producer may commit; None and the error code if it may not.
    """
    request = call.request
    if error := broker.group_error(request.group_id, call.client.node):
        return None, error
    adds = call.version >= KIP_890_SINCE
    if adds or broker.settings_of(call.client.node).transaction_partition_verification_enable:
        error = broker.transactions.write_error(
            request.transactional_id,
            Identity(request.producer_id, request.producer_epoch),
            broker.offsets_partition(request.group_id),
            now,
            adds=adds,
            abortable=call.version >= ABORTABLE_SINCE,
            busy=ErrorCode.COORDINATOR_NOT_AVAILABLE,
        )
        if error:
            return None, error
    event = Commit(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        supports_member_epochs=True,
        partitions=((topic, partition.partition_index) for topic, partition in partitions),
    )
    if error := broker.groups.transactional_commit_error(request.group_id, event):
        return None, error
    return broker.groups.get(request.group_id) or broker.groups.create(request.group_id, now), NONE


def _add_pending_offset(
    broker: Broker,
    call: Call[TxnOffsetCommitRequest],
    group: CoordinatedGroup,
    topic: str,
    partition: RequestPartition,
    now: float,
) -> ErrorCode:
    if is_metadata_too_large(partition.committed_metadata, broker.settings.offset_metadata_max_bytes):
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    committed = Committed(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        at=now,
    )
    producer = Identity(call.request.producer_id, call.request.producer_epoch)
    broker.transactions.hold(group, producer, topic, partition.partition_index, committed)
    return NONE


def _split(_: Broker, request: TxnOffsetCommitRequest) -> Iterator[TxnOffsetCommitRequest]:
    # Not in the smaller slices of the simulator, whose model sees these offsets only in the response.
    return split_partitions(request, SLICE_SIZE)


handle = in_slices(_handle, _split, merge_topics)
