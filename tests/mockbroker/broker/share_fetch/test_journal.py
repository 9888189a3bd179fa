"""The journal events of the records that members of share groups acquire and acknowledge."""

from __future__ import annotations

from typing import Any

from tools.share_harness import ACCEPT, GAP, REJECT, RELEASE, ShareHarness, Sharer

from mockbroker.base.event_kinds import EventKind


def recorded(h: ShareHarness) -> list[tuple[str, str, Any]]:
    events = [event for event in h.journal.events if event.event == EventKind.SHARE_RECORDS]
    return [(event.member_id, event.reason, event.to_json()["records"]) for event in events]


def test_acquired_and_acknowledged_records_are_counted():
    h = ShareHarness({"t": 2})
    h.produce(5)
    h.produce(3, index=1)
    a = Sharer(h=h)
    a.fetch(0, 1)
    a.acknowledge((0, 1, [ACCEPT]), (2, 4, [RELEASE, REJECT, GAP]))
    a.fetch(1, acknowledge=[(0, 2, [ACCEPT])])
    assert recorded(h) == [
        ("a", "", {"t": {0: {"acquired": 5}, 1: {"acquired": 3}}}),
        ("a", "", {"t": {0: {"accepted": 2, "released": 1, "rejected": 1, "gap": 1}}}),
        ("a", "", {"t": {1: {"accepted": 3}}}),
        ("a", "", {"t": {0: {"acquired": 1}}}),
    ]


def test_refused_acknowledgements_are_not_events():
    h = ShareHarness()
    h.produce(2)
    a, b = Sharer(h=h), Sharer(h=h, name="b")
    a.fetch(0)
    b.fetch(0)
    b.acknowledge((0, 1, [ACCEPT]))
    assert [member for member, *_ in recorded(h)] == ["a"]


def test_the_end_of_acquisition_locks_is_an_event():
    h = ShareHarness(config={"group.share.delivery.count.limit": 2})
    h.produce(1)
    a = Sharer(h=h)
    a.fetch(0)
    h.wait(31.0)
    a.fetch()
    h.wait(31.0)
    reason = "acquisition locks have ended"
    assert [event for event in recorded(h) if event[1]] == [
        ("", reason, {"t": {0: {"released": 1}}}),
        ("", reason, {"t": {0: {"archived": 1}}}),
    ]
