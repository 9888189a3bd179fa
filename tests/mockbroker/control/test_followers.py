"""Followers of a source, for which work is done only while a stream follows it."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from mockbroker.control.followers import Followers


async def test_work_waits_for_a_stream() -> None:
    followers, steps = Followers(), list[str]()

    async def work() -> None:
        while True:
            await followers.wait()
            steps.append("step")
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        await trio.testing.wait_all_tasks_blocked()
        assert not steps
        with followers.one(), followers.one():
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
        assert steps
        await trio.testing.wait_all_tasks_blocked()
        count = len(steps)
        await trio.testing.wait_all_tasks_blocked()
        assert len(steps) == count
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("method", ["wake", "wake_slowly"])
async def test_all_waiting_streams_are_woken(method: str) -> None:
    followers, woken = Followers(), list[int]()

    async def wait(number: int) -> None:
        await followers.changed.park()
        woken.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(wait, number)
        await trio.testing.wait_all_tasks_blocked()
        await getattr(followers, method)()
    assert len(woken) == 50
