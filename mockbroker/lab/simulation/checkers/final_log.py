"""The records of all partitions, as read at the end of a run."""

from __future__ import annotations

from collections.abc import Mapping

from mockbroker.lab.simulation.history import EARLIEST, READ_COMMITTED, READ_UNCOMMITTED, History, Place, Write

Log = dict[Place, dict[int, bytes]]  # partition -> offset -> value


class FinalLog:
    """The records at the end of a run.

    Args:
        history: history of the run.

    Attributes:
        history: history of the run.
        all: records that a read_uncommitted reader receives: partition -> offset -> value.
        committed: records that a read_committed reader receives: partition -> offset -> value.
        writes: value -> the batch in which it was sent.
        starts: partition -> start of the log, if records were deleted.
    """

    def __init__(self, history: History) -> None:
        self.history = history
        self.all: Log = {}
        self.committed: Log = {}
        self.writes: Mapping[bytes, Write] = {value: write for write in history.writes for value in write.values}
        for read in history.reads:
            if read.final:
                log = self.all if read.isolation == READ_UNCOMMITTED else self.committed
                log.setdefault(read.place, {}).update(read.records)

        self.starts: dict[Place, int] = {}
        for listing in history.listings:
            if listing.timestamp == EARLIEST and listing.offset > self.starts.get(listing.place, 0):
                self.starts[listing.place] = listing.offset

    def is_deleted(self, place: Place, offset: int) -> bool:
        """Return whether a record may be missing, because records before the start of the log were deleted.

        Args:
            place: partition of the record.
            offset: offset of the record; -1 if it is unknown.
        """
        return offset < self.starts.get(place, 0)

    def of(self, isolation: int) -> Log:
        """Return the records that a reader receives at the end of the run: partition -> offset -> value.

        ``isolation``: READ_COMMITTED or READ_UNCOMMITTED.
        """
        return self.committed if isolation == READ_COMMITTED else self.all

    def places(self, *, committed: bool) -> dict[bytes, tuple[Place, int]]:
        """Return the partition and offset of each value: value -> (partition, offset).

        If the log contains a value twice, the last offset is returned.

        Args:
            committed: whether to include only records that a read_committed reader receives.
        """
        log = self.committed if committed else self.all
        return {value: (place, offset) for place, records in log.items() for offset, value in records.items()}


def named(place: Place) -> str:
    """Return ``place``, a partition, as text, such as ``t0-1``."""
    return f"{place[0]}-{place[1]}"
