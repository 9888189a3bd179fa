"""A client of a cluster in the same process, without a socket: requests in, answers out, encoded as on the wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from kwire import ClientSide
from kwire.schema import schema_of
from mockbroker.base.effects import Reply
from mockbroker.net.connection import ClientRequests
from mockbroker.net.pump import Connection, Pump

HOST = "/127.0.0.1"  # the address that the broker sees


class LineClosedError(ConnectionError):
    """The in-process connection was closed, by the cluster or by its owner."""


class Line:
    """An in-process connection.

    A request is handled before ``ask`` gives others their turn, and no byte is ever on its way: a clock of trio's that
    jumps when no task can run jumps from deadline to deadline of the broker.
    """

    def __init__(
        self, pump: Pump, requests: ClientRequests, client_id: str, serve: Callable[[Connection], None]
    ) -> None:
        self._pump = pump
        self._side = ClientSide(client_id)
        self._connection = InProcessConnection(requests, self._side)
        self._serve = serve
        self._turn = trio.Lock()
        pump.open(self._connection)

    @property
    def closed(self) -> str:
        """Why it is closed; "" while it is open."""
        return self._connection.reason

    async def ask(self, request: Any, version: int | None = None, *, answered: bool = True) -> Any:
        """The answer, once it is there. ``version``: None for the newest that is served.

        ``answered``: False for a Produce with acks 0; the answer is None. As on any connection of Kafka the next
        request waits for the answer to the one before. A task that is cancelled here closes the connection.
        Raises: LineClosedError; kwire.EncodeError if the version cannot carry the request.
        """
        if version is None:
            api = schema_of(type(request)).api
            assert api is not None
            version = self._newest(api.key)
        try:
            self._turn.acquire_nowait()  # so that the request is handled before another task has a turn
        except trio.WouldBlock:
            await self._turn.acquire()
        try:
            self._check()
            return await self._asked(self._side.send(request, version, answered=answered), answered=answered)
        except trio.Cancelled:
            self.close()
            raise
        finally:
            self._turn.release()

    async def _asked(self, data: bytes, *, answered: bool) -> Any:
        connection = self._connection
        connection.woken = trio.Event()
        connection.requests.receive(data)
        self._serve(connection)
        while answered and not self.closed:
            if (response := self._side.next_response()) is not None:
                await trio.lowlevel.checkpoint()
                return response.body
            await connection.woken.wait()
        self._check()
        await trio.lowlevel.checkpoint()
        return None

    def close(self) -> None:
        """Close it; a pending request stays pending where a broker does not see connections."""
        self._pump.close(self._connection, "it is closed")

    def _newest(self, api_key: int) -> int:
        newest = self._pump.router.broker.served[api_key].last
        assert newest is not None
        return newest

    def _check(self) -> None:
        if self.closed:
            raise LineClosedError(self.closed)


class InProcessConnection(Connection):
    """The broker's end of a line. Its answers arrive at once, also where those on sockets wait for the disk.

    reason: why it is closed
    woken: is set when an answer is there, or none will come
    """

    __slots__ = ("_side", "reason", "woken")

    durable = False
    requests: ClientRequests

    def __init__(self, requests: ClientRequests, side: ClientSide) -> None:
        super().__init__(requests.connection, requests, f"in-process client {requests.connection}")
        self.reason = ""
        self.woken = trio.Event()
        self._side = side

    @property
    def buffered(self) -> int:
        return 0

    @property
    def unsent(self) -> int:
        return 0

    def answer(self, reply: Reply) -> int:
        self._side.receive(self.requests.answer(reply))
        self.woken.set()
        return 0

    def send(self) -> bool:
        return True

    def hang_up(self, reason: str) -> None:
        self.reason = reason
        self.woken.set()
