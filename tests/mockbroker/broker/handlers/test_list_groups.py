"""ListGroups."""

from __future__ import annotations

from typing import Any

import pytest
from tools.desk import Desk, commit_simple, member

from kwire.messages.list_groups import ListGroupsRequest


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    member(desk, "stable")
    commit_simple(desk, "simple")
    return desk


def listed(desk: Desk, version: int, **filters: Any) -> dict[Any, Any]:
    return {found.group_id: found for found in desk.ask(ListGroupsRequest(**filters), version).groups}


@pytest.mark.parametrize("version", range(6))
def test_all(desk, version):
    found = listed(desk, version)
    assert {name: group.protocol_type for name, group in found.items()} == {"stable": "consumer", "simple": ""}
    states = {name: group.group_state for name, group in found.items()}
    assert states == ({"stable": "Stable", "simple": "Empty"} if version >= 4 else dict.fromkeys(found, ""))
    assert {group.group_type for group in found.values()} == {"classic" if version >= 5 else ""}


FILTERS = [
    ({"states_filter": ["Stable"]}, {"stable"}),
    ({"states_filter": ["sTaBlE", "empty"]}, {"stable", "simple"}),
    ({"states_filter": ["Dead"]}, set()),
    ({"types_filter": ["Classic"]}, {"stable", "simple"}),
    ({"types_filter": ["consumer"]}, set()),
    ({"types_filter": ["nonsense"]}, set()),
    ({"types_filter": ["classic"], "states_filter": ["Empty"]}, {"simple"}),
]


@pytest.mark.parametrize(("filters", "names"), FILTERS)
def test_filters(desk, filters, names):
    assert set(listed(desk, 5, **filters)) == names


def test_each_broker_lists_its_own():
    desk = Desk(brokers=3)
    names = [f"g{number}" for number in range(12)]
    for name in names:
        commit_simple(desk, name, node=desk.broker.coordinator(name))
    found = [{g.group_id for g in desk.ask(ListGroupsRequest(), 5, node=node).groups} for node in range(3)]
    assert sorted(name for one in found for name in one) == sorted(names)
    assert all(found)
