"""The input of detectors: a view of the data of one group, one client or one transactional id."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import TypeVar

from kwire.analysis.columns import Row
from kwire.analysis.findings.observations import Connected, FetchSpan, Step, Tally
from kwire.lazy_dataclass import dataclass

SHORT = 8  # characters of a member id that tell it from others of its client
Place = tuple[str, int]  # topic and partition
T = TypeVar("T")


@dataclass(frozen=True)
class GroupView:
    """The data of one group in one cluster: the sorted rows of the group, and the fetches of its partitions.

    Attributes:
        marks: times and high watermarks of the partitions that the group commits.
        spans: periods in which those partitions were fetched.
    """

    group_id: str
    events: Sequence[Row]
    rebalances: Sequence[Row]
    members: Sequence[Row]
    assignments: Sequence[Row]
    commits: Sequence[Row]
    violations: Sequence[Row]
    marks: Mapping[Place, Sequence[tuple[int, int]]] = field(default_factory=dict)
    spans: Sequence[FetchSpan] = ()

    @cached_property
    def end(self) -> int:
        """The time of the last captured event or fetch of the group."""
        times = [row["ts"] for row in self.events[-1:]]
        times += [marks[-1][0] for marks in self.marks.values() if marks]
        times += [span.end for span in self.spans]
        return max(times, default=0)

    @cached_property
    def memberships(self) -> Mapping[tuple[int, str], Row]:
        """The last row of ``members`` of each member, by life and member id."""
        return {(row["life"], row["member_id"]): row for row in self.members}

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Display names of the members: the client id, with the end of the member id if several members share it."""
        clients: dict[str, set[str]] = defaultdict(set)
        for row in (*self.events, *self.members):
            if row["member_id"] and row["client_id"]:
                clients[row["client_id"]].add(row["member_id"])
        return {
            member: client if len(members) == 1 else f"{client} ..{member[-SHORT:]}"
            for client, members in clients.items()
            for member in members
        }

    def name(self, member_id: str | None) -> str:
        """Return the display name of a member, in backquotes."""
        return f"`{self.names.get(member_id, member_id)}`" if member_id else "a member"

    @cached_property
    def of_member(self) -> Mapping[str, Sequence[Row]]:
        """The rows of ``group_events`` of each member, by member id."""
        by_member: dict[str, list[Row]] = defaultdict(list)
        for row in self.events:
            if row["member_id"]:
                by_member[row["member_id"]].append(row)
        return by_member

    @cached_property
    def of_partition(self) -> Mapping[Place, Sequence[Row]]:
        """The commits of each partition that took effect, in order."""
        by_place: dict[Place, list[Row]] = defaultdict(list)
        for row in self.commits:
            if row["outcome"] == "committed":
                by_place[row["topic"], row["partition"]].append(row)
        return by_place

    def shares(self, life: int, generation: int) -> Mapping[str, Sequence[Place]]:
        """Return the partitions of each member in a generation, by member id."""
        return self._shares.get((life, generation), {})

    @cached_property
    def _shares(self) -> Mapping[tuple[int, int], Mapping[str, list[Place]]]:
        made: dict[tuple[int, int], dict[str, list[Place]]] = defaultdict(lambda: defaultdict(list))
        for row in self.assignments:
            made[row["life"], row["generation"]][row["member_id"]].append((row["topic"], row["partition"]))
        return made

    def first_mark_above(self, place: Place, offset: int, since: int) -> int | None:
        """Return the time from which a high watermark above an offset is known, at the earliest ``since``; None if no
        such watermark was captured.
        """
        marks = self.marks.get(place, ())
        at = bisect_right(marks, since, key=lambda mark: mark[0])
        if at and marks[at - 1][1] > offset:
            return since
        return next((ts for ts, mark in marks[at:] if mark > offset), None)


@dataclass(frozen=True)
class ClientView:
    """The data of one client id on one host in one cluster: counted calls and connections."""

    client_id: str | None
    host: str
    tallies: Sequence[Tally]
    connections: Sequence[Connected]

    @property
    def name(self) -> str:
        """The display name of the client: its id in backquotes, and its address."""
        return f"`{self.client_id}` at {self.host}" if self.client_id else f"a client without id at {self.host}"


@dataclass(frozen=True)
class TransactionView:
    """The data of one transactional id in one cluster: the steps of its producers, in order."""

    transactional_id: str
    steps: Sequence[Step]


def most_in_window(times: Sequence[int], window: float) -> tuple[int, int]:
    """Return the first and last index of the window that contains the most times; of several such windows, the first.

    Args:
        times: sorted times, at least one.
        window: width, in the unit of the times.
    """
    best, low = (0, 0), 0
    for high, time in enumerate(times):
        while time - times[low] > window:
            low += 1
        if high - low > best[1] - best[0]:
            best = low, high
    return best


def median(values: Sequence[float]) -> float:
    """Return the median of at least one value; of an even number of values, the lower middle one."""
    return sorted(values)[(len(values) - 1) // 2]
