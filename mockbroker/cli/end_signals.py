"""The signals that end the commands ``serve``, ``proxy``, ``replay`` and ``torture``."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from kwire.process import SIGNALLED


def end_signals() -> list[signal.Signals]:
    """Return the signals that end the command: SIGTERM, SIGINT and SIGHUP.

    SIGHUP is missing if the process ignores this signal, as under nohup, and on platforms without this signal.
    """
    signals = [signal.SIGTERM, signal.SIGINT]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signals.append(signal.SIGHUP)
    return signals


@contextmanager
def exiting() -> Iterator[None]:
    """Raise SystemExit in the block when SIGTERM or SIGHUP arrives, so that the block can end its child processes.

    SIGINT raises KeyboardInterrupt as usual. Use this in the main thread only.
    """
    signals = [each for each in end_signals() if each != signal.SIGINT]
    previous = {each: signal.signal(each, _exit) for each in signals}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _exit(number: int, _: FrameType | None) -> None:
    sys.exit(SIGNALLED + number)
