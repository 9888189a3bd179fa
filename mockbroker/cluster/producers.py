"""What a partition remembers of idempotent producers: enough to notice what came twice, and what is missing.

Source: Kafka's ProducerAppendInfo and ProducerStateEntry.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from kwire import ErrorCode
from kwire.records.batch import Batch

REMEMBERED = 5  # batches of a producer; as many as a client may have in flight
NO_PRODUCER = -1
SEQUENCES = 1 << 31  # sequence numbers begin anew after this many


@dataclass(frozen=True, slots=True)
class Appended:
    """A batch that was stored."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    max_timestamp: int


@dataclass(slots=True)
class _Producer:
    epoch: int
    batches: deque[Appended] = field(default_factory=lambda: deque(maxlen=REMEMBERED))


class Producers:
    """By producer id."""

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}

    def judge(self, batch: Batch) -> Appended | ErrorCode:
        """NONE if the batch may be stored, the stored one if it came before, else what is wrong with it."""
        if batch.producer_id == NO_PRODUCER:
            return ErrorCode.NONE
        producer = self._producers.get(batch.producer_id)
        if producer is None:
            return ErrorCode.NONE  # nothing is known that it could contradict
        if batch.producer_epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if batch.producer_epoch > producer.epoch:
            return ErrorCode.NONE if batch.base_sequence == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        again = _sequences(batch)
        for stored in producer.batches:
            if (stored.first_sequence, stored.last_sequence) == again:
                return stored
        due = (producer.batches[-1].last_sequence + 1) % SEQUENCES
        return ErrorCode.NONE if batch.base_sequence == due else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def remember(self, batch: Batch, base_offset: int) -> None:
        """The batch was stored."""
        if batch.producer_id == NO_PRODUCER:
            return
        producer = self._producers.get(batch.producer_id)
        if producer is None or producer.epoch != batch.producer_epoch:
            producer = self._producers[batch.producer_id] = _Producer(batch.producer_epoch)
        first, last = _sequences(batch)
        producer.batches.append(Appended(first, last, base_offset, batch.max_timestamp))


def _sequences(batch: Batch) -> tuple[int, int]:
    return batch.base_sequence, (batch.base_sequence + batch.last_offset_delta) % SEQUENCES
