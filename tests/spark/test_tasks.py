"""The number of tasks for an amount of data."""

from __future__ import annotations

import pytest

from kwire.spark.tasks import LARGEST, task_count

MB, TB = 1 << 20, 1 << 40


@pytest.mark.parametrize(
    ("size", "tasks"),
    [(0, 1), (3 * MB, 2), (16 * MB, 4), (300 * MB, 18), (16 * 1024 * MB, 128), (TB, 4_096), (100 * TB, 409_600)],
)
def test_the_number_of_tasks_follows_from_the_bytes(size: int, tasks: int) -> None:
    assert task_count(size, MB) == tasks


def test_no_task_of_any_input_exceeds_the_limit() -> None:
    assert all(size / task_count(size, MB) <= LARGEST for size in (1, LARGEST, LARGEST + 1, 7 * TB + 3))
