"""Watchers that report readable sockets: one with epoll, and one with a task per socket for platforms without epoll.

With epoll, each socket is registered once. A single task waits for all sockets, and then handles all readable sockets
without waiting again. This is faster, because one wait of a trio task costs as much time as three requests.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

import trio
from trio.lowlevel import wait_readable

T = TypeVar("T")
A = TypeVar("A", contravariant=True)
Ready = Callable[[Sequence[T]], bool]  # called with the items of readable sockets; returns True to let other tasks run
MAX_EVENTS = 64  # maximum sockets that one poll reports; the next poll continues with the other sockets
MAX_POLLS = 4  # maximum polls before other tasks run: listeners, timer, tests


class Watch(Protocol[A]):
    """The interface of a watcher, which calls a callback with the readable sockets.

    A socket is reported repeatedly as long as it is readable. The callback gets a list of items: for each readable
    socket, the item that was passed to ``add`` together with the socket. A socket must be added only once, while
    ``run`` runs, and removed before it is closed.
    """

    async def run(self) -> None:
        """Report readable sockets until cancelled."""

    async def catch_up(self) -> None:
        """Report all sockets that are readable now, and return without waiting."""

    def add(self, sock: socket.socket, item: A) -> None: ...

    def remove(self, sock: socket.socket) -> None:
        """Stop watching an open socket; do nothing if the socket is not watched."""

    def close(self) -> None: ...


class EpollWatch(Generic[T]):
    """A watcher with one task that waits for all sockets, by level-triggered epoll (Linux).

    Args:
        ready: callback that is called with the items of readable sockets. It returns True to let other tasks run before
            the next poll.
    """

    def __init__(self, ready: Ready[T]) -> None:
        self._ready = ready
        self._items: dict[int, T] = {}
        self._epoll = select.epoll()

    async def run(self) -> None:
        while True:
            await wait_readable(self._epoll.fileno())
            for _ in range(MAX_POLLS):
                if not self._poll(MAX_EVENTS):
                    break

    async def catch_up(self) -> None:
        self._poll(max(len(self._items), 1))

    def _poll(self, max_events: int) -> bool:
        """Report the sockets that are readable now; return True if more sockets may be readable.

        The result is False if no socket was readable, or if the callback has asked to let other tasks run.

        ``max_events``: maximum number of sockets to report.
        """
        events = self._epoll.poll(0, max_events)
        return bool(events) and not self._ready([self._items[number] for number, _ in events])

    def add(self, sock: socket.socket, item: T) -> None:
        self._items[sock.fileno()] = item
        self._epoll.register(sock.fileno(), select.EPOLLIN)

    def remove(self, sock: socket.socket) -> None:
        if self._items.pop(sock.fileno(), None) is not None:
            self._epoll.unregister(sock.fileno())

    def close(self) -> None:
        self._epoll.close()


class TaskWatch(Generic[T]):
    """A watcher with one task per socket, for platforms without epoll.

    Args:
        ready: callback that is called with a list of one item, that of a readable socket. Its result is ignored.
    """

    def __init__(self, ready: Ready[T]) -> None:
        self._ready = ready
        self._scopes: dict[int, trio.CancelScope] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        async with trio.open_nursery() as self._nursery:
            await trio.sleep_forever()

    async def catch_up(self) -> None:
        await trio.lowlevel.checkpoint()  # the tasks of sockets that became readable run now

    def add(self, sock: socket.socket, item: T) -> None:
        assert self._nursery is not None
        scope = self._scopes[sock.fileno()] = trio.CancelScope()
        self._nursery.start_soon(self._wait, sock, item, scope)

    def remove(self, sock: socket.socket) -> None:
        if (scope := self._scopes.pop(sock.fileno(), None)) is not None:
            scope.cancel()

    def close(self) -> None:
        self._scopes.clear()

    async def _wait(self, sock: socket.socket, item: T, scope: trio.CancelScope) -> None:
        with scope:
            while not scope.cancel_called:
                await wait_readable(sock)
                self._ready([item])


def best_watch(ready: Ready[T]) -> Watch[T]:
    """Return the fastest watcher that the platform supports.

    ``ready``: callback that gets the items of the readable sockets. It returns True to let other tasks run.
    """
    return EpollWatch(ready) if hasattr(select, "epoll") else TaskWatch(ready)
