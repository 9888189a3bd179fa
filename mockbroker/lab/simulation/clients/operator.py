"""The base class of clients in the simulation that send one administrative request after the other.

An operator checks the responses itself: each operation is a write or read of a register in the history (I38), or the
history has the errors that are possible for the request (I47).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import inf
from typing import Any

from kwire import ErrorCode as E
from kwire.messages.create_topics import CreateTopicsRequest
from kwire.schema import schema_of
from mockbroker.lab.simulation.clients.direct import DirectClient
from mockbroker.lab.simulation.history import Answer, RegisterOperation, Result
from mockbroker.lab.simulation.network import Wire

CREATE_TOPICS_VERSION = 7


class Operator(DirectClient):
    """A client with at most one administrative request in flight.

    Attributes:
        own_topic: topic that only clients of this kind use; "" for no topic. The client creates it.
        own_partitions: number of partitions of this topic.
    """

    own_topic = ""
    own_partitions = 1

    def begin(self) -> None:
        self.topics = (self.own_topic,) if self.own_topic else ()
        super().begin()
        self._in_flight: Wire | None = None
        self._has_topic = False
        self.later(self.script.commit, self._step)

    def operate(self, wire: Wire) -> None:
        """Send the next request. ``wire``: connection to any broker."""
        raise NotImplementedError

    def lost(self, wire: Wire) -> None:
        """Handle the loss of a connection. ``wire``: the connection."""

    def _step(self) -> None:
        self.later(self.script.commit * (0.5 + self.dice.random()), self._step)
        wire = self.leaders.any_broker()
        if wire is None or self._in_flight is not None:
            return
        if self.own_topic and not self._has_topic:
            self._create_topic(wire)
        else:
            self.operate(wire)

    def _create_topic(self, wire: Wire) -> None:
        replicas = len(self.cluster().nodes)
        topic = CreateTopicsRequest.Topic(
            name=self.own_topic, num_partitions=self.own_partitions, replication_factor=replicas
        )

        def created(answer: Any) -> None:
            self._has_topic = answer.topics[0].error_code in (E.NONE, E.TOPIC_ALREADY_EXISTS)
            self.leaders.refresh_later()

        self.request(wire, CreateTopicsRequest(topics=[topic], timeout_ms=1_000), CREATE_TOPICS_VERSION, created)

    def request(self, wire: Wire, request: object, version: int, then: Callable[[Any], None]) -> None:
        """Send a request. No other request is sent until the response arrives or the connection is lost.

        Args:
            wire: the connection.
            request: body of the request.
            version: version of the request.
            then: function that is called with the response body.
        """
        api = schema_of(type(request)).api
        assert api is not None
        self._in_flight = wire

        def answered(answer: Any) -> None:
            self._in_flight = None
            then(answer)

        self.send(wire, api.key, version, request, answered)

    # --- the history ---

    def expect(self, what: str, error: int, possible: Collection[int]) -> None:
        """Add the error code of a response to the history, with the error codes that are possible.

        Args:
            what: the request, for the description of a violation.
            error: error code in the response.
            possible: error codes that are possible.
        """
        self.history.answers.append(Answer(f"{self.name}: {what}", error, frozenset(possible), self.queue.now))

    def began(self, register: str, value: int) -> RegisterOperation:
        """Add a write of a register to the history, and return it. Its request is sent now.

        Args:
            register: name of the register.
            value: the value that is written.
        """
        operation = RegisterOperation(register, value, write=True, sent_at=self.queue.now)
        self.history.registers.append(operation)
        return operation

    def ended(self, operation: RegisterOperation, error: int) -> None:
        """Record the response to a write. ``error``: error code in the response."""
        operation.result, operation.done_at = Result.REFUSED if error else Result.DONE, self.queue.now

    def was_read(self, register: str, value: int, sent_at: float) -> None:
        """Add a read of a register to the history. Its response has arrived now.

        Args:
            register: name of the register.
            value: the value that was read.
            sent_at: virtual time of the request, seconds.
        """
        operation = RegisterOperation(register, value, write=False, sent_at=sent_at, done_at=inf)
        self.ended(operation, 0)
        self.history.registers.append(operation)

    # --- connections ---

    def disconnected(self, connection: Wire) -> None:
        if connection is self._in_flight:
            self._in_flight = None
        self.lost(connection)
        super().disconnected(connection)
