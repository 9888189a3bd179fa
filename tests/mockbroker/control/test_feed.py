"""Times of events in the feed; the tests of the endpoints test the events."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mockbroker.control.feed import Feed, iso


def test_times_are_iso_8601_in_utc() -> None:
    assert iso(0) == "1970-01-01T00:00:00.000Z"
    assert iso(1_700_000_000.125) == "2023-11-14T22:13:20.125Z"


def test_an_event_has_the_same_time_in_each_response() -> None:
    """The time is the same although the two clocks are read at slightly different times; only a reset or another time
    of day changes it."""
    readings = iter([999.9999, 1000.0001, 2000.0])
    clock = SimpleNamespace(wall=lambda: next(readings), now=lambda: 0.0)
    cluster: Any = SimpleNamespace(clock=clock, journal=SimpleNamespace(wakers=[]))
    feed = Feed(cluster)
    assert [feed.time(0) for _ in range(3)] == [
        "1970-01-01T00:16:39.999Z",
        "1970-01-01T00:16:39.999Z",
        "1970-01-01T00:33:20.000Z",
    ]
