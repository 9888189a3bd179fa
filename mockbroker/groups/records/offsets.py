"""Encoding of committed offsets in records. Source: Kafka's GroupCoordinatorRecordHelpers.newOffsetCommitRecord."""

from __future__ import annotations

from kwire.blobs import encode_stored
from kwire.blobs.offsets_topic import OffsetCommitKey, OffsetCommitValue
from mockbroker.groups.offsets import Committed
from mockbroker.groups.records.wall_time import WallClock

TOPIC_ID_VERSION = 4  # the value version with topic ids, written since Kafka 4.1
EXPIRE_TIMESTAMP_VERSION = 1  # the value version with an expiration time, but without leader epoch and topic id


def encode_value(committed: Committed, wall: WallClock, version: int = TOPIC_ID_VERSION) -> bytes:
    """Return the encoded value of an offset record.

    Args:
        committed: The committed offset.
        wall: The clock of the timestamps in records.
        version: Version of the value; an offset with an expiration time is always encoded in version 1.
    """
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=wall.to_ms(committed.at),
        topic_id=committed.topic_id,
    )
    if committed.expires is not None:
        value.expire_timestamp, version = wall.to_ms(committed.expires), EXPIRE_TIMESTAMP_VERSION
    return encode_stored(value, version)


def encode_key(group_id: str, topic: str, partition: int) -> bytes:
    """Return the encoded key of an offset record.

    Args:
        group_id: The group id.
        topic: Topic name.
        partition: Partition index.
    """
    return encode_stored(OffsetCommitKey(group=group_id, topic=topic, partition=partition), 0)


def decode_value(value: OffsetCommitValue, wall: WallClock) -> Committed:
    """Return the committed offset in an offset record.

    Args:
        value: The decoded value of the record.
        wall: The clock of the timestamps in records.
    """
    return Committed(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        at=wall.from_ms(value.commit_timestamp),
        expires=None if value.expire_timestamp == -1 else wall.from_ms(value.expire_timestamp),
        topic_id=value.topic_id,
    )
