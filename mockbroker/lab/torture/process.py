"""A client under test as a child process: its output, its memory and threads, and how it ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence

import psutil

from kwire.lazy_dataclass import dataclass
from kwire.process import SIGNALLED

OUTPUT = 16_384  # bytes of the client's last output that are kept
GRACE = 3.0  # seconds between SIGTERM and SIGKILL
WINDOWS_EXCEPTIONS = 0xC0000000  # the exit code of a process on Windows after an exception is at least this number
CRASHES = (  # texts of runtimes that end because of an internal error
    "A fatal error has been detected by the Java Runtime",
    "FATAL ERROR:",
    "Fatal Python error",
    "OutOfMemoryError",
    "Segmentation fault",
    "at TCP.onStreamRead (node:internal",  # an exception that no application in Node.js can catch
    "fatal error: ",
    "panic: ",
    "signal SIGSEGV",
)


@dataclass(slots=True)
class Usage:
    """The peak resource usage of a process and its children.

    Attributes:
        memory: resident memory in bytes.
        threads: number of threads.
        sockets: number of open file descriptors.
        cpu: CPU time in seconds.
    """

    memory: int = 0
    threads: int = 0
    sockets: int = 0
    cpu: float = 0.0


class ClientProcess:
    """A running client. Its output is read continuously, and the last part is kept.

    Args:
        command: program and arguments.
        environment: further environment variables.

    Attributes:
        usage: peak resource usage over all samples.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.usage = Usage()
        self._process = subprocess.Popen(  # noqa: S603 - the command of the user
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._output = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            while data := os.read(stream.fileno(), OUTPUT):
                self._output += data
                del self._output[:-OUTPUT]

    @property
    def exit_code(self) -> int | None:
        """The exit code of the client: None while the client runs, negative if a signal ended it (-9 for SIGKILL)."""
        return self._process.poll()

    @property
    def output(self) -> str:
        """The last part of the client's output."""
        return self._output.decode(errors="replace")

    @property
    def has_crashed(self) -> bool:
        """Whether the client was killed by a signal, or by a fatal error of its runtime."""
        code = self.exit_code
        if code is None:
            return False
        self._reader.join(GRACE)
        return _is_signal(code) or (code != 0 and any(text in self.output for text in CRASHES))

    def sample(self) -> int:
        """Measure the resource usage and update the peaks in ``usage``. Return the resident memory in bytes."""
        memory = threads = sockets = 0
        cpu = 0.0
        with contextlib.suppress(psutil.Error):
            top = psutil.Process(self._process.pid)
            for process in (top, *top.children(recursive=True)):
                with contextlib.suppress(psutil.Error), process.oneshot():
                    memory += process.memory_info().rss
                    threads += process.num_threads()
                    sockets += process.num_fds() if hasattr(process, "num_fds") else 0
                    times = process.cpu_times()
                    cpu += times.user + times.system
        usage = self.usage
        usage.memory, usage.threads = max(usage.memory, memory), max(usage.threads, threads)
        usage.sockets, usage.cpu = max(usage.sockets, sockets), max(usage.cpu, cpu)
        return memory

    def wait(self, seconds: float) -> None:
        """Wait until the client ends, for at most ``seconds``."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def end(self) -> None:
        """End the client and its children with SIGTERM, and after a few seconds with SIGKILL."""
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)
        self._signal(getattr(signal, "SIGKILL", signal.SIGTERM))
        self._process.wait()
        self._reader.join(GRACE)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, number)
            else:  # Windows: no groups of processes, and every signal ends a process at once
                self._terminate_all()

    def _terminate_all(self) -> None:
        with contextlib.suppress(psutil.Error):
            top = psutil.Process(self._process.pid)
            for process in (*top.children(recursive=True), top):
                with contextlib.suppress(psutil.Error):
                    process.terminate()


def _is_signal(code: int) -> bool:
    """Return whether an exit code reports a signal, or an exception of Windows. 255 does not: programs use it."""
    return code < 0 or code - SIGNALLED in signal.valid_signals() or code >= WINDOWS_EXCEPTIONS
