from __future__ import annotations

from tools.captures import capture
from tools.said import two_members

from kwire.analysis.events import EVENTS, event_of
from kwire.analysis.extract import events_of


def test_event_goes_through_a_row() -> None:
    for call in two_members().calls:
        for event in events_of(call):
            assert event_of(event.row("x")) == event


def test_every_event_is_described() -> None:
    names = {row["event"] for row in capture("aiokafka-0.14.0__kafka-4.2.0__static")["group_events"]}
    assert names <= set(EVENTS)
