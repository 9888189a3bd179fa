"""The leader epochs of a partition and their first offsets.

Source: Kafka's LeaderEpochFileCache.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

UNKNOWN = -1, -1


class LeaderEpochs:
    """The leader epochs of a partition, each with the offset at which it begins.

    Attributes:
        entries: pairs of epoch and first offset, both increasing.
    """

    def __init__(self) -> None:
        self.entries: list[tuple[int, int]] = []

    def begin(self, epoch: int, offset: int) -> None:
        """Begin a leader epoch at an offset. Remove entries of the same or a later epoch, and epochs without
        records.
        """
        while self.entries and (self.entries[-1][0] >= epoch or self.entries[-1][1] >= offset):
            self.entries.pop()
        self.entries.append((epoch, offset))

    def restore(self, batches: Iterable[tuple[int, int]], epoch: int, end: int) -> None:
        """Set the epochs of a log that was read from disk.

        Args:
            batches: leader epoch and base offset of each batch, in order.
            epoch: the current leader epoch.
            end: log end offset.
        """
        self.entries.clear()
        for batch_epoch, offset in batches:
            if not self.entries or batch_epoch > self.entries[-1][0]:
                self.begin(batch_epoch, offset)
        if not self.entries or epoch > self.entries[-1][0]:
            self.begin(epoch, end)

    def truncate_from_start(self, start: int) -> None:
        """Remove the epochs that end at or before the log start offset ``start``.

        The first remaining epoch begins at ``start``.
        """
        after = bisect_right(self.entries, start, key=lambda entry: entry[1])
        if after:
            self.entries[:after] = [(self.entries[after - 1][0], start)]

    def end_of(self, epoch: int, end: int) -> tuple[int, int]:
        """Return the largest known epoch that is at most ``epoch``, and its end offset, as OffsetForLeaderEpoch does.

        Return (-1, -1) if ``epoch`` is negative or newer than all known epochs. If ``epoch`` is older than all known
        epochs, return ``epoch`` itself and the first offset of the oldest known epoch.

        Args:
            epoch: the requested epoch.
            end: log end offset.
        """
        if epoch < 0:
            return UNKNOWN
        after = bisect_right(self.entries, epoch, key=lambda entry: entry[0])
        if after == len(self.entries):
            return (epoch, end) if self.entries and self.entries[-1][0] == epoch else UNKNOWN
        next_start = self.entries[after][1]
        return (self.entries[after - 1][0], next_start) if after else (epoch, next_start)

    def of(self, offset: int) -> int:
        """Return the leader epoch in which the record at ``offset`` was appended; -1 if it is unknown."""
        after = bisect_right(self.entries, offset, key=lambda entry: entry[1])
        return self.entries[after - 1][0] if after else -1
