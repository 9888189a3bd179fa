"""The journal as the control API returns it: events with ids, and a signal for the tasks that wait for new events."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime
from math import inf
from typing import Any

import trio

from mockbroker.api.cluster import Cluster
from mockbroker.base.event_kinds import FREQUENT
from mockbroker.broker.journal import Event
from mockbroker.control.followers import Followers

PAUSE = 0.02  # seconds between two wake-ups: a thousand streams must not wake up at each of many events
DRIFT = 0.05  # seconds; two readings of the clocks differ by less
GAP = "gap"  # kind of the event for events that are no longer kept
FREQUENT_KINDS = sorted(FREQUENT)


class Feed:
    """The journal events of a cluster, and the tasks that wait for changes of the cluster.

    Args:
        cluster: the cluster.

    Attributes:
        followers: the open event streams.
        changed: parking lot in which tasks wait until an event is recorded, another change is made or the server stops.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.followers = Followers()
        self.changed = self.followers.changed
        self._is_due = trio.Event()
        self._start = -inf  # time of day at the start of the cluster's clock, in seconds since 1970
        cluster.journal.wakers.append(self.wake)

    async def run(self) -> None:
        """Wake the tasks that wait for events, after each change; run until cancelled."""
        while True:
            await self._is_due.wait()
            self._is_due = trio.Event()
            await self.followers.wake()
            await trio.sleep(PAUSE)

    def wake(self) -> None:
        """Wake the tasks that wait for events, because an event was recorded or another change was made."""
        self._is_due.set()

    def close(self) -> None:
        """Stop receiving events from the journal."""
        if self.wake in self._cluster.journal.wakers:
            self._cluster.journal.wakers.remove(self.wake)

    @property
    def last(self) -> int:
        """The id of the newest event; 0 before the first event."""
        return self._cluster.journal.last_id

    @property
    def oldest(self) -> int:
        """The event id before that of the oldest stored event; the id of the newest event if no event is stored."""
        journal = self._cluster.journal
        return journal.ids[0] - 1 if journal.ids else journal.last_id

    def since(self, after: int) -> Iterator[dict[str, Any]]:
        """Yield the events after the id ``after`` as JSON objects, oldest first.

        Each run of consecutive events that the journal no longer stores is replaced by one ``gap`` object. If ``after``
        is above the id of the newest event, the first object is a ``gap``, and all stored events follow.
        """
        journal = self._cluster.journal
        if after > journal.last_id:  # an id of another process
            yield self._gap(after, self.oldest)
            after = self.oldest
        for index in range(bisect_right(journal.ids, after), len(journal.ids)):
            number = journal.ids[index]
            if number > after + 1:
                yield self._gap(after, number - 1)
            yield self.json(journal.events[index], number)
            after = number
        if after < journal.last_id:
            yield self._gap(after, journal.last_id)

    def latest(self, count: int, group: str | None = None) -> list[dict[str, Any]]:
        """Return the latest events as JSON objects, oldest first.

        Args:
            count: maximum number of events.
            group: group id; None for the events of all groups.
        """
        journal = self._cluster.journal
        found: list[dict[str, Any]] = []
        for index in range(len(journal.events) - 1, -1, -1):
            if len(found) == count:
                break
            if group in (None, journal.events[index].group):
                found.append(self.json(journal.events[index], journal.ids[index]))
        return found[::-1]

    def json(self, event: Event, number: int) -> dict[str, Any]:
        """Return an event as a JSON object. ``number``: id of the event."""
        fields = event.to_json()
        time_ms, kind = fields.pop("time_ms"), fields.pop("event")
        return {"id": number, "time": self.time(time_ms), "time_ms": time_ms, "kind": kind, **fields}

    def time(self, time_ms: float) -> str:
        """Return a time as ISO 8601 text in UTC. ``time_ms``: milliseconds since the cluster was started or reset."""
        clock = self._cluster.clock
        start = clock.wall() - clock.now()
        if abs(start - self._start) > DRIFT:  # the first time, a reset, or another time of day
            self._start = start
        return iso(self._start + time_ms / 1000)

    def _gap(self, after: int, last: int) -> dict[str, Any]:
        """Return the ``gap`` object that replaces events that the journal no longer stores.

        Args:
            after: id of the event before the first missing event.
            last: id of the last missing event.
        """
        time_ms = round(self._cluster.clock.now() * 1000)
        gap = {
            "id": last,
            "time": self.time(time_ms),
            "time_ms": time_ms,
            "kind": GAP,
            "group": "",
            "after": after,
            "missed": max(last - after, 0),
        }
        if last > after >= self._cluster.journal.last_removed:
            gap["kinds"] = FREQUENT_KINDS
        return gap


def iso(seconds: float) -> str:
    """Return a time as ISO 8601 text in UTC, with milliseconds. ``seconds``: seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
