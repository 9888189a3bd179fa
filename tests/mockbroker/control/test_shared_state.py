"""The shared document, with a source that records its refreshes."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
import trio

from mockbroker.control.shared_state import SharedState


class Slow:
    """A document whose refresh takes ten slices."""

    def __init__(self) -> None:
        self.content: dict[str, Any] = {"n": 0}
        self.running = False

    def refresh(self) -> Generator[None, None, dict[str, Any]]:
        """Add 1, and check that no other refresh runs."""
        assert not self.running
        self.running = True
        for _ in range(10):
            yield
        self.running = False
        self.content = {"n": self.content["n"] + 1}
        return self.content


async def test_refreshes_do_not_overlap() -> None:
    state, found = SharedState(Slow()), list[int]()

    async def read() -> None:
        found.append((await state.current())["n"])

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(read)
    assert sorted(found) == [1, 2, 3]


async def test_other_tasks_run_between_slices() -> None:
    steps = 0

    async def count() -> None:
        nonlocal steps
        while True:
            steps += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        await SharedState(Slow()).current()
        nursery.cancel_scope.cancel()
    assert steps >= 7  # may be less than 10, because trio runs tasks in random order


class Failing(Slow):
    """A document whose first refresh with a follower fails after it has changed the document."""

    fails = True

    def refresh(self) -> Generator[None, None, dict[str, Any]]:
        """Add 1; fail once."""
        self.content = {"n": self.content["n"] + 1}
        yield
        if self.fails:
            self.fails = False
            raise ValueError("planted")
        return self.content


async def test_after_a_failed_refresh_streams_need_the_document(caplog: pytest.LogCaptureFixture) -> None:
    source = Failing()
    state = SharedState(source)
    source.fails = False
    version, data = await state.encoded()
    source.fails = True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(state.run)
        with state.followers.one(), trio.fail_after(30):
            while state.version == version:
                await state.followers.changed.park()
        nursery.cancel_scope.cancel()
    assert "cannot be refreshed" in caplog.text
    assert data == b'{"n":1}'
    assert state.patches_since(version) is None
    assert (await state.encoded(fresh=False))[1] == b'{"n":3}'


async def test_a_client_that_disconnects_does_not_end_a_refresh() -> None:
    source = Slow()
    state = SharedState(source)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(state.current)
        while not source.running:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert not source.running
    assert (state.version, source.content) == (1, {"n": 1})
