"""What a client of a transactional id may do, and what becomes of the id. Source: Kafka's TransactionCoordinator."""

from __future__ import annotations

from collections.abc import Callable, Collection

from kwire import ErrorCode
from mockbroker.topics.producers import LAST_EPOCH
from mockbroker.transactions.state import COMPLETE, EXHAUSTED, NO_EPOCH, PREPARED, Identity, State, Transaction

NONE = ErrorCode.NONE
Partitions = Collection[tuple[str, int]]

# What EndTxn does in each state, for a commit and for an abort.
END = {
    State.EMPTY: (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
    State.ONGOING: (NONE, NONE),
    State.PREPARE_COMMIT: (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
    State.PREPARE_ABORT: (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
    State.COMPLETE_COMMIT: (NONE, ErrorCode.INVALID_TXN_STATE),
    State.COMPLETE_ABORT: (ErrorCode.INVALID_TXN_STATE, NONE),
}


def init_error(txn: Transaction, expected: Identity | None) -> ErrorCode:
    """What stops an InitProducerId. ``expected``: who the client says it is, if it does (KIP-360)."""
    if expected is not None and not _may_be(txn, expected):
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if txn.state in PREPARED else NONE


def _may_be(txn: Transaction, expected: Identity) -> bool:
    if txn.epoch == NO_EPOCH or expected.producer_id == txn.producer_id:
        return True
    return expected.producer_id == txn.previous_id and expected.epoch >= EXHAUSTED


def next_identity(txn: Transaction, expected: Identity | None, new_id: Callable[[], int]) -> ErrorCode:
    """The id gets its next epoch, or the same once more if the client asks twice; PRODUCER_FENCED if it is too old.

    ``new_id``: the next producer id, for when the epochs of this one are used up.
    """
    if txn.exhausted and (expected is None or expected.epoch == txn.epoch):
        txn.previous_id = txn.producer_id
        txn.last_epoch = NO_EPOCH if expected is None else txn.epoch
        txn.producer_id, txn.epoch = new_id(), 0
        return NONE
    if expected is None:
        txn.last_epoch, txn.epoch = NO_EPOCH, txn.epoch + 1
    elif txn.epoch in (NO_EPOCH, expected.epoch):
        txn.last_epoch, txn.epoch = txn.epoch, txn.epoch + 1
    elif expected.epoch != txn.last_epoch:
        return ErrorCode.PRODUCER_FENCED
    return NONE


def identity_error(txn: Transaction | None, asked: Identity) -> ErrorCode:
    """Whether this is the producer that owns the id."""
    if txn is None or asked.producer_id != txn.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return NONE if asked.epoch == txn.epoch else ErrorCode.PRODUCER_FENCED


def error_for_client(error: ErrorCode, *, knows_fenced: bool) -> ErrorCode:
    """An error as clients are told it: older ones do not know PRODUCER_FENCED."""
    fenced = error == ErrorCode.PRODUCER_FENCED and not knows_fenced
    return ErrorCode.INVALID_PRODUCER_EPOCH if fenced else error


def add_error(txn: Transaction | None, asked: Identity) -> ErrorCode:
    """What stops partitions from becoming part of the transaction."""
    if error := identity_error(txn, asked):
        return error
    assert txn is not None
    return ErrorCode.CONCURRENT_TRANSACTIONS if txn.state in PREPARED else NONE


def verify(txn: Transaction | None, asked: Identity, partition: tuple[str, int]) -> ErrorCode:
    """Whether a partition is part of the producer's transaction (KIP-890)."""
    if error := add_error(txn, asked):
        return error
    assert txn is not None
    return NONE if partition in txn.partitions else ErrorCode.TRANSACTION_ABORTABLE


def add(txn: Transaction, partitions: Partitions, now: float) -> None:
    """The partitions are in; with the first the transaction begins."""
    if txn.state is not State.ONGOING:
        txn.state, txn.started, txn.partitions, txn.bumped = State.ONGOING, now, set(), False
    txn.partitions.update(partitions)


def is_retry(txn: Transaction, asked: Identity) -> bool:
    """True if a client of KIP-890 that asks in the epoch before is taken for one that did not hear of the end."""
    if txn.state not in PREPARED | COMPLETE:
        return False
    if asked.producer_id == txn.producer_id:
        return asked.epoch == txn.epoch - 1
    return asked == Identity(txn.previous_id, EXHAUSTED) and txn.epoch == 0


def end_error(txn: Transaction | None, asked: Identity, *, committed: bool, kip890: bool) -> ErrorCode:
    """What stops an EndTxn. ``kip890``: EndTxn v5."""
    retry = txn is not None and kip890 and is_retry(txn, asked)
    if not retry and (error := identity_error(txn, asked)):
        return error
    assert txn is not None
    if kip890 and not retry and txn.state in COMPLETE | {State.EMPTY}:
        return ErrorCode.INVALID_TXN_STATE if committed else NONE
    return END[txn.state][0 if committed else 1]


def is_over(txn: Transaction, asked: Identity, *, kip890: bool) -> bool:
    """True if an EndTxn that is allowed finds its work done."""
    return txn.state in COMPLETE and (not kip890 or is_retry(txn, asked))


def bump(txn: Transaction, new_id: Callable[[], int]) -> None:
    """The next transaction has another epoch (KIP-890); ``new_id`` as in next_identity, from the end of this one on."""
    txn.next_id = new_id() if txn.exhausted else None
    txn.last_epoch, txn.epoch, txn.bumped = txn.epoch, txn.epoch + 1, True


def fence(txn: Transaction, *, remember: bool) -> None:
    """Who has the id now loses it. ``remember``: it may say who it was, and go on in the next epoch."""
    txn.last_epoch = txn.epoch if remember else NO_EPOCH
    txn.epoch = min(txn.epoch + 1, LAST_EPOCH)


def prepare(txn: Transaction, *, committed: bool, now: float) -> None:
    """The end is decided; its markers are to be written, by whoever has the id now."""
    if txn.state is not State.ONGOING:
        txn.started, txn.partitions = now, set()
    txn.marker = txn.identity
    txn.state = State.PREPARE_COMMIT if committed else State.PREPARE_ABORT


def complete(txn: Transaction) -> None:
    """The markers are written."""
    txn.state = State.COMPLETE_COMMIT if txn.state is State.PREPARE_COMMIT else State.COMPLETE_ABORT
    txn.partitions, txn.marker = set(), None
    if txn.next_id is not None:
        txn.previous_id, txn.producer_id, txn.epoch, txn.next_id = txn.producer_id, txn.next_id, 0, None
