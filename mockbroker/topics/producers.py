"""The producer state of a partition: detects duplicates and sequence gaps, and tracks open transactions.

Source: Kafka's ProducerAppendInfo, ProducerStateEntry and ProducerStateManager.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import field

from kwire import ErrorCode
from kwire.lazy_dataclass import dataclass
from kwire.records.batch import Batch

REMEMBERED = 5  # batches stored per producer, the maximum that a client sends without waiting for a response
NO_PRODUCER = -1
NONE = ErrorCode.NONE
LAST_EPOCH = 2**15 - 1  # reached only by fencing a producer in the epoch before
SEQUENCES = 1 << 31  # sequence numbers start at 0 again after this many


@dataclass(frozen=True, slots=True)
class Appended:
    """An appended batch, as the producer state stores it to detect a duplicate.

    Attributes:
        first_sequence: sequence number of the first record.
        last_sequence: sequence number of the last record.
        base_offset: offset of the first record.
        max_timestamp: largest timestamp, milliseconds since 1970.
    """

    first_sequence: int
    last_sequence: int
    base_offset: int
    max_timestamp: int

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.base_offset + (self.last_sequence - self.first_sequence) % SEQUENCES


@dataclass(slots=True)
class Producer:
    """The state of one producer in a partition.

    Attributes:
        producer_id: producer id.
        epoch: current producer epoch.
        batches: the last appended batches of the current epoch.
        coordinator_epoch: coordinator epoch of the last transaction marker; -1 before the first marker.
        last_timestamp: timestamp of the last batch or marker, milliseconds since 1970; -1 before the first one.
        opened: first offset of the open transaction; None if no transaction is open.
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
    """The states of all producers of one partition. Iteration yields each ``Producer``.

    Attributes:
        unchecked: True if the partition has producers, and no check for expired producers is scheduled.
    """

    def __init__(self) -> None:
        self.unchecked = False
        self._producers: dict[int, Producer] = {}
        self._open: dict[int, int] = {}  # producer id -> first offset of its open transaction, the lowest first
        self._verified: dict[int, tuple[int, int]] = {}  # producer id -> epoch and lowest sequence that was verified

    def __iter__(self) -> Iterator[Producer]:
        return iter(self._producers.values())

    @property
    def first_unstable(self) -> int | None:
        """The first offset of the oldest open transaction in the partition; None without an open transaction."""
        return (
            next(iter(self._open.values())) if self._open else None
        )  # offsets increase, so the oldest was inserted first

    def is_open(self, producer_id: int, epoch: int | None = None) -> bool:
        """Return whether a producer has an open transaction in the partition.

        ``epoch``: producer epoch of the transaction; None for any epoch.
        """
        producer = self._producers.get(producer_id)
        return producer is not None and producer.opened is not None and epoch in (None, producer.epoch)

    def open(self) -> list[Producer]:
        """Return the producers that have an open transaction in the partition."""
        return [self._producers[producer_id] for producer_id in self._open]

    def oldest_timestamp(self) -> int | None:
        """Return the lowest ``last_timestamp`` of all producers, in milliseconds since 1970; None without producers."""
        return min((each.last_timestamp for each in self), default=None)

    def remove_expired(self, before_ms: int) -> None:
        """Remove the producers that have no open transaction and have been unused for too long.

        ``before_ms``: a producer is removed if its last batch or marker is not after this time, milliseconds since
        1970.
        """
        expired = [each.producer_id for each in self if each.opened is None and each.last_timestamp <= before_ms]
        for producer_id in expired:
            del self._producers[producer_id]
            self._verified.pop(producer_id, None)

    def begin_verification(self, batch: Batch) -> None:
        """Record a batch that may begin a transaction in this partition, before the coordinator has verified the
        transaction.

        Until a batch of the transaction or its marker is appended, ``check`` rejects batches of the producer whose
        sequence number is above the lowest recorded one. Source: Kafka's VerificationStateEntry.
        """
        first = batch.producer_epoch, batch.base_sequence
        epoch, lowest = self._verified.get(batch.producer_id, first)
        lowest = batch.base_sequence if batch.producer_epoch > epoch else min(lowest, batch.base_sequence)
        self._verified[batch.producer_id] = max(epoch, batch.producer_epoch), lowest

    def check(self, batch: Batch, *, starts_at_zero: bool = False) -> Appended | ErrorCode:
        """Check the producer epoch and the sequence numbers of a batch.

        Args:
            batch: the batch.
            starts_at_zero: True if a producer that is new to the partition must start with sequence number 0 (KIP-890).

        Returns: NONE if the batch may be appended; if the batch is a duplicate, the batch that was appended before;
        else the error code.
        """
        if batch.producer_id == NO_PRODUCER:
            return NONE
        producer = self._producers.get(batch.producer_id)
        verified = self._verified.get(batch.producer_id) if batch.transactional else None
        if verified is not None and batch.base_sequence > verified[1]:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if producer is None:  # before KIP-890 its state may have expired, so any sequence is accepted
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if starts_at_zero and batch.base_sequence else ErrorCode.NONE
        if batch.producer_epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if batch.producer_epoch > producer.epoch:
            return ErrorCode.NONE if batch.base_sequence == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        sequences = _sequences(batch)
        for appended in producer.batches:
            if (appended.first_sequence, appended.last_sequence) == sequences:
                return appended
        if batch.base_sequence != (producer.last_sequence + 1) % SEQUENCES:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        outside = producer.opened is not None and not batch.transactional
        return ErrorCode.INVALID_TXN_STATE if outside else ErrorCode.NONE

    def record(self, batch: Batch, base_offset: int) -> None:
        """Update the state of a producer after its batch was appended at ``base_offset``; do nothing for a batch
        without a producer.
        """
        if batch.producer_id == NO_PRODUCER:
            return
        producer = self._in_epoch(batch.producer_id, batch.producer_epoch)
        first, last = _sequences(batch)
        producer.batches.append(Appended(first, last, base_offset, batch.max_timestamp))
        producer.last_timestamp = batch.max_timestamp
        if batch.transactional and producer.opened is None:
            self._verified.pop(batch.producer_id, None)
            producer.opened = self._open[batch.producer_id] = base_offset

    def marker_error(
        self, producer_id: int, epoch: int, coordinator_epoch: int, transaction_version: int = 0
    ) -> ErrorCode:
        """Return the error for a transaction marker; NONE if the marker may be appended.

        Since transaction version 2, the coordinator increments the epoch before it ends a transaction: a marker with
        the epoch of the open transaction belongs to an earlier one (KIP-1228).

        Args:
            producer_id: producer id.
            epoch: producer epoch of the marker.
            coordinator_epoch: epoch of the transaction coordinator.
            transaction_version: transaction version of the marker.
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            return ErrorCode.NONE
        needs_later = transaction_version >= 2 and producer.opened is not None
        if epoch < producer.epoch or (needs_later and epoch == producer.epoch):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if coordinator_epoch < producer.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return ErrorCode.NONE

    def end(self, producer_id: int, epoch: int, coordinator_epoch: int, timestamp: int) -> int | None:
        """Update the state of a producer after a transaction marker was appended.

        Args:
            producer_id: producer id.
            epoch: producer epoch of the marker.
            coordinator_epoch: epoch of the transaction coordinator.
            timestamp: timestamp of the marker, milliseconds since 1970.

        Returns: the first offset of the transaction; None if the transaction has no records in this partition.
        """
        producer = self._in_epoch(producer_id, epoch)
        self._verified.pop(producer_id, None)
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp = timestamp
        producer.opened = None
        return self._open.pop(producer_id, None)

    def _in_epoch(self, producer_id: int, epoch: int) -> Producer:
        """Return the state of a producer, for changes by the caller.

        For a new producer, a state is created. For a new producer epoch, the stored batches are discarded.

        Args:
            producer_id: producer id.
            epoch: producer epoch.
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            if not self._producers:
                self.unchecked = True
            producer = self._producers[producer_id] = Producer(producer_id, epoch)
        elif producer.epoch != epoch:
            producer.epoch = epoch
            producer.batches.clear()
        return producer


def _sequences(batch: Batch) -> tuple[int, int]:
    if batch.base_sequence < 0:  # batches of the group coordinator have no sequence
        return -1, -1
    return batch.base_sequence, (batch.base_sequence + batch.last_offset_delta) % SEQUENCES
