"""Stages that process a request before its handler and its effects after it, such as authentication.

A stage applies to one connection, as authentication does, or to all connections: ``Router.outer_stages`` run before
those of the connection, ``Router.stages`` after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mockbroker.base.effects import Answer, Call, Effects, Ticket


class Stage:
    """A stage of request processing. The methods of this class pass requests and effects on unchanged."""

    def before(self, call: Call[Any], now: float) -> Effects | Call[Any] | None:  # noqa: ARG002
        """Process a request before later stages and its handler.

        Returns:
            None to pass the request on. A call to pass that call on, and to process the effects that answer it with
            ``after``. Or the effects of the request, to skip later stages and the handler; without an effect that
            answers the request, such as [], the stage holds the request, and continues it with a ``Proceed`` or
            answers it in a later step.
        """
        return None

    def after(self, call: Call[Any], effects: Effects, now: float) -> Effects:  # noqa: ARG002
        """Return the final effects of a request for which ``before`` returned a call.

        For a pending request, such as a JoinGroup, this is called in the later step that answers it. Without an effect
        that answers the request, the stage holds the answer, and gives it in a later step.
        """
        return effects

    def due(self, ticket: Ticket, now: float) -> Effects:  # noqa: ARG002
        """Return the effects of the deadline ``StageDue`` of a request."""
        return []

    def forget(self, ticket: Ticket) -> bool:  # noqa: ARG002
        """Note that the connection of a request was closed.

        Returns:
            True if the stage will continue the request, which is not processed yet. No client gets the response.
        """
        return False

    def forget_connection(self, number: int) -> None:
        """Note that a connection was closed, after ``forget`` of its pending request. ``number``: its number."""


@dataclass(slots=True)
class Passage:
    """The way of a pending request through the stages.

    Attributes:
        call: The request, as the last stage has passed it on.
        stages: The stages of the request.
        passed: Number of stages that were called.
        watching: The stages whose ``after`` processes the answer.
    """

    call: Call[Any]
    stages: Sequence[Stage]
    passed: int = 0
    watching: tuple[Stage, ...] = ()

    def go_on(self, now: float) -> Effects | None:
        """Call ``before`` of the next stages until one does not pass the request on.

        Returns:
            The effects of that stage; None if all stages have passed the request on.
        """
        while self.passed < len(self.stages):
            stage = self.stages[self.passed]
            self.passed += 1
            outcome = stage.before(self.call, now)
            if isinstance(outcome, Call):
                self.call = outcome
                self.watching = (*self.watching, stage)
            elif outcome is not None:
                return outcome
        return None

    def watch(self, call: Call[Any]) -> None:
        """Pass on the call of a ``Proceed``; ``after`` of the stage that has held the request processes the answer."""
        self.call = call
        self.watching = (*self.watching, self.stages[self.passed - 1])

    def forget(self) -> bool:
        """Note that the connection was closed; return whether a stage will continue the request nevertheless."""
        kept = [stage.forget(self.call.ticket) for stage in self.stages[: self.passed]]
        return any(kept)

    def process_answer(self, effects: Effects, now: float) -> Effects:
        """Call ``after`` of the watching stages, the last one first, until one holds the answer.

        Returns:
            The effects. If they do not answer the request, ``watching`` has the stages that did not see the answer.
        """
        while self.watching:
            *others, stage = self.watching
            self.watching = tuple(others)
            effects = stage.after(self.call, effects, now)
            if not answers(effects, self.call.ticket):
                break
        return effects


def answers(effects: Effects, ticket: Ticket) -> bool:
    """Return whether one of the effects answers a request or closes its connection."""
    return any(isinstance(effect, Answer) and effect.ticket is ticket for effect in effects)
