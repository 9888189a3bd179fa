"""Which leader wrote what: the epochs of a partition and the offsets at which they began.

Source: Kafka's LeaderEpochFileCache.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

UNKNOWN = -1, -1


class LeaderEpochs:
    """``entries``: epochs and their first offsets, both growing."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int]] = []

    def begin(self, epoch: int, offset: int) -> None:
        """A leader begins at this offset; epochs in which nothing was written are forgotten."""
        while self.entries and (self.entries[-1][0] >= epoch or self.entries[-1][1] >= offset):
            self.entries.pop()
        self.entries.append((epoch, offset))

    def put_back(self, written: Iterable[tuple[int, int]], epoch: int, end: int) -> None:
        """Epochs and base offsets of the batches that there are, in order; ``epoch``: the one that has begun last."""
        self.entries.clear()
        for each, offset in written:
            if not self.entries or each > self.entries[-1][0]:
                self.begin(each, offset)
        if not self.entries or epoch > self.entries[-1][0]:
            self.begin(epoch, end)

    def end_of(self, epoch: int, end: int) -> tuple[int, int]:
        """The largest epoch up to this one, and the offset behind what was written in it; ``end``: of the log.

        (-1, -1) if the epoch is larger than any that is known.
        """
        if epoch < 0:
            return UNKNOWN
        after = bisect_right(self.entries, epoch, key=lambda entry: entry[0])
        if after == len(self.entries):
            return (epoch, end) if self.entries and self.entries[-1][0] == epoch else UNKNOWN
        begun = self.entries[after][1]
        return (self.entries[after - 1][0], begun) if after else (epoch, begun)

    def of(self, offset: int) -> int:
        """The epoch in which an offset was written, -1 if that is not known."""
        after = bisect_right(self.entries, offset, key=lambda entry: entry[1])
        return self.entries[after - 1][0] if after else -1
