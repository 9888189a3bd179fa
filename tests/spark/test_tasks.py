"""The number of tasks for an amount of data, and the exemption of objects from garbage collections in a task."""

from __future__ import annotations

import gc
import sys
from types import ModuleType, SimpleNamespace

import pytest

pytest.importorskip("pyspark")

from kwire.spark import worker
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


def test_new_modules_are_exempt_from_garbage_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    """A later task exempts what was loaded since the first; a task without new modules exempts nothing."""
    calls: list[str] = []
    monkeypatch.setattr(worker, "TaskContext", SimpleNamespace(get=lambda: "task"))
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    monkeypatch.setattr(gc, "set_threshold", lambda *_: None)
    worker.collect_garbage_rarely()
    before = len(calls)
    worker.collect_garbage_rarely()
    assert len(calls) == before
    monkeypatch.setitem(sys.modules, "a_module_of_this_test", ModuleType("a"))
    worker.collect_garbage_rarely()
    assert len(calls) == before + 1
