"""The transaction coordinator: all transactional ids of the cluster, with their partitions, timeouts and markers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from kwire import ErrorCode
from mockbroker.base.deadlines import Deadlines
from mockbroker.base.effects import Effects, Note
from mockbroker.base.event_kinds import EventKind
from mockbroker.base.regular import RegularChecks
from mockbroker.base.settings import Settings
from mockbroker.base.timers import TRANSACTIONAL_IDS, Due, TransactionDue
from mockbroker.groups.coordinated import CoordinatedGroup
from mockbroker.groups.offsets import Committed
from mockbroker.groups.registry import Groups
from mockbroker.topics.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, ClusterState, Partition
from mockbroker.transactions import rules
from mockbroker.transactions.state import NO_EPOCH, OPEN, PREPARED, Identity, State, Transaction


class Ended(NamedTuple):
    """The result of an operation that may end a transaction: InitProducerId, EndTxn or a timeout.

    Attributes:
        error: error of the response.
        identity: producer id and epoch for the next transaction; both are -1 if the request was rejected.
        appended: partitions in which markers were written.
        notes: journal events of the transaction, and of groups whose offsets it committed.
    """

    error: ErrorCode
    identity: Identity
    appended: list[Partition]
    notes: Effects


class Transactions(dict[str, Transaction]):
    """The transaction coordinator: a dict of transactional id -> Transaction, with the operations on them.

    Args:
        cluster: the cluster.
        groups: groups, which store the offsets that are committed in transactions.
        settings: settings of the cluster.
        deadlines: deadlines for transaction timeouts and delayed markers.
        checks: times of the regular checks for timed-out transactions and expired transactional ids.
        new_id: function that returns the next producer id.
        wall: function that converts a broker time in seconds to milliseconds since 1970.
        persist: function that writes a changed transactional id to the transaction log; called with the Transaction and
            the broker time in seconds.
        erase: function that deletes a transactional id from the transaction log; called with the id and the broker time
            in seconds.
        slice_size: function that returns the maximum number of markers that are written at once.
        kip890: whether the emulated release implements KIP-890 (Kafka 4.0 and later).

    Attributes:
        begun: journal events of begun transactions, until they are added to the journal.
    """

    def __init__(
        self,
        cluster: ClusterState,
        groups: Groups,
        settings: Settings,
        deadlines: Deadlines[Due],
        checks: RegularChecks,
        new_id: Callable[[], int],
        wall: Callable[[float], int],
        persist: Callable[[Transaction, float], None],
        erase: Callable[[str, float], None],
        slice_size: Callable[[], int],
        *,
        kip890: bool,
    ) -> None:
        self._cluster = cluster
        self._groups = groups
        self._settings = settings
        self._deadlines = deadlines
        self._checks = checks
        self._new_id = new_id
        self._wall = wall
        self._persist = persist
        self._erase = erase
        self._slice_size = slice_size
        self._kip890 = kip890
        self.begun: Effects = []
        self._fenced: set[str] = set()  # transactional ids whose producer was fenced, and that have no new producer yet
        self._pending_groups: dict[int, set[str]] = {}  # producer id -> ids of groups with pending offsets
        self._unmarked: dict[str, list[tuple[str, int]]] = {}  # transactional id -> partitions that get a marker later

    def init(self, transactional_id: str, timeout_ms: int, expected: Identity | None, now: float) -> Ended:
        """Assign a producer id and epoch to a transactional id (InitProducerId).

        If a transaction is open, it is aborted, and the result is CONCURRENT_TRANSACTIONS: the client must repeat the
        request.

        Args:
            transactional_id: transactional id.
            timeout_ms: transaction timeout, milliseconds.
            expected: producer id and epoch in the request (KIP-360); None if the request contains none.
            now: broker time, seconds.

        Returns: the result, with the assigned producer id and epoch.
        """
        if not 0 < timeout_ms <= self._settings.transaction_max_timeout_ms:
            return _refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        txn = self.get(transactional_id)
        if txn is None:
            if len(self) >= self._settings.mockbroker_max_transactional_ids:
                return _refused(ErrorCode.POLICY_VIOLATION)
            txn = self[transactional_id] = Transaction(transactional_id=transactional_id, producer_id=self._new_id())
        if error := rules.init_error(txn, expected):
            return _refused(error)
        before = txn.identity
        notes: Effects = []
        if expected is None and before.epoch != NO_EPOCH and transactional_id not in self._fenced:
            notes.append(_note(EventKind.TXN_FENCE, txn, before, "InitProducerId of another producer"))
            self._fenced.add(transactional_id)
        if txn.state is State.ONGOING:
            rules.fence(txn, remember=self._kip890)
            ended = self._prepare(txn, committed=False, kip890=self._kip890, now=now)
            return ended._replace(error=ErrorCode.CONCURRENT_TRANSACTIONS, notes=[*notes, *ended.notes])
        if error := rules.next_identity(txn, expected, self._new_id):
            return _refused(error)
        self._fenced.discard(transactional_id)
        txn.state, txn.timeout_ms, txn.partitions = State.EMPTY, timeout_ms, set()
        if self._kip890:
            txn.started = None
        self._write(txn, now)
        return Ended(ErrorCode.NONE, txn.identity, [], notes)

    def add(
        self,
        transactional_id: str,
        producer: Identity,
        partitions: Collection[tuple[str, int]],
        now: float,
        *,
        kip890: bool,
    ) -> ErrorCode:
        """Add partitions to the transaction of a producer; begin a transaction if none is open.

        Args:
            transactional_id: transactional id of the request.
            producer: producer id and epoch of the request.
            partitions: topics and partitions to add.
            now: broker time, seconds.
            kip890: True if the request has a version with KIP-890.

        Returns:
            NONE; INVALID_PRODUCER_ID_MAPPING or PRODUCER_FENCED if the producer is not the current owner of the
            transactional id; CONCURRENT_TRANSACTIONS if the markers of the producer's previous transaction are not
            written yet.
        """
        txn = self.get(transactional_id)
        if error := rules.add_error(txn, producer):
            return error
        assert txn is not None
        begins = txn.state is not State.ONGOING
        if not begins and txn.partitions.issuperset(partitions):
            return ErrorCode.NONE
        rules.add(txn, partitions, now, kip890=kip890 and self._kip890)
        self._write(txn, now)  # before records of the transaction are appended
        if begins:
            self._set_timeout(txn, now)
            self.begun.append(_note(EventKind.TXN_BEGIN, txn, txn.identity))
        return ErrorCode.NONE

    def verify(self, transactional_id: str, producer: Identity, partition: tuple[str, int]) -> ErrorCode:
        """Return the error if a partition is not part of the producer's transaction, else NONE (KIP-890).

        For the errors, see ``rules.verify``.

        Args:
            transactional_id: transactional id of the request.
            producer: producer id and epoch of the request.
            partition: topic and partition index.
        """
        return rules.verify(self.get(transactional_id), producer, partition)

    def write_error(
        self,
        transactional_id: str,
        producer: Identity,
        place: tuple[str, int],
        now: float,
        *,
        adds: bool,
        abortable: bool,
        busy: ErrorCode,
    ) -> ErrorCode:
        """Return the error for a write in a transaction; NONE if the write is allowed.

        The error is the one that Produce or TxnOffsetCommit reports.

        If ``adds`` is True, an allowed write also adds the partition to the transaction, and begins a transaction if
        none is open.

        Args:
            transactional_id: transactional id of the request.
            producer: producer id and epoch of the request.
            place: topic and partition of the write.
            now: broker time, seconds.
            adds: True if the write itself adds the partition to the transaction (KIP-890); False if the partition must
                have been added before.
            abortable: True if the client supports TRANSACTION_ABORTABLE; False to return INVALID_TXN_STATE instead.
            busy: if ``adds`` is False, the error to return while the markers of the previous transaction are being
                written.
        """
        error = (
            self.add(transactional_id, producer, [place], now, kip890=True)
            if adds
            else self.verify(transactional_id, producer, place)
        )
        match error:
            case ErrorCode.PRODUCER_FENCED:
                return ErrorCode.INVALID_PRODUCER_EPOCH
            case ErrorCode.TRANSACTION_ABORTABLE if not abortable:
                return ErrorCode.INVALID_TXN_STATE
            case ErrorCode.CONCURRENT_TRANSACTIONS if not adds:
                return busy
        return error

    def end(self, transactional_id: str, producer: Identity, *, committed: bool, kip890: bool, now: float) -> Ended:
        """Commit or abort a transaction (EndTxn).

        Args:
            transactional_id: transactional id.
            producer: producer id and epoch of the request.
            committed: True to commit the transaction, False to abort it.
            kip890: True if the response contains a new producer epoch (v5).
            now: broker time, seconds.

        Returns: the result, with the producer id and epoch for the next transaction.
        """
        txn = self.get(transactional_id)
        if error := rules.end_error(txn, producer, committed=committed, kip890=kip890):
            return _refused(error)
        assert txn is not None
        if rules.is_ended(txn, producer, kip890=kip890):
            return Ended(ErrorCode.NONE, txn.identity, [], [])
        if kip890:
            rules.bump(txn, self._new_id)
        return self._prepare(txn, committed=committed, kip890=kip890, now=now)

    def hold(
        self, group: CoordinatedGroup, producer: Identity, topic: str, partition: int, committed: Committed
    ) -> None:
        """Store a pending offset of a transaction in a group.

        When the transaction ends, the offset is committed or discarded.

        Args:
            group: the group.
            producer: producer id and epoch of the request.
            topic: topic name.
            partition: partition number.
            committed: offset and metadata.
        """
        group.offsets.store_transactional(producer.producer_id, producer.epoch, topic, partition, committed)
        self._groups.mark_dirty(group.group_id)
        self.add_pending_group(group.group_id, producer.producer_id)

    def add_pending_group(self, group_id: str, producer_id: int) -> None:
        """Record that a group has pending offsets of a producer's transaction.

        So the end of the transaction updates the group.

        Args:
            group_id: the group id.
            producer_id: producer id.
        """
        self._pending_groups.setdefault(producer_id, set()).add(group_id)

    def tick(self, transactional_id: str, now: float) -> Ended:
        """Handle a deadline of a transactional id.

        If the markers of the transaction are not written yet, write them. Else the transaction has timed out: fence its
        producer, and abort the transaction.

        Args:
            transactional_id: transactional id.
            now: broker time, seconds.

        Returns: the result, with the partitions in which markers were written.
        """
        txn = self[transactional_id]
        if txn.state in PREPARED:
            return self._complete(txn, now)
        note = _note(EventKind.TXN_EXPIRE, txn, txn.identity, f"open for more than {txn.timeout_ms / 1000:g} s")
        rules.fence(txn, remember=self._kip890)
        self._fenced.add(transactional_id)
        ended = self._prepare(txn, committed=False, kip890=self._kip890, now=now)
        return ended._replace(notes=[note, *ended.notes])

    def write_marker(
        self,
        partition: Partition,
        marker: Identity,
        *,
        committed: bool,
        coordinator_epoch: int,
        transaction_version: int = 0,
        now: float,
    ) -> tuple[ErrorCode, Effects]:
        """Write a transaction marker to one partition.

        In ``__consumer_offsets``, also commit or discard the pending offsets.

        Args:
            partition: the partition.
            marker: producer id and epoch of the marker.
            committed: True for a commit marker, False for an abort marker.
            coordinator_epoch: epoch of the transaction coordinator.
            transaction_version: transaction version of the marker.
            now: broker time, seconds.

        Returns: NONE or the error, and the journal events of groups whose offsets were committed.
        """
        error = partition.end_transaction(
            marker.producer_id,
            marker.epoch,
            committed=committed,
            coordinator_epoch=coordinator_epoch,
            timestamp=self._wall(now),
            transaction_version=transaction_version,
        )
        if error or partition.topic != OFFSETS_TOPIC:
            return error, []
        return error, list(self._finish_offsets(partition.index, marker.producer_id, committed=committed))

    def remove_expired(self, now: float) -> None:
        """Remove the transactional ids that have no open transaction and were not used for too long.

        The limit is ``transactional.id.expiration.ms``. The method also schedules the next check.

        ``now``: broker time, seconds.
        """
        before = now - self._settings.transactional_id_expiration_ms / 1000
        for txn in [each for each in self.values() if each.updated <= before and each.state not in OPEN]:
            del self[txn.transactional_id]
            self._fenced.discard(txn.transactional_id)
            self._erase(txn.transactional_id, now)
        self._schedule_expiry(now)

    def _schedule_expiry(self, now: float) -> None:
        """Schedule the next check for expired transactional ids. ``now``: broker time, seconds."""
        if not self:
            return
        interval = self._settings.transaction_remove_expired_transaction_cleanup_interval_ms / 1000
        due = min(txn.updated for txn in self.values()) + self._settings.transactional_id_expiration_ms / 1000
        self._deadlines.set(TRANSACTIONAL_IDS, self._checks.next(due, now, interval))

    def _write(self, txn: Transaction, now: float) -> None:
        """Write a changed transactional id to the transaction log. ``now``: broker time, seconds."""
        txn.updated = now
        self._persist(txn, now)
        if TRANSACTIONAL_IDS not in self._deadlines:
            self._schedule_expiry(now)

    def adopt(self, txn: Transaction, now: float) -> None:
        """Add a transactional id that was loaded from the log, and set the deadline for its timeout or its markers.

        Args:
            txn: the transactional id with its transaction.
            now: broker time, seconds.
        """
        self[txn.transactional_id] = txn
        self._unmarked.pop(txn.transactional_id, None)
        if TRANSACTIONAL_IDS not in self._deadlines:
            self._schedule_expiry(now)
        if txn.state is State.ONGOING:
            self._set_timeout(txn, now if txn.started is None else txn.started)
        elif txn.state in PREPARED:
            self._deadlines.set(TransactionDue(txn.transactional_id), now)

    def _set_timeout(self, txn: Transaction, started: float) -> None:
        self._deadlines.set(TransactionDue(txn.transactional_id), self._next_check(started + txn.timeout_ms / 1000))

    def _next_check(self, due: float) -> float:
        """Return the first time at or after ``due`` at which the coordinator checks for timed-out transactions.

        Times are broker times in seconds.
        """
        interval = self._settings.transaction_abort_timed_out_transaction_cleanup_interval_ms / 1000
        return self._checks.first(due, interval)

    def _prepare(self, txn: Transaction, *, committed: bool, kip890: bool, now: float) -> Ended:
        rules.prepare(txn, committed=committed, kip890=kip890, now=now)
        self._write(txn, now)
        note = _note(EventKind.TXN_PREPARE, txn, txn.identity, "commit" if committed else "abort")
        if delay := self._settings.mockbroker_transaction_completion_ms:
            self._deadlines.set(TransactionDue(txn.transactional_id), now + delay / 1000)
            return Ended(ErrorCode.NONE, _next_identity(txn), [], [note])
        ended = self._complete(txn, now)
        return ended._replace(notes=[note, *ended.notes])

    def _complete(self, txn: Transaction, now: float) -> Ended:
        """Write the markers of a prepared transaction, and complete the transaction. Return the result.

        The markers of a large transaction are written in slices (parts of limited size). A deadline that is due at once
        continues with the next slice, so that requests are handled between two slices.

        As in Kafka, ``partitions`` contains only the partitions without a marker, and the transaction stays in the
        prepared state if a partition rejects a marker because of its epoch.

        Args:
            txn: the transactional id with its transaction.
            now: broker time, seconds.
        """
        assert txn.marker is not None
        transactional_id, size = txn.transactional_id, self._slice_size()
        self._deadlines.forget(TransactionDue(transactional_id))
        unmarked = self._unmarked.pop(transactional_id, None) or sorted(txn.partitions)
        appended: list[Partition] = []
        notes: Effects = []
        for topic, index in unmarked[:size]:
            partition = self._cluster.partition(topic, index)
            if partition is not None:  # else the topic was deleted
                error, entries = self.write_marker(
                    partition,
                    txn.marker,
                    committed=txn.state is State.PREPARE_COMMIT,
                    coordinator_epoch=self._coordinator_epoch(transactional_id),
                    now=now,
                )
                notes += entries
                if error:
                    continue
                appended.append(partition)
            txn.partitions.remove((topic, index))
        if len(unmarked) > size:
            self._unmarked[transactional_id] = unmarked[size:]
            self._deadlines.set(TransactionDue(transactional_id), now)
        elif not txn.partitions:
            committed = txn.state is State.PREPARE_COMMIT
            notes.append(_note(EventKind.TXN_COMMIT if committed else EventKind.TXN_ABORT, txn, txn.marker))
            rules.complete(txn)
            self._write(txn, now)
        return Ended(ErrorCode.NONE, _next_identity(txn), appended, notes)

    def _coordinator_epoch(self, transactional_id: str) -> int:
        """Return the coordinator epoch of a transactional id.

        The coordinator epoch is the leader epoch of the partition of the transaction log in which the transactional id
        is stored.
        """
        return self._cluster.topics[TRANSACTIONS_TOPIC].partition_of(transactional_id).leader_epoch

    def _finish_offsets(self, index: int, producer_id: int, *, committed: bool) -> Iterator[Note]:
        pending = self._pending_groups.get(producer_id, set())
        topic = self._cluster.topics[OFFSETS_TOPIC]
        for group_id in sorted(group_id for group_id in pending if topic.partition_of(group_id).index == index):
            pending.discard(group_id)
            group = self._groups.get(group_id)
            stored = group.offsets.end_transaction(producer_id, committed=committed) if group else {}
            if stored:
                yield Note(event=EventKind.COMMIT, group=group_id, offsets=stored, reason="a transaction was committed")
        if not pending:
            self._pending_groups.pop(producer_id, None)


def _note(event: EventKind, txn: Transaction, producer: Identity, reason: str = "") -> Note:
    """Return a journal event of a transaction.

    Args:
        event: kind of the event.
        txn: the transactional id with its transaction.
        producer: producer id and epoch.
        reason: reason for the event; "" without a reason.
    """
    return Note(
        event=event,
        group="",
        transactional_id=txn.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        reason=reason,
    )


def _next_identity(txn: Transaction) -> Identity:
    """Return the producer id and epoch for the next transaction, while the markers are being written and afterwards."""
    return txn.identity if txn.next_id is None else Identity(txn.next_id, 0)


def _refused(error: ErrorCode) -> Ended:
    return Ended(error, Identity(-1, -1), [], [])
