"""When a member of a classic group has to show that it lives, and what it does when it cannot.

Source: Heartbeat and AbstractCoordinator.HeartbeatThread of kafka-clients.
"""

from __future__ import annotations

from enum import Enum

from mockbroker.client.backoff import Backoff
from mockbroker.client.classic.status import ClassicState
from mockbroker.client.settings import Settings

BEATING = (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE)  # a JoinGroup holds up the connection anyway


class Beat(Enum):
    """What to do now."""

    NOTHING = "not in a group"
    FIND_COORDINATOR = "nobody to send it to"
    SESSION_EXPIRED = "the coordinator has not answered for a whole session: look for it again"
    LEAVE = "the user has not polled for too long"
    NOT_DUE = "not yet"
    SEND = "send one"


class Heartbeat:
    """Deadlines of one member, in seconds on the caller's clock. One heartbeat is under way at a time."""

    def __init__(self, settings: Settings, backoff: Backoff) -> None:
        self._settings, self._backoff = settings, backoff
        self.session = self.poll = float("inf")  # when they expire
        self.next = float("inf")
        self.in_flight = False
        self._failures = 0  # in a row

    def enable(self, now: float) -> None:
        """A generation begins."""
        self.renew(now)
        self.polled(now)
        self.next = now + self._settings.heartbeat_interval

    def renew(self, now: float) -> None:
        """The coordinator has answered."""
        self.session = now + self._settings.session_timeout
        self._failures = 0

    def polled(self, now: float, *, waits: bool = False) -> None:
        """The user polls; ``waits``: and will not be missed, however long nothing comes."""
        self.poll = float("inf") if waits else now + self._settings.max_poll_interval

    def sent(self, now: float) -> None:
        self.in_flight = True
        self.next = now + self._settings.heartbeat_interval

    def failed(self, now: float) -> None:
        """No answer, or one that does not renew the session: again soon."""
        self.next = now + self._backoff.after(self._failures)
        self._failures += 1

    def verdict(self, now: float, state: ClassicState, *, coordinator_known: bool) -> Beat:
        """What to do at this time, the first of the rules that holds."""
        if state not in BEATING:
            return Beat.NOTHING
        if not coordinator_known:
            return Beat.FIND_COORDINATOR
        if self.session <= now:
            return Beat.SESSION_EXPIRED
        if self.poll <= now:
            return Beat.LEAVE
        if self.in_flight or self.next > now:
            return Beat.NOT_DUE
        return Beat.SEND

    def due(self, state: ClassicState, *, coordinator_known: bool) -> float:
        """When the verdict changes by itself."""
        if state not in BEATING or not coordinator_known:
            return float("inf")
        return min(self.session, self.poll, float("inf") if self.in_flight else self.next)
