"""Static members (KIP-345, KIP-814): docs/coordinator.md, under "Static members"."""

from __future__ import annotations

from typing import Any

import pytest
from tools.group_harness import GroupHarness

from kwire import ErrorCode as E
from mockbroker.groups.classic.state import State

OTHER = (("range", b"other"),)
BOTH = (("range", b"m"), ("roundrobin", b"m"))


@pytest.fixture
def harness() -> GroupHarness:
    """Two static members, i1 (who leads) and i2, in Stable."""
    harness = GroupHarness(delay=1.0)
    harness.join_static("i1", "a1")
    harness.join_static("i2", "b1")
    harness.wait(2.0)
    harness.sync_all()
    return harness


def test_a_first_join_is_never_sent_away_for_an_id():
    harness = GroupHarness()
    ask = harness.join_static("i", "i-1")
    assert (ask.error, ask.answer.member_id, ask.listed) == (E.NONE, "i-1", ["i-1"])
    assert ask.answer.members[0].group_instance_id == "i"


def test_a_restart_in_stable_is_no_rebalance(harness):
    ask = harness.join_static("i2", "b2", OTHER, can_skip=True)
    assert (ask.error, ask.answer.generation_id, ask.answer.member_id) == (E.NONE, 1, "b2")
    assert (ask.answer.leader, ask.answer.skip_assignment, ask.answer.members) == ("a1", False, [])
    assert harness.state is State.STABLE
    assert harness.sync("b2").answer.assignment == b"of b1"
    assert harness.group.members["b2"].metadata("range") == b"other"  # though it is not told to anybody


def test_a_restarted_leader_leads_under_its_new_id(harness):
    ask = harness.join_static("i1", "a2", can_skip=True)
    assert (ask.answer.leader, ask.answer.skip_assignment) == ("a2", True)
    assert sorted(ask.listed) == ["a2", "b1"]
    assert harness.group.leader == "a2"


def test_before_v9_a_restarted_leader_believes_to_follow(harness):
    ask = harness.join_static("i1", "a2")
    assert (ask.answer.leader, ask.answer.skip_assignment, ask.answer.members) == ("a1", False, [])
    assert harness.group.leader == "a2"


def test_the_old_id_is_fenced_after_a_restart(harness):
    harness.join_static("i1", "a2")
    assert harness.heartbeat("a1", instance_id="i1") is E.FENCED_INSTANCE_ID
    assert harness.heartbeat("a1") is E.UNKNOWN_MEMBER_ID
    assert harness.heartbeat("a2", instance_id="nobody") is E.UNKNOWN_MEMBER_ID
    assert harness.heartbeat("a2", instance_id="i1") is E.NONE
    assert harness.sync("a1", instance_id="i1").error is E.FENCED_INSTANCE_ID
    assert harness.commit("a1", 1, "i1") is E.FENCED_INSTANCE_ID
    assert harness.join_as("a1", instance_id="i1").error is E.FENCED_INSTANCE_ID
    assert harness.leave("a1", instance_id="i1") == [E.FENCED_INSTANCE_ID]


@pytest.mark.parametrize(
    ("member_id", "instance_id", "error"),
    [
        ("a1", "nobody", E.UNKNOWN_MEMBER_ID),  # before the member id is looked at
        ("x", "nobody", E.UNKNOWN_MEMBER_ID),
        ("b1", "i1", E.FENCED_INSTANCE_ID),
        ("x", None, E.UNKNOWN_MEMBER_ID),
        ("a1", None, E.NONE),
    ],
)
def test_who_asks(harness, member_id, instance_id, error):
    assert harness.heartbeat(member_id, instance_id=instance_id) is error


def test_a_restart_that_changes_the_protocol_is_a_rebalance():
    harness = GroupHarness(delay=1.0)
    harness.join_static("i1", "a1", BOTH)
    harness.join_static("i2", "b1", BOTH)
    harness.wait(2.0)
    harness.sync_all()
    ask = harness.join_static("i2", "b2", (("roundrobin", b"m"),))
    assert ask.parked
    assert harness.state is State.PREPARING
    harness.join_as("a1", protocols=BOTH, instance_id="i1")
    assert (ask.error, ask.answer.generation_id, ask.answer.protocol_name) == (E.NONE, 2, "roundrobin")


def test_a_restart_in_completing_is_a_rebalance():
    harness = GroupHarness(delay=1.0)
    harness.join_static("i1", "a1")
    harness.join_static("i2", "b1")
    harness.wait(2.0)
    parked = harness.sync("b1")
    ask = harness.join_static("i1", "a2")
    assert parked.error is E.REBALANCE_IN_PROGRESS
    assert ask.parked
    harness.join_as("b1", instance_id="i2")
    assert (ask.answer.generation_id, ask.answer.leader, ask.answer.skip_assignment) == (2, "a2", False)


def in_preparing(harness: GroupHarness, joined: Any) -> None:
    """A third member has begun a rebalance; members by these ids have joined, i1 leads."""
    harness.join("c")
    for member_id in joined:
        harness.join_as(member_id, instance_id="i1" if member_id == "a1" else "i2")
    assert harness.state is State.PREPARING


def in_completing(harness: GroupHarness, joined: Any) -> None:
    """The generation has begun, and the leader has not synced."""
    harness.join("c")
    harness.join_as("a1", instance_id="i1")
    harness.join_as("b1", instance_id="i2")
    assert harness.state is State.COMPLETING


def in_stable(harness: GroupHarness, joined: Any) -> None:
    assert harness.state is State.STABLE


STATES = [
    pytest.param(in_preparing, [], id="preparing, no member has joined again"),
    pytest.param(in_preparing, ["a1"], id="preparing, the leader has joined"),
    pytest.param(in_preparing, ["b1"], id="preparing, the follower has joined"),
    pytest.param(in_completing, [], id="completing"),
    pytest.param(in_stable, [], id="stable"),
]


@pytest.mark.parametrize(("begin", "joined"), STATES)
def test_leadership_stays_with_a_static_leader_that_restarts(harness, begin, joined):
    begin(harness, joined)
    harness.join_static("i1", "a2", can_skip=True)
    assert harness.group.leader == "a2"
    asks = finish_rebalance(harness, {"a2": "i1", "b1": "i2"})
    assert harness.group.leader == "a2"
    assert {ask.answer.leader for ask in asks} == {"a2"}


@pytest.mark.parametrize(("begin", "joined"), STATES)
def test_leadership_stays_when_a_static_follower_restarts(harness, begin, joined):
    begin(harness, joined)
    harness.join_static("i2", "b2", can_skip=True)
    assert harness.group.leader == "a1"
    asks = finish_rebalance(harness, {"a1": "i1", "b2": "i2"})
    assert {ask.answer.leader for ask in asks} == {"a1"}


@pytest.mark.parametrize(("begin", "joined"), STATES)
def test_static_member_that_restarts_twice_still_leads(harness, begin, joined):
    begin(harness, joined)
    harness.join_static("i1", "a2")
    harness.join_static("i1", "a3")
    finish_rebalance(harness, {"a3": "i1", "b1": "i2"})
    assert harness.group.leader == "a3"


@pytest.mark.parametrize(("leader", "follower"), [("a", "z"), ("z", "a")], ids=["first in the map", "last in the map"])
def test_leader_that_joins_again_leads_the_next_generation(leader, follower):
    harness = GroupHarness()
    harness.join(leader)
    harness.sync_all()
    harness.join(follower)
    harness.join(leader)
    assert (harness.group.generation, harness.group.leader) == (2, leader)


def finish_rebalance(harness: GroupHarness, members: Any) -> list[Any]:
    """All join once more: a rebalance that is under way ends, or one begins and ends."""
    if harness.state is not State.PREPARING:
        harness.join("d")
    parked = [member.member_id for member in harness.group.members.values() if member.join is not None]
    if "c" in harness.group.members and "c" not in parked:
        harness.join("c")
    asks = [
        harness.join_as(member_id, instance_id=instance_id, can_skip=True)
        for member_id, instance_id in members.items()
        if member_id not in parked
    ]
    assert harness.state is State.COMPLETING
    return asks


def test_parked_requests_of_the_old_id_are_fenced():
    harness = GroupHarness(delay=5.0)
    first = harness.join_static("i", "a1")
    second = harness.join_static("i", "a2")
    assert (first.error, first.answer.member_id) == (E.FENCED_INSTANCE_ID, "a1")
    harness.wait(6.0)
    assert (second.error, second.listed) == (E.NONE, ["a2"])


def test_a_parked_sync_of_the_old_id_is_fenced():
    harness = GroupHarness(delay=1.0)
    harness.join_static("i1", "a1")
    harness.join_static("i2", "b1")
    harness.wait(2.0)
    parked = harness.sync("b1")
    harness.join_static("i2", "b2")
    assert parked.error is E.FENCED_INSTANCE_ID


def test_absent_static_members_stay_and_are_listed(harness):
    ask = harness.join("c", rebalance=60.0)
    harness.join_as("a1", instance_id="i1")
    assert ask.parked
    while ask.parked:
        harness.heartbeat("b1", instance_id="i2")
        harness.wait(5.0)
    assert sorted(harness.group.members) == ["a1", "b1", "c"]
    assert set(harness.group.static) == {"i1", "i2"}


def test_an_absent_leader_is_replaced_by_who_came(harness):
    ask = harness.join("c")
    while ask.parked:
        harness.heartbeat("a1", instance_id="i1")
        harness.heartbeat("b1", instance_id="i2")
        harness.wait(5.0)
    assert (ask.answer.leader, sorted(ask.listed)) == ("c", ["a1", "b1", "c"])


def test_join_phase_continues_while_all_static_members_are_away(harness):
    harness.join("c", rebalance=2.0)
    harness.leave("c")
    for _ in range(50):
        harness.wait(5.0)
        for member_id, instance_id in (("a1", "i1"), ("b1", "i2")):
            assert harness.heartbeat(member_id, instance_id=instance_id) is E.REBALANCE_IN_PROGRESS
    assert (harness.state, harness.group.generation) == (State.PREPARING, 1)
    harness.join_as("a1", instance_id="i1")
    asks = harness.join_as("b1", instance_id="i2")
    assert (asks.error, asks.answer.generation_id) == (E.NONE, 2)


def test_a_static_member_goes_with_its_session(harness):
    harness.wait(11.0)
    assert (harness.state, harness.group.members, harness.group.static) == (State.EMPTY, {}, {})


@pytest.mark.parametrize("instance_id", ["i1", "i2"], ids=["leader", "follower"])
def test_restart_of_a_static_member_renews_its_session(harness, instance_id):
    harness.wait(5.0)
    harness.join_static(instance_id, "n")
    harness.wait(5.5)
    assert list(harness.group.static) == [instance_id]  # the other has been silent for its session
    harness.wait(65.0)
    assert (harness.state, harness.group.members) == (State.EMPTY, {})


LEAVES = [  # member id, instance id, answer
    ("", "i1", E.NONE),  # an administrator names the instance alone
    ("", "nobody", E.UNKNOWN_MEMBER_ID),
    ("", None, E.UNKNOWN_MEMBER_ID),
    ("a1", "i1", E.NONE),
    ("a1", None, E.NONE),
    ("a1", "i2", E.FENCED_INSTANCE_ID),
    ("a1", "nobody", E.UNKNOWN_MEMBER_ID),
    ("x", "i1", E.FENCED_INSTANCE_ID),
]


@pytest.mark.parametrize(("member_id", "instance_id", "error"), LEAVES)
def test_leaving(harness, member_id, instance_id, error):
    assert harness.leave(member_id, instance_id=instance_id) == [error]
    assert ("i1" in harness.group.static) is (error is not E.NONE)


def test_an_id_given_to_a_dynamic_member_is_no_static_members(harness):
    harness.ask_id("p")
    ask = harness.join_as("p", instance_id="i3")
    assert (ask.error, ask.answer.member_id) == (E.UNKNOWN_SERVER_ERROR, "")
    assert "p" in harness.group.pending


@pytest.mark.parametrize("instance_id", ["", "..", "x" * 300])
def test_any_instance_id_is_accepted(instance_id):
    harness = GroupHarness()
    assert harness.join_static(instance_id, "a1").error is E.NONE
    assert harness.join_static(instance_id, "a2").error is E.NONE
    assert harness.heartbeat("a1", instance_id=instance_id) is E.FENCED_INSTANCE_ID
