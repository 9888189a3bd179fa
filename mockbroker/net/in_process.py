"""A client of a cluster in the same process, without a socket: requests in, answers out, encoded as on the wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from kwire import ClientSide
from kwire.schema import schema_of
from mockbroker.base.effects import Reply
from mockbroker.broker.router import Outcome
from mockbroker.net.connection import Session

HOST = "/127.0.0.1"  # where the broker believes these clients to be


class LineClosedError(ConnectionError):
    """The cluster, or whoever has the line, has closed it."""


class Line:
    """One connection. ``handle``: has the broker look at what came in; ``newest``: the newest version of an API served.

    A request is handled before ``ask`` gives others their turn, and no byte is ever on its way: a clock of trio's that
    jumps when nobody has anything to do jumps from deadline to deadline of the broker.
    """

    def __init__(
        self,
        session: Session,
        client_id: str,
        handle: Callable[[Line], None],
        hang_up: Callable[[Line], None],
        newest: Callable[[int], int],
    ) -> None:
        self.session = session
        self.closed = ""  # why
        self._side = ClientSide(client_id)
        self._handle = handle
        self._hang_up = hang_up
        self._newest = newest
        self._turn = trio.Lock()
        self._woken = trio.Event()

    async def ask(self, request: Any, version: int | None = None, *, answered: bool = True) -> Any:
        """The answer, once it is there. ``version``: None for the newest that is served.

        ``answered``: False for a Produce with acks 0; the answer is None. As on any connection of Kafka the next
        request waits for the answer to the one before. Whoever is cancelled here hangs up by it.
        Raises: LineClosedError; kwire.EncodeError if the version cannot carry the request.
        """
        if version is None:
            api = schema_of(type(request)).api
            assert api is not None
            version = self._newest(api.key)
        try:
            self._turn.acquire_nowait()  # and so is asked before anybody else has a turn
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
        self._woken = trio.Event()
        self.session.receive(data)
        self._handle(self)
        while answered and not self.closed:
            if (response := self._side.next_response()) is not None:
                await trio.lowlevel.checkpoint()
                return response.body
            await self._woken.wait()
        self._check()
        await trio.lowlevel.checkpoint()
        return None

    def close(self) -> None:
        """Hang up; a parked request stays parked where a broker does not see connections."""
        if not self.closed:
            self._hang_up(self)
            self.end("it is closed")

    # --- what the server does ---

    def take(self, outcome: Outcome) -> None:
        """An answer, or none."""
        if isinstance(outcome, Reply):
            self._side.receive(self.session.answer(outcome))
            self._woken.set()
        else:
            self.session.skip_answer()

    def end(self, why: str) -> None:
        """The line is dead; ``why`` is told to whoever uses it."""
        self.closed = self.closed or why
        self._woken.set()

    def _check(self) -> None:
        if self.closed:
            raise LineClosedError(self.closed)
