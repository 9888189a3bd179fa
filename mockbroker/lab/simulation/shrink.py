"""Shrinking of a failing script: faults, members and events are removed while the same invariant is still violated.

Source: A. Zeller, R. Hildebrandt, "Simplifying and isolating failure-inducing input" (delta debugging).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from mockbroker.lab.simulation.run import Outcome, run
from mockbroker.lab.simulation.script import Script

MOST_EVENTS = 400_000  # maximum number of events in all attempts: about half a minute
T = TypeVar("T")


class Shrinker:
    """A shrinker of one failing script.

    Args:
        outcome: outcome of the failing script.
        attempt: function that runs a script.
        budget: maximum number of events in all attempts.

    Attributes:
        best: outcome of the smallest script so far that violates the same invariant.
        attempts: number of scripts tried.
    """

    def __init__(self, outcome: Outcome, attempt: Callable[[Script], Outcome] = run, budget: int = MOST_EVENTS) -> None:
        self.best = outcome
        self.attempts = 0
        self._attempt = attempt
        self._left = budget

    def shrink(self) -> Outcome:
        """Remove faults, members, and the events after the failure from the script, as long as the script still fails.

        Return the outcome of the smallest failing script.
        """
        script = self.best.script
        if self.best.events < script.events:
            self._try(replace(script, events=self.best.events + 1))
        for _ in range(2):
            self._fewer(self.best.script.faults, lambda script, kept: replace(script, faults=tuple(kept)))
            self._fewer(self.best.script.members, lambda script, kept: replace(script, members=tuple(kept)))
            if self.best.events < self.best.script.events:
                self._try(replace(self.best.script, events=self.best.events + 1))
        return self.best

    def _fewer(self, parts: Sequence[T], made: Callable[[Script, Sequence[T]], Script]) -> None:
        """Remove faults or members from the script as long as the script still violates the same invariant.

        The method first tries to remove many consecutive parts at once, and then fewer. It returns when no part can be
        removed, or when the budget is exhausted.

        Args:
            parts: faults or members of the script.
            made: function that returns the script with only the given parts.
        """
        size = max(len(parts) // 2, 1)
        while parts:
            at = 0
            while at < len(parts):
                kept = [*parts[:at], *parts[at + size :]]
                if self._try(made(self.best.script, kept)):
                    parts = kept
                else:
                    at += size
                if self._left <= 0:
                    return
            if size == 1:
                return
            size = max(size // 2, 1)

    def _try(self, script: Script) -> bool:
        """Run a smaller script, and return whether it violates the same invariant, or raises the same exception.

        If so, store the outcome in ``best``.
        """
        outcome = self._attempt(script)
        self.attempts += 1
        self._left -= outcome.events
        if outcome.failure != self.best.failure:
            return False
        self.best = outcome
        return True
