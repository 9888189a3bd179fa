"""The process of the brokers of a soak: ``mockbroker serve`` that reports what only the process itself knows.

python fuzzing/soak_server.py FOLDER serve OPTION...

FOLDER/tasks has the number of tasks of the event loop. At SIGUSR1 the process writes FOLDER/objects.json: the number of
objects by type, and of allocated memory blocks.
"""

from __future__ import annotations

import functools
import gc
import json
import mmap
import os
import signal
import struct
import sys
from collections import Counter
from pathlib import Path

import trio

from mockbroker.__main__ import main

TASKS, OBJECTS = "tasks", "objects.json"
_NUMBER = struct.Struct("=q")


class TaskCount(trio.abc.Instrument):
    """The number of tasks of an event loop, in a file that other processes read. ``file``: the file."""

    def __init__(self, file: Path) -> None:
        file.write_bytes(_NUMBER.pack(0))
        with file.open("r+b") as opened:
            self._memory = mmap.mmap(opened.fileno(), _NUMBER.size)
        self._count = 0

    def task_spawned(self, task: trio.lowlevel.Task) -> None:  # noqa: ARG002 - trio's name
        self._add(1)

    def task_exited(self, task: trio.lowlevel.Task) -> None:  # noqa: ARG002 - trio's name
        self._add(-1)

    def _add(self, number: int) -> None:
        self._count += number
        _NUMBER.pack_into(self._memory, 0, self._count)


def read_tasks(folder: Path) -> int:
    """Return the number of tasks in a folder's file."""
    (number,) = _NUMBER.unpack((folder / TASKS).read_bytes())
    return int(number)


def write_objects(file: Path) -> None:
    """Write the number of objects by type, and of allocated memory blocks, as JSON."""
    gc.collect()
    types = Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())
    part = file.with_suffix(".part")
    part.write_text(json.dumps({"types": types, "blocks": sys.getallocatedblocks()}), encoding="utf-8")
    os.replace(part, file)


if __name__ == "__main__":
    folder = Path(sys.argv.pop(1))
    signal.signal(signal.SIGUSR1, lambda *_: write_objects(folder / OBJECTS))
    trio.run = functools.partial(trio.run, instruments=[TaskCount(folder / TASKS)])  # type: ignore[assignment]
    sys.argv[0] = "mockbroker"
    main()
