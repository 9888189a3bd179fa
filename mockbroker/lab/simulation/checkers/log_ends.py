"""The checker of invariant I36: the log end offset that ListOffsets returns is correct.

The returned log end offset must be greater than the offset of each record that was acknowledged or read before the
request. It must not be greater than the offset of a record whose first request is sent after the response.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from math import inf
from operator import itemgetter

from mockbroker.lab.simulation.checkers.final_log import FinalLog, named
from mockbroker.lab.simulation.history import LATEST, READ_COMMITTED, READ_UNCOMMITTED, History, Place

Key = tuple[Place, int]  # partition and isolation level
Bounds = dict[Key, list[tuple[float, int]]]  # times and offsets


def find_wrong_end(log: FinalLog) -> str:
    """Return a description of a ListOffsets response whose end offset contradicts another response.

    The result is "" if no end offset contradicts another response.

    ``log``: the records at the end of the run.
    """
    known = {key: _Steps(bounds, largest=True) for key, bounds in _known(log.history).items()}
    later = {key: _Steps(bounds, largest=False) for key, bounds in _later(log.history).items()}
    for listing in log.history.listings:
        if listing.timestamp != LATEST:
            continue
        key = listing.place, listing.isolation
        what = f"{listing.client} got the end {listing.offset} of {named(listing.place)} at {listing.done_at:.3f} s"
        least = known[key].until(listing.sent_at) if key in known else 0
        if listing.offset < least:
            return f"{what}, but offset {least - 1} was read or acknowledged before the request"
        # A record that is sent after the response is at this end or after it, for both isolation levels.
        most = later[key].until(-listing.done_at) if key in later else inf
        if listing.offset > most:
            return f"{what}, but a record that was sent later has offset {most:.0f}"
    return ""


def _known(history: History) -> Bounds:
    """Return lower bounds of the log ends: (partition, isolation level) -> list of (virtual time in seconds, end
    offset).

    From this time on, the log end is at least the end offset, because all records before it were acknowledged or read.

    ``history``: history of the run.
    """
    bounds: Bounds = {}
    for write in history.writes:
        if write.offset >= 0 and write.done_at < inf:
            end = write.offset + len(write.values)
            bounds.setdefault((write.place, READ_UNCOMMITTED), []).append((write.done_at, end))
    for read in history.reads:
        for isolation in {READ_UNCOMMITTED, read.isolation}:  # a read_committed end may be lower
            bounds.setdefault((read.place, isolation), []).append((read.at, read.end))
    return bounds


def _later(history: History) -> Bounds:
    """Return upper bounds of the log ends: (partition, isolation level) -> list of (negated time, base offset).

    Until the time at which the first request with a batch is sent (virtual time, seconds), the log end is at most the
    batch's base offset. The time is negated because ``_Steps`` expects times in ascending order.

    ``history``: history of the run.
    """
    bounds: Bounds = {}
    for write in history.writes:
        if write.offset >= 0:
            for isolation in (READ_UNCOMMITTED, READ_COMMITTED):
                bounds.setdefault((write.place, isolation), []).append((-write.sent_at, write.offset))
    return bounds


class _Steps:
    """A running maximum or minimum of values over time.

    Args:
        values: pairs of time and value. Times are virtual, in seconds, and may be negated to search backwards.
        largest: True for a maximum, False for a minimum.
    """

    def __init__(self, values: Iterable[tuple[float, int]], *, largest: bool) -> None:
        ordered = sorted(values)
        self._times = list(map(itemgetter(0), ordered))
        self._values = list(accumulate(map(itemgetter(1), ordered), max if largest else min))
        self._none = 0 if largest else inf

    def until(self, time: float) -> float:
        """Return the maximum or minimum of the values with times up to ``time``.

        Without such a value, return 0 for a maximum and inf for a minimum.

        ``time``: virtual time in seconds. If the object was created with negated times, the negated virtual time.
        """
        at = bisect_right(self._times, time)
        return self._values[at - 1] if at else self._none
