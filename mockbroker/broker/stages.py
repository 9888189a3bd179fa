"""Stages that a request passes before its handler, and its effects after it: authentication is one.

A stage belongs to one connection, as authentication does, or to all of them (``Router.stages``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mockbroker.base.effects import Call, Effects


class Stage:
    """One stage. A stage that overrides neither method lets everything pass."""

    def before(self, call: Call[Any], now: float) -> Effects | None:  # noqa: ARG002
        """The effects of a request that goes no further, neither to later stages nor to its handler; None: it goes on.

        No effects at all leave it pending: a deadline answers it.
        """
        return None

    def after(self, call: Call[Any], effects: Effects, now: float) -> Effects:  # noqa: ARG002
        """The answer to a request that this stage let pass, also one that was pending: it comes with a later step."""
        return effects


def run_before(stages: Sequence[Stage], call: Call[Any], now: float) -> tuple[int, Effects | None]:
    """How many stages let the request pass, and the effects of the one that did not; None if all of them did."""
    for number, stage in enumerate(stages):
        effects = stage.before(call, now)
        if effects is not None:
            return number, effects
    return len(stages), None


def run_after(stages: Sequence[Stage], call: Call[Any], effects: Effects, now: float) -> Effects:
    """The effects after these stages, the last one first."""
    for stage in reversed(stages):
        effects = stage.after(call, effects, now)
    return effects
