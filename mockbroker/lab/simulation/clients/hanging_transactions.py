"""Transactions of a client in the simulation that hang: an administrator ends them with WriteTxnMarkers (KIP-664)."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

from kwire import ErrorCode as E
from kwire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, Topic
from kwire.messages.describe_producers import DescribeProducersRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.produce import ProduceRequest
from kwire.messages.write_txn_markers import WriteTxnMarkersRequest
from kwire.records.batch import Record, build_batch
from mockbroker.lab.simulation.clients.client import TRANSACTION
from mockbroker.lab.simulation.clients.fetcher import records_of
from mockbroker.lab.simulation.clients.operator import Operator
from mockbroker.lab.simulation.clients.plans import Place
from mockbroker.lab.simulation.history import READ_COMMITTED, READ_UNCOMMITTED
from mockbroker.lab.simulation.network import Wire

TIMEOUT_MS = 40_000  # of the transactions
TRUSTED_MS = 20_000  # after which the coordinator may soon abort the transaction
NEWEST = 2  # transaction version; since this version, a marker has a later epoch than the records


class State(StrEnum):
    """The state of the last transaction.

    Attributes:
        OPEN: its records are stored, and it hangs.
        COMMITTED: a commit marker is written.
        ABORTED: an abort marker is written.
    """

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


class HangingTransactions:
    """Transactions with one record each, which are ended by markers and not by their producer, one after the other.

    No other client writes to the partition. Readers of both isolation levels must see what the markers say. When the
    result of a request is unknown, InitProducerId aborts the transaction, and the next one begins.

    Args:
        operator: the client, which has at most one request in flight.
        place: the partition.
        is_new: whether the brokers serve WriteTxnMarkers v2.
    """

    def __init__(self, operator: Operator, place: Place, *, is_new: bool) -> None:
        self._operator = operator
        self._place = place
        self._is_new = is_new
        self._id = f"hanging-{operator.name}"
        self._coordinator = -1  # broker id
        self._coordinator_epoch = -1
        self._producer = -1, -1
        self._numbers = 0
        self._value = b""
        self._offset = -1
        self._state = State.OPEN
        self._begun_ms = 0
        self._next: Callable[[], None] = self._find

    def step(self) -> None:
        """Send the next request. Send none if the leader of the partition is unknown."""
        self._next()

    def lost(self) -> None:
        """Handle the loss of a connection: the state of the transaction is unknown."""
        self._next = self._find

    def _request(self, wire: Wire, request: object, version: int, then: Callable[[Any], Callable[[], None]]) -> None:
        """Send a request.

        Args:
            wire: the connection.
            request: body of the request.
            version: version of the request.
            then: function that is called with the response body, and returns the next step. It is not called if the
                coordinator may have aborted the transaction.
        """

        def answered(answer: Any) -> None:
            is_late = self._operator.broker_ms() - self._begun_ms > TRUSTED_MS
            self._next = self._find if is_late else then(answer)

        self._operator.request(wire, request, version, answered)

    # --- the producer ---

    def _find(self) -> None:
        wire = self._operator.leaders.any_broker()
        if wire is None:
            return
        self._begun_ms = self._operator.broker_ms()

        def found(answer: Any) -> Callable[[], None]:
            (coordinator,) = answer.coordinators
            if coordinator.error_code:
                return self._find
            self._coordinator = coordinator.node_id
            return self._init

        self._request(wire, FindCoordinatorRequest(coordinator_keys=[self._id], key_type=TRANSACTION), 4, found)

    def _init(self) -> None:
        request = InitProducerIdRequest(transactional_id=self._id, transaction_timeout_ms=TIMEOUT_MS)

        def initialized(answer: Any) -> Callable[[], None]:
            if answer.error_code:
                return self._find
            self._producer = answer.producer_id, answer.producer_epoch
            return self._add

        self._request(self._operator.leaders.wire(self._coordinator), request, 4, initialized)

    def _add(self) -> None:
        producer_id, epoch = self._producer
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[Topic(name=self._place[0], partitions=[self._place[1]])],
        )

        def added(answer: Any) -> Callable[[], None]:
            error = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            return self._find if error else self._produce

        self._request(self._operator.leaders.wire(self._coordinator), request, 3, added)

    def _produce(self) -> None:
        if (wire := self._operator.leaders.leader(self._place)) is None:
            return
        self._numbers += 1
        name, life = self._operator.identifier
        self._value = f"{name}.{life}.hanging.{self._numbers}".encode()
        producer_id, epoch = self._producer
        data = build_batch(
            [Record(value=self._value, timestamp=1)],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
            transactional=True,
        )
        kind = ProduceRequest.Topic
        topic = kind(name=self._place[0], partition_data=[kind.Partition(index=self._place[1], records=data)])
        request = ProduceRequest(transactional_id=self._id, acks=-1, timeout_ms=1_000, topic_data=[topic])

        def produced(answer: Any) -> Callable[[], None]:
            result = answer.responses[0].partition_responses[0]
            if result.error_code:
                return self._find
            self._offset, self._state = result.base_offset, State.OPEN
            return self._some_step()

        self._request(wire, request, 11, produced)

    # --- the administrator ---

    def _some_step(self) -> Callable[[], None]:
        """Return the next step of a transaction whose state is known."""
        ends = self._describe if self._state is State.OPEN else self._find
        return self._operator.dice.pick([self._read_committed, self._read_committed, self._read_uncommitted, ends])

    def _describe(self) -> None:
        """Find the hanging transaction and the epoch of its coordinator, as ``kafka-transactions.sh abort`` does."""
        if (wire := self._operator.leaders.leader(self._place)) is None:
            return
        topic = DescribeProducersRequest.Topic(name=self._place[0], partition_indexes=[self._place[1]])

        def described(answer: Any) -> Callable[[], None]:
            partition = answer.topics[0].partitions[0]
            if partition.error_code:
                self._operator.leaders.refresh_later()
                return self._describe
            starts = {each.producer_id: each.current_txn_start_offset for each in partition.active_producers}
            self._operator.expect(
                "the start of a hanging transaction", starts.get(self._producer[0], -1), [self._offset]
            )
            self._coordinator_epoch = max(each.coordinator_epoch for each in partition.active_producers)
            return self._end

        self._request(wire, DescribeProducersRequest(topics=[topic]), 0, described)

    def _end(self) -> None:
        if (wire := self._operator.leaders.leader(self._place)) is None:
            return
        dice = self._operator.dice
        version = dice.below(NEWEST + 1) if self._is_new else 0
        is_early = version == NEWEST and dice.chance(0.5)
        commits = dice.chance(0.5)
        producer_id, epoch = self._producer
        kind = WriteTxnMarkersRequest.Marker
        marker = kind(
            producer_id=producer_id,
            producer_epoch=epoch + 1 if version == NEWEST and not is_early else epoch,
            transaction_result=commits,
            coordinator_epoch=max(self._coordinator_epoch, 0),
            topics=[kind.Topic(name=self._place[0], partition_indexes=[self._place[1]])],
            transaction_version=version,
        )

        def ended(answer: Any) -> Callable[[], None]:
            error = answer.markers[0].topics[0].partitions[0].error_code
            if error in (E.NOT_LEADER_OR_FOLLOWER, E.LEADER_NOT_AVAILABLE):
                self._operator.leaders.refresh_later()
                return self._describe
            expected = E.INVALID_PRODUCER_EPOCH if is_early else E.NONE
            self._operator.expect(f"a marker of version {version} for a hanging transaction", error, [expected])
            if not is_early:
                self._state = State.COMMITTED if commits else State.ABORTED
            return self._some_step()

        self._request(wire, WriteTxnMarkersRequest(markers=[marker]), 2 if self._is_new else 1, ended)

    # --- the readers ---

    def _read_committed(self) -> None:
        self._read(READ_COMMITTED)

    def _read_uncommitted(self) -> None:
        self._read(READ_UNCOMMITTED)

    def _read(self, isolation: int) -> None:
        if (wire := self._operator.leaders.leader(self._place)) is None:
            return
        kind = FetchRequest.Topic
        partition = kind.Partition(
            partition=self._place[1], fetch_offset=self._offset, partition_max_bytes=1 << 20, current_leader_epoch=-1
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 20,
            isolation_level=isolation,
            session_epoch=-1,
            topics=[kind(topic=self._place[0], partitions=[partition])],
        )

        def read(answer: Any) -> Callable[[], None]:
            result = answer.responses[0].partitions[0]
            if result.error_code:
                self._operator.leaders.refresh_later()
                return self._some_step()
            self._check(isolation, result)
            return self._some_step()

        self._request(wire, request, 11, read)

    def _check(self, isolation: int, result: Any) -> None:
        """Record what a reader sees of the last transaction, and what it must see.

        Args:
            isolation: isolation level of the reader.
            result: the partition in the Fetch response.
        """
        expect, state = self._operator.expect, self._state
        _, records = records_of(result, self._offset, isolation)
        is_seen = any(value == self._value for _, value in records)
        is_visible = isolation == READ_UNCOMMITTED or state is State.COMMITTED
        level = "read_uncommitted" if isolation == READ_UNCOMMITTED else "read_committed"
        expect(f"the record of a hanging transaction that is {state}, for {level}", is_seen, [is_visible])
        if isolation == READ_COMMITTED:
            stable = self._offset if state is State.OPEN else result.high_watermark
            expect(f"the last stable offset, when a transaction is {state}", result.last_stable_offset, [stable])
