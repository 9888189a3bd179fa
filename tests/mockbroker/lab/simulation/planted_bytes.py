"""Planted bugs of connections, which runs of the scheme ``bytes`` must notice."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from kwire import frames
from mockbroker.base.effects import Call
from mockbroker.broker import router
from mockbroker.broker.authentication import Authentication
from mockbroker.net import connection as requests
from mockbroker.net.connection import ClientRequests
from mockbroker.net.pump import Connection, Pump
from mockbroker.net.sockets import SocketConnection, Sockets
from mockbroker.net.tls import TlsStream

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]
BYTE_BUGS: list[tuple[tuple[str, ...], Plant]] = []


def bug(*by: str) -> Callable[[Plant], Plant]:
    def listed(plant: Plant) -> Plant:
        BYTE_BUGS.append((by, plant))
        return plant

    return listed


@bug("I40")
def a_slow_reader_gets_bytes_twice(patch: Patch) -> None:
    def send_more(self: Sockets, connection: SocketConnection) -> bool:
        if self._pump.hold(connection):
            return False
        with suppress(BlockingIOError):
            sent = connection.sock.send(connection.out)
            del connection.out[: sent - 1]
        return True

    patch.setattr(Sockets, "send_more", send_more)


@bug("I40")
def bytes_that_cannot_be_sent_are_lost(patch: Patch) -> None:
    def send(self: SocketConnection) -> bool:
        with suppress(BlockingIOError):
            self.sock.send(self.out)
        self.out.clear()
        return True

    patch.setattr(SocketConnection, "send", send)


@bug("I40")
def the_end_of_an_incomplete_frame_is_lost(patch: Patch) -> None:
    real = frames.FrameBuffer.feed

    def feed(self: frames.FrameBuffer, data: bytes) -> bool:
        return real(self, data[1:] if self.held and not self.complete else data)

    patch.setattr(frames.FrameBuffer, "feed", feed)


@bug("I40")
def a_request_of_equal_length_counts_as_repeated(patch: Patch) -> None:
    real = ClientRequests.next_call

    class OfLength(bytes):
        def __ne__(self, other: object) -> bool:
            return isinstance(other, bytes) and len(other) != len(self)

    def next_call(self: ClientRequests) -> Call[Any] | None:
        for parsed in self._parsed.values():
            parsed.rest = OfLength(parsed.rest)
        return real(self)

    patch.setattr(router, "native_reader", lambda _: None)  # because the native reader compares requests itself
    patch.setattr(ClientRequests, "next_call", next_call)
    patch.setattr(requests, "REPEATED", 512)


@bug("I9", "I35")
def a_connection_that_was_drained_is_not_served(patch: Patch) -> None:
    patch.setattr(Sockets, "end_drain", lambda self, connection: None)


@bug("I9", "I35", "I7")
def a_connection_that_was_full_is_not_read_again(patch: Patch) -> None:
    real = SocketConnection.stop_reading

    def stop_reading(self: SocketConnection) -> None:
        real(self)
        self.watched = True

    patch.setattr(SocketConnection, "_full", property(lambda self: self.draining or self.frames.held > 50))
    patch.setattr(SocketConnection, "stop_reading", stop_reading)


@bug("I41")
def idle_connections_are_not_closed(patch: Patch) -> None:
    patch.setattr(Sockets, "close_overdue", lambda self: None)


@bug("I41")
def a_connection_whose_client_has_ended_stays_open(patch: Patch) -> None:
    patch.setattr(Pump, "close_if_over", lambda self, connection: None)
    patch.setattr(Sockets, "_idle_limit", property(lambda self: float("inf")))


@bug("I41")
def bytes_of_closed_connections_are_counted(patch: Patch) -> None:
    real = Pump.weigh

    def weigh(self: Pump, connection: Connection) -> None:
        if connection.frames.held or connection.out:
            real(self, connection)

    def close(self: Pump, connection: Connection, reason: str = "") -> None:
        if not connection.closed:
            connection.closed = True
            self.connections.pop(connection.number, None)
            if connection.requests.ticket is not None:
                self.router.forget(connection.requests.ticket)
            self.router.forget_connection(connection.number)
            connection.hang_up(reason)

    patch.setattr(Pump, "weigh", weigh)
    patch.setattr(Pump, "close", close)


@bug("I40")
def a_tls_record_is_sent_twice(patch: Patch) -> None:
    real = TlsStream.send

    def send(self: TlsStream, data: Any, flags: int = 0) -> int:
        sent = real(self, data, flags)
        return sent - 1 if sent > 300 else sent

    patch.setattr(TlsStream, "send", send)


@bug("I40", "I9", "raised")
def raw_tokens_are_expected_after_the_login(patch: Patch) -> None:
    real = Authentication._complete

    def complete(self: Authentication, *args: Any) -> int:
        raw = self.raw_tokens
        lifetime = real(self, *args)
        self.raw_tokens = raw
        return lifetime

    patch.setattr(Authentication, "_complete", complete)
