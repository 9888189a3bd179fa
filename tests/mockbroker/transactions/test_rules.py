"""The checks and transitions of a transactional id, as tables."""

from __future__ import annotations

from typing import Any

import pytest

from kwire import ErrorCode as E
from mockbroker.topics.producers import LAST_EPOCH
from mockbroker.transactions import rules
from mockbroker.transactions.state import COMPLETE, EXHAUSTED, NO_EPOCH, NO_PRODUCER, PREPARED, Identity, State
from mockbroker.transactions.state import Transaction as Txn

S = State
OWNER, PLACE = Identity(7, 3), ("t", 0)


def txn(state: State = S.EMPTY, **how: Any) -> Txn:
    fields = {"transactional_id": "tx", "producer_id": 7, "epoch": 3, "state": state}
    return Txn(**(fields | how))


def test_the_last_epoch_of_a_producer_is_only_for_fencing():
    """As in TransactionMetadata.isEpochExhausted, Short.MAX_VALUE - 1 is the last epoch of a client."""
    assert (EXHAUSTED, LAST_EPOCH) == (32766, 32767)
    assert [txn(epoch=epoch).exhausted for epoch in (EXHAUSTED - 1, EXHAUSTED, LAST_EPOCH)] == [False, True, True]


def test_new_transactional_id_has_no_epoch_and_no_transaction():
    """In Kafka's RecordBatch, NO_PRODUCER_ID and NO_PRODUCER_EPOCH are -1."""
    new = Txn(transactional_id="tx", producer_id=7)
    assert (new.epoch, new.last_epoch, new.previous_id) == (-1, -1, -1)
    assert (new.state, new.partitions, new.timeout_ms, new.updated) == (S.EMPTY, set(), 0, 0.0)
    assert (new.marker, new.next_id, new.kip890, new.started) == (None, None, False, None)


INIT = [  # state, fields, producer of the request, error (prepareInitProducerIdTransit, isValidProducerId)
    (S.EMPTY, {}, None, E.NONE),
    (S.ONGOING, {}, None, E.NONE),
    (S.PREPARE_COMMIT, {}, None, E.CONCURRENT_TRANSACTIONS),
    (S.PREPARE_ABORT, {}, OWNER, E.CONCURRENT_TRANSACTIONS),
    (S.COMPLETE_COMMIT, {}, OWNER, E.NONE),
    (S.EMPTY, {}, Identity(7, 1), E.NONE),
    (S.EMPTY, {}, Identity(8, 3), E.PRODUCER_FENCED),
    (S.PREPARE_COMMIT, {}, Identity(8, 3), E.PRODUCER_FENCED),
    (S.EMPTY, {"epoch": NO_EPOCH}, Identity(8, 3), E.NONE),
    (S.EMPTY, {"previous_id": 8}, Identity(8, EXHAUSTED), E.NONE),
    (S.EMPTY, {"previous_id": 8}, Identity(8, EXHAUSTED - 1), E.PRODUCER_FENCED),
    (S.EMPTY, {"previous_id": 8}, Identity(9, EXHAUSTED), E.PRODUCER_FENCED),
]


@pytest.mark.parametrize(("state", "fields", "expected", "error"), INIT)
def test_init_producer_id_is_valid(state: State, fields: dict[str, Any], expected: Identity | None, error: E):
    assert rules.init_error(txn(state, **fields), expected) == error


NEXT = [  # epoch, last epoch, producer of the request -> error, producer id, epoch, last epoch, previous id
    (NO_EPOCH, NO_EPOCH, None, (E.NONE, 7, 0, NO_EPOCH, NO_PRODUCER)),
    (3, 2, None, (E.NONE, 7, 4, NO_EPOCH, NO_PRODUCER)),
    (3, 2, OWNER, (E.NONE, 7, 4, 3, NO_PRODUCER)),
    (NO_EPOCH, NO_EPOCH, OWNER, (E.NONE, 7, 0, NO_EPOCH, NO_PRODUCER)),
    (3, 2, Identity(7, 2), (E.NONE, 7, 3, 2, NO_PRODUCER)),  # a retry gets the same epoch
    (3, 2, Identity(7, 1), (E.PRODUCER_FENCED, 7, 3, 2, NO_PRODUCER)),
    (EXHAUSTED, 5, None, (E.NONE, 100, 0, NO_EPOCH, 7)),
    (EXHAUSTED, 5, Identity(7, EXHAUSTED), (E.NONE, 100, 0, EXHAUSTED, 7)),
    (EXHAUSTED, 5, Identity(7, 5), (E.NONE, 7, EXHAUSTED, 5, NO_PRODUCER)),
    (EXHAUSTED, 5, Identity(7, 4), (E.PRODUCER_FENCED, 7, EXHAUSTED, 5, NO_PRODUCER)),
]


@pytest.mark.parametrize(("epoch", "last", "expected", "result"), NEXT)
def test_next_epoch_of_a_transactional_id(epoch: int, last: int, expected: Identity | None, result: tuple[Any, ...]):
    changed = txn(epoch=epoch, last_epoch=last)
    error = rules.next_identity(changed, expected, lambda: 100)
    assert (error, changed.producer_id, changed.epoch, changed.last_epoch, changed.previous_id) == result


OWNERS = [  # producer, error of its requests
    (OWNER, E.NONE),
    (Identity(7, 2), E.PRODUCER_FENCED),
    (Identity(7, 4), E.PRODUCER_FENCED),
    (Identity(8, 3), E.INVALID_PRODUCER_ID_MAPPING),
]


@pytest.mark.parametrize(("producer", "error"), OWNERS)
def test_only_the_owner_adds_partitions(producer: Identity, error: E):
    ongoing = txn(S.ONGOING, partitions={PLACE})
    assert rules.add_error(ongoing, producer) == rules.verify(ongoing, producer, PLACE) == error
    assert rules.end_error(ongoing, producer, committed=True, kip890=False) == error


def test_unknown_transactional_id_has_no_owner():
    errors = (rules.add_error(None, OWNER), rules.verify(None, OWNER, PLACE))
    assert errors == (E.INVALID_PRODUCER_ID_MAPPING, E.INVALID_PRODUCER_ID_MAPPING)
    assert rules.end_error(None, OWNER, committed=True, kip890=True) == E.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("state", State)
def test_partitions_are_not_added_while_markers_are_written(state: State):
    busy = state in (S.PREPARE_COMMIT, S.PREPARE_ABORT)
    assert rules.add_error(txn(state), OWNER) == (E.CONCURRENT_TRANSACTIONS if busy else E.NONE)


def test_verification_of_a_partition_outside_of_the_transaction():
    assert rules.verify(txn(S.ONGOING, partitions={PLACE}), OWNER, ("t", 1)) == E.TRANSACTION_ABORTABLE


BUSY, INVALID = E.CONCURRENT_TRANSACTIONS, E.INVALID_TXN_STATE
END = [  # state, EndTxn v4: commit, abort; v5: commit, abort (TransactionCoordinator.endTransaction)
    (S.EMPTY, (INVALID, INVALID), (INVALID, E.NONE)),
    (S.ONGOING, (E.NONE, E.NONE), (E.NONE, E.NONE)),
    (S.PREPARE_COMMIT, (BUSY, BUSY), (BUSY, BUSY)),
    (S.PREPARE_ABORT, (BUSY, BUSY), (BUSY, BUSY)),
    (S.COMPLETE_COMMIT, (E.NONE, INVALID), (INVALID, E.NONE)),
    (S.COMPLETE_ABORT, (INVALID, E.NONE), (INVALID, E.NONE)),
]


@pytest.mark.parametrize(("state", "old", "new"), END)
def test_end_of_a_transaction_in_each_state(state: State, old: tuple[E, E], new: tuple[E, E]):
    for kip890, errors in ((False, old), (True, new)):
        ends = [rules.end_error(txn(state), OWNER, committed=committed, kip890=kip890) for committed in (True, False)]
        assert tuple(ends) == errors


RETRIES = [  # state, fields, producer of the request, whether it is a retry of EndTxn v5
    (S.COMPLETE_COMMIT, {}, Identity(7, 2), True),
    (S.PREPARE_ABORT, {}, Identity(7, 2), True),
    (S.COMPLETE_COMMIT, {}, Identity(7, 3), False),
    (S.COMPLETE_COMMIT, {}, Identity(7, 1), False),
    (S.ONGOING, {}, Identity(7, 2), False),
    (S.EMPTY, {}, Identity(7, 2), False),
    (S.COMPLETE_ABORT, {"previous_id": 6, "epoch": 0}, Identity(6, EXHAUSTED), True),
    (S.COMPLETE_ABORT, {"previous_id": 6, "epoch": 1}, Identity(6, EXHAUSTED), False),
    (S.COMPLETE_ABORT, {"previous_id": 6, "epoch": 0}, Identity(6, 5), False),
]


@pytest.mark.parametrize(("state", "fields", "producer", "expected"), RETRIES)
def test_retry_of_end_txn_has_the_epoch_before(
    state: State, fields: dict[str, Any], producer: Identity, expected: bool
):
    retried = txn(state, **fields)
    assert rules.is_retry(retried, producer) is expected
    assert rules.is_ended(retried, producer, kip890=True) is (expected and state in COMPLETE)
    assert rules.is_ended(retried, producer, kip890=False) is (state in COMPLETE)


def test_a_retry_of_a_commit_does_not_become_an_abort():
    retry = Identity(7, 2)
    committed = txn(S.COMPLETE_COMMIT)
    assert rules.end_error(committed, retry, committed=True, kip890=True) == E.NONE
    assert rules.end_error(committed, retry, committed=False, kip890=True) == E.INVALID_TXN_STATE


def test_old_clients_do_not_know_that_they_are_fenced():
    errors = (E.PRODUCER_FENCED, E.CONCURRENT_TRANSACTIONS)
    assert [rules.error_for_client(error, knows_fenced=True) for error in errors] == list(errors)
    old = [rules.error_for_client(error, knows_fenced=False) for error in errors]
    assert old == [E.INVALID_PRODUCER_EPOCH, E.CONCURRENT_TRANSACTIONS]


def test_first_partition_begins_a_transaction():
    begun = txn(S.COMPLETE_COMMIT, partitions={("old", 1)}, started=1.0, kip890=True)
    rules.add(begun, [PLACE], 5.0, kip890=False)
    assert (begun.state, begun.started, begun.partitions, begun.kip890) == (S.ONGOING, 5.0, {PLACE}, False)
    rules.add(begun, [("t", 1)], 9.0, kip890=True)
    assert (begun.started, begun.partitions, begun.kip890) == (5.0, {PLACE, ("t", 1)}, True)


@pytest.mark.parametrize(
    ("committed", "states"),
    [(True, (S.PREPARE_COMMIT, S.COMPLETE_COMMIT)), (False, (S.PREPARE_ABORT, S.COMPLETE_ABORT))],
)
def test_markers_have_the_epoch_of_the_end(committed: bool, states: tuple[State, State]):
    ended = txn(S.ONGOING, partitions={PLACE}, started=1.0)
    rules.prepare(ended, committed=committed, kip890=False, now=5.0)
    assert (ended.state, ended.marker, ended.partitions, ended.started) == (states[0], OWNER, {PLACE}, 1.0)
    assert ended.state in PREPARED
    rules.complete(ended)
    assert (ended.state, ended.marker, ended.partitions, ended.producer_id) == (states[1], None, set(), 7)


def test_abort_without_a_transaction_begins_at_once():
    ended = txn(S.COMPLETE_COMMIT, partitions={PLACE}, started=1.0)
    rules.prepare(ended, committed=False, kip890=False, now=5.0)
    assert (ended.started, ended.partitions) == (5.0, set())


def test_exhausted_epochs_change_the_producer_id_at_the_end():
    ended = txn(S.ONGOING, epoch=EXHAUSTED, last_epoch=1)
    rules.bump(ended, lambda: 100)
    assert (ended.epoch, ended.last_epoch, ended.next_id) == (LAST_EPOCH, EXHAUSTED, 100)
    rules.prepare(ended, committed=True, kip890=True, now=0.0)
    assert ended.kip890
    rules.complete(ended)
    assert (ended.identity, ended.previous_id, ended.next_id) == (Identity(100, 0), 7, None)
    rules.bump(ended, lambda: 200)
    assert (ended.identity, ended.last_epoch, ended.next_id) == (Identity(100, 1), 0, None)


@pytest.mark.parametrize(
    ("epoch", "remember", "epochs"),
    [(3, True, (4, 3)), (3, False, (4, NO_EPOCH)), (LAST_EPOCH, True, (LAST_EPOCH, LAST_EPOCH))],
)
def test_fencing_increments_the_epoch(epoch: int, remember: bool, epochs: tuple[int, int]):
    fenced = txn(epoch=epoch)
    rules.fence(fenced, remember=remember)
    assert (fenced.epoch, fenced.last_epoch) == epochs
