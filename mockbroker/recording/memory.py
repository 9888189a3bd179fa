"""The memory of a process that queues large buffers."""

from __future__ import annotations

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # options of mallopt(3)
KEPT, LARGEST = 256 << 20, 64 << 20  # bytes


def keep_freed_memory() -> None:
    """Let the C library use freed memory again, instead of returning it to the operating system.

    A recording allocates and frees many buffers of more than 100 KB. New memory from the operating system costs more
    CPU than the rest of the recording. The function has no effect if the C library is not glibc.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGEST)
        mallopt(M_TRIM_THRESHOLD, KEPT)
