"""The reader of stdin for servers such as ``mockbroker serve``: it yields command lines, and detects the end of the
parent process.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator

import trio

STDIN = 0
READ_SIZE = 4_096  # bytes
MAX_LINE = 1_024  # bytes kept of an unfinished line; every command is shorter


async def read_lines(file: int = STDIN) -> AsyncIterator[str]:
    """Yield the lines of a file that are not blank, until the file ends or cannot be read.

    A thread reads the file, because the file must not be made non-blocking: other processes may use it too.

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
    """Read a file to its end, and ignore the content.

    When a process dies, the operating system closes its pipes. The end of stdin therefore shows that the parent process
    has ended.

    ``file``: file descriptor.
    """
    async for _ in read_lines(file):
        pass
