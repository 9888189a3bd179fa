"""The two files beside a segment in which Kafka looks up offsets and times, and rebuilds if they are not there.

Source: Kafka's LogSegment.append, OffsetIndex and TimeIndex.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

INDEX, TIME_INDEX = ".index", ".timeindex"
EVERY = 4_096  # bytes of batches between two entries, index.interval.bytes
_PLACE = struct.Struct(">ii")  # offset from the base of the segment on, byte of the file
_TIME = struct.Struct(">qi")  # milliseconds since 1970, offset from the base on


@dataclass(slots=True)
class Indexer:
    """Takes the batches of a segment in order, and says what its indexes are."""

    base_offset: int
    index: bytearray = field(default_factory=bytearray)
    _times: bytearray = field(default_factory=bytearray)
    _unindexed: int = 0
    _latest: tuple[int, int] = (-1, 0)  # the largest timestamp so far, and where
    _told: int = -1  # the largest timestamp that is in ``_times``

    def add(self, last_offset: int, position: int, size: int, max_timestamp: int) -> None:
        """A batch of so many bytes stands at this byte of the segment."""
        if max_timestamp > self._latest[0]:
            self._latest = max_timestamp, last_offset - self.base_offset
        if self._unindexed > EVERY:
            self.index += _PLACE.pack(last_offset - self.base_offset, position)
            self._times += self._time()
            self._told = self._latest[0]
            self._unindexed = 0
        self._unindexed += size

    def time_index(self) -> bytes:
        """As when the segment is closed: the largest timestamp comes last."""
        return bytes(self._times) + self._time()

    def _time(self) -> bytes:
        return _TIME.pack(*self._latest) if self._latest[0] > self._told else b""
