"""DeleteGroups."""

from __future__ import annotations

from typing import Any

import pytest
from tools.desk import Desk, commit_simple, committed, member

from kwire import ErrorCode as E
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.leave_group import LeaveGroupRequest


@pytest.fixture
def desk() -> Desk:
    return Desk()


def delete(desk: Desk, version: int, *groups: Any, **how: Any) -> list[Any]:
    results = desk.ask(DeleteGroupsRequest(groups_names=list(groups)), version, **how).results
    return [(result.group_id, E(result.error_code)) for result in results]


@pytest.mark.parametrize("version", range(3))
def test_each_by_itself(desk, version):
    commit_simple(desk, "empty")
    member(desk, "stable")
    assert delete(desk, version, "empty", "stable", "nobody", "empty") == [
        ("empty", E.NONE),
        ("stable", E.NON_EMPTY_GROUP),
        ("nobody", E.GROUP_ID_NOT_FOUND),
    ]
    assert list(desk.broker.groups) == ["stable"]
    assert [event.group for event in desk.journal.events if event.event == "delete"] == ["empty"]


def test_the_offsets_go_and_the_generations_begin_anew(desk):
    who = member(desk, "g")
    commit_simple(desk, "other")
    desk.ask(LeaveGroupRequest(group_id="g", member_id=who), 1)
    commit_simple(desk, "g")
    assert committed(desk, "g") == {("t", 0): 5}
    assert delete(desk, 2, "g") == [("g", E.NONE)]
    assert committed(desk, "g") == {}
    assert committed(desk, "other") == {("t", 0): 5}
    member(desk, "g")
    assert desk.broker.groups["g"].generation == 1


def test_another_broker_does_not():
    desk = Desk(brokers=3)
    other = next(node for node in range(3) if node != desk.broker.coordinator("g"))
    assert delete(desk, 2, "g", node=other) == [("g", E.NOT_COORDINATOR)]
