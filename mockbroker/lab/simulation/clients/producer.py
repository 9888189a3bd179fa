"""Producers in the simulation: not idempotent, idempotent, and transactional producers that fence each other."""

from __future__ import annotations

from kwire import ErrorCode as E
from kwire.apikeys import ApiKey
from kwire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from mockbroker.lab.simulation.clients.client import BACKOFF, Client
from mockbroker.lab.simulation.clients.leaders import Leaders
from mockbroker.lab.simulation.clients.sender import Sender
from mockbroker.lab.simulation.clients.transaction_manager import Phase, TransactionManager
from mockbroker.lab.simulation.history import Result, Write
from mockbroker.lab.simulation.network import Wire

NAMES, IDS = 9, 13  # versions of Produce: with topic names, and with topic ids
BEFORE_KIP_890, SINCE_KIP_890 = 11, 12  # versions of Produce in transactions
TIMEOUT_MS = 6_000  # transaction timeout
ABORTED = 0.3  # probability that a transaction is aborted
ZOMBIES = 0.5  # probability that a fenced producer continues for a while
MOST_RECORDS, MOST_BATCHES = 4, 4


class Producer(Client):
    """A producer that is not idempotent. With acks=all or acks=1 it retries a batch until it receives a response.

    Attributes:
        leaders: leaders of the partitions.
        sender: the batches that have no result yet.
    """

    idempotent = False

    def begin(self) -> None:
        self.leaders = Leaders(self)
        acks = -1 if self.idempotent else self.dice.pick([-1, 0, 1])
        self.sender = Sender(self, self.leaders, acks, self.produce_version, self.settled)
        self.leaders.start()
        self.later(self.script.commit * self.dice.random(), self._turn)

    @property
    def produce_version(self) -> int:
        """The version of Produce requests."""
        return IDS if self.script.kip890 else NAMES

    def find(self) -> None:
        """Do nothing: a producer without transactions needs no coordinator."""

    def settled(self, write: Write) -> None:
        """Handle the final result of a batch (``write``)."""

    def _turn(self) -> None:
        self.later(self.script.commit * (0.5 + self.dice.random()), self._turn)
        self.turn()

    def turn(self) -> None:
        """Send new batches. The timer of the running process calls this method at intervals."""
        self.send_some()

    def send_some(self) -> list[Write]:
        """Send new batches to random partitions, and return the batches."""
        places = [place for place in self.leaders.known() if not self.sender.full(place)]
        writes: list[Write] = []
        for _ in range(self.dice.whole(1, MOST_BATCHES) if places else 0):
            place = self.dice.pick(places)
            if not self.sender.full(place):
                values = [self.sender.value() for _ in range(self.dice.whole(1, MOST_RECORDS))]
                writes.append(self.sender.add(place, values))
        self.sender.send_due()
        return writes

    def disconnected(self, connection: Wire) -> None:
        self.sender.disconnected(connection)
        self.leaders.disconnected(connection)

    def stop(self) -> None:
        if self.up:
            self.leaders.close()
        super().stop()


class IdempotentProducer(Producer):
    """An idempotent producer: the broker stores each of its records once, in order."""

    idempotent = True

    def begin(self) -> None:
        super().begin()
        self._asked: Wire | None = None
        self.later(BACKOFF, self._init)

    def _init(self) -> None:
        if self.sender.producer is not None or self._asked is not None:
            return
        self._asked = self.leaders.any_broker()
        if self._asked is None:
            self.later(10 * BACKOFF, self._init)
            return
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=TIMEOUT_MS)
        self.send(self._asked, ApiKey.INIT_PRODUCER_ID, 4, request, self._begun)

    def _begun(self, answer: InitProducerIdResponse) -> None:
        self._asked = None
        if answer.error_code:
            self.later(BACKOFF, self._init)
        else:
            self.sender.reset((answer.producer_id, answer.producer_epoch))

    def turn(self) -> None:
        if self.sender.producer is not None:
            self.send_some()

    def settled(self, write: Write) -> None:
        if write.error and self.sender.producer == write.producer:  # begin again with a new producer id
            self.say(f"gives up a batch: {E(write.error).name}")
            self.sender.reset(None)
            self.later(BACKOFF, self._init)

    def disconnected(self, connection: Wire) -> None:
        if connection is self._asked:
            self._asked = None
            self.later(BACKOFF, self._init)
        super().disconnected(connection)


class TransactionalProducer(Producer):
    """A transactional producer. Clients with the same instance id have the same transactional id, and fence each other.

    Attributes:
        manager: the requests to the transaction coordinator.
    """

    idempotent = True

    def begin(self) -> None:
        super().begin()
        name = self.script.instance or f"p{self.script.number}"
        self.manager = TransactionManager(
            self, self.leaders, self.sender, name, TIMEOUT_MS, kip890=self.script.kip890, failed=self._failed
        )
        self.later(BACKOFF, self.manager.start)
        self._commits = True
        self._waits: list[Write] = []

    @property
    def produce_version(self) -> int:
        return SINCE_KIP_890 if self.script.kip890 else BEFORE_KIP_890

    def turn(self) -> None:
        """Begin a transaction with new batches, unless a transaction is open."""
        places = self.leaders.known()
        if self.manager.phase is not Phase.READY or not places:
            return
        self.manager.begin()
        some = [self.dice.pick(places) for _ in range(self.dice.whole(1, MOST_BATCHES))]
        self._rounds = self.dice.whole(1, 2)
        self.manager.add_partitions(some, lambda: self._produce(some))

    def _produce(self, places: list[tuple[str, int]]) -> None:
        if self.manager.transaction is None or self.manager.phase is not Phase.OPEN:
            return
        self._waits = []
        for place in places:
            if not self.sender.full(place):
                values = [self.sender.value() for _ in range(self.dice.whole(1, MOST_RECORDS))]
                self._waits.append(self.sender.add(place, values, self.manager.transaction))
        self.sender.send_due()

    def settled(self, write: Write) -> None:
        if write.error and self.manager.phase is not Phase.FAILED and write.transaction is self.manager.transaction:
            self.manager.fail(write.error)
        elif self.manager.phase is Phase.OPEN and all(each.result is Result.DONE for each in self._waits):
            self._rounds -= 1
            wait = self.script.commit * self.dice.random() ** 2
            self.later(wait, self._continue if self._rounds else self._end)

    def _continue(self) -> None:
        places = self.leaders.known()
        if self.manager.phase is Phase.OPEN and places:
            some = [self.dice.pick(places)]
            self.manager.add_partitions(some, lambda: self._produce(some))

    def _end(self) -> None:
        if self.manager.phase is Phase.OPEN and not self.sender.unsettled:
            self.manager.end(lambda: None, commit=not self.dice.chance(ABORTED))

    def _failed(self, error: int) -> None:
        self.say(f"cannot continue its transaction: {E(error).name}")
        if self.dice.chance(ZOMBIES) and self.sender.producer is not None:
            self.later(self.script.commit * self.dice.random(), self._send_as_zombie)
        self.later(self.script.commit * (0.5 + 2 * self.dice.random()), self._restart)

    def _send_as_zombie(self) -> None:
        """After a failed transaction, send records and perhaps EndTxn with the old producer epoch.

        If the producer was fenced, the broker must reject the requests.
        """
        manager = self.manager
        if manager.phase is not Phase.FAILED or manager.transaction is None or not (places := self.leaders.known()):
            return
        self.say("continues as a zombie")
        for _ in range(self.dice.whole(1, 2)):
            place = self.dice.pick(places)
            if not self.sender.full(place):
                self.sender.add(place, [self.sender.value()], manager.transaction)
        self.sender.send_due()
        if self.dice.chance(0.5):
            manager.end(lambda: None, commit=True)
            manager.phase = Phase.FAILED

    def _restart(self) -> None:
        if self.manager.phase is Phase.FAILED:
            self.sender.reset(None)
            self.manager.start()

    def disconnected(self, connection: Wire) -> None:
        self.manager.disconnected(connection)
        super().disconnected(connection)

    def stop(self) -> None:
        if self.up:
            self.manager.close()
        super().stop()
