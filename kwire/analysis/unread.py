"""Periods in which calls of a group may be missing, because bytes were lost, truncated or not decodable.

Each connection is processed separately; the periods of a group are combined at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from kwire.analysis.clusters import Clusters
from kwire.analysis.events import GroupEvent
from kwire.capture.calls.model import INCOMPLETE, KAFKA, TOO_LARGE, UNKNOWN_VERSION, UNREADABLE, Call, Connection
from kwire.lazy_dataclass import dataclass

GROUP_APIS = frozenset({8, 11, 12, 13, 14, 28, 68, 76, 88})  # APIs about members of one group
_OF_ONE_GROUP = frozenset({8, 12})  # OffsetCommit and Heartbeat: all events of a call are of the same group
NOT_READ = frozenset({INCOMPLETE, TOO_LARGE, UNKNOWN_VERSION, UNREADABLE})
MOST = 1_000  # maximum number of periods per connection
TOGETHER_US = 1_000_000  # periods of a group that are less than this apart are merged


@dataclass(frozen=True, slots=True)
class Unread:
    """A period in which calls may be missing.

    Attributes:
        begin: start, in microseconds since 1970.
        end: end, in microseconds since 1970.
        conn_id: id of the connection.
        broker: ``host:port`` of the broker.
        group_id: group of the missing calls; None if the calls may be of any group of the broker.
    """

    begin: int
    end: int
    conn_id: str
    broker: str
    group_id: str | None


@dataclass(slots=True)
class Watch:
    """A collector of the periods in which calls of one connection may be missing.

    Several collectors can process one connection, each a slice: a number of consecutive calls. ``merge`` combines them.

    Attributes:
        is_first: True for a whole connection or its first slice; False for a later slice. A later slice only stores its
            periods in ``waiting``, because ``merge`` must join periods that are close together across slices.
        groups: ids of the groups in calls of the connection.
        times: begin and end of the periods in microseconds since 1970, by group id. The periods with the key None are
            for all groups of the broker.
        count: number of periods in ``times``.
        waiting: group id, begin and end of each period of a later slice; empty if ``is_first`` is True.
    """

    is_first: bool = True
    groups: set[str] = field(default_factory=set)
    times: dict[str | None, list[tuple[int, int]]] = field(default_factory=dict)
    count: int = 0
    waiting: list[tuple[str | None, int, int]] = field(default_factory=list)

    def note(self, call: Call, events: Iterable[GroupEvent]) -> None:
        """Process one call of the connection: add the groups of its events to ``groups``.

        If the call was not decoded, also add the time from its request to its response as a period in which calls of
        the group may be missing. Calls of APIs that are not about members of one group are ignored.

        Args:
            call: the call.
            events: group events of the call.
        """
        if call.api_key not in GROUP_APIS:
            return
        for event in events:
            self.groups.add(event.group_id)
            if call.api_key in _OF_ONE_GROUP:
                break
        if call.reason in NOT_READ:
            group = call.group_id if call.request is None else getattr(call.request, "group_id", None)
            times = [time for time in (call.request_us, call.response_us) if time is not None]
            self._add(group, min(times), max(times))

    def merge(self, later: Watch) -> None:
        """Add the periods of the next slice of the connection, ``later``.

        Afterwards this object is the same as if it had processed the calls of both slices.
        """
        self.groups |= later.groups
        for group, begin, end in later.waiting:
            self._add(group, begin, end)

    def _add(self, group: str | None, begin: int, end: int) -> None:
        if not self.is_first:
            self.waiting.append((group, begin, end))
            return
        periods = self.times.setdefault(group, [])
        if periods and (self.count >= MOST or begin - periods[-1][1] < TOGETHER_US):
            periods[-1] = min(periods[-1][0], begin), max(periods[-1][1], end)
        else:
            periods.append((begin, end))
            self.count += 1

    def finish(self, connection: Connection) -> list[Unread]:
        """Return all periods of a connection that has ended, including the periods in which frames were lost."""
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
    """The periods in which calls of one group may be missing.

    Args:
        periods: periods of the group, in any order.
    """

    def __init__(self, periods: Iterable[Unread] = ()) -> None:
        self._times = [(one.begin, one.end) for one in periods]

    def between(self, low: float, high: float) -> bool:
        """Return whether calls may be missing after the time ``low`` and up to ``high``, in microseconds since 1970."""
        return bool(self._times) and any(begin <= high and end > low for begin, end in self._times)


def of_group(periods: Iterable[Unread], group_id: str) -> list[Unread]:
    """Return the periods in which calls of a group id may be missing, in every cluster.

    They include the periods in which calls of any group of a broker may be missing.
    """
    return [one for one in periods if one.group_id in (None, group_id)]


def in_cluster(periods: Iterable[Unread], cluster: str | None, clusters: Clusters) -> Blanks:
    """Return the periods in which calls to brokers of one cluster may be missing.

    Args:
        periods: periods of one group id, in every cluster.
        cluster: cluster of the group; None to return all periods.
        clusters: clusters of the brokers. A period is also returned if the cluster of its broker is unknown.
    """
    located = ((clusters.id_of(one.conn_id, one.broker, one.begin), one) for one in periods)
    return Blanks(one for where, one in located if where is None or cluster is None or where == cluster)
