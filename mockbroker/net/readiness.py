"""Which sockets have something to read. Two ways behind one form; ``best`` says which one this platform gets.

One wait of a task in trio costs as much as answering three requests. Where sockets can be registered once for all waits
(epoll), a single task waits for all of them, and then goes through those that are ready without waiting again.
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
Ready = Callable[[Sequence[T]], bool]  # is called with those that are readable; True: other tasks shall have a turn
AT_ONCE = 64  # sockets of one look; those that wait longest come first, so that none starves
LOOKS = 4  # at most, before other tasks get their turn: listeners, timer, tests


class Watch(Protocol[A]):
    """Tells of sockets that are readable, as long as they are: each goes with an item of the owner's.

    A socket is added while ``run`` does, once, and removed before it is closed.
    """

    async def run(self) -> None:
        """Call the owner whenever something is readable, until cancelled."""

    async def catch_up(self) -> None:
        """Call the owner for everything that is readable by now."""

    def add(self, sock: socket.socket, item: A) -> None: ...

    def remove(self, sock: socket.socket) -> None:
        """Do not tell of it any more; one that is not watched may be removed, but for a closed one."""

    def close(self) -> None: ...


class OneTask(Generic[T]):
    """All sockets in one epoll, level-triggered; ``run`` waits for that."""

    def __init__(self, ready: Ready[T]) -> None:
        self._ready = ready
        self._items: dict[int, T] = {}
        self._epoll = select.epoll()

    async def run(self) -> None:
        while True:
            await wait_readable(self._epoll.fileno())
            for _ in range(LOOKS):
                if not self._look(AT_ONCE):
                    break

    async def catch_up(self) -> None:
        self._look(max(len(self._items), 1))

    def _look(self, most: int) -> bool:
        """True if there may be more to read before other tasks have their turn."""
        found = self._epoll.poll(0, most)
        return bool(found) and not self._ready([self._items[number] for number, _ in found])

    def add(self, sock: socket.socket, item: T) -> None:
        self._items[sock.fileno()] = item
        self._epoll.register(sock.fileno(), select.EPOLLIN)

    def remove(self, sock: socket.socket) -> None:
        if self._items.pop(sock.fileno(), None) is not None:
            self._epoll.unregister(sock.fileno())

    def close(self) -> None:
        self._epoll.close()


class TaskEach(Generic[T]):
    """A task for each socket: for platforms without epoll."""

    def __init__(self, ready: Ready[T]) -> None:
        self._ready = ready
        self._scopes: dict[int, trio.CancelScope] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        async with trio.open_nursery() as self._nursery:
            await trio.sleep_forever()

    async def catch_up(self) -> None:
        await trio.lowlevel.checkpoint()  # whoever became readable is behind the others that can run

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


def best(ready: Ready[T]) -> Watch[T]:
    """The faster of those that there are."""
    return OneTask(ready) if hasattr(select, "epoll") else TaskEach(ready)
