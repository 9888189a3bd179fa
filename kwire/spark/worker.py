"""The Python worker of Spark in which a task runs. Spark uses it for many tasks, one after the other."""

from __future__ import annotations

import gc
import sys
from functools import cache

from pyspark import TaskContext

OBJECTS = 1_000_000  # allocations between two runs of the cyclic garbage collector


def collect_garbage_rarely() -> None:
    """Make garbage collections of this worker rare and short. Do nothing outside of a Spark task.

    A task has up to millions of row objects without reference cycles. With Python's defaults, the collections during a
    task take a fifth of its CPU time and find nothing.

    After each task, Spark collects the garbage of the worker. That takes 25 ms of CPU time with the modules of the
    pipeline, which is more than many tasks take, and less than 1 ms without them. So a task exempts all objects that
    exist when it starts, if modules were loaded since the last exemption: the tasks of each stage load more of them.
    """
    if TaskContext.get() is not None:
        _exempt(len(sys.modules))


@cache
def _exempt(modules: int) -> None:  # noqa: ARG001 - once for each number of modules
    gc.set_threshold(OBJECTS, 20, 20)
    gc.freeze()
