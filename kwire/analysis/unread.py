"""Times at which calls of a group may be missing: bytes of its connections were lost, cut, or cannot be decoded.

Each connection is read alone; what concerns a group is put together when all have been read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kwire.analysis.clusters import Clusters
from kwire.analysis.events import GroupEvent
from kwire.capture.calls.model import INCOMPLETE, KAFKA, TOO_LARGE, UNKNOWN_VERSION, UNREADABLE, Call, Connection

GROUP_APIS = frozenset({8, 11, 12, 13, 14, 28, 68, 76, 88})  # whose calls concern the members of one group
NOT_READ = frozenset({INCOMPLETE, TOO_LARGE, UNKNOWN_VERSION, UNREADABLE})
MOST = 1_000  # times of a connection
TOGETHER_US = 1_000_000  # times of the same group are one if less is between them


@dataclass(frozen=True, slots=True)
class Unread:
    """A time, in µs, in which calls of a group may have been missed. ``group_id``: None for any of the broker's."""

    begin: int
    end: int
    conn_id: str
    broker: str
    group_id: str | None


@dataclass(slots=True)
class Watch:
    """What was not read of one connection."""

    groups: set[str] = field(default_factory=set)  # that it spoke of
    times: dict[str | None, list[tuple[int, int]]] = field(default_factory=dict)  # by group
    count: int = 0

    def note(self, call: Call, events: Iterable[GroupEvent]) -> None:
        """Take a call in, and its events."""
        if call.api_key not in GROUP_APIS:
            return
        self.groups.update(event.group_id for event in events)
        if call.reason in NOT_READ:
            group = call.group_id if call.request is None else getattr(call.request, "group_id", None)
            times = [time for time in (call.request_us, call.response_us) if time is not None]
            self._add(group, min(times), max(times))

    def _add(self, group: str | None, begin: int, end: int) -> None:
        known = self.times.setdefault(group, [])
        if known and (self.count >= MOST or begin - known[-1][1] < TOGETHER_US):
            known[-1] = min(known[-1][0], begin), max(known[-1][1], end)
        else:
            known.append((begin, end))
            self.count += 1

    def finish(self, connection: Connection) -> list[Unread]:
        """What was not read, when no more comes of the connection."""
        if connection.status == KAFKA:
            for begin, end in connection.lost:
                for group in self.groups or (None,):
                    self._add(group, begin, end)
        return [
            Unread(begin, end, connection.id, connection.broker, group)
            for group, times in self.times.items()
            for begin, end in times
        ]


class Blanks:
    """The times in which calls of one group may have been missed."""

    def __init__(self, found: Iterable[Unread] = ()) -> None:
        self._times = [(one.begin, one.end) for one in found]

    def between(self, low: float, high: float) -> bool:
        """Whether something may have been missed after ``low`` and up to ``high``."""
        return any(begin <= high and end > low for begin, end in self._times)


def of_group(found: Iterable[Unread], group_id: str) -> list[Unread]:
    """What concerns the groups of one name, in any cluster."""
    return [one for one in found if one.group_id in (None, group_id)]


def in_cluster(found: Iterable[Unread], cluster: str | None, clusters: Clusters) -> Blanks:
    """What concerns a cluster; what is of a broker of which the cluster is not known concerns all."""
    known = ((clusters.known(one.conn_id, one.broker, one.begin), one) for one in found)
    return Blanks(one for where, one in known if where is None or cluster is None or where == cluster)
