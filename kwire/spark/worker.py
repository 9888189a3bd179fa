"""The Python worker of Spark in which a task runs. Spark uses it for many tasks, one after the other."""

from __future__ import annotations

import gc

from pyspark import TaskContext


def exempt_modules_from_collections() -> None:
    """Exempt the loaded modules from garbage collections of this worker. Do nothing outside of a Spark task.

    After each task, Spark collects the garbage of the worker. That takes 25 ms of CPU time with the modules of the
    pipeline, which is more than many tasks take, and less than 1 ms without them. The first task of a worker exempts
    all objects that exist then.
    """
    if TaskContext.get() is not None and not gc.get_freeze_count():
        gc.freeze()
