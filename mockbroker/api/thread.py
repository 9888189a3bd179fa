"""Clusters from anything but trio: a thread that runs one, and a handle that any thread and any event loop may use.

Every call of the handle is carried out by the broker's own thread and comes back through a future, so nothing is
shared and nothing is locked.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import trio

from mockbroker.api.clock import Clock
from mockbroker.api.cluster import WAIT, Cluster, ClusterClosedError, open_cluster
from mockbroker.api.records import Record, UnknownTopicError, Value
from mockbroker.api.snapshots import GroupSnapshot
from mockbroker.api.wait import WaitTimeoutError
from mockbroker.base.release import KAFKA_4_2
from mockbroker.base.settings import SettingsError
from mockbroker.broker.failover import FailoverError
from mockbroker.broker.journal import Event, Journal
from mockbroker.broker.request_log import Request
from mockbroker.net.tls import TlsFiles
from mockbroker.topics.model import Node

T = TypeVar("T")


class BrokerThread:
    """A thread that runs a cluster; ``options``: as of ``open_cluster``. Raises: what that raises."""

    def __init__(self, **options: Any) -> None:
        self.failure: BaseException | None = None
        self._process = os.getpid()
        self._cluster: Cluster
        self._token: trio.lowlevel.TrioToken
        self._nursery: trio.Nursery | None = None
        self._open: set[Future[Any]] = set()  # calls that nobody has answered yet
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=[options], name="mockbroker", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._nursery is None:
            self._thread.join()
            assert self.failure is not None
            raise self.failure

    def check(self) -> None:
        """Raises: ClusterClosedError if it does not run any more."""
        self.start(lambda _: trio.lowlevel.checkpoint()).result()  # which does not pass where everything is cancelled

    def close(self) -> None:
        """End it and wait until its sockets are closed. Raises: what the thread died of, if it did."""
        assert self._nursery is not None
        if os.getpid() != self._process:  # the cluster is its parent's
            return
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._nursery.cancel_scope.cancel)
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def handle(self) -> ThreadCluster:
        """The cluster as it is, until it starts over."""
        return self.call(lambda cluster: ThreadCluster(self, cluster))

    def start_over(
        self,
        topics: Mapping[str, int] | None,
        config: Mapping[str, object] | None,
        listeners: Iterable[str] = (),
        users: Mapping[str, str] | None = None,
        clock: str = "real",
    ) -> ThreadCluster:
        """Another cluster in the same thread; the handles there are go out of use. Raises: SettingsError."""

        def renewed(cluster: Cluster) -> ThreadCluster:
            cluster.start_over(topics, config, listeners, users, clock)
            return ThreadCluster(self, cluster)

        return self.call(renewed)

    def call(self, function: Callable[[Cluster], T]) -> T:
        """What ``function`` returns or raises in the broker's thread. Raises: ClusterClosedError."""
        __tracebackhide__ = True
        future: Future[T] = Future()

        def answer() -> None:
            try:
                result = function(self._cluster)
            except BaseException as error:  # belongs to the caller, whatever it is
                future.set_exception(error)
            else:
                future.set_result(result)

        self._submit(future, answer)
        return _result(future)

    def start(self, wait: Callable[[Cluster], Any]) -> Future[Any]:
        """Begin to wait for what the coroutine of ``wait`` returns; cancel the future to give up."""
        future: Future[Any] = Future()
        self._submit(future, lambda: self._start_soon(wait, future))
        return future

    def _submit(self, future: Future[Any], answer: Callable[[], None]) -> None:
        if os.getpid() != self._process:  # a fork has no thread but that which called it: nothing would answer
            raise ClusterClosedError(
                f"the cluster runs in process {self._process}, and this is process {os.getpid()}, forked from it: "
                "use the handle there; clients may connect to bootstrap_servers from anywhere"
            )
        self._open.add(future)
        future.add_done_callback(self._open.discard)
        try:
            self._token.run_sync_soon(answer)
        except trio.RunFinishedError:
            self._open.discard(future)
            raise self._closed() from self.failure

    def _start_soon(self, wait: Callable[[Cluster], Any], future: Future[Any]) -> None:
        assert self._nursery is not None
        with suppress(RuntimeError):  # it is closing; the end of the thread tells the future
            self._nursery.start_soon(self._wait, wait, future)

    async def _wait(self, wait: Callable[[Cluster], Any], future: Future[Any]) -> None:
        with trio.CancelScope() as scope:
            future.add_done_callback(lambda _: self._soon(scope.cancel))
            try:
                result = await wait(self._cluster)
            except (AssertionError, ValueError, ClusterClosedError) as error:
                with suppress(InvalidStateError):  # the waiter has just given up
                    future.set_exception(error)
            else:
                with suppress(InvalidStateError):
                    future.set_result(result)

    def _soon(self, function: Callable[[], object]) -> None:
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(function)

    def _run(self, options: Mapping[str, Any]) -> None:
        try:
            trio.run(self._serve, options)
        except BaseException as error:  # told to whoever uses the cluster
            self.failure = error
        for future in list(self._open):
            with suppress(InvalidStateError):
                future.set_exception(self._closed())
        self._ready.set()

    async def _serve(self, options: Mapping[str, Any]) -> None:
        async with open_cluster(**options) as self._cluster, trio.open_nursery() as self._nursery:
            self._token = trio.lowlevel.current_trio_token()
            self._ready.set()
            await trio.sleep_forever()

    def _closed(self) -> ClusterClosedError:
        error = ClusterClosedError("the cluster is closed" if self.failure is None else "the broker's thread has died")
        error.__cause__ = self.failure
        return error


class ThreadClock:
    """As ``Clock``, for any thread and any event loop: no call takes longer than the broker needs for it."""

    def __init__(
        self, call: Callable[[Callable[[Clock], Any]], Any], run: Callable[[Callable[[Clock], Any]], Any]
    ) -> None:
        self._call = call
        self._run = run

    @property
    def running(self) -> bool:
        """False while it stands still."""
        return bool(self._call(lambda clock: clock.running))

    def now(self) -> float:
        """Seconds since the cluster began or was reset, as events and requests are told with (``time_ms``)."""
        return float(self._call(lambda clock: clock.now()))

    def wall(self) -> float:
        """Seconds since 1970, as records are stamped."""
        return float(self._call(lambda clock: clock.wall()))

    def stop(self) -> None:
        """Stand still; nothing becomes due until ``advance`` or ``resume``."""
        self._call(lambda clock: clock.stop())

    def resume(self) -> None:
        """Run on from where it stands."""
        self._call(lambda clock: clock.resume())

    def advance(self, seconds: float) -> list[Event]:
        """As ``Clock.advance``: let time pass at once; the events of it. Raises: ValueError."""
        __tracebackhide__ = True
        found: list[Event] = self._run(lambda clock: clock.advance(seconds))
        return found


class ThreadCluster:
    """A cluster that runs in a thread of its own. Any thread may use it, and any event loop: no call takes longer than
    the broker needs for it, but ``wait_group``, which waits; event loops have ``wait_group_async`` for that.

    Raises: ClusterClosedError from every method once the cluster is closed, or the test is over that had it, and in a
    process that was forked meanwhile.
    """

    def __init__(self, thread: BrokerThread, cluster: Cluster) -> None:
        self.nodes: tuple[Node, ...] = cluster.nodes
        self.bootstrap_servers: str = cluster.bootstrap_servers
        self.listeners: dict[str, str] = cluster.listeners
        self.tls: TlsFiles = cluster.tls
        self.journal: Journal = cluster.journal
        self._thread = thread
        self._life = cluster.life
        self.clock = ThreadClock(self._call_clock, self._run_clock)

    def events(self) -> list[Event]:
        """What happened in the groups so far."""
        return self._call(lambda cluster: cluster.events())

    def requests(self, api: str | None = None) -> list[Request]:
        """As ``Cluster.requests``: what clients asked, ``api``: only these, by Kafka's name."""
        return self._call(lambda cluster: cluster.requests(api))

    def groups(self) -> dict[str, GroupSnapshot]:
        """Every group as it is now, by its id."""
        return self._call(lambda cluster: cluster.groups())

    def committed(self, group_id: str) -> dict[tuple[str, int], int]:
        """The offsets of a group by topic and partition; none if there is no such group."""
        return self._call(lambda cluster: cluster.committed(group_id))

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, object] | None = None) -> None:
        """A new topic. ``config``: Kafka's names of topic configurations.

        Raises: SettingsError if the name is taken or not legal, or for a configuration that no topic can have.
        """
        self._call(lambda cluster: cluster.create_topic(name, partitions, config))

    def produce(
        self,
        topic: str,
        records: Iterable[Value],
        *,
        partition: int | None = None,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp: int | None = None,
    ) -> list[int]:
        """As ``Cluster.produce``: append to a topic; the offset of each record."""
        given = list(records)  # here, not in the broker's thread: it may be a generator of the caller's
        return self._call(
            lambda cluster: cluster.produce(
                topic, given, partition=partition, key=key, headers=headers, timestamp=timestamp
            )
        )

    def records(self, topic: str, partition: int | None = None, *, committed: bool = False) -> list[Record]:
        """As ``Cluster.records``: what is in a topic, or in one partition. Raises: UnknownTopicError."""
        return self._call(lambda cluster: cluster.records(topic, partition, committed=committed))

    def coordinator(self, group_id: str) -> int:
        """As ``Cluster.coordinator``: id of the broker that coordinates a group."""
        return self._call(lambda cluster: cluster.coordinator(group_id))

    def stop_broker(self, node: int) -> None:
        """As ``Cluster.stop_broker``: it ends as it should. Raises: FailoverError."""
        self._call(lambda cluster: cluster.stop_broker(node))

    def kill_broker(self, node: int, noticed_after: float = 0.0) -> None:
        """As ``Cluster.kill_broker``: it is gone; ``noticed_after``: seconds. Raises: FailoverError."""
        self._call(lambda cluster: cluster.kill_broker(node, noticed_after))

    def start_broker(self, node: int) -> None:
        """As ``Cluster.start_broker``: it is back. Raises: FailoverError, PortInUseError."""
        self._call(lambda cluster: cluster.start_broker(node))

    def move_coordinator(self, group_id: str, node: int) -> None:
        """As ``Cluster.move_coordinator``. Raises: FailoverError."""
        self._call(lambda cluster: cluster.move_coordinator(group_id, node))

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """As ``Cluster.move_leader``. Raises: FailoverError, UnknownTopicError."""
        self._call(lambda cluster: cluster.move_leader(topic, partition, node))

    def freeze_metadata(self, *nodes: int) -> None:
        """As ``Cluster.freeze_metadata``: what these brokers tell of the cluster stays as it is."""
        self._call(lambda cluster: cluster.freeze_metadata(*nodes))

    def thaw_metadata(self, *nodes: int) -> None:
        """As ``Cluster.thaw_metadata``: they know again what the others know."""
        self._call(lambda cluster: cluster.thaw_metadata(*nodes))

    def reset(self) -> None:
        """As ``Cluster.reset``: back to the start, at the same addresses."""
        self._call(lambda cluster: cluster.reset())

    def wait_group(
        self, group_id: str, state: str | None = "Stable", members: int | None = None, timeout: float = WAIT
    ) -> GroupSnapshot:
        """As ``Cluster.wait_group``, but blocks the thread: not for event loops that have the clients as well."""
        __tracebackhide__ = True
        waiting = self._waiting(group_id, state, members, timeout)
        try:
            return _result(waiting)
        finally:
            waiting.cancel()

    async def wait_group_async(
        self, group_id: str, state: str | None = "Stable", members: int | None = None, timeout: float = WAIT
    ) -> GroupSnapshot:
        """The same for asyncio and trio, whose loop goes on meanwhile."""
        __tracebackhide__ = True
        waiting = self._waiting(group_id, state, members, timeout)
        try:
            await _done(waiting)
            return _result(waiting)
        finally:
            waiting.cancel()

    def _waiting(self, group_id: str, state: str | None, members: int | None, timeout: float) -> Future[GroupSnapshot]:
        async def wait(cluster: Cluster) -> GroupSnapshot:
            self._check(cluster)
            return await cluster.wait_group(group_id, state, members, timeout)

        return self._thread.start(wait)

    def _call_clock(self, function: Callable[[Clock], T]) -> T:
        __tracebackhide__ = True
        return self._call(lambda cluster: function(cluster.clock))

    def _run_clock(self, wait: Callable[[Clock], Awaitable[T]]) -> T:
        __tracebackhide__ = True

        async def checked(cluster: Cluster) -> T:
            self._check(cluster)
            return await wait(cluster.clock)

        future: Future[T] = self._thread.start(checked)
        return _result(future)

    def _call(self, function: Callable[[Cluster], T]) -> T:
        __tracebackhide__ = True

        def checked(cluster: Cluster) -> T:
            self._check(cluster)
            return function(cluster)

        return self._thread.call(checked)

    def _check(self, cluster: Cluster) -> None:
        if cluster.life != self._life:
            raise ClusterClosedError("this cluster was that of a test which is over")


@contextmanager
def run_cluster(
    *,
    brokers: int = 1,
    topics: Mapping[str, int] | None = None,
    config: Mapping[str, object] | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    as_version: str = KAFKA_4_2.name,
    listeners: Iterable[str] = (),
    users: Mapping[str, str] | None = None,
    data_dir: str | Path | None = None,
    clock: str = "real",
) -> Iterator[ThreadCluster]:
    """As ``open_cluster``, in a thread of its own, for code that does not use trio."""
    thread = BrokerThread(
        brokers=brokers,
        topics=topics,
        config=config,
        host=host,
        port=port,
        as_version=as_version,
        listeners=listeners,
        users=users,
        data_dir=data_dir,
        clock=clock,
    )
    try:
        yield thread.handle()
    finally:
        thread.close()


def _result(future: Future[T]) -> T:
    """What a future has. An error of the caller's loses its way through the threads, which says nothing to him."""
    __tracebackhide__ = True
    try:
        return future.result()
    except (SettingsError, UnknownTopicError, WaitTimeoutError, FailoverError) as error:
        raise error.with_traceback(None) from None


async def _done(future: Future[Any]) -> None:
    """Wait, in trio or asyncio, until a future of another thread is done."""
    event: trio.Event | asyncio.Event
    soon: Callable[[Callable[[], None]], object]
    if trio.lowlevel.in_trio_task():
        event, soon = trio.Event(), trio.lowlevel.current_trio_token().run_sync_soon
    else:
        event, soon = asyncio.Event(), asyncio.get_running_loop().call_soon_threadsafe

    def tell(_: object) -> None:
        with suppress(RuntimeError):  # the loop has ended
            soon(event.set)

    future.add_done_callback(tell)
    await event.wait()
