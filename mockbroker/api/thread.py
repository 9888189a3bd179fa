"""Clusters from anything but trio: a thread that runs one, and a handle that any thread and any event loop may use.

Every call of the handle is carried out by the broker's own thread and comes back through a future, so nothing is
shared and nothing is locked.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from functools import wraps
from inspect import getdoc
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import trio

from mockbroker.api.clock import Clock, ClockOperations
from mockbroker.api.cluster import Cluster, ClusterClosedError, open_cluster
from mockbroker.api.operations import ClusterOperations, Handle
from mockbroker.api.records import UnknownTopicError
from mockbroker.api.wait import WaitTimeoutError
from mockbroker.base.release import KAFKA_4_2
from mockbroker.base.settings import SettingsError
from mockbroker.broker.failover import FailoverError
from mockbroker.broker.journal import Journal
from mockbroker.net.tls import TlsFiles
from mockbroker.topics.model import Node

T = TypeVar("T")
P = ParamSpec("P")


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


class _ThreadHandle(Handle):
    """A handle whose operations run in the broker's thread. ``_start`` begins what takes time there."""

    def _start(self, wait: Callable[[Any], Awaitable[T]]) -> Future[T]:
        raise NotImplementedError


def blocking(method: Callable[Concatenate[Any, P], Awaitable[T]], note: str = "") -> Callable[Concatenate[Any, P], T]:
    """Return the method of a thread's handle that blocks until the method of the cluster's is done.

    ``note``: what its documentation says beside that of the method.
    """

    @wraps(method)
    def blocked(self: _ThreadHandle, /, *args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        waiting = self._start(lambda there: method(there, *args, **kwargs))
        try:
            return _result(waiting)
        finally:
            waiting.cancel()

    blocked.__doc__ = _documentation(method, note)
    return blocked


def awaited(
    method: Callable[Concatenate[Any, P], Awaitable[T]], note: str = ""
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return the method of a thread's handle that asyncio and trio can await until the method of the cluster's is done.

    ``note``: as of ``blocking``.
    """

    @wraps(method)
    async def waited(self: _ThreadHandle, /, *args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        waiting = self._start(lambda there: method(there, *args, **kwargs))
        try:
            await _done(waiting)
            return _result(waiting)
        finally:
            waiting.cancel()

    waited.__name__ = f"{method.__name__}_async"
    waited.__doc__ = _documentation(method, note)
    return waited


def _documentation(method: Callable[..., object], note: str) -> str:
    return "\n\n".join(text for text in (getdoc(method), note) if text)


class ThreadClock(_ThreadHandle, ClockOperations):
    """As ``Clock``, for any thread and any event loop: no call takes longer than the broker needs for it."""

    def __init__(self, cluster: ThreadCluster) -> None:
        self._cluster = cluster

    advance = blocking(Clock.advance)

    def _perform(self, call: Callable[[Any], T]) -> T:
        __tracebackhide__ = True
        return self._cluster._perform(lambda cluster: call(cluster.clock))

    def _start(self, wait: Callable[[Any], Awaitable[T]]) -> Future[T]:
        return self._cluster._start(lambda cluster: wait(cluster.clock))


class ThreadCluster(_ThreadHandle, ClusterOperations):
    """A cluster that runs in a thread of its own. Any thread may use it, and any event loop: no call takes longer than
    the broker needs for it, but ``wait_group``, which waits; event loops have ``wait_group_async`` for that.

    Raises: ClusterClosedError from every method once the cluster is closed or its test has finished, and in a forked
    process.
    """

    def __init__(self, thread: BrokerThread, cluster: Cluster) -> None:
        self.nodes: tuple[Node, ...] = cluster.nodes
        self.bootstrap_servers: str = cluster.bootstrap_servers
        self.listeners: dict[str, str] = cluster.listeners
        self.tls: TlsFiles = cluster.tls
        self.journal: Journal = cluster.journal
        self._thread = thread
        self._life = cluster.life
        self.clock = ThreadClock(self)

    wait_group = blocking(
        Cluster.wait_group, "Blocks the thread: on an event loop that runs the clients use ``wait_group_async``."
    )
    wait_group_async = awaited(Cluster.wait_group, "For asyncio and trio, whose loop goes on meanwhile.")

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
        if cluster.life != self._life:
            raise ClusterClosedError("this handle belongs to a test that has finished")


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

    def set_event(_: object) -> None:
        with suppress(RuntimeError):  # the loop has ended
            soon(event.set)

    future.add_done_callback(set_event)
    await event.wait()
