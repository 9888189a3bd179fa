"""OffsetCommit: v0-10. v0 wrote to ZooKeeper; a Kafka without it refuses that, and so do we."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kwire.schema import ZERO_UUID, Versions
from mockbroker.base.effects import Call, Effects, Note, Reply
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import Handler
from mockbroker.broker.slices import in_slices, merge_topics, split_by_partition
from mockbroker.groups.coordinated import CoordinatedGroup
from mockbroker.groups.events import Commit
from mockbroker.groups.offsets import Committed, metadata_too_long
from mockbroker.topics.model import Topic

NONE = ErrorCode.NONE
COMMIT = EventKind.COMMIT
EPOCHS_SINCE = 9  # the version from which on a generation may be a member epoch (KIP-848)
IDS_SINCE = 10  # the version that names topics by their ids
RequestTopic = OffsetCommitRequest.Topic
RequestPartition = OffsetCommitRequest.Topic.Partition
AnswerPartition = OffsetCommitResponse.Topic.Partition
Known = tuple[Topic, RequestTopic, RequestPartition]


class _Answer:
    """The answer as it grows: what the API layer refused stands first, as at Kafka's."""

    def __init__(self) -> None:
        self.topics: dict[object, OffsetCommitResponse.Topic] = {}
        self._of: dict[int, OffsetCommitResponse.Topic] = {}  # by identity of what was asked: ids take long to hash

    def add(self, asked: RequestTopic, partition: RequestPartition, error: ErrorCode) -> None:
        topic = self._of.get(id(asked))
        if topic is None:
            named = OffsetCommitResponse.Topic(name=asked.name, topic_id=asked.topic_id)
            topic = self._of[id(asked)] = self.topics.setdefault((asked.name, asked.topic_id), named)
        topic.partitions.append(AnswerPartition(partition_index=partition.partition_index, error_code=error))


def handle(broker: Broker, call: Call[OffsetCommitRequest], now: float) -> Effects:
    answer = _Answer()
    if call.version == 0:
        for asked in call.request.topics:
            for partition in asked.partitions:
                answer.add(asked, partition, ErrorCode.UNSUPPORTED_VERSION)
        return [Reply(call.ticket, OffsetCommitResponse(topics=list(answer.topics.values())))]
    known = _known_partitions(broker, call, answer)
    effects: Effects = []
    if known:
        limit = broker.settings.offset_metadata_max_bytes
        group, error = _admit(broker, call, now)
        stored: dict[tuple[str, int], int] = {}
        for topic, asked, partition in known:
            outcome = error
            if not error and metadata_too_long(partition.committed_metadata, limit):
                outcome = ErrorCode.OFFSET_METADATA_TOO_LARGE
            answer.add(asked, partition, outcome)
            if group is not None and outcome is NONE:
                _store(call, group, topic, partition, now)
                stored[topic.name, partition.partition_index] = partition.committed_offset
        if stored:
            effects.append(_note(call, stored))
    return [*effects, Reply(call.ticket, OffsetCommitResponse(topics=list(answer.topics.values())))]


def _known_partitions(broker: Broker, call: Call[OffsetCommitRequest], answer: _Answer) -> list[Known]:
    known: list[Known] = []
    by_id = call.version >= IDS_SINCE
    missing = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for asked in call.request.topics:
        topic = broker.cluster.find(asked.name, asked.topic_id, by_id=by_id)
        for partition in asked.partitions:
            if topic is None:
                answer.add(asked, partition, missing)
            elif topic.partition(partition.partition_index) is None:
                answer.add(asked, partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                known.append((topic, asked, partition))
    return known


def _admit(broker: Broker, call: Call[OffsetCommitRequest], now: float) -> tuple[CoordinatedGroup | None, ErrorCode]:
    """The group if it takes the commit, else the error for every partition. An empty group id is allowed."""
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
        group = broker.groups.make(request.group_id, now)
    event = Commit(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=generation,
        knows_epochs=call.version >= EPOCHS_SINCE,
    )
    error = broker.groups.commit_error(group, event, now)
    return (None, error) if error else (group, NONE)


def _store(
    call: Call[OffsetCommitRequest], group: CoordinatedGroup, topic: Topic, partition: RequestPartition, now: float
) -> None:
    retention_ms = call.request.retention_time_ms  # v2-4; -1 leaves it to the broker
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


HANDLER = Handler(Versions.parse("0-10"), in_slices(handle, split_by_partition, merge_topics))
