from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from mockbroker.replay.clock import ReplayClock


async def test_a_running_clock_follows_trios(autojump_clock: MockClock) -> None:
    clock = ReplayClock(1_000.0)
    await clock.sleep(5)
    assert (clock.running, clock.now(), clock.wall()) == (True, 5.0, 1_005.0)


async def test_a_stopped_clock_moves_by_commands(autojump_clock: MockClock) -> None:
    clock = ReplayClock(1_000.0, stopped=True)
    woken: list[float] = []

    async def sleep(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(seconds)

    async with trio.open_nursery() as nursery:
        for seconds in (0.0, 3.0, 5.0, 20.0):
            nursery.start_soon(sleep, seconds)
        await trio.sleep(60)
        assert woken == [0.0]
        await clock.advance(3)
        await wait_all_tasks_blocked()
        assert (woken, clock.now(), clock.running) == ([0.0, 3.0], 3.0, False)
        clock.resume()
        await trio.sleep(3)
        assert woken == [0.0, 3.0, 5.0]
        clock.stop()
        await trio.sleep(60)
        assert (woken, clock.wall()) == ([0.0, 3.0, 5.0], 1_006.0)
        await clock.advance(15)
    assert woken == [0.0, 3.0, 5.0, 20.0]


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), 1e9])
async def test_a_step_has_a_range(seconds: float) -> None:
    with pytest.raises(ValueError, match=r"cannot advance the clock by .* s: expected 0 to 315360000 s"):
        await ReplayClock(0.0).advance(seconds)
