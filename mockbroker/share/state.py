"""The durable state of a share partition, as the share coordinator stores it. Source: Kafka's ShareGroupOffset."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from heapq import heappop, heappush
from typing import NamedTuple
from uuid import UUID

from kwire.json.objects import uuid_text
from kwire.lazy_dataclass import dataclass

UNINITIALIZED = -1  # start offset of a partition that no leader has read yet; delivery complete count when unknown


class StateKey(NamedTuple):
    """The identity of a share partition.

    Attributes:
        group_id: Group id.
        topic_id: Topic id.
        partition: Partition number.
    """

    group_id: str
    topic_id: UUID
    partition: int

    @property
    def coordinator_key(self) -> str:
        """The key of the share partition in FindCoordinator.

        The key selects the partition of ``__share_group_state`` too.
        """
        return f"{self.group_id}:{uuid_text(self.topic_id)}:{self.partition}"


class StateBatch(NamedTuple):
    """Consecutive offsets with the same state.

    Attributes:
        first: First offset.
        last: Last offset.
        state: 0 available, 2 acknowledged, 4 archived. The state acquired (1) is never stored.
        deliveries: Number of deliveries.
    """

    first: int
    last: int
    state: int
    deliveries: int


@dataclass(slots=True)
class ShareState:
    """The durable state of a share partition.

    Attributes:
        state_epoch: epoch of the initialization; a write with an older epoch is fenced.
        start_offset: share-partition start offset; UNINITIALIZED until the first leader determines it.
        snapshot_epoch: number of the last snapshot. The first initialization writes snapshot 0; later initializations
            continue the count.
        leader_epoch: leader epoch of the last leader that read the state.
        complete_count: number of records at or after the start offset whose delivery is complete; UNINITIALIZED if
            unknown.
        created_ms: time of the initialization, or of the last snapshot that followed the maximum number of updates, in
            milliseconds since 1970.
        written_ms: time of the last snapshot, in milliseconds since 1970.
        updates: number of update records since the last snapshot. As in Kafka, it is -1 after the first initialization,
            and a later initialization does not change it.
    """

    state_epoch: int
    start_offset: int
    snapshot_epoch: int = 0
    leader_epoch: int = 0
    complete_count: int = UNINITIALIZED
    created_ms: int = 0
    written_ms: int = 0
    updates: int = -1
    _batches: list[StateBatch] = field(default_factory=list, repr=False)
    _added: int = 0  # batches at the end of the list that are not combined with the earlier ones

    @property
    def batches(self) -> list[StateBatch]:
        """The states of the offsets from the start offset on, without overlaps, in the order of the offsets."""
        if self._added or (self._batches and self._batches[0].first < self.start_offset):
            self._batches = combined(self._batches, self.start_offset)
            self._added = 0
        return self._batches

    def add(self, batches: Iterable[StateBatch]) -> None:
        """Add newer states of offsets. Reading ``batches`` combines them with the earlier states."""
        before = len(self._batches)
        self._batches += batches
        self._added += len(self._batches) - before


def combined(batches: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """Return batches without overlaps, in the order of the offsets.

    Where batches overlap, the one with the higher delivery count wins, then the one with the higher state. Adjacent
    batches with the same state are merged. Source: Kafka's PersisterStateBatchCombiner.

    Args:
        batches: batches in any order.
        start_offset: share-partition start offset; earlier offsets are removed. UNINITIALIZED to remove none.
    """
    waiting = sorted(batch for batch in batches if batch.last >= start_offset)
    result: list[StateBatch] = []
    open_batches: list[tuple[int, int, int]] = []  # heap of negative delivery count, negative state, last offset
    offset = 0
    index = 0
    while index < len(waiting) or open_batches:
        if not open_batches:
            offset = max(waiting[index].first, start_offset)
        while index < len(waiting) and waiting[index].first <= offset:
            heappush(open_batches, (-waiting[index].deliveries, -waiting[index].state, waiting[index].last))
            index += 1
        count, state, last = open_batches[0]
        if last < offset:
            heappop(open_batches)
            continue
        until = last if index == len(waiting) else min(last, waiting[index].first - 1)
        _append(result, StateBatch(offset, until, -state, -count))
        offset = until + 1
    return result


def _append(batches: list[StateBatch], batch: StateBatch) -> None:
    """Append ``batch`` to a list.

    If ``batch`` continues the last batch of the list with the same state, extend the last batch instead.
    """
    if batches:
        last = batches[-1]
        if last.last + 1 == batch.first and last[2:] == batch[2:]:
            batches[-1] = last._replace(last=batch.last)
            return
    batches.append(batch)
