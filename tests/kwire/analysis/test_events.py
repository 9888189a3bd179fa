from __future__ import annotations

from typing import get_type_hints

from tools.captures import capture
from tools.handmade_calls import two_members

from kwire.analysis.events import EVENTS, GroupEvent
from kwire.analysis.extract import events_of
from kwire.analysis.tables import GROUP_EVENTS

PYTHON = {"string": str, "int": int, "long": int, "bool": bool, "timestamp": int, "list<string>": list[str]}


def test_a_row_has_the_columns_of_group_events() -> None:
    event = GroupEvent(ts=1, group_id="g", protocol="classic", event="join_sent", part=3)
    row = event.row("c", "k", 2)
    assert list(row) == [column.name for column in GROUP_EVENTS.columns]
    given = {"capture_id": "c", "ts": 1, "group_id": "g", "cluster": "k", "life": 2, "protocol": "classic", "part": 3}
    assert {name: row[name] for name in given} == given


def test_types_of_fields_are_those_of_their_columns() -> None:
    columns = {column.name: column for column in GROUP_EVENTS.columns}
    for name, hint in get_type_hints(GroupEvent).items():
        expected = PYTHON[columns[name].type]
        assert hint in (expected, expected | None), name


def test_event_survives_conversion_to_a_row() -> None:
    for call in two_members().calls:
        for event in events_of(call):
            row = event.row("x")
            assert GroupEvent(**{name: row[name] for name in GroupEvent.__slots__}) == event


def test_every_event_is_described() -> None:
    names = {row["event"] for row in capture("aiokafka-0.14.0__kafka-4.2.0__static")["group_events"]}
    assert names <= set(EVENTS)
