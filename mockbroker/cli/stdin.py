"""The reader of stdin for ``mockbroker serve``: command lines, and the end of input when the parent process ends."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator

import trio

STDIN = 0
READ_SIZE = 4_096  # bytes
MAX_LINE = 1_024  # bytes kept of an unfinished line; every command is shorter


async def read_lines(file: int = STDIN) -> AsyncIterator[str]:
    """Yield the lines of a file that are not blank, until it ends or cannot be read.

    A thread reads the file, so that a file shared with other processes need not be made non-blocking.

    Args:
        file: File descriptor.
    """
    if hasattr(signal, "SIGTTIN"):
        # A background job of a terminal reads nothing, but is not stopped.
        signal.signal(signal.SIGTTIN, signal.SIG_IGN)
    rest = b""
    while True:
        try:
            data = await trio.to_thread.run_sync(os.read, file, READ_SIZE, abandon_on_cancel=True)
        except OSError:  # closed, or the terminal of another process group
            return
        *lines, rest = (rest + data).split(b"\n") if data else (rest, b"")
        for line in lines:
            if line.strip():
                yield line.decode("utf-8", "replace")
        if not data:
            return
        rest = rest[:MAX_LINE]


async def wait_end(file: int = STDIN) -> None:
    """Wait until a file ends; its content is ignored. ``file``: file descriptor.

    When a process dies, the system closes its pipes, so the end of stdin shows that the parent process has ended.
    """
    async for _ in read_lines(file):
        pass
