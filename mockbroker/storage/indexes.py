"""The offset index and the time index of a segment, in Kafka's format. (Kafka rebuilds missing index files.)

Source: Kafka's LogSegment.append, OffsetIndex and TimeIndex.
"""

from __future__ import annotations

import struct
from dataclasses import field

from kwire.lazy_dataclass import dataclass

INDEX, TIME_INDEX = ".index", ".timeindex"
INTERVAL_BYTES = 4_096  # bytes of batches between two entries: index.interval.bytes
_OFFSET_ENTRY = struct.Struct(">ii")  # offset relative to the base offset, byte position in the segment
_TIME_ENTRY = struct.Struct(">qi")  # milliseconds since 1970, offset relative to the base offset


@dataclass(slots=True)
class Indexer:
    """The builder of a segment's two indexes; add the batches in order.

    Attributes:
        base_offset: base offset of the segment.
        index: content of the offset index so far.
    """

    base_offset: int
    index: bytearray = field(default_factory=bytearray)
    _times: bytearray = field(default_factory=bytearray)
    _unindexed: int = 0
    _latest: tuple[int, int] = (-1, 0)  # the largest timestamp so far, and its relative offset
    _indexed_time: int = -1  # the largest timestamp in ``_times``

    def add(self, last_offset: int, position: int, size: int, max_timestamp: int) -> None:
        """Add a batch to the indexes.

        Args:
            last_offset: offset of the last record of the batch.
            position: position of the batch in the segment file, in bytes.
            size: size of the batch in bytes.
            max_timestamp: largest timestamp in the batch, milliseconds since 1970.
        """
        if max_timestamp > self._latest[0]:
            self._latest = max_timestamp, last_offset - self.base_offset
        if self._unindexed > INTERVAL_BYTES:
            self.index += _OFFSET_ENTRY.pack(last_offset - self.base_offset, position)
            self._times += self._time_entry()
            self._indexed_time = self._latest[0]
            self._unindexed = 0
        self._unindexed += size

    def time_index(self) -> bytes:
        """Return the content of the time index of a segment that gets no further batches.

        Its last entry is the largest timestamp in the segment.
        """
        return bytes(self._times) + self._time_entry()

    def _time_entry(self) -> bytes:
        return _TIME_ENTRY.pack(*self._latest) if self._latest[0] > self._indexed_time else b""
