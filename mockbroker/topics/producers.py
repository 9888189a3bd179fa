"""What a partition remembers of producers: enough to notice what came twice, what is missing, what is still open.

Source: Kafka's ProducerAppendInfo, ProducerStateEntry and ProducerStateManager.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from kwire import ErrorCode
from kwire.records.batch import Batch

REMEMBERED = 5  # batches of a producer; as many as a client may have in flight
NO_PRODUCER = -1
LAST_EPOCH = 2**15 - 1  # a producer that is fenced in the epoch before comes to it
SEQUENCES = 1 << 31  # sequence numbers begin anew after this many


@dataclass(frozen=True, slots=True)
class Appended:
    """A batch that was stored."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    max_timestamp: int


@dataclass(slots=True)
class Producer:
    """``opened``: the first offset of its open transaction; None if there is none. -1 stands for never.

    ``coordinator_epoch``: of whoever ended its last transaction.
    """

    producer_id: int
    epoch: int
    batches: deque[Appended] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    coordinator_epoch: int = -1
    last_timestamp: int = -1
    opened: int | None = None

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1


class Producers:
    """By producer id."""

    def __init__(self) -> None:
        self._producers: dict[int, Producer] = {}
        self._open: dict[int, int] = {}  # first offsets of open transactions, the lowest first
        self._tried: dict[int, tuple[int, int]] = {}

    def __iter__(self) -> Iterator[Producer]:
        return iter(self._producers.values())

    @property
    def first_unstable(self) -> int | None:
        """Where the oldest open transaction begins; None if none is open."""
        return next(iter(self._open.values()), None)  # offsets only grow, so the oldest was put in first

    def is_open(self, producer_id: int, epoch: int | None = None) -> bool:
        """True if the producer has a transaction open here; ``epoch``: and is in this epoch."""
        producer = self._producers.get(producer_id)
        return producer is not None and producer.opened is not None and epoch in (None, producer.epoch)

    def open(self) -> list[Producer]:
        """Those that have a transaction open here."""
        return [self._producers[producer_id] for producer_id in self._open]

    def try_to_open(self, batch: Batch) -> None:
        """A transaction may begin here with this batch. The lowest sequence that was tried must come first.

        Source: Kafka's VerificationStateEntry.
        """
        epoch, lowest = self._tried.get(batch.producer_id, (-1, 0))
        lowest = batch.base_sequence if batch.producer_epoch > epoch else min(lowest, batch.base_sequence)
        self._tried[batch.producer_id] = max(epoch, batch.producer_epoch), lowest

    def judge(self, batch: Batch, *, knows_all: bool = False) -> Appended | ErrorCode:
        """NONE if the batch may be stored, the stored one if it came before, else what is wrong with it.

        ``knows_all``: the client begins at 0 wherever it has not been yet (KIP-890).
        """
        if batch.producer_id == NO_PRODUCER:
            return ErrorCode.NONE
        producer = self._producers.get(batch.producer_id)
        tried = self._tried.get(batch.producer_id) if batch.transactional else None
        if tried is not None and batch.base_sequence > tried[1]:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if producer is None:  # otherwise nothing is known that it could contradict
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if knows_all and batch.base_sequence else ErrorCode.NONE
        if batch.producer_epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if batch.producer_epoch > producer.epoch:
            return ErrorCode.NONE if batch.base_sequence == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        again = _sequences(batch)
        for stored in producer.batches:
            if (stored.first_sequence, stored.last_sequence) == again:
                return stored
        if batch.base_sequence != (producer.last_sequence + 1) % SEQUENCES:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        alone = producer.opened is not None and not batch.transactional
        return ErrorCode.INVALID_TXN_STATE if alone else ErrorCode.NONE

    def remember(self, batch: Batch, base_offset: int) -> None:
        """The batch was stored."""
        if batch.producer_id == NO_PRODUCER:
            return
        producer = self._in_epoch(batch.producer_id, batch.producer_epoch)
        first, last = _sequences(batch)
        producer.batches.append(Appended(first, last, base_offset, batch.max_timestamp))
        producer.last_timestamp = batch.max_timestamp
        if batch.transactional and producer.opened is None:
            self._tried.pop(batch.producer_id, None)
            producer.opened = self._open[batch.producer_id] = base_offset

    def may_end(self, producer_id: int, epoch: int, coordinator_epoch: int) -> ErrorCode:
        """Whether a coordinator may end a transaction of this producer here."""
        producer = self._producers.get(producer_id)
        if producer is not None and epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if producer is not None and coordinator_epoch < producer.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return ErrorCode.NONE

    def end(self, producer_id: int, epoch: int, coordinator_epoch: int, timestamp: int) -> int | None:
        """The marker was stored; where the transaction began, None if it wrote nothing here."""
        producer = self._in_epoch(producer_id, epoch)
        self._tried.pop(producer_id, None)
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp = timestamp
        producer.opened = None
        return self._open.pop(producer_id, None)

    def _in_epoch(self, producer_id: int, epoch: int) -> Producer:
        """What is remembered of a producer; with another epoch its sequences begin anew."""
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = Producer(producer_id, epoch)
        elif producer.epoch != epoch:
            producer.epoch = epoch
            producer.batches.clear()
        return producer


def _sequences(batch: Batch) -> tuple[int, int]:
    if batch.base_sequence < 0:  # a coordinator writes without
        return -1, -1
    return batch.base_sequence, (batch.base_sequence + batch.last_offset_delta) % SEQUENCES
