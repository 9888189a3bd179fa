"""Work in steps that outlives a poll: generators that yield what they wait for.

A step yields WAIT (for anything to happen), POLL (for the user to poll) or a ListenerCall, which ends with
``listener_returned``.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeVar

from mockbroker.client.metadata import TopicPartition


class Wait(Enum):
    """What a flow waits for."""

    WAIT = "anything"
    POLL = "the user"


WAIT, POLL = Wait.WAIT, Wait.POLL


@dataclass(frozen=True, slots=True)
class ListenerCall:
    """Call the user's listener; the flow goes on when that has returned."""

    what: Literal["revoked", "assigned", "lost"]
    partitions: tuple[TopicPartition, ...]


T = TypeVar("T")
Waiting = Generator[Wait | ListenerCall, Exception | None, T]  # steps that return a T
Steps = Waiting[None]


class Flow:
    """One run of steps."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._waits: Wait | ListenerCall = WAIT
        self.done = False

    @property
    def listener_call(self) -> ListenerCall | None:
        return self._waits if isinstance(self._waits, ListenerCall) else None

    def advance(self, *, polling: bool) -> None:
        """As far as it goes without the user, or with. Raises what the steps raise; then it is done."""
        if self.done or self.listener_call or (self._waits is POLL and not polling):
            return
        self._resume(None)
        while self._waits is POLL and polling and not self.done:
            self._resume(None)

    def listener_returned(self, error: Exception | None) -> None:
        """The listener was called; ``error``: what it raised."""
        assert self.listener_call
        self._resume(error)

    def close(self) -> None:
        """Forget it."""
        self._steps.close()
        self.done, self._waits = True, WAIT

    def _resume(self, value: Exception | None) -> None:
        try:
            self._waits = self._steps.send(value)
        except StopIteration:
            self.done, self._waits = True, WAIT
        except BaseException:
            self.done, self._waits = True, WAIT
            raise
