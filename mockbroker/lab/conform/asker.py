"""A connection for the player's own questions, beside the conversation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

import trio

from kwire import ClientSide

A = TypeVar("A")
CLIENT_ID = "conform"
PATIENCE = 20.0  # seconds for an answer; a real broker that deletes topics can take some


class Asker:
    """Asks one thing after the other."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._side = ClientSide(CLIENT_ID)

    async def ask(self, request: object, version: int, kind: type[A]) -> A:
        """The answer, which is of this kind. Raises: OSError if none comes."""
        try:
            with trio.fail_after(PATIENCE):
                await self._stream.send_all(self._side.send(request, version))
                while (answer := self._side.next_response()) is None:
                    data = await self._stream.receive_some()
                    if not data:
                        raise OSError(f"no answer to {type(request).__name__} v{version}: connection closed")
                    self._side.receive(bytes(data))
        except trio.TooSlowError:
            raise OSError(f"no answer to {type(request).__name__} v{version} within {PATIENCE:g} s") from None
        except trio.BrokenResourceError as error:
            raise OSError(f"no answer to {type(request).__name__} v{version}: {error}") from error
        assert isinstance(answer.body, kind)
        return answer.body


@asynccontextmanager
async def open_asker(host: str, port: int) -> AsyncIterator[Asker]:
    """Raises: OSError if there is no broker."""
    async with await trio.open_tcp_stream(host, port) as stream:
        yield Asker(stream)
