"""Work in slices, beside a task that counts how often it runs."""

from __future__ import annotations

from collections.abc import Generator

from tools.turns import turns_beside

from mockbroker.net.slices import complete


async def test_other_tasks_run_between_slices() -> None:
    def slices() -> Generator[None, None, int]:
        for _ in range(10):
            yield
        return 5

    assert await turns_beside(complete(slices())) >= 7
    assert await complete(slices()) == 5
