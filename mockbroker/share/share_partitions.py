"""All loaded share partitions of a cluster, and the ends of their acquisition locks.

Source: Kafka's SharePartitionManager.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from math import inf
from uuid import UUID

from kwire import DecodeError, ErrorCode
from kwire.lazy_dataclass import dataclass
from mockbroker.base.deadlines import Deadlines
from mockbroker.base.durations import parse_duration_ms
from mockbroker.base.settings import Settings
from mockbroker.base.timers import Due, ShareLockDue
from mockbroker.share.group_settings import ShareGroupSettings
from mockbroker.share.share_partition import SharePartition
from mockbroker.share.state import UNINITIALIZED, StateKey
from mockbroker.share.states import ShareStates
from mockbroker.topics.model import Partition

BY_DURATION = "by_duration:"
# Errors of the share coordinator after which a leader loads the state again.
RELOADED_AFTER = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
)
_REPORTED = {  # errors of the share coordinator, with the errors that clients get
    ErrorCode.NONE: ErrorCode.NONE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}


def reported_error(error: ErrorCode) -> ErrorCode:
    """Return the error code for clients that corresponds to an error of the share coordinator.

    Without a corresponding error code, return UNKNOWN_SERVER_ERROR.
    """
    return _REPORTED.get(error, ErrorCode.UNKNOWN_SERVER_ERROR)


@dataclass(slots=True)
class SharePartitions:
    """The share partitions that the leaders of partitions have loaded.

    Attributes:
        settings: The settings of the brokers.
        states: The share coordinator, which stores the state of share partitions.
        deadlines: The timers of the cluster. The expiry of each acquisition lock is one of them.
        group_settings: Function that returns the settings of a group.
        wall_ms: Function that converts a time of the broker's clock in seconds to milliseconds since 1970.
        loaded: The loaded share partitions, by group id, topic id and partition number.
    """

    settings: Settings
    states: ShareStates
    deadlines: Deadlines[Due]
    group_settings: Callable[[str], ShareGroupSettings]
    wall_ms: Callable[[float], int]
    loaded: dict[StateKey, SharePartition] = field(default_factory=dict)

    def get_or_load(self, key: StateKey, partition: Partition, now: float) -> SharePartition | ErrorCode:
        """Return a share partition; load it from the share coordinator if it is not loaded.

        Args:
            key: the share partition.
            partition: the partition of the topic. The caller is its leader.
            now: the broker's time in seconds.

        Returns:
            The share partition, or an error for the client: UNKNOWN_SERVER_ERROR if the group coordinator has not
            initialized the share partition, OFFSET_NOT_AVAILABLE if ``share.auto.offset.reset`` selects no offset, or
            the result of ``reported_error``.
        """
        found = self.loaded.get(key)
        if found is not None:
            return found
        state = self.states.read(key, partition.leader_epoch, now)
        if isinstance(state, ErrorCode):
            return reported_error(state)
        start = state.start_offset
        if start == UNINITIALIZED:
            reset = self._reset_offset(key.group_id, partition, now)
            if reset is None:
                return ErrorCode.OFFSET_NOT_AVAILABLE
            start = reset
        loaded = self.loaded[key] = SharePartition(
            key,
            partition.leader_epoch,
            max_deliveries=self.settings.group_share_delivery_count_limit,
            max_in_flight=self.settings.group_share_partition_max_record_locks,
            write=self.states.write,
        )
        loaded.load(state, start)
        return loaded

    def _reset_offset(self, group_id: str, partition: Partition, now: float) -> int | None:
        """Return the start offset that ``share.auto.offset.reset`` selects.

        The result is None if no record is recent enough, or if a batch cannot be decoded.

        Args:
            group_id: the group id.
            partition: the partition.
            now: the current time in seconds.
        """
        strategy = self.group_settings(group_id).auto_offset_reset
        if strategy == "earliest":
            return partition.log.start
        if not strategy.startswith(BY_DURATION):
            return partition.log.end
        duration = parse_duration_ms(strategy.removeprefix(BY_DURATION)) or 0
        try:
            found = partition.log.at_timestamp(self.wall_ms(now) - duration)
        except DecodeError:
            return None
        return None if found is None else found[0]

    def schedule(self, partition: SharePartition) -> None:
        """Set the deadline at which the next acquisition lock of a share partition ends.

        If no record of the share partition is acquired, remove the deadline. A deadline that is earlier remains set.
        """
        due = ShareLockDue(partition.key)
        if partition.next_lock_end == inf:
            self.deadlines.forget(due)
        elif partition.next_lock_end < (self.deadlines.at(due) or inf):
            self.deadlines.set(due, partition.next_lock_end)

    def expire_locks(self, key: StateKey, now: float) -> dict[str, int]:
        """Release the records of a share partition whose acquisition lock has expired.

        ``now``: the broker's time in seconds.

        Returns:
            Numbers of records: ``released`` for records that can be acquired again, ``archived`` for records that
            cannot. Empty if no lock has expired or the share partition is not loaded.
        """
        partition = self.loaded.get(key)
        if partition is None:
            return {}
        released = partition.expire_locks(now)
        self.schedule(partition)
        return released

    def unload(self, key: StateKey) -> None:
        """Unload a share partition. The next use loads it from its stored state."""
        if self.loaded.pop(key, None) is not None:
            self.deadlines.forget(ShareLockDue(key))

    def unload_partition(self, topic_id: UUID, index: int) -> None:
        """Unload the share partitions of all groups for one partition of a topic.

        Args:
            topic_id: Topic id.
            index: Index of the partition.
        """
        if self.loaded:
            self.unload_matching(lambda key: key.topic_id == topic_id and key.partition == index)

    def unload_matching(self, matches: Callable[[StateKey], bool]) -> None:
        """Unload the share partitions for whose key ``matches`` returns True."""
        for key in [key for key in self.loaded if matches(key)]:
            self.unload(key)
