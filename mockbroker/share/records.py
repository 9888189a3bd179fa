"""The records of ``__share_group_state``: snapshots and updates. Source: Kafka's ShareCoordinatorRecordHelpers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kwire.blobs import decode_record, encode_stored
from kwire.blobs.share_state import ShareSnapshotKey, ShareSnapshotValue, ShareUpdateKey, ShareUpdateValue
from kwire.errors import UnknownApi
from kwire.records.batch import Batch
from mockbroker.share.state import UNINITIALIZED, ShareState, StateBatch, StateKey
from mockbroker.topics.model import SHARE_STATE_TOPIC


def snapshot_record(key: StateKey, state: ShareState) -> tuple[bytes, bytes]:
    """Return the encoded key and value of the record that contains the complete state of a share partition."""
    value = ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.complete_count,
        create_timestamp=state.created_ms,
        write_timestamp=state.written_ms,
        state_batches=[
            ShareSnapshotValue.StateBatch(
                first_offset=batch.first,
                last_offset=batch.last,
                delivery_state=batch.state,
                delivery_count=batch.deliveries,
            )
            for batch in state.batches
        ],
    )
    return _snapshot_key(key), encode_stored(value, 0)


def update_record(
    key: StateKey, state: ShareState, start_offset: int, batches: Sequence[StateBatch]
) -> tuple[bytes, bytes]:
    """Return the encoded key and value of an update record: a change of the state of a share partition.

    Args:
        key: the share partition.
        state: the state after the change.
        start_offset: start offset in the record; UNINITIALIZED if it has not changed.
        batches: the changed states of offsets.
    """
    value = ShareUpdateValue(
        snapshot_epoch=state.snapshot_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=state.complete_count,
        state_batches=[
            ShareUpdateValue.StateBatch(
                first_offset=batch.first,
                last_offset=batch.last,
                delivery_state=batch.state,
                delivery_count=batch.deliveries,
            )
            for batch in batches
        ],
    )
    record_key = ShareUpdateKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
    return encode_stored(record_key, 0), encode_stored(value, 0)


def tombstone(key: StateKey) -> tuple[bytes, None]:
    """Return the record that deletes the state of a share partition: the encoded key, and None as value."""
    return _snapshot_key(key), None


def _snapshot_key(key: StateKey) -> bytes:
    record_key = ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
    return encode_stored(record_key, 0)


def replayed(batches: Iterable[Batch], updates_per_snapshot: int) -> dict[StateKey, tuple[ShareState, int]]:
    """Return the states in a partition of ``__share_group_state``, each with the offset of its last snapshot record.

    Args:
        batches: The batches of the partition, in order.
        updates_per_snapshot: Value of ``share.coordinator.snapshot.update.records.per.snapshot``.

    Raises: DecodeError if a record is not valid.
    """
    states: dict[StateKey, tuple[ShareState, int]] = {}
    for offset, key, value in _decoded(batches):
        if isinstance(key, ShareSnapshotKey):
            state_key = StateKey(key.group_id, key.topic_id, key.partition)
            if isinstance(value, ShareSnapshotValue):
                before = states.get(state_key)
                states[state_key] = _from_snapshot(value, before and before[0], updates_per_snapshot), offset
            else:
                states.pop(state_key, None)
        elif isinstance(key, ShareUpdateKey) and isinstance(value, ShareUpdateValue):
            found = states.get(StateKey(key.group_id, key.topic_id, key.partition))
            if found is not None:  # else its snapshot was deleted, and a later snapshot follows
                _apply_update(found[0], value)
    return states


def _decoded(batches: Iterable[Batch]) -> Iterator[tuple[int, object, object]]:
    """Yield offset, key and value of each record in ``batches``, except records of unknown types."""
    for batch in batches:
        if batch.control:
            continue
        for record in batch.records():
            try:
                yield record.offset, *decode_record(SHARE_STATE_TOPIC, record.key, record.value)
            except UnknownApi:
                continue


def _from_snapshot(value: ShareSnapshotValue, before: ShareState | None, updates_per_snapshot: int) -> ShareState:
    updates = -1 if before is None else before.updates
    state = ShareState(
        state_epoch=value.state_epoch,
        start_offset=value.start_offset,
        snapshot_epoch=value.snapshot_epoch,
        leader_epoch=value.leader_epoch,
        complete_count=value.delivery_complete_count,
        created_ms=value.create_timestamp,
        written_ms=value.write_timestamp,
        updates=0 if updates >= updates_per_snapshot else updates,
    )
    state.add(_state_batches(value.state_batches))
    return state


def _apply_update(state: ShareState, value: ShareUpdateValue) -> None:
    if value.start_offset != UNINITIALIZED:
        state.start_offset = value.start_offset
    state.leader_epoch = max(state.leader_epoch, value.leader_epoch)
    state.complete_count = value.delivery_complete_count
    state.updates += 1
    state.add(_state_batches(value.state_batches))


def _state_batches(
    batches: Sequence[ShareSnapshotValue.StateBatch] | Sequence[ShareUpdateValue.StateBatch],
) -> Iterator[StateBatch]:
    return (
        StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in batches
    )
