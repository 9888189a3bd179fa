"""Acknowledgement of records that a member has acquired. Source: Kafka's SharePartition.acknowledge."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from kwire import ErrorCode
from mockbroker.share.in_flight import (
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    NO_MEMBER,
    TERMINAL,
    InFlightBatch,
    RecordState,
    Run,
)
from mockbroker.share.share_partition import SharePartition

MERGE_FROM = 16  # runs of a batch from which adjacent runs with the same state are merged


class AcknowledgeType(IntEnum):
    """The type of an acknowledgement. Source: Kafka's AcknowledgeType.

    Attributes:
        GAP: the offset has no record for the client, for example because it is the offset of a control record.
        ACCEPT: the record was processed.
        RELEASE: the record can be delivered again.
        REJECT: the record was not processed, and must not be delivered again.
        RENEW: the member keeps the record, and the acquisition lock begins again.
    """

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


RENEW = AcknowledgeType.RENEW
STATES = {
    AcknowledgeType.GAP: ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: AVAILABLE,
    AcknowledgeType.REJECT: ARCHIVED,
}


class AcknowledgementBatch(NamedTuple):
    """Acknowledgements of consecutive offsets.

    Attributes:
        first: first offset.
        last: last offset.
        types: one AcknowledgeType number for all offsets, or one number for each offset.
    """

    first: int
    last: int
    types: Sequence[int]

    def runs(self, first: int, last: int) -> list[tuple[int, int, AcknowledgeType]]:
        """Return the longest ranges of offsets with the same acknowledgement type: first offset, last offset and type.

        Args:
            first: First offset to consider; offsets outside of this batch are ignored.
            last: Last offset to consider.
        """
        first, last = max(first, self.first), min(last, self.last)
        if len(self.types) == 1:
            return [(first, last, AcknowledgeType(self.types[0]))] if first <= last else []
        runs: list[tuple[int, int, AcknowledgeType]] = []
        for offset in range(first, last + 1):
            number = self.types[offset - self.first]
            if runs and runs[-1][2] == number:
                runs[-1] = runs[-1][0], offset, runs[-1][2]
            else:
                runs.append((offset, offset, AcknowledgeType(number)))
        return runs


class AcknowledgeError(NamedTuple):
    """The error code of an acknowledgement, and the error message."""

    error: ErrorCode
    message: str


_INVALID = ErrorCode.INVALID_RECORD_STATE
NOT_FOUND = AcknowledgeError(_INVALID, "Batch record not found. The request batch offsets are not found in the cache.")
FIRST_PAST = AcknowledgeError(
    ErrorCode.INVALID_REQUEST, "Batch record not found. The first offset in request is past acquired records."
)
LAST_PAST = AcknowledgeError(
    ErrorCode.INVALID_REQUEST, "Batch record not found. The last offset in request is past acquired records."
)
BATCH_NOT_ACQUIRED = AcknowledgeError(
    _INVALID, "The batch cannot be acknowledged. The batch is not in the acquired state."
)
NOT_OWNER_OF_BATCH = AcknowledgeError(_INVALID, "Member is not the owner of batch record")
OFFSET_NOT_ACQUIRED = AcknowledgeError(_INVALID, "The offset cannot be acknowledged. The offset is not acquired.")
NOT_OWNER_OF_OFFSET = AcknowledgeError(_INVALID, "Member is not the owner of offset")


class _Change(NamedTuple):
    """A state change of a run (consecutive records with the same state) that can be rolled back.

    Attributes:
        batch: The batch that contains the run.
        run: The run, which a later acknowledgement in the same request may split.
        first: First offset of the run at the time of the change.
        last: Last offset of the run at the time of the change.
    """

    batch: InFlightBatch
    run: Run
    first: int
    last: int


class _Acknowledgement:
    """The acknowledgements of one request for a share partition. If one acknowledgement is rejected, none takes effect.

    Args:
        partition: The share partition.
        member_id: Member id of the sender.
        locked_until: New end of the acquisition locks that the request renews, in seconds.
    """

    def __init__(self, partition: SharePartition, member_id: str, locked_until: float) -> None:
        self._partition = partition
        self._member_id = member_id
        self._locked_until = locked_until
        self.changes: list[_Change] = []

    def add(self, batch: AcknowledgementBatch) -> AcknowledgeError | None:
        """Acknowledge the records of a batch. Return None, or the error if the batch is rejected.

        After an error, the caller calls ``roll_back``.

        ``batch``: acknowledgements in the request.
        """
        in_flight = self._in_flight(batch)
        if isinstance(in_flight, AcknowledgeError):
            return in_flight
        for each in in_flight:
            if each.last < self._partition.start:
                continue  # the records were deleted from the log
            if error := self._add_in_flight(batch, each):
                return error
        return None

    def _in_flight(self, batch: AcknowledgementBatch) -> list[InFlightBatch] | AcknowledgeError:
        """Return the in-flight batches that contain the acknowledged offsets.

        Return an error if an offset is not in flight.

        ``batch``: acknowledgements in the request.
        """
        partition = self._partition
        floor = partition.batches.floor(batch.first)
        if floor is None and batch.first < partition.start <= batch.last:
            floor = partition.batches.floor(partition.start)
        if floor is None:
            return NOT_FOUND
        found = partition.batches.beginning_in(floor.first, batch.last)
        if found[-1].last < batch.first:
            return FIRST_PAST
        return LAST_PAST if batch.last > found[-1].last else found

    def _add_in_flight(self, batch: AcknowledgementBatch, in_flight: InFlightBatch) -> AcknowledgeError | None:
        whole = in_flight.whole
        if not in_flight.by_offset:
            if whole.member_id == NO_MEMBER:
                return BATCH_NOT_ACQUIRED
            if whole.member_id != self._member_id:
                return NOT_OWNER_OF_BATCH
        part = in_flight.first < batch.first or in_flight.last > batch.last
        if (
            not in_flight.by_offset
            and not part
            and len(batch.types) == 1
            and not in_flight.overlaps(self._partition.start)
        ):
            self._change(in_flight, whole, AcknowledgeType(batch.types[0]))
            return None
        in_flight.by_offset = True
        return self._add_offsets(batch, in_flight)

    def _add_offsets(self, batch: AcknowledgementBatch, in_flight: InFlightBatch) -> AcknowledgeError | None:
        for first, last, kind in batch.runs(max(in_flight.first, self._partition.start), in_flight.last):
            for run in in_flight.runs_between(first, last):
                if run.state is not ACQUIRED:
                    return OFFSET_NOT_ACQUIRED
                if run.member_id != self._member_id:
                    return NOT_OWNER_OF_OFFSET
                self._change(in_flight, run, kind)
        return None

    def _change(self, in_flight: InFlightBatch, run: Run, kind: AcknowledgeType) -> None:
        partition = self._partition
        if kind is RENEW:
            run.locked_until = self._locked_until
            partition.next_lock_end = min(partition.next_lock_end, self._locked_until)
            return
        self.changes.append(_Change(in_flight, run, run.first, run.last))
        state = STATES[kind]
        if state is AVAILABLE and run.deliveries >= partition.max_deliveries:
            state = ARCHIVED
        run.state, run.member_id = state, NO_MEMBER
        if state in TERMINAL:
            partition.count_complete(run)

    def roll_back(self) -> None:
        """Undo the state changes of all acknowledged records: the member has acquired the records, as before.

        Renewed locks remain renewed.
        """
        for change in self.changes:
            for run in change.batch.runs_between(change.first, change.last):
                if run.state in TERMINAL:
                    self._partition.count_complete(run, -1)
                run.state, run.member_id = ACQUIRED, self._member_id


def acknowledge(
    partition: SharePartition,
    member_id: str,
    batches: Sequence[AcknowledgementBatch],
    locked_until: float,
    now: float,
) -> AcknowledgeError | None:
    """Acknowledge records.

    If one of the batches is rejected, or the share coordinator returns an error, nothing changes except renewed locks.
    Batches before the start offset are ignored.

    Args:
        partition: The share partition.
        member_id: Member id of the sender.
        batches: The acknowledgements, with valid types.
        locked_until: New end of the acquisition locks that the request renews, in seconds.
        now: The broker's time in seconds.

    Returns:
        The error; None if all batches are acknowledged.
    """
    acknowledgement = _Acknowledgement(partition, member_id, locked_until)
    error: AcknowledgeError | None = None
    for batch in batches:
        if batch.last < partition.start:
            continue  # the records were deleted from the log, or were acknowledged before
        if error := acknowledgement.add(batch):
            break
    changes = acknowledgement.changes
    if error is None and changes and (code := partition.store([change.run for change in changes], now)):
        error = AcknowledgeError(code, "")
    if error is not None:
        acknowledgement.roll_back()
        return error
    if changes:
        if any(change.run.state is AVAILABLE for change in changes):
            partition.may_have_available = True
        for in_flight in dict.fromkeys(change.batch for change in changes):
            if len(in_flight.runs) >= MERGE_FROM:
                in_flight.merge()
        partition.move_start()
    return None
