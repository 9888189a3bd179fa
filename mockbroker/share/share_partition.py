"""A share partition: the available, acquired, acknowledged and archived records of a partition, for one share group.

The leader of a partition has a share partition for each group that reads it. A share partition uses no log and no
clock: its callers pass batches and times. Changes are written to the share coordinator before they are confirmed.
Source: Kafka's SharePartition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import ceil, inf

from kwire import ErrorCode
from kwire.lazy_dataclass import dataclass
from mockbroker.share.in_flight import (
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    NO_MEMBER,
    TERMINAL,
    InFlightBatch,
    InFlightBatches,
    RecordState,
    Run,
)
from mockbroker.share.state import ShareState, StateBatch, StateKey
from mockbroker.share.states import StateChange

Write = Callable[[StateKey, StateChange, float], ErrorCode]  # writes a change to the share coordinator


@dataclass(slots=True)
class GapWindow:
    """A range of offsets with gaps: the stored state does not contain some offsets, but contains later offsets.

    The records at the missing offsets were not acquired or not acknowledged before the failover, so they must be
    delivered.

    Attributes:
        first: First offset that may be in a gap.
        last: End offset of the share partition after it was loaded. The window is discarded when newer records are
            acquired.
    """

    first: int
    last: int


class SharePartition:
    """The state of a partition in a share group.

    Args:
        key: group id, topic id and partition.
        leader_epoch: leader epoch of the partition.
        max_deliveries: value of ``group.share.delivery.count.limit``.
        max_in_flight: value of ``group.share.partition.max.record.locks``.
        write: function that writes a change to the share coordinator. Its arguments are the share partition, the change
            and the broker's time in seconds; it returns NONE or the error.

    Attributes:
        state_epoch: state epoch of the stored state, which each change contains.
        throttle_from: number of deliveries from which on fewer records are acquired at a time.
        start: share-partition start offset: the delivery of all earlier records is complete.
        end: share-partition end offset: the last in-flight offset; the next offset to acquire if no record is in
            flight.
        batches: the in-flight batches.
        complete_count: number of records at or after ``start`` whose delivery is complete.
        may_have_available: whether an in-flight record may be available.
        gap: the gap window; None without gaps.
        next_lock_end: lower bound of the ends of the acquisition locks in seconds; inf if no record is acquired.
    """

    __slots__ = (
        "_write",
        "batches",
        "complete_count",
        "end",
        "gap",
        "key",
        "leader_epoch",
        "max_deliveries",
        "max_in_flight",
        "may_have_available",
        "next_lock_end",
        "start",
        "state_epoch",
        "throttle_from",
    )

    def __init__(
        self, key: StateKey, leader_epoch: int, *, max_deliveries: int, max_in_flight: int, write: Write
    ) -> None:
        self.key = key
        self.leader_epoch = leader_epoch
        self.max_deliveries = max_deliveries
        self.max_in_flight = max_in_flight
        self.throttle_from = max(2, ceil(max_deliveries / 2))  # deliveries after which fewer records are acquired
        self._write = write
        self.state_epoch = 0
        self.start = 0
        self.end = 0
        self.batches = InFlightBatches()
        self.complete_count = 0
        self.may_have_available = False
        self.gap: GapWindow | None = None
        self.next_lock_end = inf

    def load(self, state: ShareState, start_offset: int) -> None:
        """Restore the share partition from its stored state.

        Args:
            state: The stored state.
            start_offset: The stored start offset; if none is stored, the offset that ``share.auto.offset.reset``
                selects.
        """
        self.state_epoch = state.state_epoch
        self.start = self.end = start_offset
        previous = start_offset - 1
        gap_start = None
        for first, last, number, deliveries in state.batches:
            if first > previous + 1 and gap_start is None:
                gap_start = previous + 1
            previous = last
            run = Run(first, last, RecordState(number), deliveries)
            self.batches.add(InFlightBatch(run))
            if run.state in TERMINAL:
                self.complete_count += run.size
        if not len(self.batches):
            return
        self.may_have_available = True
        self.end = self.batches.last.last
        if gap_start is not None:
            self.gap = GapWindow(gap_start, self.end)
        self.move_start()

    # --- which records to fetch ---

    @property
    def in_flight_count(self) -> int:
        """The number of in-flight records, which ``group.share.partition.max.record.locks`` limits."""
        return self.end - self.start + 1 if len(self.batches) else 0

    @property
    def has_gaps(self) -> bool:
        """Whether there may be gaps. This is so until the first newer record is acquired after the state was loaded."""
        return self.gap is not None and self.gap.last == self.end

    def can_acquire(self) -> bool:
        """Return whether records may be acquired.

        This is so if an in-flight offset is available or in a gap of the stored state, or if the number of records in
        flight is below its maximum.
        """
        return self.next_fetch_offset() != self.end + 1 or self.in_flight_count < self.max_in_flight

    def next_fetch_offset(self) -> int:
        """Return the offset from which the leader must read the log for the next acquisition.

        This is the first in-flight offset that is available or missing in the stored state. If no in-flight offset is
        available or missing, it is the first offset after the in-flight records.
        """
        if not len(self.batches) or self.start > self.batches.last.last:
            self.may_have_available = False
            return self.end
        if self.may_have_available:
            found = self._first_available()
            if found is not None:
                return found
            self.may_have_available = False
        return self.end + 1

    def _first_available(self) -> int | None:
        """Return the first in-flight offset that is available or in a gap; None without such an offset."""
        gap_start = self.gap.first if self.has_gaps and self.gap is not None else None
        for batch in self.batches:
            if gap_start is not None:
                if batch.first > gap_start:
                    return gap_start
                gap_start = max(batch.last + 1, gap_start)
            for run in batch.runs:
                if run.state is AVAILABLE:
                    return run.first
        return None

    def narrow_gap(self, offset: int) -> None:
        """Record that there is no gap before ``offset``, because the records before it were acquired.

        If records after the gap window were acquired, the window is discarded.
        """
        if self.gap is None:
            return
        if self.gap.last == self.end and offset <= self.gap.last:
            self.gap.first = offset
        else:
            self.gap = None

    # --- changes of states ---

    def lock(self, run: Run, member_id: str, until: float) -> None:
        """Acquire the available records of a run for a member.

        Their delivery counts are incremented, and the acquisition lock is set.

        Args:
            run: the records.
            member_id: member id.
            until: end of the acquisition lock, in seconds.
        """
        run.state = ACQUIRED
        run.deliveries += 1
        run.member_id = member_id
        run.locked_until = until
        self.next_lock_end = min(self.next_lock_end, until)

    def released_state(self, run: Run) -> RecordState:
        """Return the state that acquired records get when a member releases them.

        The state is ARCHIVED if the records have reached the delivery limit or are before the start offset; else
        AVAILABLE.

        ``run``: the records.
        """
        if run.last < self.start or run.deliveries >= self.max_deliveries:
            return ARCHIVED
        return AVAILABLE

    def store(self, runs: Iterable[Run], now: float) -> ErrorCode:
        """Write the states of changed records to the share coordinator.

        Return NONE, or the error of the share coordinator, see ``ShareStates.write``.

        Args:
            runs: the changed records.
            now: the broker's time in seconds.
        """
        batches = [StateBatch(run.first, run.last, int(run.state), run.deliveries) for run in runs]
        change = StateChange(self.state_epoch, self.leader_epoch, self.start, self.complete_count, merged(batches))
        return self._write(self.key, change, now)

    def count_complete(self, run: Run, sign: int = 1) -> None:
        """Add the number of records in a run to ``complete_count``. Records before the start offset are not counted.

        Args:
            run: Records with the same state.
            sign: 1 to add the number, -1 to subtract it.
        """
        self.complete_count += sign * max(0, run.last - max(self.start, run.first) + 1)

    def _set_released(self, run: Run) -> None:
        run.state = self.released_state(run)
        run.member_id = NO_MEMBER
        if run.state is AVAILABLE:
            self.may_have_available = True
        else:
            self.count_complete(run)

    def _acquired_runs(self) -> Iterable[tuple[InFlightBatch, Run]]:
        """Yield the acquired runs with their batches. A run that contains the start offset is split there."""
        for batch in self.batches:
            if batch.overlaps(self.start) and any(run.state is ACQUIRED for run in batch.runs):
                batch.by_offset = True
                batch.runs_between(self.start, batch.last)
            for run in batch.runs:
                if run.state is ACQUIRED:
                    yield batch, run

    def release_member(self, member_id: str, now: float) -> ErrorCode:
        """Release all records that a member has acquired, because its share session ends.

        Return NONE, or the error of the share coordinator. After an error, the records remain acquired until their
        locks expire.

        Args:
            member_id: Member id.
            now: The broker's time in seconds.
        """
        undo: list[tuple[Run, str]] = []
        for _, run in self._acquired_runs():
            if run.member_id == member_id:
                undo.append((run, run.member_id))
                self._set_released(run)
        if not undo:
            return ErrorCode.NONE
        if error := self.store([run for run, _ in undo], now):
            for run, owner in undo:
                if run.state is ARCHIVED:
                    self.count_complete(run, -1)
                run.state, run.member_id = ACQUIRED, owner
            return error
        self.move_start()
        return ErrorCode.NONE

    def expire_locks(self, now: float) -> dict[str, int]:
        """Release the records whose acquisition lock has expired.

        As in Kafka, they are released even if the share coordinator cannot store the change.

        ``now``: the broker's time in seconds.

        Returns:
            Numbers of records: ``released`` for records that can be acquired again, ``archived`` for records that
            cannot.
        """
        released: list[Run] = []
        counts: dict[str, int] = {}
        self.next_lock_end = inf
        for _, run in self._acquired_runs():
            if run.locked_until > now:
                self.next_lock_end = min(self.next_lock_end, run.locked_until)
            else:
                self._set_released(run)
                released.append(run)
                name = "released" if run.state is AVAILABLE else "archived"
                counts[name] = counts.get(name, 0) + run.last - run.first + 1
        if released:
            self.store(released, now)
            self.move_start()
        return counts

    # --- the start offset ---

    def move_start(self) -> bool:
        """Advance the start offset past the records whose delivery is complete.

        Return whether the start offset changed.
        """
        if not self._can_move_start():
            return False
        complete, count, last = 0, 0, None  # complete batches and records, and the last complete offset
        for batch in self.batches:
            if self.has_gaps and self.gap is not None and batch.last >= self.gap.first:
                break
            for run in batch.runs:
                if run.state not in TERMINAL:
                    break
                last = run.last
                count += max(0, run.last - max(self.start, run.first) + 1)
            else:
                complete += 1
                continue
            break
        if last is None:
            return False
        if complete == len(self.batches):
            self.start = self.end = max(self.start, last + 1)  # the log start offset may be later
            self.batches.clear()
            self.complete_count = 0
            return True
        self.batches.remove_first(complete)
        first = self.batches.first
        self.start = max(self.start, last + 1 if first.first <= last else first.first)
        if self.has_gaps and self.gap is not None and first.first > last:
            self.start = min(self.gap.first, self.start)
        self.complete_count -= count
        return True

    def _can_move_start(self) -> bool:
        batch = self.batches.floor(self.start)
        if batch is None:  # nothing is in flight, or the start offset is in a gap
            return False
        if not batch.by_offset and len(batch.runs) == 1:
            return batch.whole.state in TERMINAL
        runs = batch.runs_between(self.start, self.start)
        return bool(runs) and runs[0].state in TERMINAL

    def move_start_to_log_start(self, log_start: int) -> None:
        """Move the start offset forward to the log start offset, because earlier records were deleted from the log.

        Available records before the new start offset are archived. Nothing happens if the log start offset is not later
        than the start offset.
        """
        if log_start <= self.start:
            return
        if not len(self.batches):
            self.start = self.end = log_start
            self.complete_count = 0
            return
        removed = sum(
            max(0, min(run.last, log_start - 1) - max(run.first, self.start) + 1)
            for batch in self.batches
            for run in batch.runs
            if run.state in TERMINAL
        )
        if self.archive(self.start, log_start - 1, AVAILABLE, list(self.batches), counts=False):
            self.may_have_available = True
        self.start = log_start
        self.complete_count -= removed
        self.end = max(self.end, self.start)

    def archive(
        self, first: int, last: int, state: RecordState, batches: Sequence[InFlightBatch], *, counts: bool
    ) -> bool:
        """Archive the records between two offsets that are in a certain state.

        Args:
            first: First offset of the range.
            last: Last offset of the range.
            state: State of the records to archive; records in other states do not change.
            batches: The in-flight batches to search.
            counts: Whether to add the archived records to ``complete_count``.

        Returns: whether at least one record was archived.
        """
        any_archived = False
        for batch in batches:
            if batch.first > last or batch.last < first:
                continue
            if not batch.by_offset and (batch.first < first or batch.last > last):
                if batch.whole.state is not state:
                    continue
                batch.by_offset = True
            for run in batch.runs_between(max(first, batch.first), min(last, batch.last)):
                if run.state is state:
                    run.state, run.member_id = ARCHIVED, NO_MEMBER
                    any_archived = True
                    if counts:
                        self.complete_count += run.size
        return any_archived


def merged(batches: Sequence[StateBatch]) -> list[StateBatch]:
    """Return batches in which adjacent batches with the same state are merged.

    ``batches``: the batches, in ascending order.
    """
    result: list[StateBatch] = []
    for batch in batches:
        if result and result[-1].last + 1 == batch.first and result[-1][2:] == batch[2:]:
            result[-1] = result[-1]._replace(last=batch.last)
        else:
            result.append(batch)
    return result
