"""What is kept of a group, but for its offsets: one value a key, as compaction leaves them.

Source: Kafka's GroupCoordinatorRecordHelpers.
"""

from __future__ import annotations

from typing import TypeAlias

from kwire.blobs import encode_record
from mockbroker.groups.classic.state import ClassicGroup
from mockbroker.groups.consumer.state import ConsumerGroup
from mockbroker.groups.records import classic as classic_records
from mockbroker.groups.records import consumer as consumer_records
from mockbroker.groups.records.wall_time import Wall

Image: TypeAlias = dict[bytes, bytes]
Change: TypeAlias = tuple[bytes, bytes | None]  # None: a tombstone


def image_of(group: ClassicGroup | ConsumerGroup, wall: Wall) -> Image:
    """Everything that is kept of the group itself; nothing of a classic one during a rebalance."""
    if isinstance(group, ConsumerGroup):
        return dict(encoded(*record) for record in consumer_records.records(group, wall))
    record = classic_records.record(group, wall)
    return {} if record is None else dict([encoded(*record)])


def encoded(key: object, value: object, version: int) -> tuple[bytes, bytes]:
    """Key and value as they are stored."""
    written, data = encode_record(key, value, version)
    assert data is not None
    return written, data
