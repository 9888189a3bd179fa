"""The broker's time: trio's own, until somebody stops it, steps it or sets it free. It never goes back.

Groups, transactions, offsets and records live in this time. What is between a client and its connection, as the time
a Fetch may wait, stays in trio's, which is called the time outside: clients measure it too.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import trio


class BrokerTime:
    """``read``: what time it is, in seconds; ``real``: it is trio's own, so ``read`` is trio's function itself."""

    __slots__ = ("_behind", "_stood", "read", "real")

    def __init__(self, *, stopped: bool = False) -> None:
        self.read: Callable[[], float]
        self.restart(stopped=stopped)

    def restart(self, *, stopped: bool) -> None:
        """Be trio's time again, and stand there if ``stopped``. Nobody may remember a time of before."""
        self.real = True
        self._behind = 0.0  # seconds behind trio's time, while it runs
        self._stood: float | None = None  # where it stands, if it does
        self.read = trio.current_time
        if stopped:
            self.stop()

    @property
    def running(self) -> bool:
        return self._stood is None

    def stop(self) -> None:
        """Stand still from now on."""
        if self._stood is None:
            self._stood = self.read()
        self.read, self.real = self._standing, False

    def resume(self) -> None:
        """Run on from where it stands."""
        if self._stood is not None:
            self._run_from(self._stood)

    def move_to(self, at: float) -> None:
        """Be a later time from now on, standing or running as before."""
        if self._stood is None:
            self._run_from(at)
        else:
            self._stood = at

    def when(self, at: float) -> float:
        """The time outside at which it will be ``at``; inf if it stands before that, -inf if it stands behind."""
        if self._stood is None:
            return at + self._behind
        return -inf if at <= self._stood else inf

    def outside(self, now: float) -> float:
        """The time outside at this moment, which is ``now`` in the broker's."""
        return now if self.real else trio.current_time()

    def _run_from(self, at: float) -> None:
        self._stood, self._behind = None, trio.current_time() - at
        self.read, self.real = self._moving, False

    def _standing(self) -> float:
        assert self._stood is not None
        return self._stood

    def _moving(self) -> float:
        return trio.current_time() - self._behind
