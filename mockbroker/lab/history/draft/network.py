"""Connections between consumers and brokers: what is said on one arrives in order, requests are handled one by one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mockbroker.lab.history.draft.messages import Request
from mockbroker.lab.simulation.queue import Queue


@dataclass(slots=True, eq=False)
class DraftConnection:
    """``link``: the consumer's own number of it. ``there`` and ``back``: when the last message arrives, each way.

    ``inbox``: requests that wait until the one before is answered; ``busy``: there is one.
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
    """``delays``: seconds of each way, by consumer, where it is not ``delay``."""

    def __init__(self, queue: Queue, delay: float) -> None:
        self.delays: dict[str, float] = {}
        self._queue = queue
        self._delay = delay

    def to_broker(self, connection: DraftConnection, what: Callable[..., None], *with_: Any) -> None:
        """``what(*with_)`` when it arrives there, and not before what was sent earlier."""
        connection.there = max(connection.there, self._arrival(connection))
        self._queue.at(connection.there, what, *with_)

    def to_consumer(self, connection: DraftConnection, what: Callable[..., None], *with_: Any) -> None:
        """The other way."""
        connection.back = max(connection.back, self._arrival(connection))
        self._queue.at(connection.back, what, *with_)

    def _arrival(self, connection: DraftConnection) -> float:
        return self._queue.now + self.delays.get(connection.consumer, self._delay)
