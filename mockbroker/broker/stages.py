"""Stages that process a request before its handler and its effects after it, such as authentication.

A stage applies to one connection, as authentication does, or to all connections (``Router.stages``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mockbroker.base.effects import Call, Effects


class Stage:
    """A stage of request processing. The methods of this class pass requests and effects on unchanged."""

    def before(self, call: Call[Any], now: float) -> Effects | None:  # noqa: ARG002
        """Return None to pass the request on; or its effects, to skip later stages and the handler.

        An empty list leaves the request pending until a deadline of the stage answers it.
        """
        return None

    def after(self, call: Call[Any], effects: Effects, now: float) -> Effects:  # noqa: ARG002
        """Return the final effects of a request that this stage has passed on.

        For a pending request, such as a JoinGroup, this is called in the later step that answers it.
        """
        return effects


def run_before(stages: Sequence[Stage], call: Call[Any], now: float) -> tuple[int, Effects | None]:
    """Run ``Stage.before`` of each stage until a stage does not pass the request on.

    Returns:
        The number of stages that passed the request on, and the effects of the next stage; None if all passed it on.
    """
    for number, stage in enumerate(stages):
        effects = stage.before(call, now)
        if effects is not None:
            return number, effects
    return len(stages), None


def run_after(stages: Sequence[Stage], call: Call[Any], effects: Effects, now: float) -> Effects:
    """Run ``Stage.after`` of each stage, the last stage first, and return the resulting effects."""
    for stage in reversed(stages):
        effects = stage.after(call, effects, now)
    return effects
