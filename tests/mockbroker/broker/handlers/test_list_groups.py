"""ListGroups."""

from __future__ import annotations

from typing import Any

import pytest
from tools.broker_harness import BrokerHarness, commit_without_member, stable_member

from kwire.messages.list_groups import ListGroupsRequest
from mockbroker.base.effects import Call, Client, Ticket
from mockbroker.broker.handlers import list_groups as list_groups_handler


@pytest.fixture
def harness() -> BrokerHarness:
    harness = BrokerHarness()
    stable_member(harness, "stable")
    commit_without_member(harness, "simple")
    return harness


def list_groups(harness: BrokerHarness, version: int, **filters: Any) -> dict[Any, Any]:
    return {groups.group_id: groups for groups in harness.ask(ListGroupsRequest(**filters), version).groups}


@pytest.mark.parametrize("version", range(6))
def test_all_groups(harness, version):
    groups = list_groups(harness, version)
    assert {name: group.protocol_type for name, group in groups.items()} == {"stable": "consumer", "simple": ""}
    states = {name: group.group_state for name, group in groups.items()}
    assert states == ({"stable": "Stable", "simple": "Empty"} if version >= 4 else dict.fromkeys(groups, ""))
    assert {group.group_type for group in groups.values()} == {"classic" if version >= 5 else ""}


def test_many_groups_are_listed_in_slices(harness, monkeypatch):
    """A group that is deleted between two slices is not listed."""
    monkeypatch.setattr(list_groups_handler, "SLICE_SIZE", 1)
    assert set(list_groups(harness, 4)) == {"stable", "simple"}
    call = Call(Ticket(1, 1, 16, 4), Client(0, "c", "/h"), ListGroupsRequest())
    (work,) = harness.router.handlers[16].handle(harness.broker, call, 0.0)
    harness.broker.groups.delete("simple")
    (reply,) = harness.router.run(harness.router.finish([work], 0.0), 0.0)
    assert [group.group_id for group in reply.response.groups] == ["stable"]


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
def test_filters(harness, filters, names):
    assert set(list_groups(harness, 5, **filters)) == names


def test_broker_lists_the_groups_it_coordinates():
    harness = BrokerHarness(brokers=3)
    names = [f"g{number}" for number in range(12)]
    for name in names:
        commit_without_member(harness, name, node=harness.broker.coordinator(name))
    groups = [{g.group_id for g in harness.ask(ListGroupsRequest(), 5, node=node).groups} for node in range(3)]
    assert sorted(name for one in groups for name in one) == sorted(names)
    assert all(groups)
