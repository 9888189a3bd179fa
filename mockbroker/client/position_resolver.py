"""Resolution of positions from committed offsets or ``auto_offset_reset``, and validation of positions after leader
changes.

Source: ConsumerCoordinator.initWithCommittedOffsetsIfNeeded, OffsetFetcher and SubscriptionState of kafka-clients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from mockbroker.client.committed_offsets import CommittedLookup
from mockbroker.client.components import Components
from mockbroker.client.epoch_validation import EpochLookup
from mockbroker.client.errors import ConsumerError, LogTruncated, NoOffset, UnsupportedVersion
from mockbroker.client.leader_lookup import LeaderLookup
from mockbroker.client.log_offsets import LogLookup
from mockbroker.client.metadata import NO_ID, TopicPartition
from mockbroker.client.positions import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Position
from mockbroker.client.settings import EARLIEST, NONE

MS = timedelta(milliseconds=1)


class Resolver:
    """The resolver of the positions of one consumer: looks up missing positions, and validates known positions.

    Args:
        components: The components of the consumer.
        wall_clock_ms: Function that returns the current time in milliseconds since 1970, for resets by duration.

    Attributes:
        failure: The error that the next poll raises, or None.
    """

    def __init__(self, components: Components, wall_clock_ms: Callable[[], int]) -> None:
        self._components, self._wall_clock_ms = components, wall_clock_ms
        self._settings, self._clock = components.settings, components.clock
        self._metadata, self._positions = components.metadata, components.positions
        self.failure: ConsumerError | None = None
        self._committed: tuple[CommittedLookup, dict[TopicPartition, Position]] | None = None
        self._resets: list[tuple[LogLookup, dict[TopicPartition, tuple[Position, int | timedelta]]]] = []
        self._validations: list[tuple[EpochLookup, dict[TopicPartition, tuple[Position, int]]]] = []
        self._validated_version = -1  # the metadata version of the latest validation
        self._run_requested = False  # a position changed since the last run

    def next_deadline(self) -> float:
        """Return the time at which ``resolve_positions`` has to run, in seconds on the engine's clock; inf if never."""
        if self._run_requested:
            return self._clock.now
        in_flight = [lookup.next_deadline() for lookup, _ in (*self._resets, *self._validations)]
        if self._committed:
            in_flight.append(self._committed[0].next_deadline())
        return min(in_flight, default=float("inf"))

    def resolve_positions(self) -> None:
        """Apply finished lookups, and start lookups for missing or unvalidated positions."""
        self._run_requested = False
        in_flight = self._committed or self._resets or self._validations
        if not in_flight and not self._positions.unresolved and self._validated_version == self._metadata.version:
            return
        self._fetch_committed()
        self._reset()
        self._validate()
        self._check_topic_ids()
        known = all(position.known for _, position in self._positions.items())
        self._positions.unresolved = not known or self.failure is not None

    def reset(self, position: Position) -> bool:
        """Apply ``auto_offset_reset`` to a position. Return False, without a change, if the setting is ``none``."""
        policy = self._settings.auto_offset_reset
        if policy == NONE:
            return False
        if isinstance(policy, timedelta):
            position.reset_to(policy)
        else:
            position.reset_to(EARLIEST_TIMESTAMP if policy == EARLIEST else LATEST_TIMESTAMP)
        self.request_run()
        return True

    def request_run(self) -> None:
        """Make the next ``advance`` resolve positions, because a position has changed."""
        self._positions.unresolved = self._run_requested = True

    def handle_truncation(self, partition: TopicPartition, position: Position, epoch: int, end: int) -> None:
        """Check whether records that the consumer has read are missing in a new leader's log. If they are, move the
        position to ``end``; if ``end`` is unknown, apply ``auto_offset_reset``. If this setting is ``none``, report
        LogTruncated instead.

        Args:
            partition: Topic and partition number.
            position: Position of the partition.
            epoch: The newest leader epoch in the leader's log that is not newer than the epoch of the position; -1 if
                there is none.
            end: End offset of ``epoch`` in the leader's log; -1 if unknown.
        """
        assert position.offset is not None
        unknown = epoch < 0 or end < 0
        if not unknown and end >= position.offset:
            position.epoch = epoch  # the log has all records
        elif self._settings.auto_offset_reset == NONE:
            self.failure = LogTruncated(partition, position.offset, end)
            position.validated_epoch = -1  # again with each run, until the user seeks
        elif unknown:
            self.reset(position)
        else:
            position.set_offset(end, epoch)
        self.request_run()

    # Topics that were deleted and created again

    def _check_topic_ids(self) -> None:
        """Reset the positions whose topic id has changed, because the topic was deleted and created again. If
        ``auto_offset_reset`` is ``none``, report NoOffset instead.
        """
        recreated: dict[TopicPartition, int | None] = {}
        for partition, position in self._positions.items():
            now = self._metadata.topic_id(partition[0])
            if now == NO_ID or now == position.topic_id:
                continue
            if position.topic_id is None or not position.known:
                position.topic_id = now
            elif not self.reset(position):
                recreated[partition] = position.offset  # again with each run, until the user seeks
        if recreated:
            self.failure = self.failure or NoOffset(recreated, "the topic was deleted and created again")

    # Committed offsets

    def _fetch_committed(self) -> None:
        missing = {
            partition: position
            for partition, position in self._positions.items()
            if position.offset is None and position.reset_timestamp is None and not position.revoking
        }
        if self._committed:
            lookup, requested = self._committed
            if lookup.done:
                self._committed = None
                self.failure = self.failure or lookup.error
                if lookup.error is None:
                    self._apply_committed(lookup, requested)
            elif all(self._positions.get(partition) is not position for partition, position in requested.items()):
                self._committed = None  # all its partitions were revoked
            else:
                lookup.send_if_due()
                return
            missing = {p: at for p, at in missing.items() if at.offset is None and at.reset_timestamp is None}
        if not missing or self.failure is not None:  # the user gets the error first
            return
        if self._components.group is None:
            self._reset_or_fail(missing)
            return
        lookup = CommittedLookup(missing, self._components)
        self._committed = lookup, missing
        lookup.send_if_due()

    def _apply_committed(self, lookup: CommittedLookup, requested: Mapping[TopicPartition, Position]) -> None:
        unset = {}
        for partition, position in requested.items():
            if position.offset is not None or position.reset_timestamp is not None:
                continue  # the user has sought meanwhile
            if self._positions.get(partition) is not position:
                continue  # revoked, perhaps assigned again since
            at = lookup.result[partition]
            if at is None:
                unset[partition] = position
            else:
                position.set_offset(at.offset, at.leader_epoch)
        self._reset_or_fail(unset)

    def _reset_or_fail(self, partitions: Mapping[TopicPartition, Position]) -> None:
        without_offset: dict[TopicPartition, int | None] = {
            p: None for p, position in partitions.items() if not self.reset(position)
        }
        if without_offset:
            self.failure = self.failure or NoOffset(without_offset)

    # Resets to a timestamp

    def _reset(self) -> None:
        in_flight = set()
        for lookup, requested in list(self._resets):
            lookup.send_if_due()
            self._drop_unassigned(lookup, {partition: position for partition, (position, _) in requested.items()})
            for partition, (position, reset) in requested.items():
                at = lookup.result.pop(partition, None)
                if at and position.reset_timestamp is reset and self._positions.get(partition) is position:
                    position.set_offset(at.offset)  # without an epoch: the record before it was not read
            if lookup.done:
                self._resets.remove((lookup, requested))
                self.failure = self.failure or lookup.error
                for position, reset in requested.values():
                    if lookup.error is None and position.reset_timestamp is reset:  # no record is that young
                        position.reset_to(LATEST_TIMESTAMP)
            else:
                in_flight |= lookup.unanswered
        to_reset = {
            partition: (position, position.reset_timestamp)
            for partition, position in self._positions.items()
            if position.reset_timestamp is not None and partition not in in_flight
        }
        if to_reset and self.failure is None:
            timestamps = {partition: self._timestamp(reset) for partition, (_, reset) in to_reset.items()}
            lookup = self.log_lookup(timestamps)
            self._resets.append((lookup, to_reset))
            lookup.send_if_due()

    def _drop_unassigned(self, lookup: LeaderLookup, requested: Mapping[TopicPartition, Position]) -> None:
        """Remove the partitions that are not assigned any more from a lookup, because their leaders may never answer.

        Args:
            lookup: The lookup.
            requested: Partition -> its ``Position`` at the start of the lookup.
        """
        lookup.unanswered -= {p for p, position in requested.items() if self._positions.get(p) is not position}

    def log_lookup(self, timestamps: Mapping[TopicPartition, int]) -> LogLookup:
        """Return a lookup of offsets by timestamp. The caller starts the lookup with ``send_if_due``.

        ``timestamps``: milliseconds since 1970 by partition, or Kafka's negative values (-1 latest, -2 earliest).
        """
        return LogLookup(timestamps, self._components)

    def _timestamp(self, reset: int | timedelta) -> int:
        return max(0, self._wall_clock_ms() - reset // MS) if isinstance(reset, timedelta) else reset

    # Leader changes

    def _validate(self) -> None:
        for lookup, requested in list(self._validations):
            lookup.send_if_due()
            self._drop_unassigned(lookup, {partition: position for partition, (position, _) in requested.items()})
            if lookup.done:
                self._validations.remove((lookup, requested))
                failed = lookup.error is not None and not isinstance(lookup.error, UnsupportedVersion)
                for position, offset in requested.values():
                    if position.offset == offset and position.validating:
                        position.validating = False
                        if failed:
                            position.validated_epoch = -1
                if failed:
                    self.failure = self.failure or lookup.error
        self._validated_version = self._metadata.version
        if self.failure is not None:
            return
        epochs, requested = {}, {}
        for partition, position in self._positions.items():
            leader = self._metadata.leader(partition)
            if leader is None or not position.known or position.validating or leader.epoch <= position.validated_epoch:
                continue
            first, position.validated_epoch = position.validated_epoch < 0, leader.epoch
            if position.epoch < 0 or (first and position.epoch == leader.epoch):
                continue  # no epoch to validate, or no leader change since it was read
            assert position.offset is not None
            position.validating = True
            epochs[partition], requested[partition] = position.epoch, (position, position.offset)
        if epochs:
            lookup = EpochLookup(
                epochs,
                lambda p, epoch, end: self._validated(p, requested[p], epoch, end),
                self._components,
            )
            self._validations.append((lookup, requested))
            lookup.send_if_due()

    def _validated(self, partition: TopicPartition, validated: tuple[Position, int], epoch: int, end: int) -> None:
        position, offset = validated
        if position.offset != offset or not position.validating or self._positions.get(partition) is not position:
            return  # the position has changed since the request
        position.validating = False
        if end < offset:
            self.handle_truncation(partition, position, epoch, end)
