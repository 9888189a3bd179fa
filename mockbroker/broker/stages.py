"""Stages of request processing, such as authentication.

A stage processes a request before the handler, and the effects of the handler, such as the response, after the handler.

A stage applies to one connection, as authentication does, or to all connections. ``Router.outer_stages`` run before the
stages of the connection, ``Router.stages`` run after them.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeAlias, TypeVar

from kwire.lazy_dataclass import dataclass
from mockbroker.base.effects import Answer, Call, Effects, NoReply, Proceed, Reply, Steps, Ticket, begin

Outcome: TypeAlias = Effects | Call[Any] | None  # of ``Stage.before``
R = TypeVar("R")


class Stage:
    """The base class of stages of request processing. Its methods pass requests and effects on unchanged.

    Attributes:
        unchanged: API keys whose decoded requests ``before`` always returns unchanged, see ``only_processes_answer``.
    """

    unchanged: frozenset[int] = frozenset()

    def passes(self, call: Call[Any]) -> bool:  # noqa: ARG002
        """Return True only if ``before`` would return None for the request (``call``), that is, pass it on unchanged.

        If the result is True, the router does not call ``before``, which saves time for frequent requests.
        """
        return False

    def only_processes_answer(self, call: Call[Any]) -> bool:  # noqa: ARG002
        """Return True only if ``before`` would return ``call`` itself, so that the stage processes only the answer.

        This method saves time for frequent requests. The router calls it only for the last stage of a request, and only
        if all stages before it passed the request on unchanged. If the result is True, ``before`` is not called. If the
        handler then answers the request at once, ``process_response`` is called instead of ``after``.
        """
        return False

    def process_response(self, call: Call[Any], response: Reply | NoReply, now: float) -> Reply | NoReply:  # noqa: ARG002
        """Return the final response of a request for which ``only_processes_answer`` returned True.

        Args:
            call: The request.
            response: The response of the handler.
            now: The broker's time in seconds.
        """
        return response

    def before(self, call: Call[Any], now: float) -> Effects | Call[Any] | None:  # noqa: ARG002
        """Process a request before later stages and its handler.

        Args:
            call: The request, its client, and its ticket (the object that identifies the request).
            now: The broker's time in seconds.

        Returns:
            None to pass the request on unchanged. A Call to pass on this call instead; ``after`` then gets the effects
            that answer the call. Effects to skip the later stages and the handler. If these effects do not answer the
            request, the stage holds the request, and must later answer it or continue it with the effect ``Proceed``.
        """
        return None

    def after(self, call: Call[Any], effects: Effects, now: float) -> Effects:  # noqa: ARG002
        """Return the final effects of a request for which ``before`` returned a call.

        For a pending request, such as a JoinGroup, the router calls this method when the response is available. If the
        returned effects do not answer the request, the stage holds the response and must return it later.

        Args:
            call: The request.
            effects: The effects, which contain the answer.
            now: The broker's time in seconds.
        """
        return effects

    def due(self, ticket: Ticket, now: float) -> Effects:  # noqa: ARG002
        """Handle the deadline ``StageDue`` that this stage has set for a request.

        Args:
            ticket: Identity of the request.
            now: The broker's time in seconds.

        Returns: the effects, such as responses and journal events.
        """
        return []

    def forget(self, ticket: Ticket) -> bool:  # noqa: ARG002
        """Notify the stage that the connection of a request was closed.

        ``ticket``: ticket of the request.

        Returns:
            True if the stage holds the request and will still pass it on, with the response discarded. False if the
            stage has dropped the request, or does not hold it.
        """
        return False

    def forget_connection(self, number: int) -> None:
        """Notify the stage that a connection was closed, after ``forget`` was called for its pending request.

        ``number``: number of the connection.
        """


@dataclass(slots=True)
class Passage:
    """The progress of a request through its stages.

    Attributes:
        call: The request as passed on by the last stage.
        stages: The stages of the request.
        passed: Number of stages that the request has reached.
        watching: The stages whose ``after`` processes the answer.
        only_processes_answer: Whether only the last stage is in ``watching``, and its ``only_processes_answer``
            returned True.
    """

    call: Call[Any]
    stages: Sequence[Stage]
    passed: int = 0
    watching: tuple[Stage, ...] = ()
    only_processes_answer: bool = False

    def pass_on(self, now: float) -> Effects | None:
        """Call ``before`` of the next stages in order, until a stage answers or holds the request.

        Args:
            now: The broker's time in seconds.

        Returns:
            The effects of the stage that answers or holds the request; None if all stages have passed the request on.
        """
        last = len(self.stages) - 1
        while self.passed <= last:
            stage = self.stages[self.passed]
            self.passed += 1
            if self.passed > last and not self.watching and self._only_processes_answer(stage):
                self.watching, self.only_processes_answer = (stage,), True
                return None
            outcome = stage.before(self.call, now)
            if isinstance(outcome, Call):
                self.call = outcome
                self.watching = (*self.watching, stage)
            elif outcome is not None:
                return outcome
        return None

    def _only_processes_answer(self, stage: Stage) -> bool:
        return self.call.ticket.api_key in stage.unchanged or stage.only_processes_answer(self.call)

    def watch(self, call: Call[Any]) -> None:
        """Replace the request by ``call``, which a stage passes on with the effect ``Proceed``.

        The method ``after`` of the stage that held the request will process the response.
        """
        self.call = call
        self.watching = (*self.watching, self.stages[self.passed - 1])

    def forget(self) -> bool:
        """Notify the stages that the connection of the request was closed.

        Return True if a stage holds the request and will still pass it on.
        """
        kept = [stage.forget(self.call.ticket) for stage in self.stages[: self.passed]]
        return any(kept)

    def process_answer(self, effects: Effects, now: float) -> Effects:
        """Pass the answer to ``after`` of the stages in ``watching``, until a stage holds the answer.

        The last stage is called first.

        ``now``: the broker's time in seconds.

        Returns:
            The effects of the last called stage. If they do not answer the request, ``watching`` contains the stages
            that have not processed the response yet.
        """
        while self.watching:
            *others, stage = self.watching
            self.watching = tuple(others)
            effects = stage.after(self.call, effects, now)
            if not answers(effects, self.call.ticket):
                break
        return effects


def outcome_of(ticket: Ticket, steps: Generator[None, None, Outcome]) -> Outcome:
    """Begin the work that a stage does in ``before``. Return the value that ``before`` returns to the router.

    The work may be done in slices (parts of limited size). If slices remain, the value is the remaining work, and the
    stage holds the request until the work is done.

    Args:
        ticket: Identity of the request.
        steps: Generator that does one slice at a time, and returns the result of ``before``.
    """
    try:
        next(steps)
    except StopIteration as end:
        outcome: Outcome = end.value
        return outcome
    return begin(ticket, _continued(ticket, steps))


def _continued(ticket: Ticket, steps: Generator[None, None, Outcome]) -> Steps:
    yield []
    outcome = yield from remaining(steps)
    match outcome:
        case None:
            return [Proceed(ticket)]
        case Call():
            return [Proceed(ticket, outcome)]
        case _:
            return outcome


def remaining(steps: Generator[None, None, R]) -> Generator[Effects, float, R]:
    """Run a generator that does work in slices (parts of limited size). Return its result.

    After each slice, yield [] (no effects), so that the router handles other requests.

    ``steps``: the generator, which has already done the first slice.
    """
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: R = end.value
            return result
        yield []


def answers(effects: Effects, ticket: Ticket) -> bool:
    """Return whether one of the effects answers a request or closes its connection.

    ``ticket``: ticket of the request.
    """
    return any(isinstance(effect, Answer) and effect.ticket is ticket for effect in effects)
