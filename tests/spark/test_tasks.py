"""The number of tasks for an amount of data."""

from __future__ import annotations

import pytest

from kwire.spark.tasks import LARGEST, task_count

MB, TB = 1 << 20, 1 << 40


@pytest.mark.parametrize(
    ("size", "cores", "tasks"),
    [
        (0, 2, 1),
        (3 * MB, 2, 2),
        (300 * MB, 2, 8),  # four per core
        (300 * MB, 64, 151),
        (16 * 1024 * MB, 2, 64),
        (100 * TB, 1_000, 409_600),
    ],
)
def test_small_data_employs_the_cores_and_large_data_is_cut(size: int, cores: int, tasks: int) -> None:
    assert task_count(size, 2 * MB, cores) == tasks


def test_no_task_of_any_input_exceeds_the_limit() -> None:
    assert all(size / task_count(size, 2 * MB, 1) <= LARGEST for size in (1, LARGEST, LARGEST + 1, 7 * TB + 3))
