"""Clients in the simulation that send as much as their quotas allow, and the client that alters these quotas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kwire import ErrorCode as E
from kwire.apikeys import ApiKey
from kwire.messages.alter_client_quotas import AlterClientQuotasRequest
from kwire.messages.create_topics import CreateTopicsRequest
from kwire.messages.delete_topics import DeleteTopicsRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.produce import ProduceRequest
from kwire.records.batch import Record, build_batch
from mockbroker.lab.simulation.clients.direct import DirectClient
from mockbroker.lab.simulation.network import Wire
from mockbroker.lab.simulation.upkeep_history import NO_QUOTA, QuotaChange, QuotaUse

PRODUCER, CONSUMER, MUTATION = "producer_byte_rate", "consumer_byte_rate", "controller_mutation_rate"
LIMITS: Mapping[str, Sequence[float]] = {  # values of each quota
    PRODUCER: [500, 2_000, 10_000],
    CONSUMER: [500, 2_000, 10_000],
    MUTATION: [0.5, 1.0, 3.0],
}
PATIENCE = 120.0  # request timeout in seconds: throttle times are longer than the usual one
MOST_IN_FLIGHT = 2
SCRATCH = ("q0", "q1", "q2")  # topics that are created and deleted
MOST_PARTITIONS = 5


class Throttled(DirectClient):
    """A client that sends requests as fast as its quota allows.

    Attributes:
        quota: name of the quota, such as ``producer_byte_rate``.
    """

    quota = ""

    def begin(self) -> None:
        super().begin()
        self._in_flight = 0
        self.later(self.script.commit, self._step)

    def _step(self) -> None:
        self.later(self.script.commit * (0.5 + self.dice.random()), self._step)
        if self._in_flight < MOST_IN_FLIGHT and self.leaders.known():
            self.use()

    def use(self) -> None:
        """Send the next request."""
        raise NotImplementedError

    def request(self, wire: Wire, api_key: int, version: int, request: object, used: Callable[[Any], int]) -> None:
        """Send a request. When the response arrives, add the use of the quota (QuotaUse) to the history.

        Args:
            wire: the connection.
            api_key: API key of the request.
            version: version of the request.
            request: body of the request.
            used: function that gets the response, and returns how much of the quota the request used: bytes or
                partition mutations.
        """
        sent_at = self.queue.now
        self._in_flight += 1

        def answered(answer: Any) -> None:
            self._in_flight -= 1
            throttle_ms, number = answer.throttle_time_ms, wire.number
            amount = used(answer)
            use = QuotaUse(self.name, number, self.quota, amount, throttle_ms, sent_at, self.queue.now)
            self.history.upkeep.quota_uses.append(use)

        self.send(wire, api_key, version, request, answered, PATIENCE)

    def disconnected(self, connection: Wire) -> None:
        self._in_flight = 0
        super().disconnected(connection)


class ThrottledProducer(Throttled):
    """A producer that writes as much as its quota allows."""

    quota = PRODUCER

    def use(self) -> None:
        place = self.dice.pick(self.leaders.known())
        value = bytes(self.dice.pick([100, 1_000, 5_000]))
        data = build_batch([Record(value=value, timestamp=self.broker_ms())])
        kind = ProduceRequest.Topic
        topics = [kind(name=place[0], partition_data=[kind.Partition(index=place[1], records=data)])]
        request = ProduceRequest(acks=1, timeout_ms=1_000, topic_data=topics)
        wire = self.leaders.wire(self.leaders.nodes[place])

        def used(answer: Any) -> int:
            if answer.responses[0].partition_responses[0].error_code:
                self.leaders.refresh_later()
            return len(data)

        self.request(wire, ApiKey.PRODUCE, 9, request, used)


class ThrottledConsumer(Throttled):
    """A consumer that reads the same records as often as its quota allows."""

    quota = CONSUMER

    def use(self) -> None:
        place = self.dice.pick(self.leaders.known())
        kind = FetchRequest.Topic
        line = kind.Partition(partition=place[1], fetch_offset=0, partition_max_bytes=20_000)
        request = FetchRequest(
            max_wait_ms=100, max_bytes=1 << 20, session_epoch=-1, topics=[kind(topic=place[0], partitions=[line])]
        )
        wire = self.leaders.wire(self.leaders.nodes[place])

        def used(answer: Any) -> int:
            partitions = [each for topic in answer.responses for each in topic.partitions]
            if any(each.error_code for each in partitions):
                self.leaders.refresh_later()
            return sum(len(each.records or b"") for each in partitions)

        self.request(wire, ApiKey.FETCH, 11, request, used)


class ThrottledAdministrator(Throttled):
    """An administrator that creates and deletes topics as often as its quota allows."""

    quota = MUTATION

    def begin(self) -> None:
        super().begin()
        self._created: dict[str, int] = {}

    def use(self) -> None:
        wire, name = self.leaders.any_broker(), self.dice.pick(SCRATCH)
        if wire is None or self._in_flight:
            return
        if name in self._created:
            self._delete(wire, name)
        else:
            self._create(wire, name, self.dice.whole(1, MOST_PARTITIONS))

    def _create(self, wire: Wire, name: str, count: int) -> None:
        topic = CreateTopicsRequest.Topic(name=name, num_partitions=count, replication_factor=1)

        def used(answer: Any) -> int:
            error = answer.topics[0].error_code
            if error in (E.NONE, E.TOPIC_ALREADY_EXISTS):
                self._created[name] = count if not error else 0
            return 0 if error else count

        request = CreateTopicsRequest(topics=[topic], timeout_ms=1_000)
        self.request(wire, ApiKey.CREATE_TOPICS, 7, request, used)

    def _delete(self, wire: Wire, name: str) -> None:
        def used(answer: Any) -> int:
            error = answer.responses[0].error_code
            if error not in (E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION):
                return 0
            count = self._created.pop(name, 0)
            return 0 if error else count

        topics = [DeleteTopicsRequest.Topic(name=name)]
        self.request(wire, ApiKey.DELETE_TOPICS, 6, DeleteTopicsRequest(topics=topics, timeout_ms=1_000), used)


class QuotaSetter(DirectClient):
    """An administrator that sets the quota of each throttled client, and alters it at random times.

    The instance id of the administrator lists the number of each client and the name of its quota as ``number:quota``,
    separated by spaces.
    """

    def begin(self) -> None:
        super().begin()
        given = (each.split(":") for each in (self.script.instance or "").split())
        self._quotas = [(f"m{number}", quota) for number, quota in given]
        for client, quota in self._quotas:
            self.later(0.1, self._set, client, quota)
        self.later(self.script.commit, self._step)

    def _step(self) -> None:
        self.later(self.script.commit * (0.5 + self.dice.random()), self._step)
        if self._quotas:
            self._set(*self.dice.pick(self._quotas))

    def _set(self, client: str, quota: str) -> None:
        wire = self.leaders.any_broker()
        if wire is None:
            return
        value = NO_QUOTA if self.dice.chance(0.1) else self.dice.pick(LIMITS[quota])
        change = QuotaChange(client, quota, value, self.queue.now)
        self.history.upkeep.quota_changes.append(change)
        kind = AlterClientQuotasRequest.Entry
        op = kind.Op(key=quota, value=value, remove=value == NO_QUOTA)
        entry = kind(entity=[kind.Entity(entity_type="client-id", entity_name=client)], ops=[op])

        def altered(answer: Any) -> None:
            if not answer.entries[0].error_code:
                change.done_at = self.queue.now

        request = AlterClientQuotasRequest(entries=[entry])
        self.send(wire, ApiKey.ALTER_CLIENT_QUOTAS, 1, request, altered)
