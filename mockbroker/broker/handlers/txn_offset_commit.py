"""TxnOffsetCommit: v0-5. From v5 on the group becomes part of the transaction by it (KIP-890)."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import SLICE_SIZE, Broker
from mockbroker.broker.handlers.handler import Handler
from mockbroker.broker.slices import in_slices, merge_topics, split_partitions
from mockbroker.groups.coordinated import CoordinatedGroup
from mockbroker.groups.events import Commit
from mockbroker.groups.offsets import Committed, metadata_too_long
from mockbroker.transactions.state import Identity

NONE = ErrorCode.NONE
ABORTABLE_SINCE = 4  # the version that knows TRANSACTION_ABORTABLE
KIP_890_SINCE = 5
RequestPartition = TxnOffsetCommitRequest.Topic.Partition
Answer = TxnOffsetCommitResponse.Topic


def handle(broker: Broker, call: Call[TxnOffsetCommitRequest], now: float) -> Effects:
    """Commit the offsets of a request, or of one slice of it, in the transaction of its producer.

    The response has each topic once; partitions that do not exist come first. If the transaction ends between two
    slices, the partitions of the later ones get the error of a producer without a transaction.
    """
    places = [(topic.name, partition) for topic in call.request.topics for partition in topic.partitions]
    known = [(topic, asked) for topic, asked in places if broker.cluster.partition(topic, asked.partition_index)]
    group, error = _admit(broker, call, now) if known else (None, NONE)
    errors = {(topic, asked.partition_index): error for topic, asked in known}
    if group is not None:
        for topic, asked in known:
            errors[topic, asked.partition_index] = _hold(broker, call, group, topic, asked, now)
    topics: dict[str, Answer] = {}
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for topic, asked in [*(place for place in places if (place[0], place[1].partition_index) not in errors), *known]:
        index = asked.partition_index
        line = Answer.Partition(partition_index=index, error_code=errors.get((topic, index), missing))
        topics.setdefault(topic, Answer(name=topic)).partitions.append(line)
    return [Reply(call.ticket, TxnOffsetCommitResponse(topics=list(topics.values())))]


def _admit(broker: Broker, call: Call[TxnOffsetCommitRequest], now: float) -> tuple[CoordinatedGroup | None, ErrorCode]:
    """The group if producer and group agree, else the error for every partition."""
    request = call.request
    if error := broker.group_error(request.group_id, call.client.node):
        return None, error
    error = broker.transactions.write_error(
        request.transactional_id,
        Identity(request.producer_id, request.producer_epoch),
        broker.offsets_partition(request.group_id),
        now,
        adds=call.version >= KIP_890_SINCE,
        abortable=call.version >= ABORTABLE_SINCE,
        busy=ErrorCode.COORDINATOR_NOT_AVAILABLE,
    )
    if error:
        return None, error
    event = Commit(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        knows_epochs=True,
    )
    if error := broker.groups.transactional_commit_error(request.group_id, event):
        return None, error
    return broker.groups.get(request.group_id) or broker.groups.make(request.group_id, now), NONE


def _hold(
    broker: Broker,
    call: Call[TxnOffsetCommitRequest],
    group: CoordinatedGroup,
    topic: str,
    asked: RequestPartition,
    now: float,
) -> ErrorCode:
    if metadata_too_long(asked.committed_metadata, broker.settings.offset_metadata_max_bytes):
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    committed = Committed(
        offset=asked.committed_offset,
        leader_epoch=asked.committed_leader_epoch,
        metadata=asked.committed_metadata or "",
        at=now,
    )
    producer = Identity(call.request.producer_id, call.request.producer_epoch)
    broker.transactions.hold(group, producer, topic, asked.partition_index, committed)
    return NONE


def _split(broker: Broker, request: TxnOffsetCommitRequest) -> list[TxnOffsetCommitRequest]:
    # Not in the smaller slices of the simulator: its reference learns of these offsets by the response alone.
    return split_partitions(request, max(broker.slice_size, SLICE_SIZE))


HANDLER = Handler(Versions.parse("0-5"), in_slices(handle, _split, merge_topics))
