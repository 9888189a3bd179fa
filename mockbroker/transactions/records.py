"""The records of the transaction log (__transaction_state): their writer and reader. Source: Kafka's TransactionLog."""

from __future__ import annotations

from collections.abc import Iterable

from kwire.blobs import decode_record, encode_stored
from kwire.blobs.transaction_state import TransactionLogKey, TransactionLogValue
from kwire.errors import UnknownApi
from kwire.records.batch import Batch, Record, build_batch, read_batch
from mockbroker.groups.records.compaction import Compactor
from mockbroker.groups.records.wall_time import WallClock
from mockbroker.topics.model import TRANSACTIONS_TOPIC, ClusterState, Partition
from mockbroker.transactions.state import PREPARED, State, Transaction

EPOCH_BUMP_VERSION = 2  # transaction.version in which each EndTxn increments the producer epoch (KIP-890)
STATES = [
    State.EMPTY,
    State.ONGOING,
    State.PREPARE_COMMIT,
    State.PREPARE_ABORT,
    State.COMPLETE_COMMIT,
    State.COMPLETE_ABORT,
]  # the index is the status number in records


class TransactionKeeper:
    """The writer of transactional ids to the transaction log.

    Args:
        cluster: the cluster with the transaction log.
        wall: conversion of broker times to wall-clock times.
        version: version of the record values (TransactionLogValue).
    """

    def __init__(self, cluster: ClusterState, wall: WallClock, version: int) -> None:
        self._cluster = cluster
        self._wall = wall
        self._version = version
        self._compactor = Compactor()
        self._written: dict[str, TransactionLogValue] = {}

    def write(self, txn: Transaction, now: float) -> Partition | None:
        """Append the state of a transactional id to its partition of the transaction log, unless it has not changed.

        Args:
            txn: the transactional id with its transaction.
            now: broker time, seconds.

        Returns: the partition, or None if nothing changed.
        """
        value = _value(txn, self._wall)
        if self._written.get(txn.transactional_id) == value:
            return None
        self._written[txn.transactional_id] = value
        timestamp = self._wall.to_ms(now)
        partition = self._cluster.topics[TRANSACTIONS_TOPIC].partition_of(txn.transactional_id)
        key = encode_stored(TransactionLogKey(transactional_id=txn.transactional_id), 0)
        value.transaction_last_update_timestamp_ms = timestamp
        record = Record(key=key, value=encode_stored(value, self._version), timestamp=timestamp)
        value.transaction_last_update_timestamp_ms = -1
        partition.append(read_batch(build_batch([record])))
        self._compactor.compact_if_grown(partition, timestamp)
        return partition

    def erase(self, transactional_id: str, now: float) -> Partition:
        """Append a tombstone for a transactional id to its partition of the transaction log; return the partition.

        Args:
            transactional_id: the transactional id.
            now: broker time, seconds.
        """
        self._written.pop(transactional_id, None)
        timestamp = self._wall.to_ms(now)
        partition = self._cluster.topics[TRANSACTIONS_TOPIC].partition_of(transactional_id)
        key = encode_stored(TransactionLogKey(transactional_id=transactional_id), 0)
        partition.append(read_batch(build_batch([Record(key=key, value=None, timestamp=timestamp)])))
        self._compactor.compact_if_grown(partition, timestamp)
        return partition

    def adopt(self, txn: Transaction) -> None:
        """Record the state of a transactional id that was loaded from the log: ``write`` writes only later changes.

        ``txn``: the transactional id with its transaction.
        """
        self._written[txn.transactional_id] = _value(txn, self._wall)


def rebuilt(batches: Iterable[Batch], wall: WallClock) -> list[Transaction]:
    """Return the transactional ids that one partition of the transaction log stores, each with its last state.

    Args:
        batches: the batches of the partition, in order.
        wall: conversion of wall-clock times to broker times.

    Raises: DecodeError if a record is not valid.
    """
    transactions: dict[str, Transaction] = {}
    for batch in batches:
        if batch.control:
            continue
        for record in batch.records():
            try:
                key, value = decode_record(TRANSACTIONS_TOPIC, record.key, record.value)
            except UnknownApi:
                continue
            assert isinstance(key, TransactionLogKey)
            transactions.pop(key.transactional_id, None)
            if isinstance(value, TransactionLogValue) and value.transaction_status < len(STATES):
                transactions[key.transactional_id] = _transaction(key.transactional_id, value, wall)
    return list(transactions.values())


def _value(txn: Transaction, wall: WallClock) -> TransactionLogValue:
    """Return the record value of a transactional id, without the time of the update (-1).

    Args:
        txn: the transactional id with its transaction.
        wall: the clock of the timestamps in records.
    """
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(txn.partitions):
        topics.setdefault(topic, []).append(index)
    lines = [TransactionLogValue.Partitions(topic=topic, partition_ids=ids) for topic, ids in topics.items()]
    return TransactionLogValue(
        producer_id=txn.producer_id,
        previous_producer_id=txn.previous_id,
        next_producer_id=-1 if txn.next_id is None else txn.next_id,
        producer_epoch=txn.epoch,
        transaction_timeout_ms=txn.timeout_ms,
        transaction_status=STATES.index(txn.state),
        transaction_partitions=None if txn.state is State.EMPTY else lines,
        transaction_last_update_timestamp_ms=-1,
        transaction_start_timestamp_ms=-1 if txn.started is None else wall.to_ms(txn.started),
        client_transaction_version=EPOCH_BUMP_VERSION if txn.kip890 else 0,
    )


def _transaction(transactional_id: str, value: TransactionLogValue, wall: WallClock) -> Transaction:
    started = value.transaction_start_timestamp_ms
    txn = Transaction(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        epoch=value.producer_epoch,
        previous_id=value.previous_producer_id,
        timeout_ms=value.transaction_timeout_ms,
        state=STATES[value.transaction_status],
        partitions={(line.topic, index) for line in value.transaction_partitions or () for index in line.partition_ids},
        next_id=None if value.next_producer_id < 0 else value.next_producer_id,
        kip890=value.client_transaction_version >= EPOCH_BUMP_VERSION,
        started=None if started < 0 else wall.from_ms(started),
        updated=wall.from_ms(value.transaction_last_update_timestamp_ms),
    )
    if txn.state in PREPARED:
        txn.marker = txn.identity
    return txn
