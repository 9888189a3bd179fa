"""The input of detectors: a view of the data of one group, one client or one transactional id."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from operator import attrgetter
from typing import Any, TypeVar

from kwire.analysis.columns import Row, column_of, values_of
from kwire.analysis.events import GroupEvent
from kwire.analysis.findings.evidence import Committed, Evidence, Place
from kwire.analysis.findings.observations import Connected, FetchSpan, Step, Tally
from kwire.lazy_dataclass import dataclass

BY_OTHERS = frozenset({"planned", "leave"})  # kinds of events about a member that another client may have caused
SHORT = 8  # characters of a member id that tell it from others of its client
FOREVER = 2**62  # later than all times in captures
BLOCK = 256  # high watermarks of a partition that are skipped together
T = TypeVar("T")


@dataclass(frozen=True)
class GroupView:
    """The data of one group in one cluster: the sorted rows of the group, and the fetches of its partitions.

    Attributes:
        group_id: group id.
        events: events of the group, sorted by time.
        rebalances: rows of ``rebalances``, sorted by start.
        members: rows of ``members``, sorted by life and generation.
        assignments: rows of ``assignments``.
        commits: rows of ``offset_commits``, sorted by time.
        violations: rows of ``violations``.
        marks: high watermarks of the partitions in the events, by topic and partition, as pairs: time in microseconds
            since 1970, and high watermark.
        spans: periods in which the partitions in the events were fetched.
        earlier: evidence of rows that may be missing here, because a stream has removed them.
    """

    group_id: str
    events: Sequence[GroupEvent]
    rebalances: Sequence[Row]
    members: Sequence[Row]
    assignments: Sequence[Row]
    commits: Sequence[Row]
    violations: Sequence[Row]
    marks: Mapping[Place, Sequence[tuple[int, int]]] = field(default_factory=dict)
    spans: Sequence[FetchSpan] = ()
    earlier: Evidence = field(default_factory=Evidence)

    @cached_property
    def end(self) -> int:
        """The latest time in the data of the group: of an event, a high watermark or a fetch.

        The time is in microseconds since 1970. It is 0 without any of these.
        """
        times = [self.earlier.end, *(event.ts for event in self.events[-1:])]
        times += [marks[-1][0] for marks in self.marks.values() if marks]
        times += [span.end for span in self.spans]
        return max(times)

    @cached_property
    def memberships(self) -> Mapping[tuple[int, str], Row]:
        """The row of ``members`` for the last generation of each member. The key is the life and the member id.

        The life is the number in the column ``life``: a new life begins after the group was deleted, expired or lost
        its state.
        """
        return {(row["life"], row["member_id"]): row for row in self.members}

    @cached_property
    def idle(self) -> Mapping[tuple[int, str], frozenset[int]]:
        """The generations in which a member had no partition. The key is the life and the member id."""
        owned = {(row["life"], row["member_id"], row["generation"]) for row in self.assignments}
        idle: dict[tuple[int, str], set[int]] = defaultdict(set)
        for row in self.members:
            if (row["life"], row["member_id"], row["generation"]) not in owned:
                idle[row["life"], row["member_id"]].add(row["generation"])
        return {about: frozenset(generations) for about, generations in idle.items()}

    @cached_property
    def names(self) -> Mapping[str, str]:
        """The display names of the members, by member id.

        The display name of a static member is its instance id. The display name of another member is the client id; if
        several members have the same client id, the end of the member id is added. Events that another client may cause
        do not count: an assignment in the leader's SyncGroup, and a departure that an admin client requested.
        """
        pairs = {(event.client_id, event.member_id) for event in self.events if event.event not in BY_OTHERS}
        pairs |= {(row["client_id"], row["member_id"]) for row in self.members}
        clients: dict[str, set[str]] = defaultdict(set)
        for client, member in sorted((client, member) for client, member in pairs if client and member):
            clients[client].add(member)
        dynamic = {
            member: client if len(members) == 1 else f"{client} ..{member[-SHORT:]}"
            for client, members in clients.items()
            for member in members
        }
        return dynamic | {row["member_id"]: row["instance_id"] for row in self.members if row["instance_id"]}

    @cached_property
    def stopped(self) -> Mapping[tuple[int, int], int]:
        """The time at which the first member stopped reading in a rebalance, in microseconds since 1970.

        The key is the life and the new generation. Rebalances in which no member stopped are left out.
        """
        times: dict[tuple[int, int], int] = {}
        for row in self.members:
            if row["stopped_ts"] is not None:
                key = row["life"], row["generation"]
                times[key] = min(times.get(key, FOREVER), row["stopped_ts"])
        return times

    def name(self, member_id: str | None) -> str:
        """Return the display name of a member in backquotes; ``a member`` if the member id is None or empty."""
        return f"`{self.names.get(member_id, member_id)}`" if member_id else "a member"

    @cached_property
    def of_member(self) -> Mapping[str, Sequence[GroupEvent]]:
        """The events of each member, by member id."""
        by_member: dict[str, list[GroupEvent]] = defaultdict(list)
        for event in self.events:
            if event.member_id:
                by_member[event.member_id].append(event)
        return by_member

    @cached_property
    def of_kind(self) -> Mapping[str, Sequence[GroupEvent]]:
        """The events of each kind, such as ``leave``, in order of time."""
        by_kind: dict[str, list[GroupEvent]] = defaultdict(list)
        for event in self.events:
            by_kind[event.event].append(event)
        return by_kind

    @cached_property
    def errors(self) -> Sequence[GroupEvent]:
        """The events with an error code other than 0, in order of time."""
        return [event for event in self.events if event.error_code]

    @cached_property
    def evidence(self) -> Evidence:
        """The evidence of all rows of the group, those that a stream has removed included."""
        return self.earlier.after(self, FOREVER)

    def between(self, low: int, high: int) -> Sequence[GroupEvent]:
        """Return the events from the time ``low`` to ``high``, in microseconds since 1970."""
        first = bisect_left(self.events, low, key=attrgetter("ts"))
        return self.events[first : bisect_right(self.events, high, key=attrgetter("ts"))]

    @cached_property
    def of_partition(self) -> Mapping[Place, Sequence[Committed]]:
        """The successful offset commits, by topic and partition, in order of time.

        Commits with an error, in aborted transactions and with an unknown outcome are left out.
        """
        by_place: dict[Place, list[Committed]] = defaultdict(list)
        commits = map(Committed._make, values_of(self.commits, *Committed._fields))
        places = values_of(self.commits, "topic", "partition")
        for outcome, place, commit in zip(column_of(self.commits, "outcome"), places, commits, strict=True):
            if outcome == "committed":
                by_place[place].append(commit)
        return by_place

    def shares(self, life: int, generation: int) -> Mapping[str, Sequence[Place]]:
        """Return the assigned partitions of each member in a generation, by member id.

        Args:
            life: number in the column ``life``: a new life begins after the group was deleted, expired or lost its
                state.
            generation: generation id, or group epoch.
        """
        return self._shares.get((life, generation), {})

    @cached_property
    def _shares(self) -> Mapping[tuple[int, int], Mapping[str, list[Place]]]:
        made: dict[tuple[int, int], dict[str, list[Place]]] = defaultdict(lambda: defaultdict(list))
        for row in self.assignments:
            made[row["life"], row["generation"]][row["member_id"]].append((row["topic"], row["partition"]))
        return made

    def first_mark_above(self, place: Place, offset: int, since: int) -> int | None:
        """Return the time from which a response shows that a partition has a high watermark above an offset.

        The result is in microseconds since 1970; None if no captured high watermark is above the offset.

        Args:
            place: topic and partition.
            offset: the offset.
            since: start of the search in microseconds since 1970. It is the result if the last high watermark up to
                this time is already above the offset.
        """
        marks = self.marks.get(place)
        if not marks:
            return None
        number = bisect_right(marks, since, key=lambda mark: mark[0])
        if number and marks[number - 1][1] > offset:
            return since
        while number < len(marks):
            if number % BLOCK == 0 and self._highest_of_blocks(place)[number // BLOCK] <= offset:
                number += BLOCK  # else the time would grow with the square of the traffic if no mark is above
                continue
            if marks[number][1] > offset:
                return marks[number][0]
            number += 1
        return None

    def _highest_of_blocks(self, place: Place) -> Sequence[int]:
        """Return the highest high watermark of each BLOCK consecutive ones of a partition. ``place``: the partition."""
        highest = self._highest.get(place)
        if highest is None:
            marks = self.marks[place]
            blocks = (marks[begin : begin + BLOCK] for begin in range(0, len(marks), BLOCK))
            highest = self._highest[place] = [max(offset for _, offset in block) for block in blocks]
        return highest

    @cached_property
    def _highest(self) -> dict[Place, list[int]]:
        """The results of ``_highest_of_blocks``."""
        return {}


@dataclass(frozen=True)
class ClientView:
    """The data of one client id on one host in one cluster.

    Attributes:
        client_id: client id; None for clients that send none.
        host: address of the client.
        tallies: counts of the calls, by time window and API.
        connections: connections of the client, in order of their beginning.
        earlier: summaries of rows that a stream has removed, by detector (``summaries``).
        until: time before which no later row begins; 0 if that is unknown.
    """

    client_id: str | None
    host: str
    tallies: Sequence[Tally]
    connections: Sequence[Connected]
    earlier: Mapping[str, Any] = field(default_factory=dict)
    until: int = 0

    @property
    def name(self) -> str:
        """The display name of the client: the client id in backquotes, and the address of the client."""
        return f"`{self.client_id}` at {self.host}" if self.client_id else f"a client without id at {self.host}"


@dataclass(frozen=True)
class TransactionView:
    """The data of one transactional id in one cluster.

    Attributes:
        transactional_id: transactional id.
        steps: calls of its producers, and ends of their connections, in order of time.
        earlier: summaries of steps that a stream has removed, by detector (``summaries``).
    """

    transactional_id: str
    steps: Sequence[Step]
    earlier: Mapping[str, Any] = field(default_factory=dict)


def most_in_window(times: Sequence[int], window: float) -> tuple[int, int]:
    """Return the indexes of the first and the last time in the window that contains the most times.

    If several windows contain the same number of times, the earliest window is used.

    Args:
        times: sorted times, at least one.
        window: width of the window, in the unit of the times.
    """
    best, low = (0, 0), 0
    for high, time in enumerate(times):
        while time - times[low] > window:
            low += 1
        if high - low > best[1] - best[0]:
            best = low, high
    return best


def median(values: Sequence[float]) -> float:
    """Return the median of at least one value; for an even number of values, the lower of the two middle values."""
    return sorted(values)[(len(values) - 1) // 2]
