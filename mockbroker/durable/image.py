"""What is kept of a group: one value a key, as compaction leaves them. What a step changed is how two of them differ.

Source: Kafka's GroupCoordinatorRecordHelpers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from kwire.blobs import encode_record
from mockbroker.durable import classic_records, consumer_records, offset_records
from mockbroker.durable.clock import Wall
from mockbroker.group.consumer_state import ConsumerGroup
from mockbroker.group.state import Group

Image: TypeAlias = dict[bytes, bytes]
Record: TypeAlias = tuple[object, object, int]  # key, value, version of the value
Change: TypeAlias = tuple[bytes, bytes | None]  # None: a tombstone


def image_of(
    group: Group | ConsumerGroup, before: Mapping[bytes, bytes], wall: Wall, *, with_offsets: bool = True
) -> Image:
    """Everything that is kept. ``before``: what was kept so far; a rebalance in progress changes nothing of it."""
    records: list[Record] = []
    if isinstance(group, ConsumerGroup):
        records += consumer_records.records(group, wall)
    elif (record := classic_records.record(group, wall)) is not None:
        records.append(record)
    found = dict(encoded(*record) for record in records)
    if with_offsets:
        found.update(offset_records.image(group.group_id, group.offsets, wall))
    if isinstance(group, Group) and not classic_records.is_settled(group):
        key = classic_records.encoded_key(group.group_id)
        if key in before:
            found[key] = before[key]
    return found


def encoded(key: object, value: object, version: int) -> tuple[bytes, bytes]:
    """Key and value as they are stored."""
    written, data = encode_record(key, value, version)
    assert data is not None
    return written, data


def changes(before: Mapping[bytes, bytes], after: Mapping[bytes, bytes]) -> list[Change]:
    """Records that lead from one image to another: what is gone first."""
    gone: list[Change] = [(key, None) for key in before if key not in after]
    return gone + [(key, value) for key, value in after.items() if before.get(key) != value]
