"""Flows: generators, such as the code of a rebalance, that continue over several calls of ``poll``.

At each ``yield`` the generator yields the condition under which it is resumed: WAIT (when the engine is advanced
again), POLL (when the user polls) or a ListenerCall (when ``listener_returned`` is called).
"""

from __future__ import annotations

from collections.abc import Generator
from enum import Enum
from typing import Literal, TypeVar

from kwire.lazy_dataclass import dataclass
from mockbroker.client.metadata import TopicPartition


class Wait(Enum):
    """The condition under which a flow is resumed: the next advance of the engine, or a poll.

    A flow can also yield a ListenerCall.
    """

    WAIT = "the next advance"
    POLL = "a poll of the user"


WAIT, POLL = Wait.WAIT, Wait.POLL


@dataclass(frozen=True, slots=True)
class ListenerCall:
    """A pending call of the user's rebalance listener; the flow continues when the listener has returned.

    Attributes:
        kind: name of the method to call without ``on_``: ``revoked``, ``assigned`` or ``lost``.
        partitions: the revoked, assigned or lost partitions.
    """

    kind: Literal["revoked", "assigned", "lost"]
    partitions: tuple[TopicPartition, ...]


T = TypeVar("T")
Waiting = Generator[Wait | ListenerCall, Exception | None, T]  # steps, the last of which returns a value
Steps = Waiting[None]


class Flow:
    """A running generator, such as the code of a rebalance, that continues over several calls of ``poll``.

    The generator is resumed when the condition that it has yielded is met.

    Args:
        steps: The generator.

    Attributes:
        done: True once the generator has ended, normally or with an exception.
    """

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._waiting_for: Wait | ListenerCall = WAIT
        self.done = False

    @property
    def listener_call(self) -> ListenerCall | None:
        return self._waiting_for if isinstance(self._waiting_for, ListenerCall) else None

    def advance(self, *, polling: bool) -> None:
        """Run the generator until it waits for a condition that is not met. Do nothing if it already waits for one.

        With ``polling``, the condition POLL is met during the whole call: a generator that yields POLL in a loop would
        never return. An exception of the generator ends the flow, and is raised.

        ``polling``: True if the application polls now.
        """
        if self.listener_call or (self._waiting_for is POLL and not polling):
            return
        self._resume(None)
        while self._waiting_for is POLL and polling:
            self._resume(None)

    def listener_returned(self, error: Exception | None) -> None:
        """Resume the generator after the user's listener has returned.

        ``error``: the exception that the listener raised; None without an exception.
        """
        assert self.listener_call
        self._resume(error)

    def close(self) -> None:
        """Cancel the flow: the generator is not resumed."""
        self._steps.close()
        self.done, self._waiting_for = True, WAIT

    def _resume(self, value: Exception | None) -> None:
        try:
            self._waiting_for = self._steps.send(value)
        except StopIteration:
            self.done, self._waiting_for = True, WAIT
        except BaseException:
            self.done, self._waiting_for = True, WAIT
            raise
