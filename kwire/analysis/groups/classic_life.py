"""One life of a classic group: its events, and the state of its members while the rows of all tables are computed.

A life of a group id ends when the group is deleted, expires or loses its state.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from kwire.analysis.events import GroupEvent
from kwire.analysis.groups.generations import phases_of
from kwire.analysis.groups.joins import Join, joins_of
from kwire.analysis.groups.outcome import Membership, Outcome
from kwire.analysis.groups.sessions import Sessions


class ClassicLife:
    """One life of a classic group: its events, generations and members. Times are microseconds since 1970.

    Attributes:
        out: rows of the life, to which rows are added.
        events: all events of the life, sorted.
        until: start of the next life; None for the last life.
        end: end of the life.
        joins: all JoinGroup requests with their responses, in order.
        phases: generations, in order.
        sessions: sessions of the members: times of requests, responses and renewals, by member id.
        memberships: members by member id, in the order in which they joined.
        asks: JoinGroup requests with their responses, by member id.
    """

    def __init__(self, out: Outcome, events: Sequence[GroupEvent], until: int | None) -> None:
        self.out = out
        self.events = events
        self.until = until
        self.end = events[-1].ts if until is None else until
        self.joins = joins_of(events)
        self.phases = phases_of(events, self.joins)
        self.sessions = Sessions(events)
        self.memberships: dict[str, Membership] = {}
        self.asks: dict[str, list[Join]] = defaultdict(list)
        for join in self.joins:
            if join.member_id:
                self.asks[join.member_id].append(join)
