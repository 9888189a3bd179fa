"""Positions for partitions that have none: committed offsets, else the reset policy; and whether they still hold.

Source: ConsumerCoordinator.initWithCommittedOffsetsIfNeeded, OffsetFetcher and SubscriptionState of kafka-clients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from mockbroker.client.by_leader import ByLeader
from mockbroker.client.committed import CommittedInquiry
from mockbroker.client.errors import ConsumerError, LogTruncated, NoOffset, UnsupportedVersion
from mockbroker.client.log_offsets import LogInquiry
from mockbroker.client.metadata import NO_ID, TopicPartition
from mockbroker.client.parts import Parts
from mockbroker.client.positions import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Position
from mockbroker.client.settings import EARLIEST, NONE
from mockbroker.client.validating import EpochInquiry

MS = timedelta(milliseconds=1)


class Resolver:
    """``wall_ms``: the time of day in ms since 1970, for resets by duration."""

    def __init__(self, parts: Parts, wall_ms: Callable[[], int]) -> None:
        self._parts, self._wall_ms = parts, wall_ms
        self._settings, self._time = parts.settings, parts.time
        self._metadata, self._positions = parts.metadata, parts.positions
        self.failure: ConsumerError | None = None
        self._committed: tuple[CommittedInquiry, dict[TopicPartition, Position]] | None = None
        self._resets: list[tuple[LogInquiry, dict[TopicPartition, tuple[Position, int | timedelta]]]] = []
        self._checks: list[tuple[EpochInquiry, dict[TopicPartition, tuple[Position, int]]]] = []
        self._checked = -1  # version of the metadata
        self._called = False  # since the last step: what was handed out or dropped has left something to look for

    def due(self) -> float:
        """When ``resolve_positions`` has something to do."""
        if self._called:
            return self._time.now
        under_way = [inquiry.due() for inquiry, _ in (*self._resets, *self._checks)]
        if self._committed:
            under_way.append(self._committed[0].due())
        return min(under_way, default=float("inf"))

    def resolve_positions(self) -> None:
        """Take what was found, and look for what is missing."""
        self._called = False
        under_way = self._committed or self._resets or self._checks
        if not under_way and not self._positions.unsettled and self._checked == self._metadata.version:
            return
        self._initialise()
        self._reset()
        self._validate()
        self._hold_against_topics()
        known = all(position.known for _, position in self._positions.items())
        self._positions.unsettled = not known or self.failure is not None

    def reset(self, position: Position) -> bool:
        """Fall back on the policy; False if there is none."""
        policy = self._settings.auto_offset_reset
        if policy == NONE:
            return False
        if isinstance(policy, timedelta):
            position.look_up(policy)
        else:
            position.look_up(EARLIEST_TIMESTAMP if policy == EARLIEST else LATEST_TIMESTAMP)
        self.look_again()
        return True

    def look_again(self) -> None:
        """Some position is not what it was at the last ``resolve_positions``."""
        self._positions.unsettled = self._called = True

    def truncated(self, partition: TopicPartition, position: Position, epoch: int, end: int) -> None:
        """In the leader's log, records of the position's epoch, or of the one before that, ``epoch``, end at ``end``.

        Both are -1 if it knows of none.
        """
        assert position.offset is not None
        unknown = epoch < 0 or end < 0
        if not unknown and end >= position.offset:
            position.epoch = epoch  # nothing is missing
        elif self._settings.auto_offset_reset == NONE:
            self.failure = LogTruncated(partition, position.offset, end)
            position.validated = -1  # and again, until somebody seeks
        elif unknown:
            self.reset(position)
        else:
            position.move(end, epoch)
        self.look_again()

    # Topics that were deleted and made anew

    def _hold_against_topics(self) -> None:
        """A position in a topic that is no more says nothing of the one that has its name now."""
        remade: dict[TopicPartition, int | None] = {}
        for partition, position in self._positions.items():
            now = self._metadata.topic_id(partition[0])
            if now == NO_ID or now == position.topic_id:
                continue
            if position.topic_id is None or not position.known:
                position.topic_id = now
            elif not self.reset(position):
                remade[partition] = position.offset  # and again, until somebody seeks
        if remade:
            self.failure = self.failure or NoOffset(remade, "topics deleted and made anew")

    # Committed offsets

    def _initialise(self) -> None:
        missing = {
            partition: position
            for partition, position in self._positions.items()
            if position.offset is None and position.reset is None and not position.revoking
        }
        if self._committed:
            inquiry, asked_for = self._committed
            if inquiry.done:
                self._committed = None
                self.failure = self.failure or inquiry.error
                if inquiry.error is None:
                    self._take_committed(inquiry, asked_for)
            elif all(self._positions.get(partition) is not position for partition, position in asked_for.items()):
                self._committed = None  # nobody waits for it any more
            else:
                inquiry.ask_if_due()
                return
            missing = {p: at for p, at in missing.items() if at.offset is None and at.reset is None}
        if not missing or self.failure is not None:  # the user has to hear of that first
            return
        if self._parts.group is None:
            self._fall_back(missing)
            return
        inquiry = CommittedInquiry(missing, self._parts)
        self._committed = inquiry, missing
        inquiry.ask_if_due()

    def _take_committed(self, inquiry: CommittedInquiry, asked_for: Mapping[TopicPartition, Position]) -> None:
        unset = {}
        for partition, position in asked_for.items():
            if position.offset is not None or position.reset is not None:
                continue  # somebody has sought meanwhile
            if self._positions.get(partition) is not position:
                continue  # it was taken away, perhaps given back since
            at = inquiry.found[partition]
            if at is None:
                unset[partition] = position
            else:
                position.move(at.offset, at.leader_epoch)
        self._fall_back(unset)

    def _fall_back(self, partitions: Mapping[TopicPartition, Position]) -> None:
        left: dict[TopicPartition, int | None] = {
            p: None for p, position in partitions.items() if not self.reset(position)
        }
        if left:
            self.failure = self.failure or NoOffset(left)

    # The log by time

    def _reset(self) -> None:
        under_way = set()
        for inquiry, asked_for in list(self._resets):
            inquiry.ask_if_due()
            self._drop_gone(inquiry, {partition: position for partition, (position, _) in asked_for.items()})
            for partition, (position, reset) in asked_for.items():
                found = inquiry.found.pop(partition, None)
                if found and position.reset is reset and self._positions.get(partition) is position:
                    position.move(found.offset)  # what was written there is not what was read before
            if inquiry.done:
                self._resets.remove((inquiry, asked_for))
                self.failure = self.failure or inquiry.error
                for position, reset in asked_for.values():
                    if inquiry.error is None and position.reset is reset:  # nothing is that young
                        position.look_up(LATEST_TIMESTAMP)
            else:
                under_way |= inquiry.open
        wanted = {
            partition: (position, position.reset)
            for partition, position in self._positions.items()
            if position.reset is not None and partition not in under_way
        }
        if wanted and self.failure is None:
            asked = {partition: self._timestamp(reset) for partition, (_, reset) in wanted.items()}
            inquiry = self.inquire(asked)
            self._resets.append((inquiry, wanted))
            inquiry.ask_if_due()

    def _drop_gone(self, inquiry: ByLeader, asked_for: Mapping[TopicPartition, Position]) -> None:
        """Nobody asks any more for what was taken away: it may never be answered."""
        inquiry.open -= {p for p, position in asked_for.items() if self._positions.get(p) is not position}

    def inquire(self, wanted: Mapping[TopicPartition, int]) -> LogInquiry:
        """Ask for offsets by timestamp; the caller calls its ``ask_if_due``."""
        return LogInquiry(wanted, self._parts)

    def _timestamp(self, reset: int | timedelta) -> int:
        return max(0, self._wall_ms() - reset // MS) if isinstance(reset, timedelta) else reset

    # Leaders that changed

    def _validate(self) -> None:
        for inquiry, asked_for in list(self._checks):
            inquiry.ask_if_due()
            self._drop_gone(inquiry, {partition: position for partition, (position, _) in asked_for.items()})
            if inquiry.done:
                self._checks.remove((inquiry, asked_for))
                failed = inquiry.error is not None and not isinstance(inquiry.error, UnsupportedVersion)
                for position, offset in asked_for.values():
                    if position.offset == offset and position.validating:
                        position.validating = False
                        if failed:
                            position.validated = -1
                if failed:
                    self.failure = self.failure or inquiry.error
        self._checked = self._metadata.version
        if self.failure is not None:
            return
        epochs, asked_for = {}, {}
        for partition, position in self._positions.items():
            leader = self._metadata.leader(partition)
            if leader is None or not position.known or position.validating or leader.epoch <= position.validated:
                continue
            first, position.validated = position.validated < 0, leader.epoch
            if position.epoch < 0 or (first and position.epoch == leader.epoch):
                continue  # nothing to hold against the log, or nothing that could be missing there
            assert position.offset is not None
            position.validating = True
            epochs[partition], asked_for[partition] = position.epoch, (position, position.offset)
        if epochs:
            inquiry = EpochInquiry(
                epochs,
                lambda p, epoch, end: self._ended(p, asked_for[p], epoch, end),
                self._parts,
            )
            self._checks.append((inquiry, asked_for))
            inquiry.ask_if_due()

    def _ended(self, partition: TopicPartition, asked: tuple[Position, int], epoch: int, end: int) -> None:
        position, offset = asked
        if position.offset != offset or not position.validating or self._positions.get(partition) is not position:
            return  # an answer about where it no longer is
        position.validating = False
        if end < offset:
            self.truncated(partition, position, epoch, end)
