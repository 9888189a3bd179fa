"""The transaction manager of a producer in the simulation: it sends the requests to the transaction coordinator.

Source: Kafka's TransactionManager.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

from kwire import APIS
from kwire import ErrorCode as E
from kwire.apikeys import ApiKey
from kwire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kwire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, Topic
from kwire.messages.end_txn import EndTxnRequest, EndTxnResponse
from kwire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kwire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from mockbroker.lab.simulation.clients.client import BACKOFF, TRANSACTION, Client
from mockbroker.lab.simulation.clients.leaders import Leaders
from mockbroker.lab.simulation.clients.plans import Place, by_topic
from mockbroker.lab.simulation.clients.sender import Sender
from mockbroker.lab.simulation.history import Choice, Fenced, Result, Transaction
from mockbroker.lab.simulation.network import Wire

NOT_HERE = (E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE)
AGAIN = (E.CONCURRENT_TRANSACTIONS, E.COORDINATOR_LOAD_IN_PROGRESS)
INIT_VERSION, ADD_VERSION, OFFSETS_VERSION = 4, 3, 3
Then = Callable[[], None]
Current = tuple[int, int, Any, Callable[[Any], None], bool]  # API key, version, request, callback, whether it was sent


class Phase(StrEnum):
    """The phase of a transactional producer.

    Attributes:
        STARTING: InitProducerId is in flight.
        READY: no transaction is open.
        OPEN: a transaction is open.
        ENDING: EndTxn is in flight.
        FAILED: the transaction was abandoned; InitProducerId must be sent again.
    """

    STARTING = "starting"
    READY = "ready"
    OPEN = "open"
    ENDING = "ending"
    FAILED = "failed"


class TransactionManager:
    """The transactions of a client. At most one request is in flight. A request without a response is retried.

    Args:
        client: the client.
        leaders: connections of the client.
        sender: sender of the record batches.
        transactional_id: transactional id.
        timeout_ms: transaction timeout, milliseconds.
        kip890: whether the client adds partitions implicitly, and gets a new epoch with each EndTxn (KIP-890).
        failed: function that is called with an error code that ends the transaction.

    Attributes:
        phase: phase of the producer.
        transaction: open transaction; None without one. After a failure, it is the abandoned transaction.
    """

    def __init__(
        self,
        client: Client,
        leaders: Leaders,
        sender: Sender,
        transactional_id: str,
        timeout_ms: int,
        *,
        kip890: bool,
        failed: Callable[[int], None],
    ) -> None:
        self.phase = Phase.STARTING
        self.transaction: Transaction | None = None
        self.kip890 = kip890
        self._client = client
        self._leaders = leaders
        self._sender = sender
        self._id = transactional_id
        self._timeout_ms = timeout_ms
        self._failed = failed
        self._wire: Wire | None = None
        self._finding = False
        self._current: Current | None = None
        self._added: set[Place] = set()
        self._offsets_added = False
        self._numbers = 0
        self._sent_at = 0.0  # time of the last request, seconds
        self._ends = 0  # EndTxn requests of the transaction
        sender.transactional_id = transactional_id

    @property
    def identity(self) -> tuple[int, int]:
        """The current producer id and epoch; (-1, -1) before InitProducerId."""
        return self._sender.producer or (-1, -1)

    # --- requests ---

    def _ask(self, api_key: int, version: int, request: object, then: Callable[[Any], None]) -> None:
        """Send a request to the transaction coordinator, and retry it until the result is final.

        Args:
            api_key: API key of the request.
            version: version of the request.
            request: body of the request.
            then: function that is called with the final response.
        """
        self._current = api_key, version, request, then, False
        self._send_current()

    def _send_current(self) -> None:
        if self._current is None:
            return
        if self._wire is None:
            self._find()
            return
        api_key, version, request, then, sent = self._current
        if sent:
            return
        current: Current = api_key, version, request, then, True
        self._current = current
        recorded = None
        if api_key != ApiKey.INIT_PRODUCER_ID:
            recorded = Fenced(self._id, self.identity, APIS[api_key].name, self._client.queue.now)
            self._client.history.requests.append(recorded)
        if api_key == ApiKey.END_TXN:
            self._ends += 1
        self._sent_at = self._client.queue.now
        self._client.send(
            self._wire, api_key, version, request, lambda answer: self._answered(current, recorded, answer)
        )

    def _answered(self, current: Current, recorded: Fenced | None, answer: Any) -> None:
        error = self._error(answer)
        if not error and recorded is not None:
            recorded.done_at = self._client.queue.now
        if self._current is not current:
            return
        if error in NOT_HERE:
            self._drop()
            self._retry_later()
        elif error in AGAIN:
            self._retry_later()
        else:
            self._current = None
            current[3](answer)

    @staticmethod
    def _error(answer: Any) -> int:
        if isinstance(answer, AddPartitionsToTxnResponse):
            topics = answer.results_by_topic_v3_and_below
            errors = [each.partition_error_code for topic in topics for each in topic.results_by_partition]
            return next(filter(None, errors), 0)
        return int(answer.error_code)

    def _retry_later(self) -> None:
        if self._current is not None:
            self._current = (*self._current[:4], False)
            self._client.later(BACKOFF, self._send_current)

    def _find(self) -> None:
        wire = self._leaders.any_broker()
        if self._finding:
            return
        if wire is None:
            self._client.later(10 * BACKOFF, self._send_current)
            return
        self._finding = True
        request = FindCoordinatorRequest(coordinator_keys=[self._id], key_type=TRANSACTION)
        self._client.send(wire, ApiKey.FIND_COORDINATOR, 4, request, self._found)

    def _found(self, answer: FindCoordinatorResponse) -> None:
        self._finding = False
        (coordinator,) = answer.coordinators
        if coordinator.error_code:
            self._client.later(BACKOFF, self._send_current)
            return
        if self._wire is None:
            client = self._client
            self._wire = client.network.connect(client, client.link, coordinator.node_id, client.name)
        self._send_current()

    def _drop(self) -> None:
        if self._wire is not None:
            self._client.network.close(self._wire)
            self._wire = None

    def disconnected(self, connection: Wire) -> bool:
        """Handle a closed connection, and return whether it was the connection to the transaction coordinator.

        If it was, or if a lookup of the coordinator was in flight, the current request is sent again later.

        ``connection``: the connection.
        """
        if connection is self._wire:
            self._wire = None
            self._retry_later()
            return True
        if self._finding:
            self._finding = False
            self._client.later(BACKOFF, self._send_current)
        return False

    def close(self) -> None:
        """Close the connection to the coordinator."""
        self._drop()
        self._current = None

    # --- transactions ---

    def start(self) -> None:
        """Send InitProducerId, which fences other producers with the same transactional id and aborts their
        transaction.
        """
        self.phase = Phase.STARTING
        self.transaction = None
        request = InitProducerIdRequest(transactional_id=self._id, transaction_timeout_ms=self._timeout_ms)
        self._ask(ApiKey.INIT_PRODUCER_ID, INIT_VERSION, request, self._started)

    def _started(self, answer: InitProducerIdResponse) -> None:
        if answer.error_code:
            self.fail(answer.error_code)
            return
        now, producer = self._client.queue.now, (answer.producer_id, answer.producer_epoch)
        self._client.history.requests.append(Fenced(self._id, producer, "InitProducerId", self._sent_at, now))
        self._sender.reset(producer)
        self.phase = Phase.READY

    def begin(self) -> Transaction:
        """Begin a transaction, add it to the history, and return it."""
        self._numbers += 1
        self._ends = 0
        self._added.clear()
        self._offsets_added = False
        self.phase = Phase.OPEN
        self.transaction = Transaction(self._id, self.identity, self._client.identifier, self._numbers)
        self._client.history.transactions.append(self.transaction)
        return self.transaction

    def add_partitions(self, places: Sequence[Place], then: Then) -> None:
        """Add partitions to the transaction, then call ``then``. If the request fails, call ``fail`` instead.

        No request is sent with KIP-890, or if all partitions were added before.

        Args:
            places: the partitions.
            then: function without arguments.
        """
        new = frozenset(places) - self._added
        if self.kip890 or not new:
            then()
            return
        topics = [Topic(name=name, partitions=indexes) for name, indexes in by_topic(new).items()]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self.identity[0],
            v3_and_below_producer_epoch=self.identity[1],
            v3_and_below_topics=topics,
        )

        def added(answer: AddPartitionsToTxnResponse) -> None:
            if error := self._error(answer):
                self.fail(error)
                return
            self._added |= new
            then()

        self._ask(ApiKey.ADD_PARTITIONS_TO_TXN, ADD_VERSION, request, added)

    def add_offsets(self, group: str, then: Then) -> None:
        """Add the offsets of a group to the transaction, then call ``then``. If the request fails, call ``fail``
        instead.

        No request is sent with KIP-890, or if offsets were added before.

        Args:
            group: group id.
            then: function without arguments.
        """
        if self.kip890 or self._offsets_added:
            then()
            return
        request = AddOffsetsToTxnRequest(
            transactional_id=self._id, producer_id=self.identity[0], producer_epoch=self.identity[1], group_id=group
        )

        def added(answer: Any) -> None:
            if answer.error_code:
                self.fail(answer.error_code)
                return
            self._offsets_added = True
            then()

        self._ask(ApiKey.ADD_OFFSETS_TO_TXN, OFFSETS_VERSION, request, added)

    def end(self, then: Then, *, commit: bool) -> None:
        """Send EndTxn, then call ``then``, a function without arguments. If EndTxn fails, call ``fail`` instead.

        ``commit``: True to commit the transaction, False to abort it.
        """
        transaction = self.transaction
        assert transaction is not None
        self.phase = Phase.ENDING
        transaction.choice = Choice.COMMIT if commit else Choice.ABORT
        transaction.decided_at = min(transaction.decided_at, self._client.queue.now)
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=self.identity[0],
            producer_epoch=self.identity[1],
            committed=commit,
        )

        def ended(answer: EndTxnResponse) -> None:
            if answer.error_code:
                if self._ends == 1:
                    transaction.result = Result.REFUSED
                self.fail(answer.error_code)
                return
            transaction.result, transaction.ended_at = Result.DONE, self._client.queue.now
            self.transaction = None
            if self.kip890:
                self._sender.reset((answer.producer_id, answer.producer_epoch))
            self.phase = Phase.READY
            then()

        self._ask(ApiKey.END_TXN, 5 if self.kip890 else 4, request, ended)

    def fail(self, error: int) -> None:
        """Abandon the transaction because of an error, and call the function ``failed`` of the constructor.

        After that, the client must call ``start`` before ``begin``. If the phase is FAILED already, do nothing.

        ``error``: error code.
        """
        if self.phase is not Phase.FAILED:
            self.phase = Phase.FAILED
            self._current = None
            self._failed(error)
