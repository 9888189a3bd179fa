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
    """Return a Stable group of two static members: i1 (leader) and i2."""
    harness = GroupHarness(delay=1.0)
    harness.join_static("i1", "a1")
    harness.join_static("i2", "b1")
    harness.wait(2.0)
    harness.sync_all()
    return harness


def test_a_static_member_never_gets_member_id_required():
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
    assert harness.group.members["b2"].metadata("range") == b"other"  # although no response contains it


def test_a_restarted_leader_leads_under_its_new_id(harness):
    ask = harness.join_static("i1", "a2", can_skip=True)
    assert (ask.answer.leader, ask.answer.skip_assignment) == ("a2", True)
    assert sorted(ask.listed) == ["a2", "b1"]
    assert harness.group.leader == "a2"


def test_before_v9_a_restarted_leader_acts_as_a_follower(harness):
    ask = harness.join_static("i1", "a2")
    assert (ask.answer.leader, ask.answer.skip_assignment, ask.answer.members) == ("a1", False, [])
    assert harness.group.leader == "a2"


def test_the_old_id_is_fenced_after_a_restart(harness):
    harness.join_static("i1", "a2")
    assert harness.heartbeat("a1", instance_id="i1") is E.FENCED_INSTANCE_ID
    assert harness.heartbeat("a1") is E.UNKNOWN_MEMBER_ID
    assert harness.heartbeat("a2", instance_id="unknown") is E.UNKNOWN_MEMBER_ID
    assert harness.heartbeat("a2", instance_id="i1") is E.NONE
    assert harness.sync("a1", instance_id="i1").error is E.FENCED_INSTANCE_ID
    assert harness.commit("a1", 1, "i1") is E.FENCED_INSTANCE_ID
    assert harness.join_as("a1", instance_id="i1").error is E.FENCED_INSTANCE_ID
    assert harness.leave("a1", instance_id="i1") == [E.FENCED_INSTANCE_ID]


@pytest.mark.parametrize(
    ("member_id", "instance_id", "error"),
    [
        ("a1", "unknown", E.UNKNOWN_MEMBER_ID),  # checked before the member id
        ("x", "unknown", E.UNKNOWN_MEMBER_ID),
        ("b1", "i1", E.FENCED_INSTANCE_ID),
        ("x", None, E.UNKNOWN_MEMBER_ID),
        ("a1", None, E.NONE),
    ],
)
def test_order_of_identity_checks(harness, member_id, instance_id, error):
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
    pending = harness.sync("b1")
    ask = harness.join_static("i1", "a2")
    assert pending.error is E.REBALANCE_IN_PROGRESS
    assert ask.parked
    harness.join_as("b1", instance_id="i2")
    assert (ask.answer.generation_id, ask.answer.leader, ask.answer.skip_assignment) == (2, "a2", False)


def in_preparing(harness: GroupHarness, joined: Any) -> None:
    """Let a third member start a rebalance in which these members have rejoined; i1 is the leader."""
    harness.join("c")
    for member_id in joined:
        harness.join_as(member_id, instance_id="i1" if member_id == "a1" else "i2")
    assert harness.state is State.PREPARING


def in_completing(harness: GroupHarness, joined: Any) -> None:
    """Start a generation in which the leader has not synced."""
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
    """Let all members rejoin: the rebalance in progress ends, or a new one starts and ends."""
    if harness.state is not State.PREPARING:
        harness.join("d")
    pending = [member.member_id for member in harness.group.members.values() if member.pending_join is not None]
    if "c" in harness.group.members and "c" not in pending:
        harness.join("c")
    asks = [
        harness.join_as(member_id, instance_id=instance_id, can_skip=True)
        for member_id, instance_id in members.items()
        if member_id not in pending
    ]
    assert harness.state is State.COMPLETING
    return asks


def test_pending_join_of_the_old_id_is_fenced():
    harness = GroupHarness(delay=5.0)
    first = harness.join_static("i", "a1")
    second = harness.join_static("i", "a2")
    assert (first.error, first.answer.member_id) == (E.FENCED_INSTANCE_ID, "a1")
    harness.wait(6.0)
    assert (second.error, second.listed) == (E.NONE, ["a2"])


def test_pending_sync_of_the_old_id_is_fenced():
    harness = GroupHarness(delay=1.0)
    harness.join_static("i1", "a1")
    harness.join_static("i2", "b1")
    harness.wait(2.0)
    pending = harness.sync("b1")
    harness.join_static("i2", "b2")
    assert pending.error is E.FENCED_INSTANCE_ID


def test_absent_static_members_stay_and_are_listed(harness):
    ask = harness.join("c", rebalance=60.0)
    harness.join_as("a1", instance_id="i1")
    assert ask.parked
    while ask.parked:
        harness.heartbeat("b1", instance_id="i2")
        harness.wait(5.0)
    assert sorted(harness.group.members) == ["a1", "b1", "c"]
    assert set(harness.group.static_members) == {"i1", "i2"}


def test_an_absent_static_leader_is_replaced(harness):
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


def test_join_phase_ends_without_a_static_member_that_stays_away(harness):
    harness.join("c", rebalance=2.0)
    harness.leave("c")
    asks = []
    for step in range(50):
        harness.wait(5.0)
        harness.heartbeat("b1", instance_id="i2")
        if step == 30:
            asks.append(harness.join_as("a1", instance_id="i1"))
        elif step < 30:
            harness.heartbeat("a1", instance_id="i1")
        elif not asks[0].parked:
            break
    assert (asks[0].error, sorted(asks[0].listed)) == (E.NONE, ["a1", "b1"])


def test_a_static_member_is_removed_when_its_session_expires(harness):
    harness.wait(11.0)
    assert (harness.state, harness.group.members, harness.group.static_members) == (State.EMPTY, {}, {})


@pytest.mark.parametrize("instance_id", ["i1", "i2"], ids=["leader", "follower"])
def test_restart_of_a_static_member_renews_its_session(harness, instance_id):
    harness.wait(5.0)
    harness.join_static(instance_id, "n")
    harness.wait(5.5)
    assert list(harness.group.static_members) == [instance_id]  # the session of the other member has expired
    harness.wait(65.0)
    assert (harness.state, harness.group.members) == (State.EMPTY, {})


LEAVES = [  # member id, instance id, error
    ("", "i1", E.NONE),  # as administrators remove a static member
    ("", "unknown", E.UNKNOWN_MEMBER_ID),
    ("", None, E.UNKNOWN_MEMBER_ID),
    ("a1", "i1", E.NONE),
    ("a1", None, E.NONE),
    ("a1", "i2", E.FENCED_INSTANCE_ID),
    ("a1", "unknown", E.UNKNOWN_MEMBER_ID),
    ("x", "i1", E.FENCED_INSTANCE_ID),
]


@pytest.mark.parametrize(("member_id", "instance_id", "error"), LEAVES)
def test_leaving(harness, member_id, instance_id, error):
    assert harness.leave(member_id, instance_id=instance_id) == [error]
    assert ("i1" in harness.group.static_members) is (error is not E.NONE)


def test_a_static_member_cannot_use_a_pending_member_id(harness):
    harness.ask_id("p")
    ask = harness.join_as("p", instance_id="i3")
    assert (ask.error, ask.answer.member_id) == (E.UNKNOWN_SERVER_ERROR, "")
    assert "p" in harness.group.pending_members


@pytest.mark.parametrize("instance_id", ["", "..", "x" * 300])
def test_any_instance_id_is_accepted(instance_id):
    harness = GroupHarness()
    assert harness.join_static(instance_id, "a1").error is E.NONE
    assert harness.join_static(instance_id, "a2").error is E.NONE
    assert harness.heartbeat("a1", instance_id=instance_id) is E.FENCED_INSTANCE_ID
