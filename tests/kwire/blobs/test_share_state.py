from __future__ import annotations

from uuid import UUID

from kwire.blobs import decode_record, encode_record
from kwire.blobs.share_state import ShareSnapshotKey, ShareSnapshotValue, ShareUpdateKey, ShareUpdateValue

TOPIC = "__share_group_state"
BATCH = ShareSnapshotValue.StateBatch(first_offset=3, last_offset=5, delivery_state=2, delivery_count=1)


def test_snapshot_and_update() -> None:
    key = ShareSnapshotKey(group_id="g", topic_id=UUID(int=7), partition=1)
    snapshot = ShareSnapshotValue(state_epoch=1, start_offset=3, delivery_complete_count=0, state_batches=[BATCH])
    stored = encode_record(key, snapshot, 0)
    assert stored[0] == bytes.fromhex("0000" + "000167" + "00" * 15 + "07" + "00000001")
    assert decode_record(TOPIC, *stored) == (key, snapshot)
    update = ShareUpdateKey(group_id="g", topic_id=UUID(int=7), partition=1)
    assert decode_record(TOPIC, b"\0\1" + stored[0][2:], None) == (update, None)


def test_missing_delivery_count() -> None:
    stored = encode_record(ShareUpdateKey(), ShareUpdateValue(), 0)
    _, value = decode_record(TOPIC, *stored)
    assert isinstance(value, ShareUpdateValue)
    assert value.delivery_complete_count == -1
