"""Replay of a log of the offsets topic: the latest value of each key, and the values of open transactions.

Source: Kafka's CoordinatorLoaderImpl and OffsetMetadataManager.replay.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import NamedTuple

from kwire.errors import DecodeError
from kwire.lazy_dataclass import dataclass
from kwire.records.batch import Batch
from kwire.records.control import ControlType, control_records

# Keys of offsets begin with type 0 in old records, and with type 1 in newer records; the rest of the key is the same.
_OLD_TYPE, _TYPE = b"\0\0", b"\0\1"


class StoredValue(NamedTuple):
    """The encoded value of a record, with the log offset of the record."""

    value: bytes
    offset: int


@dataclass(slots=True)
class Replay:
    """The result of replaying a log. Keys and values are encoded.

    Attributes:
        latest: key -> latest value; deleted keys are not contained.
        pending: producer id -> key -> value that was written in the open transaction of the producer.
    """

    latest: dict[bytes, StoredValue] = field(default_factory=dict)
    pending: dict[int, dict[bytes, StoredValue]] = field(default_factory=dict)

    @property
    def values(self) -> dict[bytes, bytes]:
        """The latest values by key, without the log offsets of their records."""
        return {key: stored.value for key, stored in self.latest.items()}

    def add(self, batch: Batch) -> None:
        """Apply the next batch of the log. The CRC of the batch must have been checked.

        Raises:
            DecodeError: The batch cannot be decoded, or a record has no key; nothing has changed.
        """
        if batch.control:
            for each in list(control_records(batch)):
                if each.marker is not None:
                    self._end_transaction(batch.producer_id, committed=each.type == ControlType.COMMIT)
            return
        changes: list[tuple[bytes, bytes | None, int]] = []
        for record in batch.records(verify_crc=False):
            if record.key is None:
                raise DecodeError(
                    "the record has no key, so its type is unknown", message="__consumer_offsets", offset=batch.position
                )
            key = _TYPE + record.key[2:] if record.key.startswith(_OLD_TYPE) else record.key
            changes.append((key, record.value, record.offset))
        self._apply(changes, batch.producer_id)

    def _apply(self, changes: Iterable[tuple[bytes, bytes | None, int]], producer_id: int) -> None:
        for key, value, offset in changes:
            if value is None:
                self.latest.pop(key, None)
                for values in self.pending.values():
                    values.pop(key, None)
            elif producer_id < 0:
                self.latest[key] = StoredValue(value, offset)
            else:
                self.pending.setdefault(producer_id, {})[key] = StoredValue(value, offset)
        self.pending = {producer: values for producer, values in self.pending.items() if values}

    def _end_transaction(self, producer_id: int, *, committed: bool) -> None:
        for key, stored in self.pending.pop(producer_id, {}).items():
            # A value that was written later without a transaction is newer.
            if committed and (key not in self.latest or stored.offset > self.latest[key].offset):
                self.latest[key] = stored


def replay_log(batches: Iterable[Batch]) -> Replay:
    """Replay all batches of a log, and return the result. Raises: DecodeError for a batch that cannot be decoded."""
    replay = Replay()
    for batch in batches:
        replay.add(batch)
    return replay
