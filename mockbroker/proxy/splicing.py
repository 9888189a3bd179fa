"""The transfer of received bytes from one socket to another within the kernel (splice), without copying them."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress

PIPE_SIZE = 1 << 20  # bytes; the largest size that Linux permits by default
STEP = 1 << 18  # bytes that are taken from a socket at once, and the most that ``move`` returns
WAITS = ((6, 5), (6, 8))  # some kernels from the first version on, before the second, wait for a slow target


class SplicePipe:
    """A pipe through which bytes move from one socket to another. It is empty between two calls of ``move``.

    The pipe is opened with the first call. On a system without the system call splice, nothing is moved.

    Attributes:
        is_usable: False if splice is not available for the sockets of this system.
    """

    def __init__(self) -> None:
        self.is_usable = sys.platform == "linux" and not WAITS[0] <= _kernel() < WAITS[1]
        self._ends: tuple[int, int] | None = None  # file descriptors for reading and for writing

    def move(self, source: int, target: int, size: int) -> tuple[int, bytes]:
        """Move bytes that a socket has received to another socket, until this socket accepts no more; do not wait.

        Args:
            source: file descriptor of the non-blocking socket that has received the bytes.
            target: file descriptor of the non-blocking socket that sends the bytes. If its connection is broken, it
                accepts no bytes.
            size: number of bytes, at most the number of bytes in the receive buffer.

        Returns:
            The number of bytes that were taken from the source, and the last of them, which the target did not accept.
            The caller sends these. If no byte was taken, the caller must receive the next bytes in another way: urgent
            data (TCP) precede them, or splice is not available, and ``is_usable`` is False from then on.
        """
        taken = sent = 0
        reading = -1
        try:
            reading, writing = self._opened()
            while sent < size:
                if sent == taken:
                    taken += os.splice(source, writing, min(size - taken, STEP))
                    if sent == taken:  # urgent data, and the source has ended
                        break
                sent += os.splice(reading, target, taken - sent)
        except BlockingIOError:  # the target is full, or urgent data
            pass
        except OSError:  # no file descriptors for a pipe, no splice for these sockets, or the connection is broken
            self.is_usable = self.is_usable and bool(taken)
        rest = []
        while sent < taken:
            rest.append(os.read(reading, taken - sent))
            sent += len(rest[-1])
        return taken, b"".join(rest)

    def close(self) -> None:
        """Close the pipe, if it is open."""
        self.is_usable = False
        if self._ends is not None:
            for end in self._ends:
                os.close(end)
            self._ends = None

    def _opened(self) -> tuple[int, int]:
        """Return the ends of the pipe. Raises: OSError if it cannot be opened."""
        if self._ends is None:
            import fcntl  # not on Windows

            self._ends = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            with suppress(OSError):  # the user already has large pipes
                fcntl.fcntl(self._ends[1], fcntl.F_SETPIPE_SZ, PIPE_SIZE)
        return self._ends


def _kernel() -> tuple[int, ...]:
    """Return the major and minor version of the kernel."""
    return tuple(map(int, re.findall("[0-9]+", os.uname().release)[:2]))
