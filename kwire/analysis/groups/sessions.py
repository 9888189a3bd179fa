"""Sessions of classic members: the times at which requests renewed a session, and at which a session expired."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from operator import attrgetter

from kwire.analysis.columns import MS
from kwire.analysis.events import GroupEvent
from kwire.analysis.groups.outcome import Membership
from kwire.errorcodes import ErrorCode

REBALANCE = ErrorCode.REBALANCE_IN_PROGRESS
GONE = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}
SIGNS = {"join_sent", "join_done", "member_id_given", "sync_sent", "sync_done", "heartbeat", "commit"}
RENEWING = {"heartbeat", "commit"}  # in addition to JoinGroup and SyncGroup responses
_ASKED = frozenset({"join_sent", "sync_sent"})
_ANSWERED = frozenset({"join_done", "sync_done", "sync_error", "join_error", "member_id_given"})


class Sessions:
    """The sessions of the members of one classic group. Times are microseconds since 1970.

    Attributes:
        events: events of the group, sorted.
        moments: times of the events, in the same order.
        notable: events with an error, and events of leaving, in the same order.
        synced: (generation, member id) of each SyncGroup request.
        signs: times of the requests and responses of a member, by member id.
        parked: begin and end of the periods in which a member waited for a response to JoinGroup or SyncGroup, by
            member id.
        refused: times at which a member received REBALANCE_IN_PROGRESS, by member id.
        gone: times at which a member received UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID, by member id.
        shares: times and partitions of the assignments that a member received, by member id.
        new: member ids whose first response, in which the coordinator assigned the id, was captured. These members were
            not in the group before.
    """

    def __init__(self, events: Sequence[GroupEvent]) -> None:
        self.events = events
        self.moments = [event.ts for event in events]
        self.notable = [event for event in events if event.error_code or event.event == "leave"]
        self.synced = {(event.generation, event.member_id) for event in events if event.event == "sync_sent"}
        self.signs: dict[str, list[int]] = defaultdict(list)
        self.parked: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self.refused: dict[str, list[int]] = defaultdict(list)
        self.gone: dict[str, list[int]] = defaultdict(list)
        self.shares: dict[str, list[tuple[int, list[str]]]] = defaultdict(list)
        self.new: set[str] = set()
        self._renewed: dict[str, list[int]] = defaultdict(list)
        self._synced_late: dict[str, list[int]] = defaultdict(list)  # renewals, if the broker is older than 4.0
        self._read()

    def _read(self) -> None:
        pending: dict[tuple[str | None, int], GroupEvent] = {}
        planned: dict[int | None, int] = {}  # time of the leader's SyncGroup, by generation
        for event in self.events:
            if event.event == "planned":
                planned.setdefault(event.generation, event.ts)
        signs, renewed, refused, gone = self.signs, self._renewed, self.refused, self.gone
        for event in self.events:
            member, kind, code = event.member_id, event.event, event.error_code
            if kind in RENEWING and not code:
                if member:
                    signs[member].append(event.ts)
                    renewed[member].append(event.ts)
                continue
            if member and (kind in SIGNS or code == REBALANCE):
                signs[member].append(event.ts)
            if kind in _ASKED:
                pending[event.conn_id, event.number] = event
            elif kind in _ANSWERED:
                begin = pending.pop((event.conn_id, event.number), None)
                is_given = kind == "join_done" and begin is not None and not begin.member_id
                if member and (is_given or kind == "member_id_given"):
                    self.new.add(member)
                if begin is not None and member:
                    self.parked[member].append((begin.ts, event.ts))
                    if kind == "sync_done" and begin.ts > planned.get(event.generation, begin.ts):
                        self._synced_late[member].append(event.ts)
                    elif kind in ("join_done", "sync_done"):
                        renewed[member].append(event.ts)
            elif member and (kind in RENEWING or (kind == "heartbeat_error" and code == REBALANCE)):
                renewed[member].append(event.ts)
            if member and code == REBALANCE:
                refused[member].append(event.ts)
            if member and code in GONE:
                gone[member].append(event.ts)
            if kind == "sync_done" and member and event.partitions is not None:
                self.shares[member].append((event.ts, event.partitions))
        for begin in pending.values():  # no response: it may have waited to the end
            if begin.member_id:
                self.parked[begin.member_id].append((begin.ts, begin.ts))

    def between(self, low: int, high: int) -> Sequence[GroupEvent]:
        """Return the events after the time ``low`` and up to ``high``, in microseconds since 1970."""
        return self.events[bisect_right(self.moments, low) : bisect_right(self.moments, high)]

    def notable_between(self, low: int, high: int) -> Sequence[GroupEvent]:
        """Return the events in ``notable`` after the time ``low`` and up to ``high``, in microseconds since 1970."""
        first, last = (bisect_right(self.notable, ts, key=attrgetter("ts")) for ts in (low, high))
        return self.notable[first:last]

    def last_sign(self, member: str, before: int) -> int | None:
        """Return the time of the last request or response of a member up to a time; None without such an event.

        Args:
            member: member id.
            before: the time, in microseconds since 1970.
        """
        return _last(self.signs[member], before)

    def is_heard(self, member: str, after: int) -> bool:
        """Return whether a member sends a request or receives a response after a time.

        Responses with UNKNOWN_MEMBER_ID and FENCED_INSTANCE_ID count, too.

        Args:
            member: member id.
            after: the time, in microseconds since 1970.
        """
        return any(moments[-1:] > [after] for moments in (self.signs[member], self.gone[member]))

    def over(self, membership: Membership, high: int) -> int | None:
        """Return the time at which the session of a member expires, in microseconds since 1970.

        This is the session timeout after the last renewal up to ``high``. The result is None if the session timeout or
        a renewal was not captured.

        Sessions are renewed by responses to JoinGroup and Heartbeat, by accepted commits, and by a SyncGroup that waits
        for the SyncGroup of the leader. A SyncGroup after that of the leader renews the session only in brokers before
        4.0. The method assumes such a broker if a heartbeat succeeds after the session would have expired in 4.0.

        Args:
            membership: the member.
            high: time up to which renewals count, in microseconds since 1970.
        """
        member = membership.member_id
        if membership.session_timeout_ms is None or (last := _last(self._renewed[member], high)) is None:
            return None
        over, late = last + membership.session_timeout_ms * MS, _last(self._synced_late[member], high)
        if late is None or late <= last:
            return over
        longer = late + membership.session_timeout_ms * MS
        goes_on = any(event.event == "heartbeat" and event.error_code == 0 for event in self.between(over, longer))
        return longer if goes_on else over

    def may_commit(self, event: GroupEvent) -> bool:
        """Return whether the partition of a commit is in one of the member's last two assignments before the commit.

        The second to last assignment counts, because a member may commit a partition while it revokes the partition.
        The result is also True if one of the two assignments was not captured.
        """
        member = event.member_id or ""
        shares = self.shares[member]
        place = bisect_right(shares, event.ts, key=lambda share: share[0])
        is_unknown = place < (1 if member in self.new else 2)
        return is_unknown or any(
            f"{event.topic}-{event.partition}" in partitions for _, partitions in shares[max(place - 2, 0) : place]
        )


def _last(moments: Sequence[int], before: int) -> int | None:
    """Return the last time in the sorted ``moments`` that is not after ``before``; None if all moments are later."""
    place = bisect_right(moments, before)
    return moments[place - 1] if place else None
