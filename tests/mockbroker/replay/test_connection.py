"""The connection of a client to a replay."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from kwire.frames import pack
from mockbroker.replay.connection import READ_SIZE, ClientConnection


async def test_requests_are_read_ahead_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mockbroker.replay.connection.READ_AHEAD", 1_000)
    ours, theirs = (trio.SocketStream(each) for each in trio.socket.socketpair())
    frame, count = pack(bytes(100_000)), 40
    connection = ClientConnection(ours)
    async with ours, theirs, trio.open_nursery() as nursery:
        nursery.start_soon(connection.receive)
        nursery.start_soon(theirs.send_all, frame * count)
        for _ in range(count):
            assert await connection.next_frame() == bytes(100_000)
            await trio.testing.wait_all_tasks_blocked(0.001)
            assert connection.side.buffered < len(frame) + 2 * READ_SIZE  # 40 frames were sent
            await connection.send(None)
        nursery.cancel_scope.cancel()
