"""Consumers that process records with exactly-once semantics: they read, write and commit in one transaction (KIP-98,
KIP-447).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kwire import ErrorCode as E
from kwire.apikeys import ApiKey
from kwire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from mockbroker.lab.simulation.clients.client import BACKOFF
from mockbroker.lab.simulation.clients.plans import Place
from mockbroker.lab.simulation.clients.producer import BEFORE_KIP_890, SINCE_KIP_890, TIMEOUT_MS
from mockbroker.lab.simulation.clients.reader import NOT_HERE
from mockbroker.lab.simulation.clients.record_reader import RecordClassic, RecordConsumer, RecordReader
from mockbroker.lab.simulation.clients.sender import Sender
from mockbroker.lab.simulation.clients.transaction_manager import Phase, TransactionManager
from mockbroker.lab.simulation.history import READ_COMMITTED, OffsetOperation, Read, Result, Transaction, Write
from mockbroker.lab.simulation.network import Wire

MOST_HOPS = 2  # processed records are processed again, at most this often
PAUSE = 2.0  # maximum seconds between the response to TxnOffsetCommit and EndTxn; mostly it is much shorter
SOURCE = b"|"  # separates a value from the group and the record from which it was made, as in m3.1.7|g0:t1-0@42


class Processor(RecordReader):
    """A consumer that writes its output records and commits its offsets in one transaction.

    Attributes:
        manager: the requests to the transaction coordinator.
        sender: the output batches that have no result yet.
    """

    def begin(self) -> None:
        super().begin()
        version = SINCE_KIP_890 if self.script.kip890 else BEFORE_KIP_890
        self.sender = Sender(self, self.leaders, -1, version, self._settled)
        self.manager = TransactionManager(
            self, self.leaders, self.sender, f"e{self.script.number}", TIMEOUT_MS, kip890=self.script.kip890,
            failed=self._failed,
        )  # fmt: skip
        self._buffer: list[tuple[Place, int, bytes]] = []
        self._waits: list[Write] = []
        self._next: Callable[[], None] = self.rewind  # called when all batches are acknowledged
        self.later(BACKOFF, self.manager.start)

    @property
    def isolation(self) -> int:
        return READ_COMMITTED

    def on_read(self, read: Read) -> None:
        """Store the records that were read; the next transaction processes them.

        ``read``: records of one Fetch response.
        """
        self._buffer += [(read.place, offset, value) for offset, value in read.records]

    def own(self, share: frozenset[Place]) -> None:
        """Set the partitions to read from now on.

        If they differ from the current partitions, abandon the open transaction.

        ``share``: the partitions.
        """
        if share != self.owned:
            self.rewind()
            if self.manager.phase is Phase.OPEN:
                self.manager.fail(E.REBALANCE_IN_PROGRESS)
        super().own(share)

    def rewind(self) -> None:
        """Discard all positions and all records that are not in a transaction yet, so that reading restarts at the
        committed offsets.
        """
        self._buffer = []
        self.positions = {}
        self._unset.clear()

    def polled(self) -> None:
        """Process the records that were read since the last transaction, in a new transaction.

        Only look up missing positions if no records were read, a transaction is open, or the client may not commit.

        The client calls this method at each poll.
        """
        self.fetch_positions()
        if self.manager.phase is not Phase.READY or not self._buffer or not self.may_commit:
            return
        inputs, self._buffer = self._buffer, []
        positions, member = dict(self.positions), self.identity
        transaction = self.manager.begin()
        transaction.sources = [(place, offset) for place, offset, _ in inputs]
        outputs = [each for each in inputs if each[2].count(SOURCE) < MOST_HOPS]
        places = self.leaders.known()
        to = {each: self.dice.pick(places) for each in outputs} if places else {}

        def produce() -> None:
            if self.manager.transaction is not transaction or self.manager.phase is not Phase.OPEN:
                return
            self._next = lambda: self._commit(positions, member)
            self._waits = []
            values: dict[Place, list[bytes]] = {}
            for (place, offset, value), target in to.items():
                source = f"{self.script.group}:{place[0]}-{place[1]}@{offset}".encode()
                hops = SOURCE * value.count(SOURCE)
                values.setdefault(target, []).append(self.sender.value() + SOURCE + source + hops)
            for target, some in values.items():
                self._waits.append(self.sender.add(target, some, transaction))
            self.sender.send_due()
            if not self._waits:
                self._next()

        self.manager.add_partitions(sorted(set(to.values())), produce)

    def _settled(self, write: Write) -> None:
        if write.error and self.manager.phase is not Phase.FAILED and write.transaction is self.manager.transaction:
            self.manager.fail(write.error)
        elif self.manager.phase is Phase.OPEN and all(each.result is Result.DONE for each in self._waits):
            self._next()

    def _commit(self, positions: dict[Place, int], member: tuple[str, int]) -> None:
        self.manager.add_offsets(self.script.group, lambda: self._commit_offsets(positions, member))

    def _commit_offsets(self, positions: dict[Place, int], member: tuple[str, int]) -> None:
        if self.manager.phase is not Phase.OPEN:
            return
        if self.coordinator is None:
            self.manager.fail(E.COORDINATOR_NOT_AVAILABLE)
            return
        kind, topics = TxnOffsetCommitRequest.Topic, dict[str, Any]()
        operations: list[OffsetOperation] = []
        for place, offset in sorted(positions.items()):
            line = kind.Partition(partition_index=place[1], committed_offset=offset, committed_metadata="")
            topics.setdefault(place[0], kind(name=place[0])).partitions.append(line)
            operations.append(
                OffsetOperation(
                    self.script.group, place, offset, True, self.queue.now, transaction=self.manager.transaction
                )
            )
        self.history.offsets += operations
        producer_id, epoch = self.manager.identity
        request = TxnOffsetCommitRequest(
            transactional_id=self.sender.transactional_id or "",
            group_id=self.script.group,
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id=member[1],
            member_id=member[0],
            group_instance_id=self.script.instance,
            topics=list(topics.values()),
        )
        transaction = self.manager.transaction

        def committed(answer: TxnOffsetCommitResponse) -> None:
            error = next((p.error_code for topic in answer.topics for p in topic.partitions if p.error_code), 0)
            for each in operations:
                each.result, each.done_at = Result.REFUSED if error else Result.DONE, self.queue.now
            if self.manager.transaction is not transaction or self.manager.phase is not Phase.OPEN:
                return
            if error:
                self.manager.fail(error)
            else:
                self.later(PAUSE * self.dice.random() ** 4, self._end, transaction)

        self.send(self.coordinator, ApiKey.TXN_OFFSET_COMMIT, 5 if self.script.kip890 else 3, request, committed)

    def _end(self, transaction: Transaction | None) -> None:
        if self.manager.transaction is transaction and self.manager.phase is Phase.OPEN:
            self.manager.end(lambda: None, commit=True)

    def _failed(self, error: int) -> None:
        self.say(f"cannot continue its transaction: {E(error).name}")
        self.rewind()
        if error in NOT_HERE:
            self.find_later()
        self.later(self.script.commit * self.dice.random(), self._restart)

    def _restart(self) -> None:
        if self.manager.phase is Phase.FAILED:
            self.sender.reset(None)
            self.manager.start()

    def disconnected(self, connection: Wire) -> None:
        if connection is self.coordinator and self.manager.phase is Phase.OPEN:
            self.manager.fail(E.COORDINATOR_NOT_AVAILABLE)
        self.manager.disconnected(connection)
        self.sender.disconnected(connection)
        super().disconnected(connection)

    def stop(self) -> None:
        if self.up:
            self.manager.close()
        super().stop()


class ClassicProcessor(Processor, RecordClassic):
    """A classic group member that processes records with exactly-once semantics."""


class ConsumerProcessor(Processor, RecordConsumer):
    """A consumer group member (KIP-848) that processes records with exactly-once semantics."""
