"""DeleteGroups."""

from __future__ import annotations

from typing import Any

import pytest
from tools.broker_harness import BrokerHarness, commit_without_member, committed, stable_member

from kwire import ErrorCode as E
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.leave_group import LeaveGroupRequest
from mockbroker.base.effects import Call, Client, Ticket
from mockbroker.groups.offsets import Committed


@pytest.fixture
def harness() -> BrokerHarness:
    return BrokerHarness()


def delete(harness: BrokerHarness, version: int, *groups: Any, **how: Any) -> list[Any]:
    results = harness.ask(DeleteGroupsRequest(groups_names=list(groups)), version, **how).results
    return [(result.group_id, E(result.error_code)) for result in results]


@pytest.mark.parametrize("version", range(3))
def test_each_group_has_its_own_result(harness, version):
    commit_without_member(harness, "empty")
    stable_member(harness, "stable")
    assert delete(harness, version, "empty", "stable", "missing", "empty") == [
        ("empty", E.NONE),
        ("stable", E.NON_EMPTY_GROUP),
        ("missing", E.GROUP_ID_NOT_FOUND),
    ]
    assert list(harness.broker.groups) == ["stable"]
    assert [event.group for event in harness.journal.events if event.event == "delete"] == ["empty"]


def test_offsets_and_generation_are_deleted(harness):
    member_id = stable_member(harness, "g")
    commit_without_member(harness, "other")
    harness.ask(LeaveGroupRequest(group_id="g", member_id=member_id), 1)
    commit_without_member(harness, "g")
    assert committed(harness, "g") == {("t", 0): 5}
    assert delete(harness, 2, "g") == [("g", E.NONE)]
    assert committed(harness, "g") == {}
    assert committed(harness, "other") == {("t", 0): 5}
    stable_member(harness, "g")
    assert harness.broker.groups["g"].generation == 1


def test_a_slice_has_a_limited_number_of_offsets(harness):
    """The groups a and b have three offsets, and fill a slice of three, however small the request is."""
    for group_id, count in (("a", 1), ("b", 2), ("c", 3), ("d", 0)):
        group = harness.broker.groups.create(group_id, 0.0)
        for index in range(count):
            group.offsets.store("t", index, Committed(offset=1))
    harness.broker.slice_size = 3
    request = DeleteGroupsRequest(groups_names=["a", "b", "c", "a", "d"])
    call = Call(Ticket(1, 1, 42, 2), Client(0, "c", "/h"), request, frame=b"x")
    *_, work = harness.router.handlers[42].handle(harness.broker, call, 0.0)
    steps = [list(harness.broker.groups)]
    work.steps.send(0.0)
    steps.append(list(harness.broker.groups))
    harness.finish([])
    assert steps == [["c", "d"], ["d"]]
    with pytest.raises(StopIteration) as end:
        work.steps.send(0.0)
    assert [result.group_id for result in end.value.value[-1].response.results] == ["a", "b", "c", "d"]


def test_not_the_coordinator():
    harness = BrokerHarness(brokers=3)
    other = next(node for node in range(3) if node != harness.broker.coordinator("g"))
    assert delete(harness, 2, "g", node=other) == [("g", E.NOT_COORDINATOR)]
