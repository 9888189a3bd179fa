"""The sender of a producer's record batches to the partition leaders, with retries.

As in Kafka's client, the batches of a partition are sent in order, up to five at the same time. A retried batch keeps
its sequence numbers, and no other batch of the partition is in flight during the retry.

The second batch of a partition is sent only after the response to the first batch. A broker without producer state
accepts any sequence number, so it could store the second batch before the first. Source: Kafka's Sender and
RecordAccumulator.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice

from kwire import ErrorCode as E
from kwire.apikeys import ApiKey
from kwire.lazy_dataclass import dataclass
from kwire.messages.produce import ProduceRequest, ProduceResponse
from kwire.records.batch import Record, build_batch
from mockbroker.lab.simulation.clients.client import BACKOFF, Client
from mockbroker.lab.simulation.clients.leaders import Leaders
from mockbroker.lab.simulation.clients.plans import Place
from mockbroker.lab.simulation.history import Fenced, Result, Transaction, Write
from mockbroker.lab.simulation.network import Wire

MOST_IN_FLIGHT = 5  # batches of a partition and requests of a connection, as for Kafka's idempotent producers
BY_ID_SINCE = 13
RETRIABLE = (
    E.NOT_LEADER_OR_FOLLOWER,
    E.LEADER_NOT_AVAILABLE,
    E.UNKNOWN_TOPIC_OR_PARTITION,
    E.UNKNOWN_TOPIC_ID,
    E.NOT_ENOUGH_REPLICAS,
    E.CONCURRENT_TRANSACTIONS,
    E.COORDINATOR_NOT_AVAILABLE,
    E.COORDINATOR_LOAD_IN_PROGRESS,
    E.NOT_COORDINATOR,
)
NONE = (-1, -1)


@dataclass(slots=True, eq=False)
class Batch:
    """A record batch that has no final result yet.

    Attributes:
        write: the batch in the history.
        data: the encoded batch.
        wire: connection of the request in flight; None while no request with the batch is in flight.
        attempts: number of requests so far.
    """

    write: Write
    data: bytes
    wire: Wire | None = None
    attempts: int = 0


class Sender:
    """The batches of a producer that have no result yet, by partition.

    Args:
        client: the client.
        leaders: leaders of the partitions.
        acks: required acknowledgements: -1 (all), 0 or 1.
        version: version of Produce.
        settled: function that is called with each batch (Write) that has a final result.

    Attributes:
        producer: producer id and epoch; None for a producer that is not idempotent, and until an idempotent producer
            has got its producer id.
        transactional_id: transactional id; None for a producer without transactions.
        unsettled: number of batches that have no final result yet.
    """

    def __init__(
        self, client: Client, leaders: Leaders, acks: int, version: int, settled: Callable[[Write], None]
    ) -> None:
        self.producer: tuple[int, int] | None = None
        self.transactional_id: str | None = None
        self.unsettled = 0
        self._client = client
        self._leaders = leaders
        self._acks = acks
        self._version = version
        self._settled = settled
        self._batches: dict[Place, deque[Batch]] = {}
        self._sequences: dict[Place, int] = {}
        self._known: set[Place] = set()  # partitions with a batch of the producer: they refuse gaps in sequence numbers
        self._numbers = 0
        self._due = False
        self._blocked = -1  # value of ``leaders.changes`` with which no batch may be sent; -1 after other changes

    def reset(self, producer: tuple[int, int] | None) -> None:
        """Discard all batches, and set the producer id and epoch. If the id or the epoch changes, sequence numbers
        restart at 0.

        ``producer``: new producer id and epoch; None while the producer has no producer id.
        """
        if producer != self.producer:
            self._sequences.clear()
            self._known.clear()
        self.producer = producer
        self._batches.clear()
        self.unsettled, self._blocked = 0, -1

    def full(self, place: Place) -> bool:
        """Return whether a partition (``place``) has the maximum number of batches without a final result
        (MOST_IN_FLIGHT).
        """
        return len(self._batches.get(place, ())) >= MOST_IN_FLIGHT

    def value(self) -> bytes:
        """Return a record value that is unique in the run."""
        self._numbers += 1
        name, life = self._client.identifier
        return f"{name}.{life}.{self._numbers}".encode()

    def add(self, place: Place, values: Sequence[bytes], transaction: Transaction | None = None) -> Write:
        """Queue a new batch for a partition, and return the batch. The method ``send_due`` sends it later.

        Args:
            place: the partition.
            values: values of the records.
            transaction: transaction of the batch; None outside a transaction.
        """
        client = self._client
        sequence = -1 if self.producer is None else self._sequences.get(place, 0)
        if self.producer is not None:
            self._sequences[place] = sequence + len(values)
        producer_id, epoch = self.producer or NONE
        data = build_batch(
            [Record(value=value, timestamp=1) for value in values],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transaction is not None,
        )
        write = Write(
            client.identifier, place, tuple(values), self._acks, self.producer, sequence, transaction, client.queue.now
        )
        client.history.writes.append(write)
        self._batches.setdefault(place, deque()).append(Batch(write, data))
        self.unsettled += 1
        self._blocked = -1
        return write

    def send_due(self) -> None:
        """Send all batches that may be sent now, with at most one batch of a partition in a request."""
        leaders = self._leaders
        if self._blocked != leaders.changes:
            by_node: dict[int, list[Batch]] = {}
            is_known = True
            for place, batches in self._batches.items():
                node = leaders.nodes.get(place)
                if node is None:
                    is_known = False
                    leaders.refresh_later()
                elif batches and (batch := self._next(batches, leaders.connections.get(node))) is not None:
                    by_node.setdefault(node, []).append(batch)
            self._blocked = leaders.changes if is_known and not by_node else -1
            for node, due in by_node.items():
                wire = leaders.wire(node)
                if len(wire.waiting) < MOST_IN_FLIGHT:
                    self._send(wire, due)
        if self.unsettled:
            self._send_later()

    def _send_later(self) -> None:
        if not self._due:
            self._due = True
            self._client.later(BACKOFF * (0.5 + self._client.dice.random()), self._send_again)

    def _send_again(self) -> None:
        self._due = False
        self.send_due()

    def _next(self, batches: deque[Batch], wire: Wire | None) -> Batch | None:
        """Return the next batch to send: the first batch of the partition that is not in flight.

        Return None if all batches are in flight, or if the broker could store the batches in another order if this
        batch was sent now.

        Args:
            batches: batches of a partition, in order.
            wire: connection to the leader; None if no connection to the leader is open.
        """
        for at, batch in enumerate(batches):
            if batch.wire is None:
                if at and (batch.attempts or batch.write.place not in self._known):
                    return None
                for later in islice(batches, at + 1, None):
                    if later.wire is not None:
                        return None
                return batch
            if batch.wire is not wire or batch.attempts > 1:
                return None
        return None

    def _send(self, wire: Wire, due: list[Batch]) -> None:
        kind, topics = ProduceRequest.Topic, dict[str, ProduceRequest.Topic]()
        for batch in due:
            name, index = batch.write.place
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = kind(name=name, topic_id=self._leaders.ids[name])
            topic.partition_data.append(kind.Partition(index=index, records=batch.data))
            batch.wire = wire
            batch.attempts += 1
        request = ProduceRequest(
            transactional_id=self.transactional_id, acks=self._acks, timeout_ms=1_000, topic_data=list(topics.values())
        )
        if self._acks == 0:
            self._client.send(wire, ApiKey.PRODUCE, self._version, request, None)
            for batch in due:
                self._settle(batch)
            return
        sent_at, producer = self._client.queue.now, self.producer
        requests = [self._recorded(producer, sent_at) for _ in due]

        def then(answer: ProduceResponse) -> None:
            self._sent(due, requests, answer)

        self._client.send(wire, ApiKey.PRODUCE, self._version, request, then)

    def _recorded(self, producer: tuple[int, int] | None, sent_at: float) -> Fenced | None:
        if self.transactional_id is None or producer is None:
            return None
        recorded = Fenced(self.transactional_id, producer, "Produce", sent_at)
        self._client.history.requests.append(recorded)
        return recorded

    def _sent(self, due: list[Batch], requests: list[Fenced | None], answer: ProduceResponse) -> None:
        self._blocked = -1
        by_id = self._version >= BY_ID_SINCE
        names = {topic_id: name for name, topic_id in self._leaders.ids.items()} if by_id else {}
        results = {
            (names.get(topic.topic_id, "") if by_id else topic.name, result.index): result
            for topic in answer.responses
            for result in topic.partition_responses
        }
        for batch, request in zip(due, requests, strict=True):
            result = results[batch.write.place]
            if not result.error_code and request is not None:
                request.done_at = self._client.queue.now
            if batch in self._batches.get(batch.write.place, ()):
                self._answered(batch, result.error_code, result.base_offset)
        self._client.later(0.0, self.send_due)

    def _answered(self, batch: Batch, error: int, offset: int) -> None:
        write, batches = batch.write, self._batches[batch.write.place]
        if not error:
            write.result, write.done_at, write.offset = Result.DONE, self._client.queue.now, offset
            self._known.add(write.place)
            self._settle(batch)
        elif error in RETRIABLE or (error == E.OUT_OF_ORDER_SEQUENCE_NUMBER and batches[0] is not batch):
            batch.wire = None
            if error in (E.NOT_LEADER_OR_FOLLOWER, E.UNKNOWN_TOPIC_OR_PARTITION, E.UNKNOWN_TOPIC_ID):
                self._leaders.refresh_later()
        else:
            write.error = error
            if batch.attempts == 1:
                write.result = Result.REFUSED
            self._settle(batch)

    def _settle(self, batch: Batch) -> None:
        batches = self._batches.get(batch.write.place)
        if batches is not None and batch in batches:
            batches.remove(batch)
            self.unsettled -= 1
            self._blocked = -1
        self._settled(batch.write)

    def disconnected(self, connection: Wire) -> None:
        """Handle a closed connection: the batches that were in flight on the connection are sent again later."""
        for batches in self._batches.values():
            for batch in batches:
                if batch.wire is connection:
                    batch.wire = None
        self._blocked = -1
        self._send_later()
