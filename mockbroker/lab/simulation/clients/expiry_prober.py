"""Clients in the simulation that use a committed offset, a transactional id or a producer id after random pauses."""

from __future__ import annotations

from typing import Any

from kwire import ErrorCode as E
from kwire.apikeys import ApiKey
from kwire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kwire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kwire.messages.produce import ProduceRequest
from kwire.records.batch import Record, build_batch
from mockbroker.lab.simulation.clients.client import BACKOFF, TRANSACTION, Client
from mockbroker.lab.simulation.clients.direct import DirectClient
from mockbroker.lab.simulation.network import Wire
from mockbroker.lab.simulation.upkeep_history import Renewal

OFFSET, TRANSACTIONAL_ID, PRODUCER_ID = "committed offset", "transactional id", "producer id"
GAP = 10  # sequence numbers that the first batch after a pause leaves out
INIT_VERSION = 4
LONGEST = 2.0  # longest pause, as a multiple of the time after which the thing expires


class ExpiryProber(Client):
    """The base class of clients that use an offset or id after random pauses.

    Attributes:
        kind: kind of object that may expire.
    """

    kind = ""

    def pause(self) -> float:
        """Return a random pause in seconds, which may be shorter or longer than the expiration time."""
        if self.dice.chance(0.5):
            return self.script.commit * self.dice.random()
        return self.history.upkeep.expirations[self.kind] * LONGEST * self.dice.random()

    def renewed(self, name: str, sent_at: float, *, expired: bool = False) -> None:
        """Add a successful request to the history.

        Args:
            name: name of the offset or id that the request used.
            sent_at: virtual time of the request, seconds.
            expired: whether the response shows that the offset or id had expired.
        """
        self.history.upkeep.renewals.append(Renewal(self.kind, name, sent_at, self.queue.now, expired))


class OffsetProber(ExpiryProber):
    """A client that commits an offset of a group without members, and looks it up after a pause."""

    kind = OFFSET

    def begin(self) -> None:
        self._place = (min(self.topics), 0)
        self.later(self.script.commit, self._commit)

    def _commit(self) -> None:
        topic, index = self._place
        kind, sent_at = OffsetCommitRequest.Topic, self.queue.now
        partition = kind.Partition(partition_index=index, committed_offset=self.dice.whole(0, 1_000))
        topics = [kind(name=topic, partitions=[partition])]

        def committed(answer: OffsetCommitResponse) -> None:
            if answer.topics[0].partitions[0].error_code == E.NONE:
                self.renewed(self.script.group, sent_at)
            else:
                self.find_later()

        self.ask(ApiKey.OFFSET_COMMIT, 8, OffsetCommitRequest(group_id=self.script.group, topics=topics), committed)
        self.later(self.pause(), self._look_up)

    def _look_up(self) -> None:
        topic, index = self._place
        kind, sent_at = OffsetFetchRequest.Group, self.queue.now
        group = kind(group_id=self.script.group, topics=[kind.Topic(name=topic, partition_indexes=[index])])

        def looked_up(answer: OffsetFetchResponse) -> None:
            (found,) = answer.groups
            if found.error_code:
                self.find_later()
            elif found.topics[0].partitions[0].committed_offset < 0:
                self.renewed(self.script.group, sent_at, expired=True)

        self.ask(ApiKey.OFFSET_FETCH, 8, OffsetFetchRequest(groups=[group]), looked_up)
        self.later(self.pause(), self.dice.pick([self._commit, self._look_up]))


class TransactionalIdProber(ExpiryProber):
    """A client that sends InitProducerId repeatedly, with the same transactional id."""

    kind = TRANSACTIONAL_ID

    def begin(self) -> None:
        self.later(self.script.commit, self._init)

    @property
    def key(self) -> tuple[str, int]:
        return self._name, TRANSACTION

    @property
    def _name(self) -> str:
        return f"x{self.script.number}"

    def _init(self) -> None:
        sent_at = self.queue.now

        def begun(answer: InitProducerIdResponse) -> None:
            if answer.error_code:
                self.find_later()
            else:
                self.renewed(self._name, sent_at, expired=answer.producer_epoch == 0)

        request = InitProducerIdRequest(transactional_id=self._name, transaction_timeout_ms=6_000)
        self.ask(ApiKey.INIT_PRODUCER_ID, INIT_VERSION, request, begun)
        self.later(self.pause(), self._init)


class ProducerIdProber(DirectClient, ExpiryProber):
    """An idempotent producer that skips sequence numbers after a pause.

    The broker accepts a gap in the sequence numbers only if it has removed the producer id, because the id has expired.
    """

    kind = PRODUCER_ID

    def begin(self) -> None:
        super().begin()
        self._producer: tuple[int, int] | None = None
        self._sequence = 0
        self._round = 0  # number of the producer id: requests of earlier ones are not continued
        self.later(self.script.commit, self._init)

    def _init(self) -> None:
        self._round += 1
        number, wire = self._round, self.leaders.any_broker()
        self._producer, self._sequence = None, 0
        if wire is None or not self.leaders.known():
            self.later(10 * BACKOFF, self._init_again, number)
            return

        def begun(answer: InitProducerIdResponse) -> None:
            if answer.error_code:
                self.later(BACKOFF, self._init_again, number)
                return
            self._producer = answer.producer_id, answer.producer_epoch
            self._write(0, number)

        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=6_000)
        self.send(wire, ApiKey.INIT_PRODUCER_ID, INIT_VERSION, request, begun)

    def _init_again(self, number: int) -> None:
        if number == self._round:
            self._init()

    def _write(self, gap: int, number: int) -> None:
        place = (min(self.topics), 0)
        node = self.leaders.nodes.get(place)
        if number != self._round:
            return
        if node is None or self._producer is None:
            self.leaders.refresh_later()
            self.later(10 * BACKOFF, self._init_again, number)
            return
        producer_id, epoch = self._producer
        sent_at, name, sequence = self.queue.now, f"{producer_id}", self._sequence + gap
        data = build_batch(
            [Record(value=self.name.encode(), timestamp=self.broker_ms())],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )

        def written(answer: Any) -> None:
            if answer.responses[0].partition_responses[0].error_code:
                self.later(BACKOFF, self._init_again, number)
                return
            self.renewed(name, sent_at, expired=gap > 0)
            self._sequence = sequence + 1
            self.later(self.pause(), self._write, self.dice.pick([0, GAP]), number)

        kind = ProduceRequest.Topic
        topics = [kind(name=place[0], partition_data=[kind.Partition(index=place[1], records=data)])]
        request = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=topics)
        self.send(self.leaders.wire(node), ApiKey.PRODUCE, 9, request, written)

    def disconnected(self, connection: Wire) -> None:
        super().disconnected(connection)
        self.later(10 * BACKOFF, self._init_again, self._round)  # a batch may be lost
