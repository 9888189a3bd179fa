"""Records of __share_group_state: keys and values as Kafka writes them, and their replay."""

from __future__ import annotations

from uuid import UUID

from kwire.records.batch import Record, build_batch, read_batch
from mockbroker.share.records import replayed, snapshot_record, tombstone, update_record
from mockbroker.share.state import ShareState, StateBatch, StateKey

KEY = StateKey("g", UUID(int=1), 2)
SNAPSHOTS = 500


def log(*records: tuple[bytes, bytes | None]) -> list:
    return [
        read_batch(build_batch([Record(key=key, value=value)], base_offset=offset))
        for offset, (key, value) in enumerate(records)
    ]


def state() -> ShareState:
    filled = ShareState(3, 10, complete_count=2, leader_epoch=1)
    filled.add([StateBatch(12, 13, 2, 1)])
    return filled


def test_layout_of_a_snapshot_key():
    assert snapshot_record(KEY, state())[0].hex() == "0000" + "0001" + "67" + UUID(int=1).hex + "00000002"


def test_an_update_changes_the_state_of_the_snapshot():
    changed = state()
    changed.complete_count = 3
    batches = [StateBatch(11, 11, 4, 5)]
    result = replayed(log(snapshot_record(KEY, state()), update_record(KEY, changed, -1, batches)), SNAPSHOTS)
    after, snapshot_offset = result[KEY]
    assert (after.start_offset, after.complete_count, after.updates, snapshot_offset) == (10, 3, 0, 0)
    assert after.batches == [StateBatch(11, 11, 4, 5), StateBatch(12, 13, 2, 1)]


def test_a_tombstone_removes_the_state():
    assert replayed(log(snapshot_record(KEY, state()), tombstone(KEY)), SNAPSHOTS) == {}


def test_an_update_without_its_snapshot_is_skipped():
    assert replayed(log(update_record(KEY, state(), 10, [])), SNAPSHOTS) == {}


def test_record_of_an_unknown_type_is_skipped():
    assert replayed(log((b"\x00\x09", b"")), SNAPSHOTS) == {}
