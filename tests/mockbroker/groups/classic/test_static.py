"""Static members (KIP-345, KIP-814): docs/coordinator.md, under "Static members"."""

from __future__ import annotations

from typing import Any

import pytest
from tools.play import Play

from kwire import ErrorCode as E
from mockbroker.groups.classic.state import State

OTHER = (("range", b"other"),)
BOTH = (("range", b"m"), ("roundrobin", b"m"))


@pytest.fixture
def play() -> Play:
    """Two static members, i1 (who leads) and i2, in Stable."""
    play = Play(delay=1.0)
    play.join_static("i1", "a1")
    play.join_static("i2", "b1")
    play.wait(2.0)
    play.sync_all()
    return play


def test_a_first_join_is_never_sent_away_for_an_id():
    play = Play()
    ask = play.join_static("i", "i-1")
    assert (ask.error, ask.answer.member_id, ask.listed) == (E.NONE, "i-1", ["i-1"])
    assert ask.answer.members[0].group_instance_id == "i"


def test_a_restart_in_stable_is_no_rebalance(play):
    ask = play.join_static("i2", "b2", OTHER, can_skip=True)
    assert (ask.error, ask.answer.generation_id, ask.answer.member_id) == (E.NONE, 1, "b2")
    assert (ask.answer.leader, ask.answer.skip_assignment, ask.answer.members) == ("a1", False, [])
    assert play.state is State.STABLE
    assert play.sync("b2").answer.assignment == b"of b1"
    assert play.group.members["b2"].metadata("range") == b"other"  # though it is not told to anybody


def test_a_restarted_leader_leads_under_its_new_id(play):
    ask = play.join_static("i1", "a2", can_skip=True)
    assert (ask.answer.leader, ask.answer.skip_assignment) == ("a2", True)
    assert sorted(ask.listed) == ["a2", "b1"]
    assert play.group.leader == "a2"


def test_before_v9_a_restarted_leader_believes_to_follow(play):
    ask = play.join_static("i1", "a2")
    assert (ask.answer.leader, ask.answer.skip_assignment, ask.answer.members) == ("a1", False, [])
    assert play.group.leader == "a2"


def test_the_old_id_is_fenced_after_a_restart(play):
    play.join_static("i1", "a2")
    assert play.heartbeat("a1", instance_id="i1") is E.FENCED_INSTANCE_ID
    assert play.heartbeat("a1") is E.UNKNOWN_MEMBER_ID
    assert play.heartbeat("a2", instance_id="nobody") is E.UNKNOWN_MEMBER_ID
    assert play.heartbeat("a2", instance_id="i1") is E.NONE
    assert play.sync("a1", instance_id="i1").error is E.FENCED_INSTANCE_ID
    assert play.commit("a1", 1, "i1") is E.FENCED_INSTANCE_ID
    assert play.join_as("a1", instance_id="i1").error is E.FENCED_INSTANCE_ID
    assert play.leave("a1", instance_id="i1") == [E.FENCED_INSTANCE_ID]


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
def test_who_asks(play, member_id, instance_id, error):
    assert play.heartbeat(member_id, instance_id=instance_id) is error


def test_a_restart_that_changes_the_protocol_is_a_rebalance():
    play = Play(delay=1.0)
    play.join_static("i1", "a1", BOTH)
    play.join_static("i2", "b1", BOTH)
    play.wait(2.0)
    play.sync_all()
    ask = play.join_static("i2", "b2", (("roundrobin", b"m"),))
    assert ask.parked
    assert play.state is State.PREPARING
    play.join_as("a1", protocols=BOTH, instance_id="i1")
    assert (ask.error, ask.answer.generation_id, ask.answer.protocol_name) == (E.NONE, 2, "roundrobin")


def test_a_restart_in_completing_is_a_rebalance():
    play = Play(delay=1.0)
    play.join_static("i1", "a1")
    play.join_static("i2", "b1")
    play.wait(2.0)
    parked = play.sync("b1")
    ask = play.join_static("i1", "a2")
    assert parked.error is E.REBALANCE_IN_PROGRESS
    assert ask.parked
    play.join_as("b1", instance_id="i2")
    assert (ask.answer.generation_id, ask.answer.leader, ask.answer.skip_assignment) == (2, "a2", False)


def in_preparing(play: Play, joined: Any) -> None:
    """A third member has begun a rebalance; members by these ids have joined, i1 leads."""
    play.join("c")
    for member_id in joined:
        play.join_as(member_id, instance_id="i1" if member_id == "a1" else "i2")
    assert play.state is State.PREPARING


def in_completing(play: Play, joined: Any) -> None:
    """The generation has begun, and the leader has not synced."""
    play.join("c")
    play.join_as("a1", instance_id="i1")
    play.join_as("b1", instance_id="i2")
    assert play.state is State.COMPLETING


def in_stable(play: Play, joined: Any) -> None:
    assert play.state is State.STABLE


STATES = [
    pytest.param(in_preparing, [], id="preparing, no member has joined again"),
    pytest.param(in_preparing, ["a1"], id="preparing, the leader has joined"),
    pytest.param(in_preparing, ["b1"], id="preparing, the follower has joined"),
    pytest.param(in_completing, [], id="completing"),
    pytest.param(in_stable, [], id="stable"),
]


@pytest.mark.parametrize(("begin", "joined"), STATES)
def test_leadership_stays_with_a_static_leader_that_restarts(play, begin, joined):
    begin(play, joined)
    play.join_static("i1", "a2", can_skip=True)
    assert play.group.leader == "a2"
    asks = finish_rebalance(play, {"a2": "i1", "b1": "i2"})
    assert play.group.leader == "a2"
    assert {ask.answer.leader for ask in asks} == {"a2"}


@pytest.mark.parametrize(("begin", "joined"), STATES)
def test_leadership_stays_when_a_static_follower_restarts(play, begin, joined):
    begin(play, joined)
    play.join_static("i2", "b2", can_skip=True)
    assert play.group.leader == "a1"
    asks = finish_rebalance(play, {"a1": "i1", "b2": "i2"})
    assert {ask.answer.leader for ask in asks} == {"a1"}


@pytest.mark.parametrize(("begin", "joined"), STATES)
def test_static_member_that_restarts_twice_still_leads(play, begin, joined):
    begin(play, joined)
    play.join_static("i1", "a2")
    play.join_static("i1", "a3")
    finish_rebalance(play, {"a3": "i1", "b1": "i2"})
    assert play.group.leader == "a3"


@pytest.mark.parametrize(("leader", "follower"), [("a", "z"), ("z", "a")], ids=["first in the map", "last in the map"])
def test_leader_that_joins_again_leads_the_next_generation(leader, follower):
    play = Play()
    play.join(leader)
    play.sync_all()
    play.join(follower)
    play.join(leader)
    assert (play.group.generation, play.group.leader) == (2, leader)


def finish_rebalance(play: Play, members: Any) -> list[Any]:
    """All join once more: a rebalance that is under way ends, or one begins and ends."""
    if play.state is not State.PREPARING:
        play.join("d")
    parked = [member.member_id for member in play.group.members.values() if member.join is not None]
    if "c" in play.group.members and "c" not in parked:
        play.join("c")
    asks = [
        play.join_as(member_id, instance_id=instance_id, can_skip=True)
        for member_id, instance_id in members.items()
        if member_id not in parked
    ]
    assert play.state is State.COMPLETING
    return asks


def test_parked_requests_of_the_old_id_are_fenced():
    play = Play(delay=5.0)
    first = play.join_static("i", "a1")
    second = play.join_static("i", "a2")
    assert (first.error, first.answer.member_id) == (E.FENCED_INSTANCE_ID, "a1")
    play.wait(6.0)
    assert (second.error, second.listed) == (E.NONE, ["a2"])


def test_a_parked_sync_of_the_old_id_is_fenced():
    play = Play(delay=1.0)
    play.join_static("i1", "a1")
    play.join_static("i2", "b1")
    play.wait(2.0)
    parked = play.sync("b1")
    play.join_static("i2", "b2")
    assert parked.error is E.FENCED_INSTANCE_ID


def test_absent_static_members_stay_and_are_listed(play):
    ask = play.join("c", rebalance=60.0)
    play.join_as("a1", instance_id="i1")
    assert ask.parked
    while ask.parked:
        play.heartbeat("b1", instance_id="i2")
        play.wait(5.0)
    assert sorted(play.group.members) == ["a1", "b1", "c"]
    assert set(play.group.static) == {"i1", "i2"}


def test_an_absent_leader_is_replaced_by_who_came(play):
    ask = play.join("c")
    while ask.parked:
        play.heartbeat("a1", instance_id="i1")
        play.heartbeat("b1", instance_id="i2")
        play.wait(5.0)
    assert (ask.answer.leader, sorted(ask.listed)) == ("c", ["a1", "b1", "c"])


def test_join_phase_continues_while_all_static_members_are_away(play):
    play.join("c", rebalance=2.0)
    play.leave("c")
    for _ in range(50):
        play.wait(5.0)
        for member_id, instance_id in (("a1", "i1"), ("b1", "i2")):
            assert play.heartbeat(member_id, instance_id=instance_id) is E.REBALANCE_IN_PROGRESS
    assert (play.state, play.group.generation) == (State.PREPARING, 1)
    play.join_as("a1", instance_id="i1")
    asks = play.join_as("b1", instance_id="i2")
    assert (asks.error, asks.answer.generation_id) == (E.NONE, 2)


def test_a_static_member_goes_with_its_session(play):
    play.wait(11.0)
    assert (play.state, play.group.members, play.group.static) == (State.EMPTY, {}, {})


@pytest.mark.parametrize("instance_id", ["i1", "i2"], ids=["leader", "follower"])
def test_restart_of_a_static_member_renews_its_session(play, instance_id):
    play.wait(5.0)
    play.join_static(instance_id, "n")
    play.wait(5.5)
    assert list(play.group.static) == [instance_id]  # the other has been silent for its session
    play.wait(65.0)
    assert (play.state, play.group.members) == (State.EMPTY, {})


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
def test_leaving(play, member_id, instance_id, error):
    assert play.leave(member_id, instance_id=instance_id) == [error]
    assert ("i1" in play.group.static) is (error is not E.NONE)


def test_an_id_given_to_a_dynamic_member_is_no_static_members(play):
    play.ask_id("p")
    ask = play.join_as("p", instance_id="i3")
    assert (ask.error, ask.answer.member_id) == (E.UNKNOWN_SERVER_ERROR, "")
    assert "p" in play.group.pending


@pytest.mark.parametrize("instance_id", ["", "..", "x" * 300])
def test_any_instance_id_is_accepted(instance_id):
    play = Play()
    assert play.join_static(instance_id, "a1").error is E.NONE
    assert play.join_static(instance_id, "a2").error is E.NONE
    assert play.heartbeat("a1", instance_id=instance_id) is E.FENCED_INSTANCE_ID
