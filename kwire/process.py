"""The process of a command, from its first line to its last; ``kwire`` and ``mockbroker`` share it.

Ctrl-C and a reader of stdout that is gone end it as they end other programs: killed by SIGINT (130 in a shell) or by
SIGPIPE (141), without a word. Imports of this module are few: until ``run`` is called, Ctrl-C prints a traceback.
"""

from __future__ import annotations

import signal

SIGPIPE = getattr(signal, "SIGPIPE", None)  # Windows has none
INTERRUPTED = 128 + signal.SIGINT  # exit codes that ``run`` makes the signals of
UNREAD = 128 + SIGPIPE if SIGPIPE else 1


def run(module: str) -> None:
    """Run ``main``, the click command of a module, with the arguments of the process. Raises: SystemExit."""
    _exchange(signal.default_int_handler, signal.SIG_DFL)  # there is nothing to tidy up while modules are imported
    import atexit
    from importlib import import_module

    _open_streams()
    killed_by: list[int] = []
    atexit.register(_kill, killed_by)  # registered first, so called last
    try:
        import_module(module).main(prog_name=module.partition(".")[0])
    except SystemExit as end:
        if end.code == INTERRUPTED:
            killed_by.append(signal.SIGINT)
        if end.code == UNREAD and SIGPIPE:
            killed_by.append(SIGPIPE)
        raise
    finally:
        _exchange(signal.default_int_handler, signal.SIG_DFL)


def _open_streams() -> None:
    """Standard streams that were closed are /dev/null, so that no file or socket of ours gets their descriptors."""
    import os
    import sys

    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - until the process ends


def catch_interrupts() -> None:
    """From here on Ctrl-C is a KeyboardInterrupt, as usual in Python. Nothing changes where ``run`` was not called."""
    _exchange(signal.SIG_DFL, signal.default_int_handler)


def _exchange(old: object, new: object) -> None:
    """Handle SIGINT by ``new`` if it is handled by ``old``: in a background job, for example, it is ignored."""
    if signal.getsignal(signal.SIGINT) is old:
        signal.signal(signal.SIGINT, new)  # type: ignore[arg-type]


def _kill(killed_by: list[int]) -> None:
    import os
    import sys
    from contextlib import suppress

    for number in killed_by:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
