"""The state that the handlers of the control API share: the cluster, its events, and limits on waits and streams."""

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
from mockbroker.control.lag_history import LagHistory
from mockbroker.control.problems import Refused
from mockbroker.control.request_feed import RequestFeed
from mockbroker.control.shared_state import SharedState
from mockbroker.net.pump import Pump

T = TypeVar("T")
KIND = "mock"
CAPABILITIES: tuple[str, ...] = (
    "brokers",
    "clock",
    "connections",
    "events",
    "faults",
    "group_changes",
    "groups",
    "moves",
    "records",
    "requests",
    "reset",
    "topic_changes",
    "topics",
    "transactions",
)


class Slots:
    """A limit on the number of requests that wait or stream events at the same time.

    Args:
        limit: maximum number of requests.
        setting: name of the setting that contains the limit.
        noun: plural noun for the limited requests, for the error message.

    Attributes:
        taken: current number of requests.
    """

    def __init__(self, limit: int, setting: str, noun: str) -> None:
        self._limit = limit
        self._setting = setting
        self._noun = noun
        self.taken = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count a request for the duration of a ``with`` block.

        Raises: Refused with status 429 if the limit is reached.
        """
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
    """The state of the control API of one cluster. ``settings``: the settings of the brokers.

    Attributes:
        cluster: the cluster.
        access: the rules that decide which requests are served.
        kind: kind of the server, ``mock`` or ``proxy``.
        capabilities: names of the optional features that the server has.
        feed: the journal events, and the tasks that wait for new ones.
        lags: the lag of groups over time.
        request_feed: the object that wakes the event streams of requests.
        waiters: the limit on requests that wait.
        streams: the limit on event streams.
        stream_count: number of event streams since the start, including streams that have ended.
        stopping: event that is set when the server stops.
        state: the document that the streams of the live page share.
    """

    state: SharedState

    def __init__(self, cluster: Cluster, access: Access, settings: Settings) -> None:
        self.cluster = cluster
        self.access = access
        self.kind = KIND
        self.capabilities = CAPABILITIES
        self.feed = Feed(cluster)
        self.lags = LagHistory()
        self.request_feed = RequestFeed(lambda: self.request_log)
        self.waiters = Slots(settings.mockbroker_http_max_waiters, "mockbroker.http.max.waiters", "waits")
        self.streams = Slots(settings.mockbroker_http_max_streams, "mockbroker.http.max.streams", "event streams")
        self.stream_count = 0
        self.stopping = trio.Event()

    @property
    def broker(self) -> Broker:
        """The state of the cluster. A reset replaces this object."""
        return self.cluster._router.broker

    @property
    def request_log(self) -> RequestLog:
        """The log of the latest requests of Kafka clients."""
        return self.cluster._router.requests

    @property
    def pump(self) -> Pump:
        """The pump, which processes the connections of Kafka clients."""
        return self.cluster._server.pump

    @property
    def connection_count(self) -> int:
        """The number of connections of Kafka clients."""
        return len(self.cluster._server.connections)

    def watch_faults(self) -> None:
        """From now on, also wake the tasks that wait for changes when a fault rule was applied or holds a request."""
        changed = self.cluster._server.faults.changed
        if self.feed.wake not in changed:
            changed.append(self.feed.wake)

    def stop(self) -> None:
        """Stop the control API: waiting requests get status 503, and streams end."""
        self.stopping.set()
        for followers in (self.feed.followers, self.state.followers, self.request_feed.followers):
            followers.changed.unpark_all()

    def check_running(self) -> None:
        """Check that the server is not stopping. Raises: Refused with status 503."""
        if self.stopping.is_set():
            raise Refused(
                503, "the server is stopping and accepts no further requests", headers={"Connection": "close"}
            )

    async def wait(self, condition: Callable[[], T | None], timeout_ms: int) -> T | None:
        """Wait until a condition returns a value other than None; return that value, or None after the timeout.

        Args:
            condition: function that is called after each change.
            timeout_ms: maximum wait in milliseconds of real time.

        Raises: Refused if the server stops, or if too many requests wait.
        """
        with self.waiters.one(), trio.move_on_after(timeout_ms / 1000):
            while (found := condition()) is None:
                self.check_running()
                await self.feed.changed.park()
            return found
        return condition()
