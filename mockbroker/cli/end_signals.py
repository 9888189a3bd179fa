"""The signals that end the commands ``serve``, ``proxy`` and ``replay``."""

from __future__ import annotations

import signal


def end_signals() -> list[signal.Signals]:
    """Return the signals that end the command: SIGTERM, SIGINT and SIGHUP.

    SIGHUP is missing if the process ignores this signal, as under nohup, and on platforms without this signal.
    """
    signals = [signal.SIGTERM, signal.SIGINT]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signals.append(signal.SIGHUP)
    return signals
