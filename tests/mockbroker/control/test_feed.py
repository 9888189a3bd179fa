"""Times of the feed; its events are tested with the endpoints that return them."""

from __future__ import annotations

from mockbroker.control.feed import iso


def test_times_are_iso_8601_in_utc() -> None:
    assert iso(0) == "1970-01-01T00:00:00.000Z"
    assert iso(1_700_000_000.125) == "2023-11-14T22:13:20.125Z"
