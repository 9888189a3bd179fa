"""Clusters for code that does not use trio: the broker's thread, and a handle for any thread and any event loop.

Every call of the handle runs in the broker's thread and returns its result through a future, so that no state is
shared and no lock is needed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import trio

from mockbroker.api.clock import Clock, ClockOperations
from mockbroker.api.cluster import Cluster, open_cluster
from mockbroker.api.home import ClusterClosedError, check_process
from mockbroker.api.operations import ClusterOperations
from mockbroker.api.thread_handle import ThreadHandle, awaited, blocking, result_of
from mockbroker.base.release import KAFKA_4_2
from mockbroker.broker.journal import Journal
from mockbroker.net.tls import TlsFiles
from mockbroker.topics.model import Node

if TYPE_CHECKING:  # imported on demand: most clusters have no faults
    from mockbroker.api.fault_options import RuleGiven
    from mockbroker.api.names import ClockMode
    from mockbroker.api.thread_faults import ThreadFaults

T = TypeVar("T")
P = ParamSpec("P")


class BrokerThread:
    """A thread that runs a cluster.

    Args:
        options: the arguments of ``open_cluster``.

    Attributes:
        failure: the exception that ended the thread; None while the thread runs, and after a ``close`` without a
            failure.

    Raises: the exceptions of ``open_cluster``, such as SettingsError.
    """

    def __init__(self, **options: Any) -> None:
        self.failure: BaseException | None = None
        self._process = os.getpid()
        self._cluster: Cluster
        self._token: trio.lowlevel.TrioToken
        self._nursery: trio.Nursery | None = None
        self._open: set[Future[Any]] = set()  # calls without a result yet
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=[options], name="mockbroker", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._nursery is None:
            self._thread.join()
            assert self.failure is not None
            raise self.failure

    def check(self) -> None:
        """Raise ClusterClosedError if the cluster is no longer running."""
        self.start(
            lambda _: trio.lowlevel.checkpoint()
        ).result()  # a checkpoint fails if the cluster is being cancelled

    def close(self) -> None:
        """End the cluster, and wait until its sockets are closed.

        If an exception has ended the thread, raise that exception. In a forked process, do nothing.
        """
        assert self._nursery is not None
        if os.getpid() != self._process:  # forked: the cluster runs in the parent process
            return
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._nursery.cancel_scope.cancel)
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def handle(self) -> ThreadCluster:
        """Return a handle of the cluster. The handle is valid until ``start_over`` is called."""
        return self.call(lambda cluster: ThreadCluster(self, cluster))

    def start_over(
        self,
        topics: Mapping[str, int] | None,
        config: Mapping[str, object] | None,
        listeners: Iterable[str] = (),
        users: Mapping[str, str] | None = None,
        clock: ClockMode = "real",
        faults: Sequence[RuleGiven] = (),
    ) -> ThreadCluster:
        """Replace the cluster by a new one in the same thread, and return its handle. Existing handles become invalid.

        For the arguments, see ``open_cluster``.

        Raises:
            SettingsError: A setting or topic is invalid, or the cluster has a data directory.
            InvalidRule: A fault rule is invalid; also RuleExists and TooManyRules.
            PortInUseError: A listener cannot be bound.
        """

        def replace(cluster: Cluster) -> ThreadCluster:
            cluster.start_over(topics, config, listeners, users, clock, faults)
            return ThreadCluster(self, cluster)

        return self.call(replace)

    def call(self, function: Callable[[Cluster], T]) -> T:
        """Run a function in the broker's thread; return its result, or raise its exception.

        Raises: ClusterClosedError if the cluster is not running, or in a forked process; RuntimeError in the broker's
        thread.
        """
        __tracebackhide__ = True
        future: Future[T] = Future()

        def run() -> None:
            try:
                result = function(self._cluster)
            except BaseException as error:  # of any kind: raised to the caller
                future.set_exception(error)
            else:
                future.set_result(result)

        self._submit(future, run)
        return result_of(future)

    def start(self, wait: Callable[[Cluster], Any]) -> Future[Any]:
        """Start an async function in the broker's thread without waiting for it; return a future of its result.

        Cancelling the future cancels the function.

        ``wait``: the function, which is called with the cluster.
        """
        future: Future[Any] = Future()
        self._submit(future, lambda: self._start_soon(wait, future))
        return future

    def _submit(self, future: Future[Any], function: Callable[[], None]) -> None:
        check_process(self._process)  # a forked process has no broker thread: the call would never return
        if threading.get_ident() == self._thread.ident:
            raise RuntimeError(
                "a call of ThreadCluster in the broker's thread, such as from a callback of the journal, would wait "
                "for itself: put the event into a queue, and call the method in the thread of the test"
            )
        self._open.add(future)
        future.add_done_callback(self._open.discard)
        try:
            self._token.run_sync_soon(function)
        except trio.RunFinishedError:
            self._open.discard(future)
            raise self._closed() from self.failure

    def _start_soon(self, wait: Callable[[Cluster], Any], future: Future[Any]) -> None:
        assert self._nursery is not None
        with suppress(RuntimeError):  # the nursery is closing; _run then fails the future
            self._nursery.start_soon(self._wait, wait, future)

    async def _wait(self, wait: Callable[[Cluster], Any], future: Future[Any]) -> None:
        with trio.CancelScope() as scope:
            future.add_done_callback(lambda _: self._soon(scope.cancel))
            try:
                result = await wait(self._cluster)
            except Exception as error:  # of any kind: raised to the caller
                with suppress(InvalidStateError):  # the caller has just cancelled it
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
        except BaseException as error:  # the cause of ClusterClosedError in every later call
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
        error = ClusterClosedError(
            "the cluster is closed" if self.failure is None else f"the broker's thread has died: {self.failure!r}"
        )
        error.__cause__ = self.failure
        return error


class ThreadClock(ThreadHandle, ClockOperations):
    """The clock of a cluster that runs in its own thread, usable from any thread and any event loop.

    The clock has the methods of ``Clock``. ``advance`` blocks until the clock has been moved.
    """

    def __init__(self, cluster: ThreadCluster) -> None:
        self._cluster = cluster

    advance = blocking(Clock.advance)

    def _perform(self, call: Callable[[Any], T]) -> T:
        __tracebackhide__ = True
        return self._cluster._perform(lambda cluster: call(cluster.clock))

    def _start(self, wait: Callable[[Any], Awaitable[T]]) -> Future[T]:
        return self._cluster._start(lambda cluster: wait(cluster.clock))


class ThreadCluster(ThreadHandle, ClusterOperations):
    """A handle of a cluster that runs in its own thread, usable from any thread and any event loop.

    Calls return as soon as the broker's thread has handled them. Only ``wait_group``, ``compact``, and ``wait_applied``
    and ``wait_holding`` of fault rules block; on an event loop, await the methods that end in ``_async`` instead.

    Attributes:
        nodes: the brokers with their ids and addresses.
        bootstrap_servers: the ``bootstrap.servers`` for clients: ``host:port`` of every broker's first listener,
            comma-separated.
        listeners: the ``bootstrap.servers`` of each listener, by listener name.
        tls: the CA and client certificate files for TLS clients.
        journal: the journal of group events.
        clock: the broker's clock, which a test can stop and advance.
        faults: the fault rules, which make the cluster misbehave on command.

    Raises: ClusterClosedError from every method after the cluster was closed or its test has finished, and in a forked
    process; RuntimeError from every method in the broker's thread, such as in a callback of the journal.
    """

    def __init__(self, thread: BrokerThread, cluster: Cluster) -> None:
        self.nodes: tuple[Node, ...] = cluster.nodes
        self.bootstrap_servers: str = cluster.bootstrap_servers
        self.listeners: dict[str, str] = cluster.listeners
        self.tls: TlsFiles = cluster.tls
        self.journal: Journal = cluster.journal
        self._thread = thread
        self._start_count = cluster.start_count
        self.clock = ThreadClock(self)
        self._faults: ThreadFaults | None = None

    @property
    def faults(self) -> ThreadFaults:
        """The fault rules, which make the cluster misbehave on command."""
        if self._faults is None:
            from mockbroker.api.thread_faults import ThreadFaults

            self._faults = ThreadFaults(self)
        return self._faults

    compact = blocking(
        Cluster.compact,
        "Blocks the calling thread. On the event loop that runs the clients, use ``compact_async``.",
    )
    compact_async = awaited(Cluster.compact, "Awaitable in asyncio and trio; the event loop keeps running.")
    wait_group = blocking(
        Cluster.wait_group,
        "Blocks the calling thread. On the event loop that runs the clients, use ``wait_group_async``.",
    )
    wait_group_async = awaited(Cluster.wait_group, "Awaitable in asyncio and trio; the event loop keeps running.")

    def _perform(self, call: Callable[[Any], T]) -> T:
        __tracebackhide__ = True

        def checked(cluster: Cluster) -> T:
            self._check(cluster)
            return call(cluster)

        return self._thread.call(checked)

    def _start(self, wait: Callable[[Any], Awaitable[T]]) -> Future[T]:
        async def checked(cluster: Cluster) -> T:
            self._check(cluster)
            return await wait(cluster)

        return self._thread.start(checked)

    def _check(self, cluster: Cluster) -> None:
        if cluster.start_count != self._start_count:
            raise ClusterClosedError(
                "this handle belongs to a test that has finished: use the handle of the current test"
            )


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
    clock: ClockMode = "real",
    faults: Sequence[RuleGiven] = (),
) -> Iterator[ThreadCluster]:
    """Run a cluster in its own thread for the duration of a ``with`` block, for code that does not use trio.

    Args:
        brokers: Number of brokers.
        topics: Topics to create: name to number of partitions.
        config: Broker settings by Kafka's names, such as ``{"group.max.size": 2}``.
        host: Address that every listener binds to.
        port: Port of the first broker. The next brokers listen on port + 1, port + 2, in the order of their ids. 0
            picks free ports.
        as_version: The Kafka release to emulate, such as ``"3.9"``.
        listeners: Listeners as in Kafka's setting, such as ``SASL_SSL`` or ``SASL_SSL://:9094``. The first one is at
            ``port``.
        users: SASL users: name to password.
        data_dir: Directory that keeps topics, records, groups and transactions in the format of Kafka's log
            directories. A later cluster with the same directory continues with this data.
        clock: ``"real"``, or ``"manual"`` for a clock that is stopped until the test advances it.
        faults: Initial fault rules, which ``reset`` restores. A rule is a JSON object, or a dict of the keyword
            arguments of ``faults.add``, such as ``{"api": "OffsetCommit", "error": "REBALANCE_IN_PROGRESS"}``.

    Raises:
        SettingsError: A setting, topic, listener or other argument is invalid.
        InvalidRule: A fault rule is invalid; also RuleExists and TooManyRules.
        PortInUseError: A listener cannot be bound.
        DataDirError: ``data_dir`` cannot be opened; also raised at the end of the block if writing to it failed.
    """
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
        faults=faults,
    )
    try:
        yield thread.handle()
    finally:
        thread.close()
