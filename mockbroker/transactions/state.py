"""The state of a transactional id in the coordinator. Source: Kafka's TransactionMetadata."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import NamedTuple

from kwire.lazy_dataclass import dataclass
from mockbroker.topics.producers import LAST_EPOCH

NO_PRODUCER = -1
NO_EPOCH = -1
EXHAUSTED = LAST_EPOCH - 1  # the last epoch of a producer id that is assigned to a client


class State(StrEnum):
    """The state of a transaction; the values are the state names in DescribeTransactions.

    Attributes:
        EMPTY: the producer has not begun a transaction since its latest InitProducerId.
        ONGOING: the transaction is open.
        PREPARE_COMMIT: the transaction will be committed; its markers are not written yet.
        PREPARE_ABORT: the transaction will be aborted; its markers are not written yet.
        COMPLETE_COMMIT: the transaction is committed.
        COMPLETE_ABORT: the transaction is aborted.
    """

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


# Kafka's states that no transaction has here; clients may use them as filters in ListTransactions.
UNSEEN = frozenset({"Dead", "PrepareEpochFence"})
PREPARED = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
OPEN = PREPARED | {State.ONGOING}  # a transactional id in these states does not expire
COMPLETE = frozenset({State.COMPLETE_COMMIT, State.COMPLETE_ABORT})


class Identity(NamedTuple):
    """A producer id and its producer epoch."""

    producer_id: int
    epoch: int


@dataclass(slots=True, kw_only=True)
class Transaction:
    """A transactional id, with its current or last transaction.

    Attributes:
        transactional_id: transactional id.
        producer_id: current producer id.
        epoch: current producer epoch; NO_EPOCH if none was assigned yet.
        last_epoch: previous producer epoch, if a retried request may contain this epoch; else NO_EPOCH.
        previous_id: previous producer id, whose epochs were exhausted; else NO_PRODUCER.
        timeout_ms: transaction timeout, milliseconds.
        state: state of the transaction.
        partitions: topics and partition numbers in the transaction.
        marker: producer id and epoch for the markers, while the state is PrepareCommit or PrepareAbort; None in all
            other states.
        next_id: producer id for the next transaction, if it changes when the markers are written; None if it does not
            change.
        kip890: whether the request that began or ended the transaction has a version with KIP-890, so that EndTxn
            increments the epoch; also True if a coordinator with KIP-890 aborted the transaction by itself.
        started: broker time in seconds at which the transaction began; None before the first transaction, and since
            Kafka 4.0 also after InitProducerId.
        updated: broker time in seconds of the last change.
    """

    transactional_id: str
    producer_id: int
    epoch: int = NO_EPOCH
    last_epoch: int = NO_EPOCH
    previous_id: int = NO_PRODUCER
    timeout_ms: int = 0
    state: State = State.EMPTY
    partitions: set[tuple[str, int]] = field(default_factory=set)
    marker: Identity | None = None
    next_id: int | None = None
    kip890: bool = False
    started: float | None = None
    updated: float = 0.0

    @property
    def identity(self) -> Identity:
        return Identity(self.producer_id, self.epoch)

    @property
    def exhausted(self) -> bool:
        return self.epoch >= EXHAUSTED
