"""All transactions of the cluster: ids given out, partitions taken in, ends decided, markers written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from math import ceil
from typing import NamedTuple

from kwire import ErrorCode
from mockbroker.base.deadlines import Deadlines
from mockbroker.base.effects import Effects, Note
from mockbroker.base.event_kinds import EventKind
from mockbroker.base.settings import Settings
from mockbroker.base.timers import Due, TransactionDue
from mockbroker.groups.coordinated import CoordinatedGroup
from mockbroker.groups.offsets import Committed
from mockbroker.groups.registry import Groups
from mockbroker.topics.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Cluster, Partition
from mockbroker.transactions import rules
from mockbroker.transactions.state import PREPARED, Identity, State, Transaction


class Ended(NamedTuple):
    """How an EndTxn came out. ``identity``: who the producer is from now on; ``grown``: where markers were written."""

    error: ErrorCode
    identity: Identity
    grown: list[Partition]
    notes: Effects


class Transactions(dict[str, Transaction]):
    """By transactional id. ``new_id``: the next producer id; ``wall``: from a time to milliseconds since 1970.

    ``kip890``: as since Kafka 4.0 (release.py). ``keep``: writes down what has become of an id.
    """

    def __init__(
        self,
        cluster: Cluster,
        groups: Groups,
        settings: Settings,
        waits: Deadlines[Due],
        new_id: Callable[[], int],
        wall: Callable[[float], int],
        keep: Callable[[Transaction, float], None],
        *,
        kip890: bool,
    ) -> None:
        super().__init__()
        self._cluster = cluster
        self._groups = groups
        self._settings = settings
        self._waits = waits
        self._new_id = new_id
        self._wall = wall
        self._keep = keep
        self._kip890 = kip890
        self._holding: dict[int, set[str]] = {}  # groups in which offsets wait for a producer

    def init(self, transactional_id: str, timeout_ms: int, expected: Identity | None, now: float) -> Ended:
        """Another producer takes the id, or the same once more. An open transaction is aborted first."""
        if not 0 < timeout_ms <= self._settings.transaction_max_timeout_ms:
            return _refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        txn = self.get(transactional_id)
        if txn is None:
            if len(self) >= self._settings.mockbroker_max_transactional_ids:
                return _refused(ErrorCode.POLICY_VIOLATION)
            txn = self[transactional_id] = Transaction(transactional_id=transactional_id, producer_id=self._new_id())
        if error := rules.init_error(txn, expected):
            return _refused(error)
        if txn.state is State.ONGOING:
            rules.fence(txn, remember=self._kip890)
            ended = self._prepare(txn, committed=False, now=now)
            return ended._replace(error=ErrorCode.CONCURRENT_TRANSACTIONS)
        if error := rules.next_identity(txn, expected, self._new_id):
            return _refused(error)
        txn.state, txn.timeout_ms, txn.partitions = State.EMPTY, timeout_ms, set()
        if self._kip890:
            txn.started = None
        self._keep(txn, now)
        return Ended(ErrorCode.NONE, txn.identity, [], [])

    def add(
        self, transactional_id: str, asked: Identity, partitions: Collection[tuple[str, int]], now: float
    ) -> ErrorCode:
        """Partitions become part of the transaction, which begins if there is none."""
        txn = self.get(transactional_id)
        if error := rules.add_error(txn, asked):
            return error
        assert txn is not None
        begins = txn.state is not State.ONGOING
        if not begins and txn.partitions.issuperset(partitions):
            return ErrorCode.NONE
        rules.add(txn, partitions, now)
        self._keep(txn, now)  # before anything is written in its name
        if begins:
            self._wait_for_end(txn, now)
        return ErrorCode.NONE

    def verify(self, transactional_id: str, asked: Identity, partition: tuple[str, int]) -> ErrorCode:
        """Whether a partition is part of this producer's transaction."""
        return rules.verify(self.get(transactional_id), asked, partition)

    def enter(
        self,
        transactional_id: str,
        asked: Identity,
        place: tuple[str, int],
        now: float,
        *,
        joins: bool,
        abortable: bool,
        busy: ErrorCode,
    ) -> ErrorCode:
        """Whether a producer may write to a place in its transaction, in the words of whoever keeps the place.

        ``joins``: the place comes in by it (KIP-890); else it must be in already, and ``busy`` is what is said while
        markers are being written. ``abortable``: the client knows TRANSACTION_ABORTABLE.
        """
        error = (
            self.add(transactional_id, asked, [place], now) if joins else self.verify(transactional_id, asked, place)
        )
        match error:
            case ErrorCode.PRODUCER_FENCED:
                return ErrorCode.INVALID_PRODUCER_EPOCH
            case ErrorCode.TRANSACTION_ABORTABLE if not abortable:
                return ErrorCode.INVALID_TXN_STATE
            case ErrorCode.CONCURRENT_TRANSACTIONS if not joins:
                return busy
        return error

    def end(self, transactional_id: str, asked: Identity, *, committed: bool, kip890: bool, now: float) -> Ended:
        """Commit or abort. ``kip890``: the client takes a new epoch from the answer (EndTxn v5)."""
        txn = self.get(transactional_id)
        if error := rules.end_error(txn, asked, committed=committed, kip890=kip890):
            return _refused(error)
        assert txn is not None
        if rules.is_over(txn, asked, kip890=kip890):
            return Ended(ErrorCode.NONE, txn.identity, [], [])
        if kip890:
            rules.bump(txn, self._new_id)
        return self._prepare(txn, committed=committed, now=now)

    def hold(
        self, group: CoordinatedGroup, producer: Identity, topic: str, partition: int, committed: Committed
    ) -> None:
        """Keep an offset of the group until the producer's transaction ends."""
        group.offsets.hold(producer.producer_id, producer.epoch, topic, partition, committed)
        self._groups.touch(group.group_id)
        self.holds(group.group_id, producer.producer_id)

    def holds(self, group_id: str, producer_id: int) -> None:
        """The group keeps offsets until the producer's transaction ends."""
        self._holding.setdefault(producer_id, set()).add(group_id)

    def tick(self, transactional_id: str, now: float) -> Ended:
        """Something is due: a transaction has run too long, or its markers are to be written."""
        txn = self[transactional_id]
        if txn.state in PREPARED:
            return self._complete(txn, now)
        rules.fence(txn, remember=self._kip890)
        return self._prepare(txn, committed=False, now=now)

    def write_marker(
        self, partition: Partition, marker: Identity, *, committed: bool, coordinator_epoch: int, now: float
    ) -> tuple[ErrorCode, Effects]:
        """End a producer's transaction in one partition; in one of the offsets topic, offsets hold from now on."""
        error = partition.end_transaction(
            marker.producer_id,
            marker.epoch,
            committed=committed,
            coordinator_epoch=coordinator_epoch,
            timestamp=self._wall(now),
        )
        if error or partition.topic != OFFSETS_TOPIC:
            return error, []
        return error, list(self._finish_offsets(partition.index, marker.producer_id, committed=committed))

    def take_in(self, txn: Transaction, now: float) -> None:
        """An id that was made of what is written of it; what was begun goes on."""
        self[txn.transactional_id] = txn
        if txn.state is State.ONGOING:
            self._wait_for_end(txn, now if txn.started is None else txn.started)
        elif txn.state in PREPARED:
            self._waits.set(TransactionDue(txn.transactional_id), now)

    def _wait_for_end(self, txn: Transaction, begun: float) -> None:
        self._waits.set(TransactionDue(txn.transactional_id), self._looked_at(begun + txn.timeout_ms / 1000))

    def _looked_at(self, due: float) -> float:
        """When the coordinator notices that a transaction has run too long: it looks from time to time."""
        every = self._settings.transaction_abort_timed_out_transaction_cleanup_interval_ms / 1000
        return ceil(due / every) * every

    def _prepare(self, txn: Transaction, *, committed: bool, now: float) -> Ended:
        rules.prepare(txn, committed=committed, now=now)
        self._keep(txn, now)
        if delay := self._settings.mockbroker_transaction_completion_ms:
            self._waits.set(TransactionDue(txn.transactional_id), now + delay / 1000)
            known = txn.identity if txn.next_id is None else Identity(txn.next_id, 0)
            return Ended(ErrorCode.NONE, known, [], [])
        return self._complete(txn, now)

    def _complete(self, txn: Transaction, now: float) -> Ended:
        """Write the markers. One that is fenced is never written, and the transaction never gets over it."""
        assert txn.marker is not None
        self._waits.forget(TransactionDue(txn.transactional_id))
        grown: list[Partition] = []
        notes: Effects = []
        stuck = False
        for topic, index in sorted(txn.partitions):
            partition = self._cluster.partition(topic, index)
            if partition is None:  # the topic is gone, and what was written to it
                continue
            error, told = self.write_marker(
                partition,
                txn.marker,
                committed=txn.state is State.PREPARE_COMMIT,
                coordinator_epoch=self._coordinator_epoch(txn.transactional_id),
                now=now,
            )
            stuck |= bool(error)
            notes += told
            if not error:
                grown.append(partition)
        if not stuck:
            rules.complete(txn)
            self._keep(txn, now)
        return Ended(ErrorCode.NONE, txn.identity, grown, notes)

    def _coordinator_epoch(self, transactional_id: str) -> int:
        """How often the partition of the transaction log changed its leader."""
        topic = self._cluster.topics.get(TRANSACTIONS_TOPIC)
        return 0 if topic is None else topic.partition_of(transactional_id).leader_epoch

    def _finish_offsets(self, index: int, producer_id: int, *, committed: bool) -> Iterator[Note]:
        waiting = self._holding.get(producer_id, set())
        topic = self._cluster.topics[OFFSETS_TOPIC]
        for group_id in sorted(group_id for group_id in waiting if topic.partition_of(group_id).index == index):
            waiting.discard(group_id)
            group = self._groups.get(group_id)
            stored = group.offsets.finish(producer_id, committed=committed) if group else {}
            if stored:
                yield Note(event=EventKind.COMMIT, group=group_id, offsets=stored, reason="a transaction was committed")
        if not waiting:
            self._holding.pop(producer_id, None)


def _refused(error: ErrorCode) -> Ended:
    return Ended(error, Identity(-1, -1), [], [])
