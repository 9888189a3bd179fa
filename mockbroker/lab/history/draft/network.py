"""Connections between consumers and brokers: messages arrive in order, requests are handled one by one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mockbroker.lab.history.draft.messages import Request
from mockbroker.lab.simulation.queue import Queue


@dataclass(slots=True, eq=False)
class DraftConnection:
    """A connection of a consumer to a broker.

    Attributes:
        number: connection number in the cluster.
        consumer: name of the consumer.
        link: the consumer's own number of the connection.
        node: broker id.
        there: arrival time of the last message to the broker.
        back: arrival time of the last message to the consumer.
        busy: a request is being handled.
        inbox: requests that wait for the response to the one before.
    """

    number: int
    consumer: str
    link: int
    node: int
    there: float = 0.0
    back: float = 0.0
    busy: bool = False
    inbox: deque[Request] = field(default_factory=deque)


class Network:
    """The network. ``delays``: consumer -> one-way delay in seconds, where it differs from ``delay``."""

    def __init__(self, queue: Queue, delay: float) -> None:
        self.delays: dict[str, float] = {}
        self._queue = queue
        self._delay = delay

    def to_broker(self, connection: DraftConnection, what: Callable[..., None], *with_: Any) -> None:
        """Call ``what(*with_)`` when a message to the broker arrives, after all earlier ones."""
        connection.there = max(connection.there, self._arrival(connection))
        self._queue.at(connection.there, what, *with_)

    def to_consumer(self, connection: DraftConnection, what: Callable[..., None], *with_: Any) -> None:
        """Call ``what(*with_)`` when a message to the consumer arrives, after all earlier ones."""
        connection.back = max(connection.back, self._arrival(connection))
        self._queue.at(connection.back, what, *with_)

    def _arrival(self, connection: DraftConnection) -> float:
        return self._queue.now + self.delays.get(connection.consumer, self._delay)
