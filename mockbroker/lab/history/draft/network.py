"""The network between consumers and brokers: messages of a connection arrive in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import field
from typing import Any

from kwire.lazy_dataclass import dataclass
from mockbroker.lab.history.draft.messages import Request
from mockbroker.lab.simulation.queue import Queue


@dataclass(slots=True, eq=False)
class DraftConnection:
    """A connection of a consumer to a broker.

    Attributes:
        number: connection number in the cluster.
        consumer: name of the consumer.
        link: the number that the consumer gave to the connection.
        node: broker id.
        there: time at which the last message to the broker arrives, seconds.
        back: time at which the last message to the consumer arrives, seconds.
        busy: whether a request is pending at the broker.
        inbox: received requests, which wait until the pending request is answered.
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
    """The network between consumers and brokers.

    Args:
        queue: the event queue, which has the virtual time.
        delay: default one-way delay in seconds.

    Attributes:
        delays: consumer name -> one-way delay in seconds, where it differs from the default delay.
    """

    def __init__(self, queue: Queue, delay: float) -> None:
        self.delays: dict[str, float] = {}
        self._queue = queue
        self._delay = delay

    def to_broker(self, connection: DraftConnection, what: Callable[..., None], *with_: Any) -> None:
        """Send a message to the broker of a connection. When the message arrives, ``what(*with_)`` is called.

        The message arrives after all earlier messages of the connection to the broker.
        """
        connection.there = max(connection.there, self._arrival(connection))
        self._queue.at(connection.there, what, *with_)

    def to_consumer(self, connection: DraftConnection, what: Callable[..., None], *with_: Any) -> None:
        """Send a message to the consumer of a connection. When the message arrives, ``what(*with_)`` is called.

        The message arrives after all earlier messages of the connection to the consumer.
        """
        connection.back = max(connection.back, self._arrival(connection))
        self._queue.at(connection.back, what, *with_)

    def _arrival(self, connection: DraftConnection) -> float:
        return self._queue.now + self.delays.get(connection.consumer, self._delay)
