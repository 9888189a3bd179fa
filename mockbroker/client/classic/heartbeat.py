"""The heartbeat timers of a member of a classic group.

Source: Heartbeat and AbstractCoordinator.HeartbeatThread of kafka-clients.
"""

from __future__ import annotations

from enum import Enum

from mockbroker.client.backoff import Backoff
from mockbroker.client.classic.status import ClassicState
from mockbroker.client.settings import ConsumerSettings

SENDS_HEARTBEATS = (
    ClassicState.COMPLETING_REBALANCE,
    ClassicState.STABLE,
)  # not during a JoinGroup, as in Java


class HeartbeatAction(Enum):
    """The next action that the timers of a member require. The value of an action is its description."""

    NOTHING = "not in a group"
    FIND_COORDINATOR = "the coordinator is unknown"
    SESSION_EXPIRED = "no response for session_timeout: look up the coordinator"
    LEAVE = "no poll for max_poll_interval: leave the group"
    NOT_DUE = "wait"
    SEND = "send a heartbeat"


class Heartbeat:
    """The heartbeat, session and poll timers of one member. All times are seconds on the engine's clock; inf means that
    the timer is stopped.

    Args:
        settings: The settings of the consumer.
        backoff: The delays after failed heartbeats.

    Attributes:
        session_deadline: Time at which ``session_timeout`` ends.
        poll_deadline: Time at which ``max_poll_interval`` ends.
        next_heartbeat: Time at which the next heartbeat is due.
        in_flight: Whether a heartbeat has neither a response nor a failure yet.
    """

    def __init__(self, settings: ConsumerSettings, backoff: Backoff) -> None:
        self._settings, self._backoff = settings, backoff
        self.session_deadline = self.poll_deadline = float("inf")
        self.next_heartbeat = float("inf")
        self.in_flight = False
        self._failures = 0

    def enable(self, now: float) -> None:
        """Start all timers, because a generation begins. ``now``: seconds on the engine's clock."""
        self.renew(now)
        self.record_poll(now)
        self.next_heartbeat = now + self._settings.heartbeat_interval

    def renew(self, now: float) -> None:
        """Restart the session timer, because the coordinator has responded. ``now``: seconds on the engine's clock."""
        self.session_deadline = now + self._settings.session_timeout
        self._failures = 0

    def record_poll(self, now: float, *, waiting: bool = False) -> None:
        """Restart the timer of ``max_poll_interval``, because the user has called ``poll``.

        Args:
            now: Seconds on the engine's clock.
            waiting: True to stop the timer instead, because the user waits inside a poll.
        """
        self.poll_deadline = float("inf") if waiting else now + self._settings.max_poll_interval

    def sent(self, now: float) -> None:
        self.in_flight = True
        self.next_heartbeat = now + self._settings.heartbeat_interval

    def failed(self, now: float) -> None:
        """Schedule the next heartbeat after the backoff, because a heartbeat failed or its response did not renew the
        session.

        ``now``: seconds on the engine's clock.
        """
        self.next_heartbeat = now + self._backoff.after(self._failures)
        self._failures += 1

    def next_action(self, now: float, state: ClassicState, *, coordinator_known: bool) -> HeartbeatAction:
        """Return the action that is due now. If several actions are due, the first action in this order is returned:
        FIND_COORDINATOR, SESSION_EXPIRED, LEAVE, SEND. The result is NOT_DUE if no action is due, and NOTHING if the
        member sends no heartbeats in this state.

        Args:
            now: seconds on the engine's clock.
            state: state of the member.
            coordinator_known: whether the coordinator is known.
        """
        if state not in SENDS_HEARTBEATS:
            return HeartbeatAction.NOTHING
        if not coordinator_known:
            return HeartbeatAction.FIND_COORDINATOR
        if self.session_deadline <= now:
            return HeartbeatAction.SESSION_EXPIRED
        if self.poll_deadline <= now:
            return HeartbeatAction.LEAVE
        if self.in_flight or self.next_heartbeat > now:
            return HeartbeatAction.NOT_DUE
        return HeartbeatAction.SEND

    def next_deadline(self, state: ClassicState, *, coordinator_known: bool) -> float:
        """Return the earliest time at which a timer can change the result of ``next_action``, in seconds on the
        engine's clock.

        Return inf if no timer runs.

        Args:
            state: State of the member.
            coordinator_known: Whether the coordinator is known.
        """
        if state not in SENDS_HEARTBEATS or not coordinator_known:
            return float("inf")
        return min(self.session_deadline, self.poll_deadline, float("inf") if self.in_flight else self.next_heartbeat)
