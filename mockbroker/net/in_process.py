"""Client connections inside the broker's process. They carry encoded messages without a socket."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import trio

from kwire import ClientSide
from kwire.schema import schema_of
from mockbroker.base.effects import Reply
from mockbroker.net.connection import ClientRequests
from mockbroker.net.pump import Connection, Pump

if TYPE_CHECKING:
    from mockbroker.faults.stage import Admission

HOST = "/127.0.0.1"  # the client address that the broker sees


class ConnectionClosedError(ConnectionError):
    """The error for the use of an in-process connection after the cluster or the client has closed it."""


class InProcessConnection:
    """A connection of a client in the broker's process: requests are sent as message objects, without a socket.

    The broker handles a request before ``ask`` lets another task run. So no request or response is in transit while
    tasks wait, and ``trio.testing.MockClock`` can jump from one deadline of the broker to the next.

    Args:
        pump: The pump of the cluster, which serves the connection.
        requests: The protocol side of the connection, which decodes its requests and encodes its responses.
        client_id: The ``client.id`` of the request headers.
        serve: Function that serves the connection immediately.
    """

    def __init__(
        self, pump: Pump, requests: ClientRequests, client_id: str, serve: Callable[[Connection], None]
    ) -> None:
        self._pump = pump
        self._side = ClientSide(client_id)
        self._connection = BrokerEnd(requests, self._side)
        self._serve = serve
        self._lock = trio.Lock()
        pump.open(self._connection)

    @property
    def closed(self) -> str:
        """The reason why the connection was closed; "" while it is open."""
        return self._connection.reason

    def admit(self, admission: Admission | None) -> None:
        """Apply the decision of the fault rules about this new connection: close the connection, mute it or do nothing.

        ``admission``: the decision; None if no rule applies.
        """
        if admission is not None and admission.refused:
            self._pump.close(self._connection, f"fault rule {admission.rule}: {admission.how}")
        elif admission is not None:
            self._connection.muted = admission.how == "mute"

    async def ask(self, request: Any, version: int | None = None, *, answered: bool = True) -> Any:
        """Send a request and return the response.

        As on every Kafka connection, the broker handles a request only after it has sent the response to the previous
        one. Cancelling the calling task closes the connection.

        Args:
            request: A request message of ``kwire.messages``.
            version: Version of the API; None for the newest version that the broker serves.
            answered: False for a request without a response, such as a Produce with acks=0; the result is then None.

        Raises:
            ConnectionClosedError: The connection was closed before the call or during it.
            kwire.EncodeError: The version cannot represent the request.
        """
        if version is None:
            api = schema_of(type(request)).api
            assert api is not None
            version = self._newest(api.key)
        try:
            self._lock.acquire_nowait()  # without a checkpoint: the request is handled before other tasks run
        except trio.WouldBlock:
            await self._lock.acquire()
        try:
            self._check()
            return await self._exchange(self._side.send(request, version, answered=answered), answered=answered)
        except trio.Cancelled:
            self.close()
            raise
        finally:
            self._lock.release()

    async def _exchange(self, data: bytes, *, answered: bool) -> Any:
        connection = self._connection
        connection.woken = trio.Event()
        connection.requests.receive(data)
        self._serve(connection)
        while answered and not self.closed:
            if (response := self._side.next_response()) is not None:
                await trio.lowlevel.checkpoint()
                return response.body
            await connection.woken.wait()
            connection.woken = trio.Event()  # a part of the response may have arrived
        self._check()
        await trio.lowlevel.checkpoint()
        return None

    def close(self) -> None:
        """Close the connection. A pending JoinGroup or SyncGroup remains in its group, as in Kafka."""
        self._pump.close(self._connection, "the client has closed the connection")

    def _newest(self, api_key: int) -> int:
        newest = self._pump.router.broker.advertised_versions[api_key].last
        assert newest is not None
        return newest

    def _check(self) -> None:
        if self.closed:
            raise ConnectionClosedError(self.closed)


class BrokerEnd(Connection):
    """The broker's end of an in-process connection.

    A response on this connection is sent at once, even if the data that the response acknowledges is not on disk yet.

    Args:
        requests: The requests of the connection.
        side: The client's end, which receives the responses.

    Attributes:
        since: Time at which the connection was opened, in seconds since 1970.
        reason: Reason why the connection was closed; "" while it is open.
        woken: Event that is set when the client's end has received bytes of a response, or when the connection is
            closed.
    """

    __slots__ = ("_side", "reason", "since", "woken")

    durable = False
    requests: ClientRequests
    out: bytearray

    def __init__(self, requests: ClientRequests, side: ClientSide) -> None:
        super().__init__(requests.connection, requests, f"in-process client {requests.connection}")
        self.since = time.time()
        self.reason = ""
        self.woken = trio.Event()
        self._side = side
        self.out = bytearray()  # a response that is sent slowly

    def answer(self, reply: Reply) -> int:
        data = self.requests.answer(reply)
        if self.pace is not None:
            self.out += data
        else:
            self._receive(data)
        return len(self.out)

    def send(self) -> bool:
        if (pace := self.pace) is not None:
            data = bytes(self.out if pace.finished else self.out[: pace.allowed])
            del self.out[: len(data)]
            pace.allowed -= len(data)
            if not self.out:
                pace.finished, self.pace = True, None
            self._receive(data)
        return True

    def _receive(self, data: bytes) -> None:
        self._side.receive(data)
        self.woken.set()

    def hang_up(self, reason: str) -> None:
        self.reason = reason
        self.out.clear()
        self.woken.set()
