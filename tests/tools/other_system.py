"""A Python without the parts that only POSIX or Linux has, for a separate process.

    python other_system.py mockbroker serve --port 0

runs a command after ``hide`` has removed these parts. trio and asyncio keep the functions with which they wait for
sockets on this system; the modules of kwire and mockbroker cannot use these functions.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from types import ModuleType
from typing import Any

MODULES = ("fcntl", "grp", "pty", "pwd", "resource", "spwd", "syslog", "termios", "tty")
NAMES: dict[ModuleType, tuple[str, ...]] = {
    os: ("fork", "forkpty", "killpg", "setsid", "geteuid", "getuid", "fchmod", "O_CLOEXEC", "O_DIRECTORY"),
    select: ("epoll", "poll", "kqueue"),
    signal: ("SIGHUP", "SIGKILL", "SIGPIPE", "SIGTTIN", "SIGUSR1", "SIGUSR2", "pthread_sigmask"),
}
ABSENT = ("/proc/", "/sys/", "/dev/shm")


def hide() -> None:
    """Remove modules, functions and folders that Windows or macOS does not have, from this process."""
    import asyncio  # noqa: F401 - these two are ported to Windows; here they run as on this system
    import subprocess  # noqa: F401

    import trio  # noqa: F401
    import trio._core._io_epoll as waiting

    own: Any = ModuleType("select")
    vars(own).update(vars(select))
    vars(waiting)["select"] = own
    for module, names in NAMES.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    msvcrt: Any = ModuleType("msvcrt")
    msvcrt.LK_NBLCK, msvcrt.locked = 2, []
    msvcrt.locking = lambda number, mode, size: msvcrt.locked.append((number, mode, size))
    sys.modules["msvcrt"] = msvcrt
    sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir") and arguments and str(arguments[0]).startswith(ABSENT):
        raise FileNotFoundError(2, "not on this system", str(arguments[0]))


if __name__ == "__main__":
    hide()
    from kwire.process import run

    del sys.argv[0]
    run(f"{sys.argv[0]}.cli")
