"""The state transitions of a transactional id, and the checks before them. Source: Kafka's TransactionCoordinator."""

from __future__ import annotations

from collections.abc import Callable, Collection

from kwire import ErrorCode
from mockbroker.topics.producers import LAST_EPOCH
from mockbroker.transactions.state import COMPLETE, EXHAUSTED, NO_EPOCH, PREPARED, Identity, State, Transaction

NONE = ErrorCode.NONE
Partitions = Collection[tuple[str, int]]

# The errors of EndTxn in each state: for a commit and for an abort.
END = {
    State.EMPTY: (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
    State.ONGOING: (NONE, NONE),
    State.PREPARE_COMMIT: (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
    State.PREPARE_ABORT: (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
    State.COMPLETE_COMMIT: (NONE, ErrorCode.INVALID_TXN_STATE),
    State.COMPLETE_ABORT: (ErrorCode.INVALID_TXN_STATE, NONE),
}


def init_error(txn: Transaction, expected: Identity | None) -> ErrorCode:
    """Return the error for an InitProducerId; NONE if the request is valid.

    The error is PRODUCER_FENCED if the request has an outdated producer id or epoch, and CONCURRENT_TRANSACTIONS
    while the markers of a transaction are being written.

    Args:
        txn: the transactional id.
        expected: producer id and epoch of the request (KIP-360); None if the request contains no producer id.
    """
    if expected is not None and not _matches(txn, expected):
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if txn.state in PREPARED else NONE


def _matches(txn: Transaction, expected: Identity) -> bool:
    if txn.epoch == NO_EPOCH or expected.producer_id == txn.producer_id:
        return True
    return expected.producer_id == txn.previous_id and expected.epoch >= EXHAUSTED


def next_identity(txn: Transaction, expected: Identity | None, new_id: Callable[[], int]) -> ErrorCode:
    """Increment the producer epoch of a transactional id, unless the request is a retry.

    Return NONE; PRODUCER_FENCED if the epoch of the request is neither the current nor the previous epoch.

    Args:
        txn: the transactional id.
        expected: producer id and epoch of the request; None if the request contains no producer id.
        new_id: function that returns the next producer id, which is used when the epochs of the current producer id are
            exhausted.
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


def identity_error(txn: Transaction | None, producer: Identity) -> ErrorCode:
    """Return the error if a producer is not the current owner of a transactional id, else NONE.

    The error is INVALID_PRODUCER_ID_MAPPING for an unknown transactional id or another producer id, and PRODUCER_FENCED
    for another epoch.

    Args:
        txn: the transactional id; None if it does not exist.
        producer: producer id and epoch of the request.
    """
    if txn is None or producer.producer_id != txn.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return NONE if producer.epoch == txn.epoch else ErrorCode.PRODUCER_FENCED


def error_for_client(error: ErrorCode, *, knows_fenced: bool) -> ErrorCode:
    """Return the error code for the response to a client.

    Args:
        error: the error.
        knows_fenced: False for an older client, which gets INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED.
    """
    fenced = error == ErrorCode.PRODUCER_FENCED and not knows_fenced
    return ErrorCode.INVALID_PRODUCER_EPOCH if fenced else error


def add_error(txn: Transaction | None, producer: Identity) -> ErrorCode:
    """Return the error for adding partitions to the transaction; NONE if the request is valid.

    The errors are those of ``identity_error``, and CONCURRENT_TRANSACTIONS while the markers of the previous
    transaction are being written.

    Args:
        txn: the transactional id with its transaction; None if the transactional id is unknown.
        producer: producer id and epoch of the request.
    """
    if error := identity_error(txn, producer):
        return error
    assert txn is not None
    return ErrorCode.CONCURRENT_TRANSACTIONS if txn.state in PREPARED else NONE


def verify(txn: Transaction | None, producer: Identity, partition: tuple[str, int]) -> ErrorCode:
    """Return the error if a partition is not part of the producer's transaction, else NONE (KIP-890).

    The errors are those of ``add_error``, and TRANSACTION_ABORTABLE if the partition is not in the transaction.

    Args:
        txn: the transactional id with its transaction; None if it does not exist.
        producer: producer id and epoch of the request.
        partition: topic and partition index.
    """
    if error := add_error(txn, producer):
        return error
    assert txn is not None
    return NONE if partition in txn.partitions else ErrorCode.TRANSACTION_ABORTABLE


def add(txn: Transaction, partitions: Partitions, now: float, *, kip890: bool) -> None:
    """Add partitions to a transaction, and begin the transaction if it is not open.

    Args:
        txn: the transactional id with its transaction.
        partitions: topics and partitions to add.
        now: broker time, seconds.
        kip890: True if the request has a version with KIP-890.
    """
    if txn.state is not State.ONGOING:
        txn.state, txn.started, txn.partitions = State.ONGOING, now, set()
    txn.partitions.update(partitions)
    txn.kip890 = kip890


def is_retry(txn: Transaction, producer: Identity) -> bool:
    """Return whether an EndTxn v5 (KIP-890) repeats a request whose response was lost.

    This is so if the transaction is ending or has ended, and the request has the producer epoch from before the end.

    Args:
        txn: the transactional id with its transaction.
        producer: producer id and epoch of the request.
    """
    if txn.state not in PREPARED | COMPLETE:
        return False
    if producer.producer_id == txn.producer_id:
        return producer.epoch == txn.epoch - 1
    return producer == Identity(txn.previous_id, EXHAUSTED) and txn.epoch == 0


def end_error(txn: Transaction | None, producer: Identity, *, committed: bool, kip890: bool) -> ErrorCode:
    """Return the error for an EndTxn; NONE if the request is valid.

    The errors are those of ``identity_error``, INVALID_TXN_STATE if the state of the transaction does not allow the
    request, and CONCURRENT_TRANSACTIONS while the markers of the transaction are being written.

    With EndTxn v5, a request to abort is valid even if no transaction is open.

    Args:
        txn: the transactional id; None if it does not exist.
        producer: producer id and epoch of the request.
        committed: True to commit the transaction, False to abort it.
        kip890: True for EndTxn v5.
    """
    retry = txn is not None and kip890 and is_retry(txn, producer)
    if not retry and (error := identity_error(txn, producer)):
        return error
    assert txn is not None
    if kip890 and not retry and txn.state in COMPLETE | {State.EMPTY}:
        return ErrorCode.INVALID_TXN_STATE if committed else NONE
    return END[txn.state][0 if committed else 1]


def is_ended(txn: Transaction, producer: Identity, *, kip890: bool) -> bool:
    """Return whether a valid EndTxn changes nothing, because the transaction has ended already.

    Args:
        txn: the transactional id with its transaction.
        producer: producer id and epoch of the request.
        kip890: True for EndTxn v5.
    """
    return txn.state in COMPLETE and (not kip890 or is_retry(txn, producer))


def bump(txn: Transaction, new_id: Callable[[], int]) -> None:
    """Increment the producer epoch at the end of a transaction, as KIP-890 requires.

    Args:
        txn: the transactional id.
        new_id: function that returns the next producer id, which is used when the epochs of the current producer id are
            exhausted.
    """
    txn.next_id = new_id() if txn.exhausted else None
    txn.last_epoch, txn.epoch = txn.epoch, txn.epoch + 1


def fence(txn: Transaction, *, remember: bool) -> None:
    """Fence the current producer of a transactional id, by incrementing the producer epoch.

    Args:
        txn: the transactional id.
        remember: whether the fenced producer may get a new epoch by an InitProducerId that contains the old epoch
            (KIP-360).
    """
    txn.last_epoch = txn.epoch if remember else NO_EPOCH
    txn.epoch = min(txn.epoch + 1, LAST_EPOCH)


def prepare(txn: Transaction, *, committed: bool, kip890: bool, now: float) -> None:
    """Enter the state PrepareCommit or PrepareAbort. The markers get the current producer id and epoch.

    If no transaction is open, ``partitions`` is cleared, and ``started`` is set to ``now``.

    Args:
        txn: the transactional id.
        committed: True to commit the transaction, False to abort it.
        kip890: True for EndTxn v5, and if a coordinator with KIP-890 aborts the transaction by itself.
        now: broker time, seconds.
    """
    txn.kip890 = kip890
    if txn.state is not State.ONGOING:
        txn.started, txn.partitions = now, set()
    txn.marker = txn.identity
    txn.state = State.PREPARE_COMMIT if committed else State.PREPARE_ABORT


def complete(txn: Transaction) -> None:
    """Enter the state CompleteCommit or CompleteAbort, after the markers of the transaction were written.

    If ``next_id`` is set, it becomes the producer id, and the producer epoch becomes 0.
    """
    txn.state = State.COMPLETE_COMMIT if txn.state is State.PREPARE_COMMIT else State.COMPLETE_ABORT
    txn.partitions, txn.marker = set(), None
    if txn.next_id is not None:
        txn.previous_id, txn.producer_id, txn.epoch, txn.next_id = txn.producer_id, txn.next_id, 0, None
