from __future__ import annotations

import random

from tools.said import GROUP, two_members

from kwire.analysis.events import GroupEvent, Watermark, events_of
from kwire.analysis.history import FILLED, Ends, fold


def test_order_of_events_does_not_matter() -> None:
    events = [event for call in two_members().calls for event in events_of(call)]
    mixed = list(events)
    random.Random(1).shuffle(mixed)
    expected = fold("x", GROUP, events, Ends([]))
    assert tuple(expected) == FILLED
    assert fold("x", GROUP, mixed, Ends([])) == expected


def test_lag() -> None:
    wire = two_members()
    wire.commit("a", 750, 3, 0, 5)
    (event,) = events_of(wire.calls[-1])
    marks = [Watermark(event.ts - 2000, "id:x", 0, 8), Watermark(event.ts + 1, "tea", 0, 99)]
    (row,) = fold("x", GROUP, [event], Ends(marks, {"id:x": "tea"}))["offset_commits"]
    assert (row["offset"], row["lag"], row["lag_age_ms"], row["error_code"]) == (5, 3, 2.0, 0)


def test_commit_went_back() -> None:
    wire = two_members()
    wire.commit("a", 750, 3, 0, 5)
    wire.commit("a", 760, 3, 0, 4)
    assert [row["kind"] for row in wire.tables()["violations"]] == ["commit_went_back"]


def test_coordinator_moved() -> None:
    found = [
        GroupEvent(ts=ts, group_id="g", protocol=None, event="coordinator_found", leader=where)
        for ts, where in ((1, "a:1"), (2, "a:1"), (3, "b:1"))
    ]
    rows = fold("x", "g", found, Ends([]))["group_events"]
    assert [(row["ts"], row["reason"]) for row in rows if row["inferred"]] == [(3, "it was a:1")]


def test_group_without_anything() -> None:
    assert fold("x", "g", [], Ends([])) == {name: [] for name in FILLED}
