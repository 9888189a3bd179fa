"""Batches of the offsets topic, read in order, into what holds at the end and what waits for its transaction.

Source: Kafka's CoordinatorLoaderImpl and OffsetMetadataManager.replay.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from kwire.errors import DecodeError
from kwire.records.batch import Batch
from kwire.records.control import ControlType, control_records

# Keys of offsets were written with type 0 before they were with type 1; the rest of them is the same.
_OLD_TYPE, _TYPE = b"\0\0", b"\0\1"


class Kept(NamedTuple):
    """The value of a record, and the offset at which it stands in the log."""

    value: bytes
    offset: int


@dataclass(slots=True)
class Replay:
    """``live``: the last value of each key that has one; ``pending``: by producer id, those of open transactions.

    Keys and values are as they are stored.
    """

    live: dict[bytes, Kept] = field(default_factory=dict)
    pending: dict[int, dict[bytes, Kept]] = field(default_factory=dict)

    @property
    def values(self) -> dict[bytes, bytes]:
        return {key: kept.value for key, kept in self.live.items()}

    def add(self, batch: Batch) -> None:
        """The next batch of the log, whose checksum is right. Raises: DecodeError; then nothing of it has counted."""
        if batch.control:
            for each in list(control_records(batch)):
                if each.marker is not None:
                    self._end(batch.producer_id, committed=each.type == ControlType.COMMIT)
            return
        changes: list[tuple[bytes, bytes | None, int]] = []
        for record in batch.records(verify_crc=False):
            if record.key is None:
                raise DecodeError("a record without a key", message="__consumer_offsets", offset=batch.position)
            key = _TYPE + record.key[2:] if record.key.startswith(_OLD_TYPE) else record.key
            changes.append((key, record.value, record.offset))
        self._change(changes, batch.producer_id)

    def _change(self, changes: Iterable[tuple[bytes, bytes | None, int]], producer_id: int) -> None:
        for key, value, offset in changes:
            if value is None:
                self.live.pop(key, None)
                for held in self.pending.values():
                    held.pop(key, None)
            elif producer_id < 0:
                self.live[key] = Kept(value, offset)
            else:
                self.pending.setdefault(producer_id, {})[key] = Kept(value, offset)
        self.pending = {producer: held for producer, held in self.pending.items() if held}

    def _end(self, producer_id: int, *, committed: bool) -> None:
        for key, kept in self.pending.pop(producer_id, {}).items():
            # What was committed outside the transaction and later in the log is the newer one.
            if committed and (key not in self.live or kept.offset > self.live[key].offset):
                self.live[key] = kept


def replayed(batches: Iterable[Batch]) -> Replay:
    """All of a log. Raises: DecodeError for a batch that cannot be opened."""
    replay = Replay()
    for batch in batches:
        replay.add(batch)
    return replay
