"""Start and end of a command's process, shared by ``kwire`` and ``mockbroker``.

Ctrl-C ends the process with one line on stderr and exit code 130. A closed pipe on stdout ends the process by SIGPIPE
(141 in a shell), without output, as in other programs. This module imports little, because Ctrl-C prints a traceback
until ``run`` is called.
"""

from __future__ import annotations

import gc
import os
import signal

SIGPIPE = getattr(signal, "SIGPIPE", None)  # None on Windows, which has no SIGPIPE
SIGNALLED = 128  # the exit code for a signal, as a shell reports it, is this number plus that of the signal
INTERRUPTED = SIGNALLED + signal.SIGINT
UNREAD = SIGNALLED + SIGPIPE if SIGPIPE else 1  # ``run`` turns it into the signal
_reported: list[int] = []  # SIGINT, once its line is written
_importing: list[str] = []  # module of the command, until its modules are imported


def run(module: str) -> None:
    """Run a click command with the command-line arguments of the process.

    ``module``: name of the module that contains the command as its function ``main``. Raises: SystemExit with the exit
    code of the command.
    """
    _replace_handler(signal.default_int_handler, _exit)  # nothing needs cleanup while modules are imported
    gc.disable()  # until modules are imported
    _importing.append(module)
    import atexit
    from importlib import import_module

    _open_streams()
    _escape_unencodable_text()
    killed_by: list[int] = []
    atexit.register(_kill, killed_by)  # registered first, so called last
    try:
        import_module(module).main(prog_name=module.partition(".")[0])
    except SystemExit as end:
        if end.code == INTERRUPTED:
            _report_interrupt()
            exec("")  # noqa: S102 - if Ctrl-C interrupted an exec, ``python -m`` would end by SIGINT without this later one
        if end.code == UNREAD and SIGPIPE:
            killed_by.append(SIGPIPE)
        raise
    finally:
        _replace_handler(signal.default_int_handler, _exit)


def _open_streams() -> None:
    """Open /dev/null for each closed standard stream, so that no file or socket gets its descriptor."""
    import sys

    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - until the process ends


def _escape_unencodable_text() -> None:
    """Write characters that the encoding of stdout does not have, such as those beyond Latin-1, as escapes.

    Otherwise such a character in a name would end the command with UnicodeEncodeError. Python does the same for stderr.
    """
    import io
    import sys

    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def end_imports() -> None:
    """Record that the process has imported its modules.

    From this call on, the garbage collector runs, but ignores all objects that exist now, because modules are never
    deleted. Ctrl-C raises KeyboardInterrupt from now on. Without ``run``, nothing happens: another program calls the
    command, and its objects may be deleted.
    """
    if not _importing:
        return
    _importing.clear()
    gc.freeze()
    gc.enable()
    _replace_handler(_exit, signal.default_int_handler)


def _exit(*_: object) -> None:
    """End the process at once with the exit code INTERRUPTED, as a handler of SIGINT."""
    _report_interrupt()
    os._exit(INTERRUPTED)


def _report_interrupt() -> None:
    """Write the line about Ctrl-C to stderr, once. It does not use ``sys.stderr``, which the main thread may hold.

    From then on, errors of finalizers are ignored: KeyboardInterrupt may have interrupted the creation of an object.
    """
    import sys

    if not _reported:
        _reported.append(signal.SIGINT)
        sys.unraisablehook = lambda _: None
        try:
            os.write(2, b"Error: interrupted\n")
        except OSError:  # closed, or a full disk
            return


def _replace_handler(old: object, new: object) -> None:
    """Install the handler ``new`` for SIGINT, but only if the current handler is ``old``.

    Therefore, a background job that ignores SIGINT continues to ignore it.
    """
    if signal.getsignal(signal.SIGINT) is old:
        signal.signal(signal.SIGINT, new)  # type: ignore[arg-type]


def _kill(killed_by: list[int]) -> None:
    import sys
    from contextlib import suppress

    for number in killed_by:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
