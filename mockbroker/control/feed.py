"""The journal as the control API returns it: numbered events, and a signal for all that wait for new ones."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import trio

from mockbroker.api.cluster import Cluster
from mockbroker.broker.journal import Event

PAUSE = 0.02  # seconds between two wake-ups: a thousand streams must not wake up at each of many events
AT_ONCE = 20  # waiting tasks that are woken before others run
GAP = "gap"  # kind of the event for events that are no longer kept


class Feed:
    """The events of a cluster, and those that wait for its changes.

    Attributes:
        changed: Tasks that wait until an event is recorded or the server stops.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.changed = trio.lowlevel.ParkingLot()
        self._is_due = trio.Event()
        cluster.journal.listeners.append(self._note)

    async def run(self) -> None:
        """Wake the waiting tasks after changes."""
        while True:
            await self._is_due.wait()
            self._is_due = trio.Event()
            waiting = len(self.changed)
            while waiting > 0:  # in portions, so that a thousand streams do not delay Kafka clients
                self.changed.unpark(count=AT_ONCE)
                waiting -= AT_ONCE
                await trio.lowlevel.checkpoint()
            await trio.sleep(PAUSE)

    def wake(self) -> None:
        """Wake the waiting tasks, because something has changed that is not an event."""
        self._is_due.set()

    def close(self) -> None:
        """Receive no further events."""
        if self._note in self._cluster.journal.listeners:
            self._cluster.journal.listeners.remove(self._note)

    def _note(self, _: Event) -> None:
        self._is_due.set()

    @property
    def last(self) -> int:
        """The id of the newest event; 0 before the first."""
        return self._cluster.journal.last_id

    @property
    def oldest(self) -> int:
        """The id before that of the oldest event that is kept."""
        return self._cluster.journal.first_id - 1

    def since(self, after: int) -> Iterator[dict[str, Any]]:
        """Yield the events after an id as JSON objects, oldest first; the first is a gap if some are no longer kept."""
        journal = self._cluster.journal
        kept = journal.first_id
        if not kept - 1 <= after <= journal.last_id:
            yield self._gap(after, kept)
            after = kept - 1
        for number in range(after + 1, journal.last_id + 1):
            yield self.json(journal.events[number - kept], number)

    def latest(self, count: int, group: str | None = None) -> list[dict[str, Any]]:
        """Return the latest events, of one group or of all, at most ``count`` of them, oldest first."""
        journal = self._cluster.journal
        found: list[dict[str, Any]] = []
        for index in range(len(journal.events) - 1, -1, -1):
            if len(found) == count:
                break
            if group in (None, journal.events[index].group):
                found.append(self.json(journal.events[index], journal.first_id + index))
        return found[::-1]

    def json(self, event: Event, number: int) -> dict[str, Any]:
        """Return an event as a JSON object. ``number``: its id."""
        fields = event.to_json()
        time_ms, kind = fields.pop("time_ms"), fields.pop("event")
        return {"id": number, "time": self.time(time_ms), "time_ms": time_ms, "kind": kind, **fields}

    def time(self, time_ms: float) -> str:
        """Return the wall-clock time, ISO 8601 in UTC, of a number of milliseconds since the cluster started."""
        clock = self._cluster.clock
        return iso(clock.wall() - clock.now() + time_ms / 1000)

    def _gap(self, after: int, kept: int) -> dict[str, Any]:
        time_ms = round(self._cluster.clock.now() * 1000)
        missed = max(kept - 1 - after, 0)
        return {
            "id": kept - 1,
            "time": self.time(time_ms),
            "time_ms": time_ms,
            "kind": GAP,
            "group": "",
            "after": after,
            "missed": missed,
        }


def iso(seconds: float) -> str:
    """Return a time as ISO 8601 in UTC, with milliseconds. ``seconds``: since 1970."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
