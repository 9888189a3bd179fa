"""A Kafka client connection for requests of the conformance check that are not part of a recorded conversation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

import trio

from kwire import ClientSide

A = TypeVar("A")
CLIENT_ID = "conform"
RESPONSE_TIMEOUT = 20.0  # seconds; a real broker can take several to delete topics


class Asker:
    """A client connection that waits for the response to each request before it sends the next.

    Args:
        stream: the connection to the broker.
    """

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._side = ClientSide(CLIENT_ID)

    async def ask(self, request: object, version: int, kind: type[A]) -> A:
        """Send a request, and return the body of the response.

        Args:
            request: body of the request.
            version: API version.
            kind: class of the response body.

        Raises: OSError if no response arrives.
        """
        name = f"{type(request).__name__} v{version}"
        try:
            with trio.fail_after(RESPONSE_TIMEOUT):
                await self._stream.send_all(self._side.send(request, version))
                while (response := self._side.next_response()) is None:
                    data = await self._stream.receive_some()
                    if not data:
                        raise OSError(f"no response to {name}: connection closed by the broker")
                    self._side.receive(bytes(data))
        except trio.TooSlowError:
            raise OSError(f"no response to {name} within {RESPONSE_TIMEOUT:g} s") from None
        except trio.BrokenResourceError as error:
            raise OSError(f"no response to {name}: {error}") from error
        assert isinstance(response.body, kind)
        return response.body


@asynccontextmanager
async def open_asker(host: str, port: int) -> AsyncIterator[Asker]:
    """Yield a connection to a broker for the duration of an ``async with`` block.

    Raises: OSError if the connection fails.

    Args:
        host: host name or IP address.
        port: TCP port.
    """
    async with await trio.open_tcp_stream(host, port) as stream:
        yield Asker(stream)
