"""The classic group in virtual time.

The rules are those of docs/coordinator.md, under the headings "States of a classic group" to "Timers of a classic group".
"""

from __future__ import annotations

import pytest
from tools.play import RANGE, Play

from kwire import ErrorCode as E
from kwire.java import map_order
from kwire.messages.leave_group import LeaveGroupResponse
from mockbroker.base.effects import Reply, Ticket
from mockbroker.groups.classic import machine as classic
from mockbroker.groups.classic import rules, timers
from mockbroker.groups.classic.state import State
from mockbroker.groups.events import Heartbeat, Join, Leave, Leaving, Sync

EMPTY, PREPARING, COMPLETING, STABLE = State
OTHER = (("range", b"other"),)


@pytest.fixture
def play() -> Play:
    return Play()


# --- states and transitions ---------------------------------------------------------------------------------------

MOVES = [  # from, what happens, to
    pytest.param(EMPTY, lambda play: play.ask_id("p"), EMPTY, id="pending id leaves the group Empty"),
    pytest.param(EMPTY, lambda play: play.join("c"), COMPLETING, id="new member, no delay"),
    pytest.param(EMPTY, lambda play: play.commit(), EMPTY, id="a commit stays Empty"),
    pytest.param(EMPTY, lambda play: play.leave("a"), EMPTY, id="leave of an unknown member"),
    pytest.param(PREPARING, lambda play: play.wait(15.0), COMPLETING, id="sessions of all absent members expire"),
    pytest.param(PREPARING, lambda play: play.leave("a", "b"), COMPLETING, id="all absent members leave"),
    pytest.param(PREPARING, lambda play: play.leave("a", "b", "c"), EMPTY, id="all members leave in Preparing"),
    pytest.param(PREPARING, lambda play: play.leave("a"), PREPARING, id="one of two absent members leaves"),
    pytest.param(PREPARING, lambda play: play.join("d"), PREPARING, id="another member joins"),
    pytest.param(PREPARING, lambda play: play.sync("a"), PREPARING, id="sync in Preparing"),
    pytest.param(COMPLETING, lambda play: play.sync("a"), STABLE, id="leader synced"),
    pytest.param(COMPLETING, lambda play: play.sync("b"), COMPLETING, id="follower synced"),
    pytest.param(COMPLETING, lambda play: play.join("c"), PREPARING, id="new member in Completing"),
    pytest.param(COMPLETING, lambda play: play.join("b"), COMPLETING, id="unchanged rejoin in Completing"),
    pytest.param(
        COMPLETING, lambda play: play.join("a"), COMPLETING, id="unchanged rejoin of the leader in Completing"
    ),
    pytest.param(COMPLETING, lambda play: play.join("b", OTHER), PREPARING, id="changed metadata in Completing"),
    pytest.param(COMPLETING, lambda play: play.leave("b"), PREPARING, id="leave in Completing"),
    pytest.param(COMPLETING, lambda play: play.wait(10.0), EMPTY, id="all sessions expire in Completing"),
    pytest.param(STABLE, lambda play: play.join("c"), PREPARING, id="new member in Stable"),
    pytest.param(STABLE, lambda play: play.join("a"), PREPARING, id="leader rejoins"),
    pytest.param(STABLE, lambda play: play.join("b"), STABLE, id="follower rejoins"),
    pytest.param(STABLE, lambda play: play.join("b", OTHER), PREPARING, id="follower rejoins with changed metadata"),
    pytest.param(STABLE, lambda play: play.leave("b"), PREPARING, id="leave in Stable"),
    pytest.param(STABLE, lambda play: play.leave("a", "b"), EMPTY, id="all leave in Stable"),
    pytest.param(STABLE, lambda play: play.wait(10.0), EMPTY, id="all sessions expire in Stable"),
    pytest.param(STABLE, lambda play: play.ask_id("p"), STABLE, id="pending id in Stable"),
    pytest.param(STABLE, lambda play: play.heartbeat("a"), STABLE, id="heartbeat"),
]


@pytest.mark.parametrize(("before", "what", "after"), MOVES)
def test_moves(play, before, what, after):
    play.in_state(before)
    what(play)
    assert play.state is after


def test_generation_grows_when_the_group_empties(play):
    play.stable("a")
    play.leave("a")
    assert (play.state, play.group.generation, play.group.protocol) == (EMPTY, 2, None)
    assert play.group.protocol_type == "consumer"
    assert play.join("b").answer.generation_id == 3  # the empty generation was 2


def test_protocol_type_may_change_in_an_empty_group(play):
    play.stable("a")
    play.leave("a")
    assert play.join("b", protocol_type="connect").answer.protocol_type == "connect"


# --- initial rebalance delay --------------------------------------------------------------------------------------


def test_lone_member_is_answered_after_the_initial_delay():
    play = Play(delay=1.0)
    assert play.ask_id("a").error is E.MEMBER_ID_REQUIRED
    ask = play.join("a")
    play.wait(0.999)
    assert ask.parked
    play.wait(5.0)
    assert ask.at == 1.0
    answer = ask.answer
    assert (answer.generation_id, answer.leader, answer.member_id, answer.protocol_name) == (1, "a", "a", "range")
    assert [(member.member_id, member.metadata) for member in answer.members] == [("a", b"m")]
    assert not answer.skip_assignment


def test_second_member_extends_the_initial_delay_once():
    play = Play(delay=1.0)
    first = play.join("a")
    play.wait(0.5)
    second = play.join("b")
    play.wait(5.0)
    assert (first.at, second.at) == (2.0, 2.0)
    assert (first.answer.leader, second.answer.leader) == ("a", "a")
    assert set(first.listed) == {"a", "b"}
    assert second.listed == []


DELAYS = [  # delay, rebalance timeout of the first, when others join, answered at
    pytest.param(3.0, 60.0, [], 3.0, id="lone member"),
    pytest.param(3.0, 60.0, [1.0], 6.0, id="one extension"),
    pytest.param(3.0, 60.0, [1.0, 4.0, 7.0], 12.0, id="one extension for each round with a new member"),
    pytest.param(3.0, 60.0, [1.0, 2.0], 6.0, id="two new members in one round"),
    pytest.param(3.0, 10.0, [1.0, 4.0, 7.0, 9.5], 10.0, id="at most the rebalance timeout of the first member"),
    pytest.param(3.0, 4.0, [1.0], 4.0, id="the last extension is cut short"),
    pytest.param(3.0, 1.0, [1.0], 3.0, id="rebalance timeout below the delay"),
    pytest.param(3.0, 3.0, [1.0], 3.0, id="rebalance timeout equal to the delay"),
    pytest.param(3.0, 60.0, [3.5], 3.0, id="member after the delay"),
]


@pytest.mark.parametrize(("delay", "rebalance", "joins", "at"), DELAYS)
def test_initial_delay(delay, rebalance, joins, at):
    play = Play(delay=delay)
    first = play.join("a", rebalance=rebalance)
    for number, when in enumerate(joins):
        play.wait(when - play.now)
        play.join(f"late-{number}")
    play.wait(60.0)
    assert first.at == at


def test_initial_delay_of_zero_completes_at_once(play):
    assert play.join("a").at == 0.0


def test_initial_delay_runs_though_all_have_joined():
    play = Play(delay=3.0)
    play.join("a")
    ask = play.join("a")  # again, on another connection
    play.wait(2.9)
    assert ask.parked


def test_rejoin_does_not_extend_the_initial_delay():
    play = Play(delay=3.0)
    play.join("a")
    play.wait(1.0)
    ask = play.join("a", OTHER)
    play.wait(10.0)
    assert ask.at == 3.0


def test_pending_ids_do_not_hold_the_first_generation():
    play = Play(delay=3.0)
    play.ask_id("p", session=30.0)
    ask = play.join("a")
    play.wait(10.0)
    assert ask.at == 3.0


def test_only_member_leaves_during_the_initial_delay():
    play = Play(delay=1.0)
    ask = play.join("a")
    assert play.leave("a") == [E.NONE]
    assert (ask.error, ask.answer.member_id) == (E.UNKNOWN_MEMBER_ID, "")
    assert play.state is PREPARING
    play.wait(1.0)
    assert play.state is EMPTY
    play.join("b")
    play.wait(1.0)
    assert play.group.generation == 2


def test_emptied_group_has_the_initial_delay_again():
    play = Play(delay=1.0)
    for name in ("x", "y"):
        play.join(name)
        play.wait(1.0)
        play.leave(name)
    begin = play.now
    first = play.join("a")
    play.wait(0.4)
    second = play.join("b")
    play.wait(5.0)
    assert (first.at - begin, second.at - begin) == (2.0, 2.0)


def test_no_initial_delay_for_a_group_with_members(play):
    play.stable("a")
    play.group.initial_delay = 3.0
    play.join("b")
    assert play.join("a").at == play.now


# --- pending member ids -------------------------------------------------------------------------------------------


def test_pending_id_is_no_member(play):
    ask = play.ask_id("p")
    answer = ask.answer
    assert (ask.error, answer.member_id, answer.generation_id) == (E.MEMBER_ID_REQUIRED, "p", -1)
    assert (answer.leader, answer.members, answer.protocol_name) == ("", [], None)
    assert play.heartbeat("p", 0) is E.UNKNOWN_MEMBER_ID
    assert play.sync("p", generation=0).error is E.UNKNOWN_MEMBER_ID
    assert play.leave("p") == [E.NONE]
    assert play.join_as("p").error is E.UNKNOWN_MEMBER_ID
    assert play.state is EMPTY
    assert len(play.group.waits) == 0


def test_pending_id_holds_the_join_phase_until_it_joins(play):
    play.stable("a")
    play.ask_id("p")
    rejoined = play.join("a")
    assert rejoined.parked
    joined = play.join("p")
    assert rejoined.answer.generation_id == joined.answer.generation_id == 2


def test_unused_pending_id_holds_for_its_session_timeout(play):
    play.stable("a", "b")
    play.ask_id("p", session=3.0)
    play.wait(1.0)
    asks = [play.join("a"), play.join("b")]
    play.wait(1.9)
    assert asks[0].parked
    play.wait(5.0)
    assert [ask.at for ask in asks] == [5.0, 5.0]  # given at 2.0
    assert play.group.pending == {}


def test_rebalance_timeout_does_not_wait_for_pending_ids(play):
    play.stable("a", rebalance=2.0)
    play.ask_id("p", session=30.0)
    ask = play.join("a", rebalance=2.0)
    begin = play.now
    play.wait(5.0)
    assert ask.at - begin == 2.0
    assert list(play.group.pending) == ["p"]


def test_pending_id_that_leaves_completes_the_join_phase(play):
    play.stable("a")
    play.ask_id("p")
    ask = play.join("a")
    assert play.leave("p") == [E.NONE]
    assert ask.error is E.NONE


def test_pending_id_expires_after_its_session_timeout(play):
    play.ask_id("p", session=2.0)
    play.wait(1.999)
    assert "p" in play.group.pending
    play.wait(0.001)
    assert play.join_as("p").error is E.UNKNOWN_MEMBER_ID
    assert play.state is EMPTY


def test_pending_id_that_joined_does_not_expire(play):
    play.ask_id("p", session=2.0)
    play.wait(1.0)
    play.join("p", session=30.0)
    play.sync("p")
    play.wait(5.0)
    assert "p" in play.group.members


def test_refused_join_keeps_the_id_pending(play):
    play.stable("a")
    play.ask_id("p")
    refused = play.join_as("p", protocols=(("other", b""),))
    assert (refused.error, refused.answer.member_id) == (E.INCONSISTENT_GROUP_PROTOCOL, "p")
    assert "p" in play.group.pending


# --- JoinGroup ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "member_id", "protocols", "error"),
    [
        pytest.param(EMPTY, "old", RANGE, E.UNKNOWN_MEMBER_ID, id="old id in an Empty group"),
        pytest.param(STABLE, "z", RANGE, E.UNKNOWN_MEMBER_ID, id="unknown id"),
        pytest.param(PREPARING, "z", RANGE, E.UNKNOWN_MEMBER_ID, id="unknown id, preparing"),
        pytest.param(
            STABLE,
            "z",
            (("x", b""),),
            E.INCONSISTENT_GROUP_PROTOCOL,
            id="INCONSISTENT_GROUP_PROTOCOL before UNKNOWN_MEMBER_ID",
        ),
        pytest.param(STABLE, "a", (("x", b""),), E.INCONSISTENT_GROUP_PROTOCOL, id="member without a common protocol"),
        pytest.param(STABLE, "", (("x", b""),), E.INCONSISTENT_GROUP_PROTOCOL, id="unsupported name"),
    ],
)
def test_join_refused(play, state, member_id, protocols, error):
    play.in_state(state)
    members = dict(play.group.members)
    ask = play.join_as(member_id, "new", protocols)
    answer = ask.answer
    assert (ask.error, answer.member_id, answer.generation_id) == (error, member_id, -1)
    assert (answer.leader, answer.members, answer.protocol_name, answer.protocol_type) == ("", [], None, None)
    assert play.group.members == members
    assert play.state is state


def test_other_protocol_type_is_inconsistent(play):
    play.stable("a")
    assert play.join("b", protocol_type="connect").error is E.INCONSISTENT_GROUP_PROTOCOL


def test_rejoin_is_checked_with_the_old_protocols_of_the_member(play):
    play.stable("a")
    assert play.join_as("a", protocols=(("sticky", b""),)).error is E.INCONSISTENT_GROUP_PROTOCOL


def test_second_join_replaces_the_pending_one(play):
    play.stable("a", "b")
    first = play.join("a")
    second = play.join("a")
    play.join("b")
    assert first.parked
    assert second.error is E.NONE


def test_unchanged_join_in_completing_is_answered_at_once(play):
    play.completing("a", "b")
    leader, follower = play.join("a"), play.join("b")
    assert leader.answer.generation_id == follower.answer.generation_id == play.group.generation == 1
    assert set(leader.listed) == {"a", "b"}
    assert follower.listed == []


def test_leader_with_new_metadata_in_completing_rebalances(play):
    play.completing("a", "b")
    sync = play.sync("b")
    ask = play.join("a", OTHER)
    assert sync.error is E.REBALANCE_IN_PROGRESS
    assert sync.answer.assignment == b""
    assert ask.parked


def test_unchanged_follower_in_stable_is_answered_at_once(play):
    play.stable("a", "b")
    ask = play.join("b")
    answer = ask.answer
    assert (answer.generation_id, answer.leader, answer.member_id, answer.members) == (1, "a", "b", [])
    assert play.sync("b").answer.assignment == b"of b"


def test_join_answered_at_once_keeps_the_old_timeouts(play):
    play.stable("a", "b", session=10.0, rebalance=60.0)
    play.join("b", session=20.0, rebalance=90.0)
    found = play.group.members["b"]
    assert (found.session_timeout, found.rebalance_timeout) == (10.0, 60.0)


def test_changed_join_updates_the_timeouts(play):
    play.stable("a", "b")
    play.join("b", OTHER, session=20.0, rebalance=90.0)
    found = play.group.members["b"]
    assert (found.session_timeout, found.rebalance_timeout, found.protocols) == (20.0, 90.0, OTHER)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param((("range", b"n"), ("sticky", b"s")), id="metadata"),
        pytest.param((("sticky", b"s"), ("range", b"m")), id="order"),
        pytest.param((("range", b"m"),), id="one less"),
        pytest.param((("range", b"m"), ("sticky", b"s"), ("x", b"")), id="one more"),
        pytest.param((("range", b""), ("sticky", b"s")), id="empty metadata"),
    ],
)
def test_any_difference_of_protocols_is_a_change(play, changed):
    play.stable("a", "b", protocols=(("range", b"m"), ("sticky", b"s")))
    ask = play.join("b", changed)
    assert ask.parked
    assert play.state is PREPARING


def test_equal_protocols_in_another_sequence_are_no_change(play):
    play.stable("a", "b")
    assert play.join("b", list(RANGE)).error is E.NONE
    assert play.state is STABLE


def test_leader_that_rejoins_stays_leader(play):
    play.stable("a", "b")
    asks = [play.join("c"), play.join("b"), play.join("a")]
    assert {ask.answer.leader for ask in asks} == {"a"}
    assert {ask.answer.generation_id for ask in asks} == {2}
    assert set(asks[2].listed) == {"a", "b", "c"}
    assert asks[0].listed == asks[1].listed == []


def test_absent_leader_is_replaced_in_map_order(play):
    names = ["first", "second", "third", "fourth"]
    play.stable(*names, rebalance=5.0, session=30.0)
    asks = {name: play.join(name, OTHER, rebalance=5.0, session=30.0) for name in names[1:]}
    play.wait(5.0)
    expected = map_order(names[1:])[0]
    assert {ask.answer.leader for ask in asks.values()} == {expected}
    assert asks[expected].listed == map_order(names[1:])


def test_leader_that_leaves_is_replaced_in_map_order(play):
    names = ["first", "second", "third", "fourth"]
    play.stable(*names)
    play.leave("first")
    assert play.group.leader == map_order(names[1:])[0]


def test_empty_group_has_no_leader(play):
    play.stable("a")
    play.leave("a")
    assert play.group.leader == ""
    play.join("b")
    assert play.group.leader == "b"


def test_leader_gets_the_chosen_protocol_in_map_order(play):
    names = ["zeta", "alpha", "mid"]
    play.group.initial_delay = 1.0
    asks = [play.join(name, (("sticky", b"s " + name.encode()), ("range", b"r"))) for name in names]
    play.wait(5.0)
    assert asks[0].listed == map_order(names)
    assert {member.metadata for member in asks[0].answer.members} == {b"s zeta", b"s alpha", b"s mid"}


def test_tie_of_protocol_votes_goes_to_range(play):
    play.group.initial_delay = 1.0
    ask = play.join("a", (("roundrobin", b""), ("range", b"")))
    play.join("b", (("range", b""), ("roundrobin", b"")))
    play.wait(5.0)
    assert ask.answer.protocol_name == "range"


def test_rebalance_timeout_removes_members_that_do_not_rejoin(play):
    play.stable("a", session=10.0, rebalance=1.5)
    begin = play.now
    ask = play.join("b", rebalance=1.0)
    play.wait(1.0)
    assert play.heartbeat("a") is E.REBALANCE_IN_PROGRESS
    play.wait(2.0)
    assert ask.at - begin == 1.5
    assert (ask.answer.leader, ask.listed) == ("b", ["b"])
    assert play.heartbeat("a") is E.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(("of_old", "of_new"), [pytest.param(2.5, 1.5, id="old"), pytest.param(1.5, 2.5, id="new")])
def test_longest_rebalance_timeout_counts(play, of_old, of_new):
    play.stable("a", session=10.0, rebalance=of_old)
    begin = play.now
    ask = play.join("b", rebalance=of_new)
    play.wait(5.0)
    assert ask.at - begin == 2.5


def test_rebalance_timeout_is_set_when_the_join_phase_begins(play):
    play.stable("a", session=30.0, rebalance=2.0)
    begin = play.now
    ask = play.join("b", rebalance=1.0)
    play.wait(1.0)
    play.join("c", rebalance=50.0)
    play.wait(10.0)
    assert ask.at - begin == 2.0


@pytest.mark.parametrize("rebalance", [0.0, -0.001])
def test_zero_and_negative_rebalance_timeouts(play, rebalance):
    ask = play.join("a", rebalance=rebalance)
    assert ask.error is E.NONE
    play.wait(1.0)  # nobody can sync so fast
    assert play.state is EMPTY


def test_pending_join_is_answered_when_its_member_leaves(play):
    play.stable("a", "b")
    ask = play.join("a")
    assert play.leave("a") == [E.NONE]
    answer = ask.answer
    assert (ask.error, answer.member_id, answer.generation_id) == (E.UNKNOWN_MEMBER_ID, "", -1)


def test_new_member_may_wait_five_minutes():
    play = Play(delay=1_000.0)
    ask = play.join("a", session=1.0)
    play.wait(rules.NEW_MEMBER_TIMEOUT - 0.001)
    assert ask.parked
    play.wait(0.001)
    assert (ask.error, ask.answer.member_id) == (E.UNKNOWN_MEMBER_ID, "")
    assert play.group.members == {}
    assert play.state is PREPARING  # to the end of the delay


def test_new_member_that_heartbeats_has_its_session_timeout():
    play = Play(delay=100.0)
    ask = play.join("a", session=2.0)
    assert play.heartbeat("a", 0) is E.REBALANCE_IN_PROGRESS  # 4.2
    assert play.heartbeat("a", -1) is E.ILLEGAL_GENERATION
    play.wait(2.0)
    assert (ask.error, ask.at) == (E.UNKNOWN_MEMBER_ID, 2.0)


def test_five_minutes_end_with_the_join_answer(play):
    play.join("a", session=2.0)
    play.sync("a")
    play.wait(2.0)
    assert play.state is EMPTY


# --- SyncGroup ----------------------------------------------------------------------------------------------------


def test_follower_sync_waits_for_the_leader(play):
    play.completing("a", "b")
    follower = play.sync("b")
    assert follower.parked
    leader = play.sync("a", {"a": b"1", "b": b"2", "nobody": b"3"})
    assert (leader.answer.assignment, follower.answer.assignment) == (b"1", b"2")
    assert (leader.answer.protocol_type, leader.answer.protocol_name) == ("consumer", "range")
    assert play.state is STABLE


def test_late_follower_sync_is_answered_in_stable(play):
    play.completing("a", "b")
    play.sync("a", {"b": b"2"})
    assert play.sync("b").answer.assignment == b"2"


def test_missing_assignment_is_zero_bytes(play):
    play.completing("a")
    assert play.sync("a").answer.assignment == b""
    assert play.sync("a", {"a": b"late"}).answer.assignment == b""


def test_assignments_of_a_follower_are_ignored(play):
    play.completing("a", "b")
    play.sync("b", {"a": b"mine", "b": b"mine"})
    assert play.sync("a", {"a": b"1", "b": b"2"}).answer.assignment == b"1"
    assert play.sync("b", {"b": b"mine"}).answer.assignment == b"2"


def test_second_sync_replaces_the_pending_one(play):
    play.completing("a", "b")
    first, second = play.sync("b"), play.sync("b")
    play.sync("a", {"b": b"2"})
    assert first.parked
    assert second.answer.assignment == b"2"


def test_pending_sync_is_answered_when_a_member_leaves(play):
    play.completing("a", "b", "c")
    ask = play.sync("b")
    play.leave("c")
    assert ask.error is E.REBALANCE_IN_PROGRESS
    assert (ask.answer.assignment, ask.answer.protocol_type, ask.answer.protocol_name) == (b"", None, None)


def test_pending_sync_of_a_member_that_leaves_is_dropped(play):
    play.completing("a", "b")
    ask = play.sync("b")
    play.leave("b")
    play.join("a")
    play.sync_all()
    assert ask.parked


def test_assignments_are_cleared_when_completing_ends(play):
    play.stable("a", "b")
    play.join("a")
    play.join("b")
    play.join("c")
    assert {member.assignment for member in play.group.members.values()} == {b""}


def test_assignments_are_opaque(play):
    play.completing("a")
    assert play.sync("a", {"a": b"\xff" * 70_000}).answer.assignment == b"\xff" * 70_000


# --- pending sync timer -------------------------------------------------------------------------------------------


def test_member_that_never_syncs_is_removed(play):
    ask = play.join("a", session=2.0, rebalance=3.0)
    assert ask.at == 0.0
    play.wait(1.5)
    assert play.heartbeat("a") is E.NONE
    play.wait(1.4)
    assert play.heartbeat("a") is E.NONE
    play.wait(0.1)
    assert play.heartbeat("a") is E.UNKNOWN_MEMBER_ID
    assert (play.state, play.group.generation) == (EMPTY, 2)
    assert play.join("b").answer.generation_id == 3  # one more than the emptied one: gen + 2


def test_only_members_without_a_sync_are_removed(play):
    play.completing("a", "b", "c", session=30.0, rebalance=3.0)
    play.sync("a", {"a": b"1"})
    play.sync("b")
    play.wait(3.0)
    assert set(play.group.members) == {"a", "b"}
    assert play.state is PREPARING
    assert play.heartbeat("a") is E.REBALANCE_IN_PROGRESS


def test_leader_that_never_syncs_is_removed(play):
    play.completing("a", "b", session=30.0, rebalance=3.0)
    ask = play.sync("b")
    play.wait(3.0)
    assert ask.error is E.REBALANCE_IN_PROGRESS
    assert set(play.group.members) == {"b"}
    assert play.group.leader == "b"


def test_pending_sync_timer_ends_when_all_have_synced(play):
    play.completing("a", "b", session=30.0, rebalance=3.0)
    play.sync("a", {"a": b"1"})
    play.sync("b")
    play.wait(10.0)
    assert play.state is STABLE


def test_rebalance_cancels_the_pending_sync_timer(play):
    play.completing("a", "b", session=30.0, rebalance=3.0)
    play.wait(2.0)
    play.join("c", rebalance=3.0)
    play.wait(2.0)
    assert set(play.group.members) == {"a", "b", "c"}
    assert play.state is PREPARING


# --- sessions -----------------------------------------------------------------------------------------------------


def test_silent_member_is_removed_after_its_session(play):
    play.completing("a", session=60.0)
    play.join("b", session=2.0)
    play.join("a", session=60.0)
    play.sync_all()
    begin = play.now
    play.wait(1.999)
    assert play.heartbeat("a") is E.NONE
    play.wait(0.001)
    assert play.heartbeat("a") is E.REBALANCE_IN_PROGRESS
    assert play.heartbeat("b") is E.UNKNOWN_MEMBER_ID
    assert play.now - begin == 2.0


SIGNS = [  # state, what the member does at 0.8 s of a session of 1.2 s, alive at 1.6 s
    pytest.param(STABLE, lambda play: play.heartbeat("b"), E.NONE, True, id="heartbeat in Stable"),
    pytest.param(STABLE, lambda play: play.commit("b", play.group.generation), E.NONE, True, id="commit in Stable"),
    pytest.param(
        STABLE, lambda play: play.commit("b", 99), E.ILLEGAL_GENERATION, False, id="commit with ILLEGAL_GENERATION"
    ),
    pytest.param(STABLE, lambda play: play.sync("b").error, E.NONE, False, id="sync in Stable"),
    pytest.param(
        STABLE, lambda play: play.join("b", session=1.2).error, E.NONE, False, id="unchanged rejoin of a follower"
    ),
    pytest.param(
        STABLE,
        lambda play: play.heartbeat("b", 99),
        E.ILLEGAL_GENERATION,
        False,
        id="heartbeat with ILLEGAL_GENERATION",
    ),
    pytest.param(COMPLETING, lambda play: play.heartbeat("b"), E.NONE, True, id="heartbeat in Completing"),
    pytest.param(
        COMPLETING,
        lambda play: play.commit("b", play.group.generation),
        E.REBALANCE_IN_PROGRESS,
        False,
        id="commit with REBALANCE_IN_PROGRESS",
    ),
    pytest.param(
        PREPARING, lambda play: play.heartbeat("b"), E.REBALANCE_IN_PROGRESS, True, id="heartbeat in Preparing"
    ),
    pytest.param(
        PREPARING, lambda play: play.commit("b", play.group.generation), E.NONE, True, id="commit in Preparing"
    ),
    pytest.param(PREPARING, lambda play: play.sync("b").error, E.REBALANCE_IN_PROGRESS, False, id="sync in Preparing"),
    pytest.param(
        PREPARING, lambda play: play.commit("z", 1), E.UNKNOWN_MEMBER_ID, False, id="commit of an unknown member"
    ),
]


@pytest.mark.parametrize(("state", "sign", "answer", "alive"), SIGNS)
def test_signs_of_life(play, state, sign, answer, alive):
    play.completing("a", session=60.0)
    play.join("b", session=1.2)
    play.join("a", session=60.0)
    assert play.state is COMPLETING
    if state is not COMPLETING:
        play.sync_all()
    if state is PREPARING:
        play.join("c")
    begin = play.now
    play.wait(0.8)
    assert sign(play) is answer
    play.wait(0.8)
    assert ("b" in play.group.members) is alive
    if alive:
        play.wait(begin + 2.0 - play.now)
        assert "b" not in play.group.members


def test_pending_join_outlives_the_session(play):
    play.stable("a", "b", session=1.2, rebalance=3.0)
    begin = play.now
    ask = play.join("a", session=1.2, rebalance=3.0)
    for _ in range(2):
        play.wait(1.0)
        play.heartbeat("b")
    play.wait(1.0)
    assert (ask.error, ask.at - begin) == (E.NONE, 3.0)
    play.wait(1.199)
    assert "a" in play.group.members  # the session begins anew with the answer
    play.wait(0.001)
    assert "a" not in play.group.members


def test_pending_sync_outlives_the_session(play):
    play.completing("a", session=60.0)
    play.join("b", session=1.2)
    play.join("a", session=60.0)
    ask = play.sync("b")
    play.wait(2.5)
    assert ask.parked
    play.sync("a", {"b": b"2"})
    assert ask.answer.assignment == b"2"
    play.wait(1.2)
    assert "b" not in play.group.members


def test_sync_that_must_rejoin_renews_the_session(play):
    play.completing("a", session=60.0)
    play.join("b", session=1.2)
    play.join("a", session=60.0)
    play.sync("b")
    play.wait(2.0)
    play.join("c")
    play.wait(1.199)
    assert "b" in play.group.members
    play.wait(0.001)
    assert "b" not in play.group.members


def test_session_expiry_may_complete_the_join_phase(play):
    play.stable("a", "b", session=2.0)
    begin = play.now
    ask = play.join("a", session=2.0)
    play.wait(2.0)
    assert ask.at - begin == 2.0
    assert set(play.group.members) == {"a"}


def test_several_deadlines_at_one_time(play):
    play.stable("a", "b", "c", session=2.0)
    play.ask_id("p", session=2.0)
    play.wait(2.0)
    assert (play.state, play.group.members, play.group.pending) == (EMPTY, {}, {})
    assert len(play.group.waits) == 0


def test_late_tick_handles_every_due_deadline(play):
    play.stable("a", "b", session=2.0, rebalance=3.0)
    ask = play.join("c", session=2.0, rebalance=3.0)
    play.now += 1_000.0
    play._take(timers.tick(play.group, play.now))
    assert not ask.parked
    assert play.group.waits.next() > play.now


# --- LeaveGroup ---------------------------------------------------------------------------------------------------


def test_leave_batch_answers_each_member_with_its_ids(play):
    play.stable("me")
    ask = play._ask()
    members = [
        Leaving(member_id="me"),
        Leaving(member_id="unknown"),
        Leaving(member_id="", instance_id="unknown"),
    ]
    play._tell(ask, Leave(ticket=ask.ticket, members=members))
    assert ask.answer == LeaveGroupResponse(
        members=[
            LeaveGroupResponse.Member(member_id="me", group_instance_id=None, error_code=E.NONE),
            LeaveGroupResponse.Member(member_id="unknown", group_instance_id=None, error_code=E.UNKNOWN_MEMBER_ID),
            LeaveGroupResponse.Member(member_id="", group_instance_id="unknown", error_code=E.UNKNOWN_MEMBER_ID),
        ]
    )
    assert (play.state, play.group.protocol_type) == (EMPTY, "consumer")


def test_leave_batch_starts_one_rebalance(play):
    play.stable("a", "b", "c")
    play.leave("b", "c")
    assert [note.event for note in play.notes].count("rebalance") == 2  # the first generation, and this
    assert play.join("a").answer.generation_id == 2


@pytest.mark.parametrize(
    ("ids", "answers"),
    [
        pytest.param(["a", "a"], [E.NONE, E.UNKNOWN_MEMBER_ID], id="twice in one batch"),
        pytest.param(["z"], [E.UNKNOWN_MEMBER_ID], id="unknown"),
        pytest.param([""], [E.UNKNOWN_MEMBER_ID], id="empty id"),
        pytest.param([], [], id="no members"),
        pytest.param(["p", "a"], [E.NONE, E.NONE], id="a pending id and a member"),
    ],
)
def test_leave(play, ids, answers):
    play.stable("a", "b")
    play.ask_id("p")
    assert play.leave(*ids) == answers


def test_unknown_instance_of_a_known_member(play):
    play.stable("a")
    assert play.leave("a", instance_id="i") == [E.UNKNOWN_MEMBER_ID]
    assert "a" in play.group.members


def test_pending_id_leaves_whatever_its_instance_id(play):
    play.ask_id("p")
    assert play.leave("p", instance_id="i") == [E.NONE]
    assert "p" not in play.group.pending


def test_leave_does_not_cut_the_initial_delay():
    play = Play(delay=3.0)
    ask = play.join("a")
    play.join("b")
    play.leave("b")
    play.wait(1.0)
    assert ask.parked


# --- a rebalance while it runs ------------------------------------------------------------------------------------


def test_third_member_rebalances_a_stable_group(play):
    play.stable("a", "b")
    play.ask_id("c")
    assert play.heartbeat("a") is E.NONE
    play.join("c")
    assert play.heartbeat("a") is E.REBALANCE_IN_PROGRESS
    assert play.sync("a").error is E.REBALANCE_IN_PROGRESS
    assert play.commit("a", 1) is E.NONE
    assert play.state is PREPARING


# --- a group that does not exist ---------------------------------------------------------------------------------

TICKET = Ticket(1, 1, 0, 0)
JOIN = Join(
    ticket=TICKET,
    member_id="z",
    fresh_id="",
    id_required=True,
    client_id="",
    client_host="",
    session_timeout=1.0,
    rebalance_timeout=1.0,
    protocol_type="consumer",
    protocols=RANGE,
)


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(JOIN, id="join with an id"),
        pytest.param(Sync(ticket=TICKET, member_id="z", generation=1), id="sync"),
        pytest.param(Heartbeat(ticket=TICKET, member_id="z", generation=1), id="heartbeat"),
    ],
)
def test_absent_group(event):
    (reply,) = classic.absent(event)
    assert isinstance(reply, Reply)
    assert reply.response.error_code == E.UNKNOWN_MEMBER_ID
    assert getattr(reply.response, "member_id", "z") == "z"


def test_leave_of_an_absent_group():
    (reply,) = classic.absent(Leave(ticket=TICKET, members=[Leaving(member_id="z"), Leaving(member_id="y")]))
    assert isinstance(reply, Reply)
    assert reply.response.error_code == E.NONE
    assert [member.error_code for member in reply.response.members] == [E.UNKNOWN_MEMBER_ID] * 2


# --- metadata is opaque ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "metadata",
    [b"", b"\x00", b"\xff" * 64, b"\x00\x01\x7f\xff\xff\xff", b"x" * 2_000_000],
    ids=["empty", "one byte", "ff", "a count that lies", "2 MB"],
)
def test_unreadable_metadata_is_stored(play, metadata):
    ask = play.join("a", (("range", metadata),))
    assert [member.metadata for member in ask.answer.members] == [metadata]


def test_first_of_duplicate_protocol_names_wins(play):
    ask = play.join("a", (("range", b"first"), ("range", b"second")))
    assert ask.answer.protocol_name == "range"
    assert [member.metadata for member in ask.answer.members] == [b"first"]
    play.sync("a")
    again = play.join("a", (("range", b"first"), ("range", b"third")))
    assert [member.metadata for member in again.answer.members] == [b"first"]


def test_thousand_protocols_and_an_empty_name(play):
    play.group.initial_delay = 1.0
    many = tuple((f"p{number}", b"") for number in range(1_000))
    ask = play.join("a", (("", b"nameless"), *many))
    play.join("b", (("", b""),))
    play.wait(5.0)
    assert ask.answer.protocol_name == ""
    assert {member.metadata for member in ask.answer.members} == {b"nameless", b""}


# --- the journal's notes -----------------------------------------------------------------------------------------


def test_notes_tell_the_story(play):
    play.ask_id("a")
    play.join("a")
    play.sync("a", {"a": b"1"})
    play.leave("a")
    assert [note.event for note in play.notes] == [
        "id_given",
        "join",
        "rebalance",
        "generation",
        "sync",
        "assign",
        "leave",
        "rebalance",
        "empty",
    ]
    assert [note.generation for note in play.notes if note.event in ("generation", "empty")] == [1, 2]
