"""The handler of OffsetCommit v0-10.

As in Kafka 4, the response to a v0 request is UNSUPPORTED_VERSION, because v0 stored offsets in ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Iterable

from kwire import ErrorCode
from kwire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kwire.schema import ZERO_UUID
from mockbroker.base.effects import Call, Effects, Note, Reply
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.broker import Broker
from mockbroker.broker.slices import in_slices, merge_topics, split_by_partition
from mockbroker.groups.coordinated import CoordinatedGroup
from mockbroker.groups.events import Commit
from mockbroker.groups.offsets import Committed, is_metadata_too_large
from mockbroker.topics.model import Topic

NONE = ErrorCode.NONE
COMMIT = EventKind.COMMIT
EPOCHS_SINCE = 9  # first version with member epochs (KIP-848)
IDS_SINCE = 10  # first version with topic ids instead of names
RequestTopic = OffsetCommitRequest.Topic
RequestPartition = OffsetCommitRequest.Topic.Partition
ResponsePartition = OffsetCommitResponse.Topic.Partition
KnownPartition = tuple[Topic, RequestTopic, RequestPartition]


class _ResponseBuilder:
    """The builder of an OffsetCommit response. As in Kafka, the results of unknown partitions come first."""

    def __init__(self) -> None:
        self.topics: dict[object, OffsetCommitResponse.Topic] = {}
        # By id() of the topic in the request, because hashing a UUID is slow.
        self._topics_by_request: dict[int, OffsetCommitResponse.Topic] = {}

    def add(self, requested: RequestTopic, partition: RequestPartition, error: ErrorCode) -> None:
        topic = self._topics_by_request.get(id(requested))
        if topic is None:
            response_topic = OffsetCommitResponse.Topic(name=requested.name, topic_id=requested.topic_id)
            key = requested.name, requested.topic_id
            topic = self._topics_by_request[id(requested)] = self.topics.setdefault(key, response_topic)
        topic.partitions.append(ResponsePartition(partition_index=partition.partition_index, error_code=error))


def _handle(broker: Broker, call: Call[OffsetCommitRequest], now: float) -> Effects:
    builder = _ResponseBuilder()
    if call.version == 0:
        for requested in call.request.topics:
            for partition in requested.partitions:
                builder.add(requested, partition, ErrorCode.UNSUPPORTED_VERSION)
        return [Reply(call.ticket, OffsetCommitResponse(topics=list(builder.topics.values())))]
    known = _known_partitions(broker, call, builder)
    effects: Effects = []
    if known:
        limit = broker.settings.offset_metadata_max_bytes
        checked = (  # generated only if the group checks each partition
            (topic.name, partition.partition_index)
            for topic, _, partition in known
            if not is_metadata_too_large(partition.committed_metadata, limit)
        )
        group, error = _admit(broker, call, checked, now)
        stored: dict[tuple[str, int], int] = {}
        for topic, requested, partition in known:
            partition_error = error
            if not error and is_metadata_too_large(partition.committed_metadata, limit):
                partition_error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            builder.add(requested, partition, partition_error)
            if group is not None and partition_error is NONE:
                _store_offset(call, group, topic, partition, now)
                stored[topic.name, partition.partition_index] = partition.committed_offset
        if stored:
            effects.append(_note(call, stored))
    return [*effects, Reply(call.ticket, OffsetCommitResponse(topics=list(builder.topics.values())))]


def _known_partitions(
    broker: Broker, call: Call[OffsetCommitRequest], builder: _ResponseBuilder
) -> list[KnownPartition]:
    known: list[KnownPartition] = []
    by_id = call.version >= IDS_SINCE
    missing = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for requested in call.request.topics:
        topic = broker.cluster.find(requested.name, requested.topic_id, by_id=by_id)
        for partition in requested.partitions:
            if topic is None:
                builder.add(requested, partition, missing)
            elif topic.partition(partition.partition_index) is None:
                builder.add(requested, partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                known.append((topic, requested, partition))
    return known


def _admit(
    broker: Broker, call: Call[OffsetCommitRequest], partitions: Iterable[tuple[str, int]], now: float
) -> tuple[CoordinatedGroup | None, ErrorCode]:
    """Check that a client may commit offsets to a group. Create the group if it does not exist.

    The empty group id is allowed.

    Args:
        broker: The state of the cluster.
        call: The request, its client, and its ticket (the object that identifies the request).
        partitions: Topic and partition index of each offset.
        now: The broker's time in seconds.

    Returns: the group and NONE if the client may commit; None and the error code if it may not.
    """
    request = call.request
    if error := broker.coordinator_error(request.group_id, call.client.node):
        return None, error
    group = broker.groups.get(request.group_id)
    generation = request.generation_id_or_member_epoch
    if group is None:
        if generation >= 0:
            illegal = broker.release.quirks.commit_to_missing_group_is_illegal_generation
            if call.version < EPOCHS_SINCE or illegal:
                return None, ErrorCode.ILLEGAL_GENERATION
            return None, ErrorCode.GROUP_ID_NOT_FOUND
        group = broker.groups.create(request.group_id, now)
    event = Commit(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=generation,
        supports_member_epochs=call.version >= EPOCHS_SINCE,
        partitions=partitions,
    )
    error = broker.groups.commit_error(group, event, now)
    return (None, error) if error else (group, NONE)


def _store_offset(
    call: Call[OffsetCommitRequest], group: CoordinatedGroup, topic: Topic, partition: RequestPartition, now: float
) -> None:
    retention_ms = call.request.retention_time_ms  # v2-4; -1: as configured in the broker
    committed = Committed(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        at=now,
        expires=None if retention_ms == -1 else now + retention_ms / 1000,
        topic_id=topic.topic_id if call.version >= IDS_SINCE else ZERO_UUID,
    )
    group.offsets.store(topic.name, partition.partition_index, committed)


def _note(call: Call[OffsetCommitRequest], stored: dict[tuple[str, int], int]) -> Note:
    request = call.request
    return Note(
        event=COMMIT,
        group=request.group_id,
        member_id=request.member_id,
        client_id=call.client.client_id,
        generation=request.generation_id_or_member_epoch,
        offsets=stored,
    )


handle = in_slices(_handle, split_by_partition, merge_topics)
