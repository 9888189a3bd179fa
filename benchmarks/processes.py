"""The CPU time and the memory of a process, from /proc (Linux)."""

from __future__ import annotations

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")  # a second
PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")  # bytes


def cpu_times(pid: int, *, children: bool = False) -> tuple[float, float]:
    """Return the CPU time in seconds that a process has used in user mode and in kernel mode.

    Args:
        pid: process id; 0 for no process, which has used no time.
        children: whether to add the times of its ended child processes.

    Raises: OSError if there is no such process.
    """
    if not pid:
        return 0.0, 0.0
    fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    user, system, children_user, children_system = (int(ticks) / TICKS for ticks in fields[11:15])
    return (user + children_user, system + children_system) if children else (user, system)


def exact_cpu_time(pid: int) -> int:
    """Return the CPU time in nanoseconds that the running threads of a process have used, in user and in kernel mode.

    The time of a thread is exact while the thread waits. Threads that have ended are not included.

    ``pid``: process id.
    """
    return sum(int(path.read_text("ascii").split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def resident_memory(pid: int) -> int:
    """Return the resident memory of a process in bytes. ``pid``: process id."""
    return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * PAGE_SIZE
