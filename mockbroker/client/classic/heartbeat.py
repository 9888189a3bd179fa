"""Heartbeat timers of a member of a classic group.

Source: Heartbeat and AbstractCoordinator.HeartbeatThread of kafka-clients.
"""

from __future__ import annotations

from enum import Enum

from mockbroker.client.backoff import Backoff
from mockbroker.client.classic.status import ClassicState
from mockbroker.client.settings import Settings

SENDS_HEARTBEATS = (
    ClassicState.COMPLETING_REBALANCE,
    ClassicState.STABLE,
)  # not during a JoinGroup, as in Java


class HeartbeatAction(Enum):
    """What a member has to do about heartbeats."""

    NOTHING = "not in a group"
    FIND_COORDINATOR = "the coordinator is unknown"
    SESSION_EXPIRED = "no response for session_timeout: look up the coordinator"
    LEAVE = "no poll for max_poll_interval: leave the group"
    NOT_DUE = "wait"
    SEND = "send a heartbeat"


class Heartbeat:
    """Timers of one member, in seconds on the engine's clock.

    session_deadline, poll_deadline: when session_timeout and max_poll_interval end.
    next_heartbeat: when the next heartbeat is due.
    in_flight: whether a heartbeat has no response; there is one at a time.
    """

    def __init__(self, settings: Settings, backoff: Backoff) -> None:
        self._settings, self._backoff = settings, backoff
        self.session_deadline = self.poll_deadline = float("inf")
        self.next_heartbeat = float("inf")
        self.in_flight = False
        self._failures = 0

    def enable(self, now: float) -> None:
        """Start all timers: a generation begins."""
        self.renew(now)
        self.record_poll(now)
        self.next_heartbeat = now + self._settings.heartbeat_interval

    def renew(self, now: float) -> None:
        """Restart the session timer: the coordinator has responded."""
        self.session_deadline = now + self._settings.session_timeout
        self._failures = 0

    def record_poll(self, now: float, *, waiting: bool = False) -> None:
        """Restart the poll timer; ``waiting``: the user waits inside the poll, so it does not run."""
        self.poll_deadline = float("inf") if waiting else now + self._settings.max_poll_interval

    def sent(self, now: float) -> None:
        self.in_flight = True
        self.next_heartbeat = now + self._settings.heartbeat_interval

    def failed(self, now: float) -> None:
        """Retry after the backoff: there was no response, or one that does not renew the session."""
        self.next_heartbeat = now + self._backoff.after(self._failures)
        self._failures += 1

    def next_action(self, now: float, state: ClassicState, *, coordinator_known: bool) -> HeartbeatAction:
        """Return what to do now; the first condition that holds decides."""
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
        """Return the time at which ``next_action`` changes by itself."""
        if state not in SENDS_HEARTBEATS or not coordinator_known:
            return float("inf")
        return min(self.session_deadline, self.poll_deadline, float("inf") if self.in_flight else self.next_heartbeat)
