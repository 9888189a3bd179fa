"""What the handlers of the control API share: the cluster, its events, and limits on waits and streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import trio

from mockbroker.api.cluster import Cluster
from mockbroker.base.settings import Settings
from mockbroker.broker.broker import Broker
from mockbroker.broker.request_log import RequestLog
from mockbroker.control.access import Access
from mockbroker.control.feed import Feed
from mockbroker.control.problems import Refused

T = TypeVar("T")
KIND = "mock"
CAPABILITIES = (
    "brokers",
    "clock",
    "connections",
    "events",
    "faults",
    "groups",
    "moves",
    "requests",
    "reset",
    "topics",
    "transactions",
)


class Slots:
    """A limit on the number of requests that do something at the same time.

    Args:
        limit: The limit.
        setting: The setting that the limit is from.
        noun: What is limited, in the plural.
    """

    def __init__(self, limit: int, setting: str, noun: str) -> None:
        self._limit = limit
        self._setting = setting
        self._noun = noun
        self.taken = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count a request during a ``with`` block. Raises: Refused with status 429 if there are too many."""
        if self.taken >= self._limit:
            raise Refused(
                429,
                f"the limit of {self._limit} concurrent {self._noun} is reached: retry later, or raise {self._setting}",
                headers={"Retry-After": "1"},
            )
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1


class Control:
    """The state of the control API of one cluster.

    Attributes:
        cluster: The cluster.
        access: The rules on which requests are served.
        kind: Kind of the server.
        capabilities: What the server can do.
        feed: The events.
        waiters: The limit on waits.
        streams: The limit on event streams.
        stream_count: Number of event streams so far.
        stopping: Set when the server stops.
    """

    def __init__(self, cluster: Cluster, access: Access, settings: Settings) -> None:
        self.cluster = cluster
        self.access = access
        self.kind = KIND
        self.capabilities = CAPABILITIES
        self.feed = Feed(cluster)
        self.waiters = Slots(settings.mockbroker_http_max_waiters, "mockbroker.http.max.waiters", "waits")
        self.streams = Slots(settings.mockbroker_http_max_streams, "mockbroker.http.max.streams", "event streams")
        self.stream_count = 0
        self.stopping = trio.Event()

    @property
    def broker(self) -> Broker:
        """The state of the cluster; another one after each reset."""
        return self.cluster._router.broker

    @property
    def request_log(self) -> RequestLog:
        """The latest requests of Kafka clients."""
        return self.cluster._router.requests

    @property
    def connection_count(self) -> int:
        """Number of connections of Kafka clients."""
        return len(self.cluster._server.connections)

    def watch_faults(self) -> None:
        """Wake the waiting tasks also when a fault rule is applied or holds a request."""
        changed = self.cluster._server.faults.changed
        if self.feed.wake not in changed:
            changed.append(self.feed.wake)

    def stop(self) -> None:
        """Answer waits with 503, and end streams."""
        self.stopping.set()
        self.feed.changed.unpark_all()

    def check_running(self) -> None:
        """Raises: Refused with status 503 if the server stops."""
        if self.stopping.is_set():
            raise Refused(503, "the server is stopping", headers={"Connection": "close"})

    async def wait(self, condition: Callable[[], T | None], timeout_ms: int) -> T | None:
        """Wait until a condition returns something; return it, or None after the timeout.

        Args:
            condition: Function that is called after each change.
            timeout_ms: Maximum wait in milliseconds of real time.

        Raises: Refused if the server stops, or if there are too many waits.
        """
        with self.waiters.one(), trio.move_on_after(timeout_ms / 1000):
            while (found := condition()) is None:
                self.check_running()
                await self.feed.changed.park()
            return found
        return condition()
