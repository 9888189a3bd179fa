"""Both kinds of watch report the same readable sockets."""

from __future__ import annotations

import select
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from tools.served_broker import serving

from kwire import ErrorCode as E
from kwire.messages.heartbeat import HeartbeatRequest
from mockbroker.net.readiness import MAX_EVENTS, MAX_POLLS, EpollWatch, TaskWatch, best_watch

BEAT = (HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 3)
KINDS = [EpollWatch, TaskWatch] if hasattr(select, "epoll") else [TaskWatch]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


class Reader:
    """Reads a byte from each reported socket, and records its name."""

    def __init__(self, kind: Any) -> None:
        self.reported: list[str] = []
        self.sockets: dict[str, socket.socket] = {}
        self.others: list[socket.socket] = []
        self.watch = kind(self.ready)

    def ready(self, names: Iterable[str]) -> None:
        for name in names:
            self.reported.append(name)
            self.sockets[name].recv(1)

    def add(self, name: str) -> socket.socket:
        """Add a new socket pair; return the peer's end."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self.sockets[name] = ours
        self.others.append(theirs)
        self.watch.add(ours, name)
        return theirs


@asynccontextmanager
async def reading(kind: Any) -> AsyncIterator[Reader]:
    reader = Reader(kind)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reader.watch.run)
            await trio.testing.wait_all_tasks_blocked()
            yield reader
            nursery.cancel_scope.cancel()
    finally:
        reader.watch.close()
        for sock in [*reader.sockets.values(), *reader.others]:
            sock.close()


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(30):
        while not condition():
            await trio.testing.wait_all_tasks_blocked(0.001)


async def test_readable_socket_is_reported_until_it_is_empty(kind):
    async with reading(kind) as reader:
        a, b = reader.add("a"), reader.add("b")
        a.send(b"xyz")
        await until(lambda: reader.reported == ["a"] * 3)
        b.send(b"x")
        await until(lambda: reader.reported == ["a"] * 3 + ["b"])


async def test_removed_socket_is_not_reported_until_added_again(kind):
    async with reading(kind) as reader:
        a, b = reader.add("a"), reader.add("b")
        reader.watch.remove(reader.sockets["a"])
        reader.watch.remove(reader.sockets["a"])
        a.send(b"x")
        b.send(b"x")
        await until(lambda: reader.reported)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert reader.reported == ["b"]
        reader.watch.add(reader.sockets["a"], "a")
        await until(lambda: reader.reported == ["b", "a"])


async def test_reused_descriptor_is_another_socket(kind):
    async with reading(kind) as reader:
        reader.add("a")
        old = reader.sockets["a"]
        number = old.fileno()
        reader.watch.remove(old)
        old.close()
        b = reader.add("b")
        assert number in (reader.sockets["b"].fileno(), b.fileno())
        b.send(b"x")
        await until(lambda: reader.reported == ["b"])


async def test_other_tasks_run_and_no_socket_starves(kind):
    async with reading(kind) as reader:
        names = [str(number) for number in range(MAX_EVENTS * (MAX_POLLS + 1))]
        others = [reader.add(name) for name in names]
        for other in others:
            other.send(b"x" * 20)
        with trio.fail_after(30):
            while set(reader.reported) != set(names):
                await trio.lowlevel.checkpoint()
        assert max(map(reader.reported.count, names)) < 20  # no socket was read to its end before the others were read


async def test_catch_up_reports_all_readable_sockets(kind):
    async with reading(kind) as reader:
        others = [reader.add(str(number)) for number in range(MAX_EVENTS * (MAX_POLLS + 1))]
        await trio.testing.wait_all_tasks_blocked()
        for other in others:
            other.send(b"x")
        await trio.lowlevel.checkpoint()
        await reader.watch.catch_up()
        assert len(set(reader.reported)) == len(others)


async def test_broker_serves_with_either_watch(kind):
    async with serving(watch=kind) as place:
        peers = [await place.connect() for _ in range(5)]
        for peer in peers:
            await peer.send(*[BEAT] * 50)
        for peer in peers:
            for _ in range(50):
                assert (await peer.receive()).error_code == E.UNKNOWN_MEMBER_ID
        await peers[0].stream.aclose()
        await place.until(lambda: len(place.server.connections) == 4)


def test_the_best_there_is():
    watch = best_watch(lambda _: None)
    assert type(watch) is KINDS[0]
    watch.close()
