"""Removal of the events that later events do not need from the history of a group.

A stream keeps the events of each group, because later events can change rows about them. Most events of a group are
routine: heartbeats and offset commits with a response that changes nothing, and acquired and acknowledged records. In a
period in which the group has routine events only, the history needs the first and the last routine event of each
member, and the last event of each partition. ``thin`` removes the routine events between them. The time between the
first and the last event is a pause: the member was not silent in it, although the remaining events do not show this.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import inf

from kwire.analysis.columns import Row
from kwire.analysis.events import SHARE_RECORDS, GroupEvent
from kwire.lazy_dataclass import dataclass

Pauses = Mapping[str, Sequence[tuple[int, int]]]
"""Begin and end of the periods without the routine events of a member, by member id; in microseconds since 1970.

The periods of a member are in order of time, and do not overlap.
"""


def is_routine(event: GroupEvent) -> bool:
    """Return whether an event is a successful heartbeat or offset commit, or about acquired or acknowledged records.

    Commits in transactions are not routine. An event in SHARE_RECORDS without an error code counts as successful.
    """
    if event.event in SHARE_RECORDS:
        return not event.error_code
    return event.event in ("heartbeat", "commit") and event.error_code == 0


def thin(
    events: Sequence[GroupEvent], until: int, pauses: Pauses
) -> tuple[list[bool], dict[str, list[tuple[int, int]]]]:
    """Choose the events of one group id that later events may still need.

    Args:
        events: events of the group id, sorted, with topic names.
        until: time up to which events may be removed, in microseconds since 1970. No earlier event may follow.
        pauses: pauses of the members from earlier calls.

    Returns: for each event, whether it is kept; and all pauses of the members.
    """
    turns = [event.ts for event in events if not is_routine(event)]
    first: dict[tuple[str, int, str | None, int | None], int] = {}
    last: dict[tuple[str, int, str | None, int | None], int] = {}
    of_member: dict[str, int] = {}
    of_partition: dict[tuple[str | None, int | None], int] = {}
    for number, event in enumerate(events):
        if event.member_id:
            of_member[event.member_id] = number
        if event.ts <= until and is_routine(event):
            period = event.member_id or "", bisect_left(turns, event.ts), event.protocol, event.generation
            first.setdefault(period, number)
            last[period] = number
            if event.partition is not None:
                of_partition[event.topic, event.partition] = number
    needed = {*first.values(), *last.values(), *of_member.values(), *of_partition.values()}
    kept = [event.ts > until or number in needed or not is_routine(event) for number, event in enumerate(events)]
    found = {member: list(periods) for member, periods in pauses.items()}
    for period, number in first.items():
        begin, end = events[number].ts, events[last[period]].ts
        if begin < end:
            found.setdefault(period[0], []).append((begin, end))
    return kept, {member: _joined(periods) for member, periods in found.items()}


def is_pause(pauses: Pauses, member: str, begin: int, end: int) -> bool:
    """Return whether the time between two events of a member is in a pause.

    Args:
        pauses: pauses of the members.
        member: member id.
        begin: time of the earlier event, in microseconds since 1970.
        end: time of the later event, in microseconds since 1970.
    """
    periods = pauses.get(member, ())
    place = bisect_right(periods, (begin, inf))
    return place > 0 and end <= periods[place - 1][1]


def _joined(periods: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the periods in order of time; periods that overlap are one period."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(periods):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((begin, end))
    return joined


Tables = Mapping[str, Sequence[Row]]
Fold = Callable[[Sequence[GroupEvent], Pauses], Tables]


@dataclass(slots=True)
class Settled:
    """The rows of a group id after the removal of events.

    Attributes:
        whole: rows before the removal, by table name.
        current: rows that later events may change, by table name.
        final: rows about removed events, by table name. They do not change any more.
        kept: for each event, whether it is kept.
        pauses: pauses of the members.
    """

    whole: Tables
    current: Tables
    final: Tables
    kept: list[bool]
    pauses: Pauses


def settle(
    fold: Fold, events: Sequence[GroupEvent], until: int, pauses: Pauses, pending: Sequence[GroupEvent] = ()
) -> Settled:
    """Remove events that later events do not need, and return the rows of the group id.

    No event is removed if the remaining events have a row that all events do not have.

    Args:
        fold: function that returns the rows of events, by table name.
        events: events of the group id, sorted, with topic names.
        until: time up to which events may be removed, in microseconds since 1970.
        pauses: pauses of the members from earlier calls.
        pending: further events, which are not removed, because different events may replace them later.
    """
    whole = fold([*events, *pending], pauses)
    kept, more = thin(events, until, pauses)
    if not all(kept):
        light = fold([*(event for event, needed in zip(events, kept, strict=True) if needed), *pending], more)
        final = {name: _difference(rows, light[name]) for name, rows in whole.items()}
        if sum(map(len, final.values())) + sum(map(len, light.values())) == sum(map(len, whole.values())):
            return Settled(whole, light, final, kept, more)
    return Settled(whole, whole, {name: [] for name in whole}, [True] * len(events), pauses)


def _difference(rows: Sequence[Row], others: Sequence[Row]) -> list[Row]:
    """Return the rows that are not in ``others``. Each row in ``others`` removes only one of several equal rows."""
    known = Counter(map(_text, others))
    found = []
    for row in rows:
        text = _text(row)
        if known[text]:
            known[text] -= 1
        else:
            found.append(row)
    return found


def _text(row: Row) -> str:
    return repr(list(row.values()))
