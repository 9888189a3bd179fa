"""The share coordinator: the durable state of all share partitions, in ``__share_group_state``.

The group coordinator initializes, reads and deletes states; the leaders of partitions read and write them.
Source: Kafka's ShareCoordinatorShard.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from uuid import UUID

from kwire import ErrorCode
from kwire.lazy_dataclass import dataclass
from kwire.records.batch import Record, build_batch, read_batch
from mockbroker.base.settings import Settings
from mockbroker.share.records import replayed, snapshot_record, tombstone, update_record
from mockbroker.share.state import UNINITIALIZED, ShareState, StateBatch, StateKey
from mockbroker.topics.model import NO_LEADER, ClusterState, Partition, Topic

ANY_EPOCH = -1  # in a change: the epoch is not compared
FIRST_PRUNING = 1 << 20  # size in bytes of a partition of the topic from which redundant records are deleted


@dataclass(frozen=True, slots=True)
class StateSummary:
    """The fields of a share partition's state that the group coordinator reads.

    Attributes:
        state_epoch: epoch of the initialization.
        start_offset: share-partition start offset; -1 if no leader has determined it.
        leader_epoch: leader epoch of the last leader that read the state; 0 if no leader has read it.
        complete_count: number of records at or after the start offset whose delivery is complete; -1 if unknown.
    """

    state_epoch: int
    start_offset: int
    leader_epoch: int
    complete_count: int


@dataclass(frozen=True, slots=True)
class StateChange:
    """A change of the state of a share partition, written by the leader.

    Attributes:
        state_epoch: state epoch that the leader has read; ANY_EPOCH to skip its check.
        leader_epoch: leader epoch of the partition; ANY_EPOCH to skip its check.
        start_offset: share-partition start offset; UNINITIALIZED to leave the stored start offset unchanged.
        complete_count: number of records at or after the start offset whose delivery is complete.
        batches: the changed states of offsets.
    """

    state_epoch: int
    leader_epoch: int
    start_offset: int
    complete_count: int
    batches: Sequence[StateBatch]


class ShareStates:
    """The states of all share partitions of a cluster.

    Args:
        cluster: The cluster.
        settings: The settings of the brokers.
        state_topic: Function that returns the topic ``__share_group_state``; it creates the topic if it is missing.
        wall_ms: Function that converts a time of the broker's clock in seconds to milliseconds since 1970.
        on_append: Function that is called with each partition of the topic that was appended to.
    """

    def __init__(
        self,
        cluster: ClusterState,
        settings: Settings,
        state_topic: Callable[[], Topic],
        wall_ms: Callable[[float], int],
        on_append: Callable[[Partition], None],
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._state_topic = state_topic
        self._wall_ms = wall_ms
        self._on_append = on_append
        self._states: dict[StateKey, ShareState] = {}
        self._snapshot_offsets: dict[int, dict[StateKey, int]] = {}  # by partition of the topic
        self._prune_at: dict[int, int] = {}  # size in bytes, by partition of the topic

    # --- for the group coordinator ---

    def initialize(self, key: StateKey, state_epoch: int, start_offset: int, now: float) -> ErrorCode:
        """Create the state of a share partition, or replace it; earlier acknowledgements are discarded.

        When a member first subscribes to a topic, the group coordinator initializes each partition with start offset
        -1. When an administrator alters the offset of a partition, the group coordinator initializes the partition
        with this offset. The leader then reads the state again.

        Args:
            key: the share partition.
            state_epoch: the group epoch; it is higher at each later initialization.
            start_offset: the first offset to deliver; -1 if the leader determines it by ``share.auto.offset.reset``.
            now: the broker's time in seconds.

        Returns:
            NONE; FENCED_STATE_EPOCH if the state epoch is older than the stored one; UNKNOWN_TOPIC_OR_PARTITION if the
            partition does not exist; or COORDINATOR_NOT_AVAILABLE if the partition of ``__share_group_state`` has no
            leader.
        """
        before = self._states.get(key)
        if before is not None and ANY_EPOCH < state_epoch < before.state_epoch:
            return ErrorCode.FENCED_STATE_EPOCH
        if error := self._key_error(key):
            return error
        now_ms = self._wall_ms(now)
        state = ShareState(state_epoch, start_offset, created_ms=now_ms, written_ms=now_ms)
        if before is not None:
            state.snapshot_epoch = before.snapshot_epoch + 1
            state.updates = before.updates
        self._states[key] = state
        self._write_snapshot(key, state, now)
        return ErrorCode.NONE

    def summary(self, key: StateKey) -> StateSummary | None:
        """Return the fields of a share partition's state that the group coordinator reads.

        Return None if the share partition is not initialized.
        """
        state = self._states.get(key)
        if state is None:
            return None
        return StateSummary(state.state_epoch, state.start_offset, state.leader_epoch, state.complete_count)

    def state(self, key: StateKey) -> ShareState | None:
        """Return the state of a share partition; None if the share partition is not initialized.

        The caller must not change the state.
        """
        return self._states.get(key)

    def of_group(self, group_id: str) -> list[StateKey]:
        """Return the keys of the initialized share partitions of a group."""
        return [key for key in self._states if key.group_id == group_id]

    def delete(self, key: StateKey, now: float) -> ErrorCode:
        """Delete the state of a share partition.

        Args:
            key: the share partition.
            now: the broker's time in seconds.

        Returns: NONE if the state is deleted or does not exist; COORDINATOR_NOT_AVAILABLE if the partition of
            ``__share_group_state`` that stores the state has no leader.
        """
        if key not in self._states:
            return ErrorCode.NONE
        if not self._is_available(key):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        del self._states[key]
        self._append(key, *tombstone(key), now)
        self._snapshot_offsets[self._log(key).index].pop(key, None)
        return ErrorCode.NONE

    def delete_topics(self, topic_ids: Collection[UUID], now: float) -> None:
        """Delete the states of all partitions of deleted topics.

        Args:
            topic_ids: Ids of the topics.
            now: The broker's time in seconds.
        """
        for key in [key for key in self._states if key.topic_id in topic_ids]:
            self.delete(key, now)

    # --- for the leaders of partitions ---

    def read(self, key: StateKey, leader_epoch: int, now: float) -> ShareState | ErrorCode:
        """Return the state of a share partition for its leader, and store the leader epoch.

        Args:
            key: the share partition.
            leader_epoch: leader epoch of the partition.
            now: the broker's time in seconds.

        Returns:
            The state, which the caller must not change; or an error: INVALID_REQUEST if the share partition is not
            initialized, FENCED_LEADER_EPOCH if a later leader has read the state, UNKNOWN_TOPIC_OR_PARTITION or
            COORDINATOR_NOT_AVAILABLE.
        """
        state = self._states.get(key)
        if state is None:
            return ErrorCode.INVALID_REQUEST
        if state.leader_epoch > leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if error := self._key_error(key):
            return error
        if state.leader_epoch != leader_epoch:
            state.leader_epoch = leader_epoch
            self._write(key, state, state.start_offset, (), now)
        return state

    def write(self, key: StateKey, change: StateChange, now: float) -> ErrorCode:
        """Store a change of the state of a share partition.

        Args:
            key: The share partition.
            change: The change.
            now: The broker's time in seconds.

        Returns:
            NONE, INVALID_REQUEST (not initialized), FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH, UNKNOWN_TOPIC_OR_PARTITION
            or COORDINATOR_NOT_AVAILABLE.
        """
        state = self._states.get(key)
        if state is None:
            return ErrorCode.INVALID_REQUEST
        if change.leader_epoch != ANY_EPOCH and state.leader_epoch > change.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if change.state_epoch != ANY_EPOCH and state.state_epoch > change.state_epoch:
            return ErrorCode.FENCED_STATE_EPOCH
        if error := self._key_error(key):
            return error
        if change.start_offset != UNINITIALIZED:
            state.start_offset = change.start_offset
        state.complete_count = change.complete_count
        self._write(key, state, change.start_offset, change.batches, now)
        return ErrorCode.NONE

    # --- the log ---

    def load(self, partition: Partition) -> None:
        """Replace the states of a partition of ``__share_group_state`` with the states in its log.

        Raises: DecodeError if a record is not valid.
        """
        for key in self._snapshot_offsets.pop(partition.index, {}):
            self._states.pop(key, None)
        limit = self._settings.share_coordinator_snapshot_update_records_per_snapshot
        loaded = replayed(partition.log.batches(), limit)
        self._states |= {key: state for key, (state, _) in loaded.items()}
        self._snapshot_offsets[partition.index] = {key: offset for key, (_, offset) in loaded.items()}

    def items(self) -> Iterable[tuple[StateKey, ShareState]]:
        """Return the keys and states of all initialized share partitions. The caller must not change the states."""
        return self._states.items()

    def _write(
        self, key: StateKey, state: ShareState, start_offset: int, batches: Sequence[StateBatch], now: float
    ) -> None:
        """Write an update record, or a snapshot after many updates.

        Args:
            key: The share partition.
            state: The state, with the new offset and epoch already set.
            start_offset: Start offset in the record; UNINITIALIZED if it has not changed.
            batches: The changed states of offsets.
            now: The broker's time in seconds.
        """
        state.add(batches)
        limit = self._settings.share_coordinator_snapshot_update_records_per_snapshot
        if max(state.updates, 0) < limit:
            state.updates += 1
            self._append(key, *update_record(key, state, start_offset, batches), now)
            return
        state.snapshot_epoch += 1
        state.created_ms = state.written_ms = self._wall_ms(now)
        state.updates = 0
        self._write_snapshot(key, state, now)

    def _write_snapshot(self, key: StateKey, state: ShareState, now: float) -> None:
        offset = self._append(key, *snapshot_record(key, state), now)
        log = self._log(key)
        self._snapshot_offsets.setdefault(log.index, {})[key] = offset
        self._prune(log, now)

    def _prune(self, partition: Partition, now: float) -> None:
        """Delete the records before the oldest snapshot in use, if the log of a partition has doubled in size.

        States whose last snapshot is old get a new snapshot first. Source: Kafka's ShareCoordinatorOffsetsManager and
        share.coordinator.cold.partition.snapshot.interval.ms.

        Args:
            partition: The partition of ``__share_group_state``.
            now: The broker's time in seconds.
        """
        if partition.log.size < self._prune_at.get(partition.index, FIRST_PRUNING):
            return
        offsets = self._snapshot_offsets[partition.index]
        middle = (partition.log.start + partition.log.end) // 2
        for key in [key for key, offset in offsets.items() if offset < middle]:
            state = self._states[key]
            state.snapshot_epoch += 1
            state.written_ms = self._wall_ms(now)
            offsets[key] = self._append(key, *snapshot_record(key, state), now)
        partition.log.delete_before(min(offsets.values()))
        self._prune_at[partition.index] = max(FIRST_PRUNING, 2 * partition.log.size)

    def _append(self, key: StateKey, record_key: bytes, value: bytes | None, now: float) -> int:
        """Append a record to ``__share_group_state``, and return its offset.

        Args:
            key: The share partition.
            record_key: Encoded key of the record.
            value: Encoded value of the record; None for a tombstone.
            now: The broker's time in seconds.
        """
        partition = self._log(key)
        record = Record(key=record_key, value=value, timestamp=self._wall_ms(now))
        self._on_append(partition)
        return partition.append(read_batch(build_batch([record], base_sequence=0)))  # 0, as Kafka's coordinators use

    def _log(self, key: StateKey) -> Partition:
        return self._state_topic().partition_of(key.coordinator_key)

    def _is_available(self, key: StateKey) -> bool:
        return self._log(key).leader != NO_LEADER

    def _key_error(self, key: StateKey) -> ErrorCode:
        topic = self._cluster.by_id.get(key.topic_id)
        if topic is None or topic.partition(key.partition) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE if self._is_available(key) else ErrorCode.COORDINATOR_NOT_AVAILABLE
