from __future__ import annotations

from typing import get_type_hints

from tools.captures import capture
from tools.handmade_calls import two_members

from kwire.analysis.events import EVENTS, FEW, GroupEvent, host_of, in_order, merged
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


def at(*times: int) -> list[GroupEvent]:
    return [GroupEvent(ts=ts, group_id="g", protocol=None, event="leave") for ts in times]


def test_inferred_events_are_merged_by_time() -> None:
    for count in (0, 1, FEW + 1):
        both = merged(at(1, 5, 9), at(*range(count, 0, -1)))
        assert [event.ts for event in both] == sorted([1, 5, 9, *range(1, count + 1)])


def test_event_of_a_later_life_may_be_earlier() -> None:
    first, second, third = at(1, 6), at(4, 5), at(7)
    assert in_order([(first, 1), (third, 2)]) == [(first, 1), (third, 2)]
    both = in_order([(first, 1), (second, 2), (third, 3)])
    assert [([event.ts for event in events], life) for events, life in both] == [
        ([1], 1),
        ([4, 5], 2),
        ([6], 1),
        ([7], 3),
    ]


def test_host_of_an_endpoint_with_and_without_a_port() -> None:
    hosts = {"10.0.0.1:5": "10.0.0.1", "[::1]:5": "[::1]", "10.0.0.1": "10.0.0.1", "": ""}
    assert {each: host_of(each) for each in hosts} == hosts
