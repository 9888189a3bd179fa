"""Committed offsets as records. Source: Kafka's GroupCoordinatorRecordHelpers.newOffsetCommitRecord."""

from __future__ import annotations

from kwire.blobs import encode_stored
from kwire.blobs.offsets_topic import OffsetCommitKey, OffsetCommitValue
from kwire.schema import ZERO_UUID
from mockbroker.groups.offsets import Committed
from mockbroker.groups.records.wall_time import Wall

IDS_SINCE = 4  # the version with topic ids, which Kafka writes since 4.1
EXPIRING = 1  # the version that says when an offset goes


def encoded_value(committed: Committed, wall: Wall, version: int = IDS_SINCE) -> bytes:
    """The value as it is stored; ``version``: unless the client said itself when the offset goes."""
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=wall.ms(committed.at),
        topic_id=committed.topic_id if version >= IDS_SINCE else ZERO_UUID,
    )
    if committed.expires is not None:
        value.expire_timestamp, value.leader_epoch, version = wall.ms(committed.expires), -1, EXPIRING
        value.topic_id = ZERO_UUID
    return encode_stored(value, version)


def encoded_key(group_id: str, topic: str, partition: int) -> bytes:
    """The key as it is stored."""
    return encode_stored(OffsetCommitKey(group=group_id, topic=topic, partition=partition), 0)


def committed(value: OffsetCommitValue, wall: Wall) -> Committed:
    """What a record says."""
    return Committed(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        at=wall.at(value.commit_timestamp),
        expires=None if value.expire_timestamp == -1 else wall.at(value.expire_timestamp),
        topic_id=value.topic_id,
    )
