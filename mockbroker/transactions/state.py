"""One transactional id, as its coordinator remembers it. Source: Kafka's TransactionMetadata."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from mockbroker.topics.producers import LAST_EPOCH

NO_PRODUCER = -1
NO_EPOCH = -1
EXHAUSTED = LAST_EPOCH - 1  # the last epoch of a producer id that a client gets


class State(StrEnum):
    """The values are those of DescribeTransactions."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


# States that no transaction here is ever seen in, which clients may name all the same.
UNSEEN = frozenset({"Dead", "PrepareEpochFence"})
PREPARED = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
COMPLETE = frozenset({State.COMPLETE_COMMIT, State.COMPLETE_ABORT})


class Identity(NamedTuple):
    """Who a producer is."""

    producer_id: int
    epoch: int


@dataclass(slots=True, kw_only=True)
class Transaction:
    """``last_epoch``: the one before this, if its owner may say that it did not hear of the change.

    ``previous_id``: the producer id before the epochs of one were used up. ``marker``: who ends the transaction, while
    it is prepared; the epoch may have grown for it. ``next_id``: the producer id from then on, if it changes.
    ``bumped``: the last end brought another epoch (KIP-890). ``started``: seconds, None if the id is new.
    ``partitions``: topic names and indexes.
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
    bumped: bool = False
    started: float | None = None

    @property
    def identity(self) -> Identity:
        return Identity(self.producer_id, self.epoch)

    @property
    def exhausted(self) -> bool:
        return self.epoch >= EXHAUSTED
