"""A producer in the simulation that commits the offsets of a group in transactions, and aborts some transactions."""

from __future__ import annotations

from typing import Any

from kwire import ErrorCode as E
from kwire.apikeys import ApiKey
from kwire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kwire.messages.end_txn import EndTxnRequest, EndTxnResponse
from kwire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kwire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from mockbroker.lab.simulation.clients.client import BACKOFF, GROUP, TRANSACTION, Client
from mockbroker.lab.simulation.clients.plans import Place
from mockbroker.lab.simulation.clients.reader import NOT_HERE
from mockbroker.lab.simulation.network import Wire

TIMEOUT_MS = 10_000  # transaction timeout
ABORTED = 0.3  # probability that a transaction is aborted
MOST_OFFSET = 1_000_000  # an offset that only fenced producers (zombies) commit
ZOMBIES = 0.3  # probability that a fenced producer sends another request


class Transactional(Client):
    """A transactional producer that writes no records.

    The producer sends InitProducerId. For each transaction it then sends AddOffsetsToTxn, TxnOffsetCommit and EndTxn.
    After an error, the producer starts again with InitProducerId.

    Attributes:
        producer: producer id and epoch; None before the response to InitProducerId.
        keeper: connection to the group coordinator. (``coordinator`` is the connection to the transaction coordinator.)
        busy: whether a transaction is open.
        offset: offset in the last TxnOffsetCommit.
        former: producer id and epoch from the last InitProducerId; None before the first. The next InitProducerId
            fences them.
    """

    former: tuple[int, int] | None = None

    def begin(self) -> None:
        self.producer: tuple[int, int] | None = None
        self.keeper: Wire | None = None
        self.busy = False
        self.offset = 0
        self.later(self.script.commit, self._turn)

    @property
    def key(self) -> tuple[str, int]:
        return f"t{self.script.number}", TRANSACTION

    def ready(self) -> None:
        self._init_producer()

    def _init_producer(self) -> None:
        """Send InitProducerId. If a transaction is open, the coordinator aborts it."""
        self.producer, self.busy = None, False
        request = InitProducerIdRequest(transactional_id=self.key[0], transaction_timeout_ms=TIMEOUT_MS)
        self.ask(ApiKey.INIT_PRODUCER_ID, 4, request, self._begun)

    def _begun(self, answer: InitProducerIdResponse) -> None:
        if answer.error_code:
            self._failed(answer.error_code)
            return
        self.producer = answer.producer_id, answer.producer_epoch
        former, self.former = self.former, self.producer
        if former is not None and self.dice.chance(ZOMBIES):
            self.later(self.script.commit * self.dice.random(), self._send_fenced, *former)

    def _send_fenced(self, producer_id: int, epoch: int) -> None:
        """Send requests with a fenced producer epoch. The broker must reject them; this client ignores the responses.

        Args:
            producer_id: producer id.
            epoch: the fenced producer epoch.
        """
        identity: dict[str, Any] = {
            "transactional_id": self.key[0],
            "producer_id": producer_id,
            "producer_epoch": epoch,
        }
        joins = AddOffsetsToTxnRequest(**identity, group_id=self.script.group)
        ends = EndTxnRequest(**identity, committed=self.dice.chance(0.5))
        if self.dice.chance(0.5):
            self.ask(ApiKey.ADD_OFFSETS_TO_TXN, 3, joins, self._ignored)
        else:
            self.ask(ApiKey.END_TXN, 3, ends, self._ignored)
        place = TxnOffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=MOST_OFFSET)
        topics = [TxnOffsetCommitRequest.Topic(name=topic, partitions=[place]) for topic in self.topics]
        if self.keeper is not None:
            request = TxnOffsetCommitRequest(**identity, group_id=self.script.group, topics=topics)
            self.send(self.keeper, ApiKey.TXN_OFFSET_COMMIT, 3, request, self._ignored)

    def _ignored(self, answer: object) -> None:
        pass

    def _turn(self) -> None:
        self.later(self.script.commit * (0.5 + self.dice.random()), self._turn)
        if self.busy or self.producer is None or self.coordinator is None:
            return
        if self.keeper is None:
            self._find_keeper()
            return
        self.busy = True
        producer_id, epoch = self.producer
        request = AddOffsetsToTxnRequest(
            transactional_id=self.key[0], producer_id=producer_id, producer_epoch=epoch, group_id=self.script.group
        )
        self.ask(ApiKey.ADD_OFFSETS_TO_TXN, 3, request, self._added)

    def _find_keeper(self) -> None:
        assert self.coordinator is not None
        request = FindCoordinatorRequest(coordinator_keys=[self.script.group], key_type=GROUP)
        self.send(self.coordinator, ApiKey.FIND_COORDINATOR, 4, request, self._keeper_found)

    def _keeper_found(self, answer: FindCoordinatorResponse) -> None:
        (coordinator,) = answer.coordinators
        if not coordinator.error_code and self.keeper is None:
            self.keeper = self.network.connect(self, self.link, coordinator.node_id, self.name)

    def _added(self, answer: AddOffsetsToTxnResponse) -> None:
        if answer.error_code or self.producer is None or self.keeper is None:
            self._failed(answer.error_code)
            return
        kind = TxnOffsetCommitRequest.Topic
        topics: list[Any] = []
        for topic in self.topics:
            indexes = range(self.partitions(topic))
            lines = [
                kind.Partition(
                    partition_index=index, committed_offset=self._next((topic, index)), committed_metadata=""
                )
                for index in indexes
                if self.dice.chance(0.6)
            ]
            topics += [kind(name=topic, partitions=lines)] if lines else []
        producer_id, epoch = self.producer
        request = TxnOffsetCommitRequest(
            transactional_id=self.key[0],
            group_id=self.script.group,
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=topics,
        )
        self.send(self.keeper, ApiKey.TXN_OFFSET_COMMIT, 3, request, self._held)

    def _next(self, place: Place) -> int:
        self.offset += self.dice.whole(1, 9)
        return self.offset

    def _held(self, answer: TxnOffsetCommitResponse) -> None:
        errors = [partition.error_code for topic in answer.topics for partition in topic.partitions]
        if any(errors) or self.producer is None:
            self._failed(next(filter(None, errors), 0))
            return
        self.later(self.script.commit * self.dice.random(), self._end)

    def _end(self) -> None:
        if self.producer is None or self.coordinator is None:
            return
        producer_id, epoch = self.producer
        request = EndTxnRequest(
            transactional_id=self.key[0],
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=not self.dice.chance(ABORTED),
        )
        self.ask(ApiKey.END_TXN, 3, request, self._ended)

    def _ended(self, answer: EndTxnResponse) -> None:
        self.busy = False
        if answer.error_code:
            self._failed(answer.error_code)

    def _failed(self, error: int) -> None:
        if error in NOT_HERE:
            self._drop_keeper()
            self.find_later()
        elif self.coordinator is not None:
            self.producer = None
            self.later(BACKOFF, self._again)

    def _again(self) -> None:
        if self.coordinator is not None and self.producer is None:
            self._init_producer()

    def _drop_keeper(self) -> None:
        if self.keeper is not None:
            self.network.close(self.keeper)
            self.keeper = None

    def disconnected(self, connection: Wire) -> None:
        if connection is self.keeper:
            self.keeper = None
            if self.up:
                self._failed(E.NONE)
        else:
            super().disconnected(connection)

    def stop(self) -> None:
        self._drop_keeper()
        super().stop()
