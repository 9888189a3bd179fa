"""The in-flight records of a share partition: batches of offsets, divided into runs with the same state.

Kafka keeps one state per batch, and switches to one state per offset when only a part of the batch changes. Here a
batch is a list of runs (consecutive offsets with the same state), so that thousands of offsets need few objects. Some
rules depend on whether Kafka has one state per offset; ``by_offset`` records this.

Source: Kafka's InFlightBatch and InFlightState.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from enum import IntEnum

from kwire.lazy_dataclass import dataclass

NO_MEMBER = ""


class RecordState(IntEnum):
    """The state of a record, with its number in ``__share_group_state``. Source: Kafka's RecordState.

    Attributes:
        AVAILABLE: a member can acquire the record.
        ACQUIRED: a member has acquired the record, until its acquisition lock ends.
        ACKNOWLEDGED: a member has accepted the record. It is not delivered again.
        ARCHIVED: the record was rejected, was delivered too often, or cannot be delivered. It is not delivered again.
    """

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


AVAILABLE = RecordState.AVAILABLE
ACQUIRED = RecordState.ACQUIRED
ARCHIVED = RecordState.ARCHIVED
TERMINAL = frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})


@dataclass(slots=True)
class Run:
    """Consecutive offsets with the same state.

    Attributes:
        first: First offset.
        last: Last offset.
        state: State of the records.
        deliveries: Number of deliveries.
        member_id: Id of the member that has acquired the records; NO_MEMBER if they are not acquired.
        locked_until: End of the acquisition lock in seconds; meaningful only for acquired records.
    """

    first: int
    last: int
    state: RecordState
    deliveries: int
    member_id: str = NO_MEMBER
    locked_until: float = 0.0

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def split_before(self, offset: int) -> Run:
        """Split the run at ``offset``.

        Shorten the run to the offsets before ``offset``, and return a new run with ``offset`` and all later offsets.
        """
        rest = Run(offset, self.last, self.state, self.deliveries, self.member_id, self.locked_until)
        self.last = offset - 1
        return rest


class InFlightBatch:
    """A batch of in-flight offsets.

    Args:
        run: a run with all offsets of the batch.

    Attributes:
        first: first offset.
        last: last offset.
        runs: the runs, in order, without gaps between them.
        by_offset: whether Kafka keeps a state for each offset of the batch.
    """

    __slots__ = ("by_offset", "first", "last", "runs")

    def __init__(self, run: Run) -> None:
        self.first = run.first
        self.last = run.last
        self.runs = [run]
        self.by_offset = False

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    @property
    def whole(self) -> Run:
        """The only run of a batch. The batch must not have several runs."""
        return self.runs[0]

    def overlaps(self, offset: int) -> bool:
        """Return whether the batch contains ``offset``, and begins before ``offset``."""
        return self.first < offset <= self.last

    def runs_between(self, first: int, last: int) -> list[Run]:
        """Return the runs with the offsets from ``first`` to ``last``. Runs that cross these limits are split."""
        self._split(first)
        self._split(last + 1)
        begin = bisect_left(self.runs, first, key=_first)
        return self.runs[begin : bisect_right(self.runs, last, begin, key=_first)]

    def _split(self, offset: int) -> None:
        """Split the run that contains ``offset``, so that a run begins at ``offset``.

        Do nothing if a run already begins there.
        """
        if not self.first < offset <= self.last:
            return
        index = bisect_right(self.runs, offset, key=_first) - 1
        run = self.runs[index]
        if run.first < offset:
            self.runs.insert(index + 1, run.split_before(offset))

    def merge(self) -> None:
        """Merge adjacent runs with the same state. Runs that were returned earlier must not be used afterwards."""
        merged = [self.runs[0]]
        for run in self.runs[1:]:
            last = merged[-1]
            if (
                run.state is last.state
                and run.deliveries == last.deliveries
                and run.member_id == last.member_id
                and (run.locked_until == last.locked_until or run.state is not ACQUIRED)
            ):
                last.last = run.last
            else:
                merged.append(run)
        self.runs = merged


class InFlightBatches:
    """The in-flight batches of a share partition, in the order of their offsets."""

    __slots__ = ("_batches",)

    def __init__(self) -> None:
        self._batches: list[InFlightBatch] = []

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self._batches)

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def first(self) -> InFlightBatch:
        return self._batches[0]

    @property
    def last(self) -> InFlightBatch:
        return self._batches[-1]

    def add(self, batch: InFlightBatch) -> None:
        """Add a batch whose offsets are not in flight yet."""
        if not self._batches or self._batches[-1].last < batch.first:
            self._batches.append(batch)
        else:
            self._batches.insert(bisect_left(self._batches, batch.first, key=_batch_first), batch)

    def floor(self, offset: int) -> InFlightBatch | None:
        """Return the last batch that begins at or before an offset; None if all batches begin later."""
        index = bisect_right(self._batches, offset, key=_batch_first) - 1
        return self._batches[index] if index >= 0 else None

    def beginning_in(self, first: int, last: int) -> list[InFlightBatch]:
        """Return the batches whose first offset is between ``first`` and ``last``, both included."""
        begin = bisect_left(self._batches, first, key=_batch_first)
        return self._batches[begin : bisect_right(self._batches, last, begin, key=_batch_first)]

    def remove_first(self, count: int) -> None:
        """Remove the first ``count`` batches."""
        del self._batches[:count]

    def clear(self) -> None:
        """Remove all batches."""
        self._batches.clear()


def _first(run: Run) -> int:
    return run.first


def _batch_first(batch: InFlightBatch) -> int:
    return batch.first
