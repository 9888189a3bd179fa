"""The connection of a client to a replay. A task receives while a response is delayed too, so that the end of the
connection is noticed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import trio

from kwire.connection import ServerSide
from kwire.frames import PREFIX
from kwire.limits import MAX_FRAME

READ_SIZE = 65_536  # bytes of one read
READ_AHEAD = 8 << 20  # bytes of further requests that are received while a request is pending
GONE = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)


class Ended(Exception):
    """The exception that a request handler raises to close the connection of the client."""


class ClientConnection:
    """A client's connection, and the connection to the mock cluster that was opened for it.

    Args:
        client: the connection to the client.

    Attributes:
        side: the requests that were received.
        mock: the connection to the mock cluster; None before the first request that is not in the recording.
    """

    def __init__(self, client: trio.SocketStream) -> None:
        self.side = ServerSide()
        self.mock: trio.SocketStream | None = None
        self._client = client
        self._ended = False  # whether the client has closed, reset or half-closed the connection
        self._delay: trio.CancelScope | None = None
        self._is_mock_pending = False
        self._received, self._taken = trio.lowlevel.ParkingLot(), trio.lowlevel.ParkingLot()

    async def receive(self) -> None:
        """Receive requests until the client ends sending. Then end the pending delay or request to the mock."""
        while not self._ended:
            while self.side.busy and self.side.buffered >= READ_AHEAD:
                await self._taken.park()
            try:
                data = await self._client.receive_some(READ_SIZE)
            except GONE:
                data = b""
            self.side.receive(bytes(data))
            self._ended = not data
            self._received.unpark_all()
        if self._delay is not None:
            self._delay.cancel()
        if self._is_mock_pending:
            await self._end_mock()

    async def next_frame(self) -> bytes | None:
        """Return the next request without its length prefix; None after the last one.

        Raises: RemoteProtocolError if the length prefix is invalid.
        """
        while True:
            frame = self.side.next_frame()
            self._taken.unpark_all()
            if frame is not None or self._ended:
                return frame
            await self._received.park()

    async def send(self, response: bytes | None) -> None:
        """Send the response to the pending request. ``response``: None for a request without a response."""
        if response is None:
            self.side.skip_answer()
        else:
            await self._client.send_all(self.side.answer(response))

    async def delay(self, sleep: Callable[[float], Awaitable[None]], seconds: float) -> None:
        """Wait until a delay is over, or the client has ended sending.

        A client that has closed its connection and one that has half-closed it cannot be told apart. The latter still
        gets its responses, at once.

        Args:
            sleep: function that waits for a number of seconds.
            seconds: the delay.
        """
        with trio.CancelScope() as self._delay:
            if self._ended:
                self._delay.cancel()
            await sleep(seconds)
        self._delay = None

    async def mock_response(self) -> bytes:
        """Return the next response of the mock cluster, without its length prefix.

        Raises: Ended if the mock cluster closes the connection.
        """
        assert self.mock is not None
        self._is_mock_pending = True
        if self._ended:
            await self._end_mock()
        frame = await _read_frame(self.mock)
        self._is_mock_pending = False
        return frame

    async def _end_mock(self) -> None:
        """Half-close the connection to the mock cluster if the client has sent no further request.

        The mock cluster then closes the connection, also if a request is pending there.
        """
        if self.mock is not None and not self.side.buffered:
            with suppress(*GONE):
                await self.mock.send_eof()


async def _read_frame(stream: trio.SocketStream) -> bytes:
    (size,) = PREFIX.unpack(await _read(stream, PREFIX.size))
    if not 0 <= size <= MAX_FRAME:
        raise Ended
    return await _read(stream, size)


async def _read(stream: trio.SocketStream, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = await stream.receive_some(size - len(data))
        if not more:
            raise Ended
        data += more
    return bytes(data)
