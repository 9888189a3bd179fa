"""The state machine of a classic group in virtual time.

The rules are those of docs/coordinator.md, under the headings "States of a classic group" to "Timers of a classic group".
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tools.group_harness import RANGE, GroupHarness

from kwire import ErrorCode as E
from kwire.java import map_order
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.leave_group import LeaveGroupResponse
from mockbroker.base.effects import Reply, Ticket
from mockbroker.base.release import RELEASES
from mockbroker.base.settings import Settings
from mockbroker.groups.classic import machine as classic
from mockbroker.groups.classic import phases, rules, timers
from mockbroker.groups.classic.group_type import CLASSIC_TYPE
from mockbroker.groups.classic.heartbeat import renew_valid_session
from mockbroker.groups.classic.state import ClassicGroup, State
from mockbroker.groups.events import Evict, Heartbeat, Join, Leave, LeavingMember, Rebalance, Sync

EMPTY, PREPARING, COMPLETING, STABLE = State
OTHER = (("range", b"other"),)


@pytest.fixture
def harness() -> GroupHarness:
    return GroupHarness()


# --- states and transitions ---------------------------------------------------------------------------------------

MOVES = [  # from, event, to
    pytest.param(EMPTY, lambda harness: harness.ask_id("p"), EMPTY, id="pending id leaves the group Empty"),
    pytest.param(EMPTY, lambda harness: harness.join("c"), COMPLETING, id="new member, no delay"),
    pytest.param(EMPTY, lambda harness: harness.commit(), EMPTY, id="a commit stays Empty"),
    pytest.param(EMPTY, lambda harness: harness.leave("a"), EMPTY, id="leave of an unknown member"),
    pytest.param(PREPARING, lambda harness: harness.wait(15.0), COMPLETING, id="sessions of all absent members expire"),
    pytest.param(PREPARING, lambda harness: harness.leave("a", "b"), COMPLETING, id="all absent members leave"),
    pytest.param(PREPARING, lambda harness: harness.leave("a", "b", "c"), EMPTY, id="all members leave in Preparing"),
    pytest.param(PREPARING, lambda harness: harness.leave("a"), PREPARING, id="one of two absent members leaves"),
    pytest.param(PREPARING, lambda harness: harness.join("d"), PREPARING, id="another member joins"),
    pytest.param(PREPARING, lambda harness: harness.sync("a"), PREPARING, id="sync in Preparing"),
    pytest.param(COMPLETING, lambda harness: harness.sync("a"), STABLE, id="leader synced"),
    pytest.param(COMPLETING, lambda harness: harness.sync("b"), COMPLETING, id="follower synced"),
    pytest.param(COMPLETING, lambda harness: harness.join("c"), PREPARING, id="new member in Completing"),
    pytest.param(COMPLETING, lambda harness: harness.join("b"), COMPLETING, id="unchanged rejoin in Completing"),
    pytest.param(
        COMPLETING, lambda harness: harness.join("a"), COMPLETING, id="unchanged rejoin of the leader in Completing"
    ),
    pytest.param(COMPLETING, lambda harness: harness.join("b", OTHER), PREPARING, id="changed metadata in Completing"),
    pytest.param(COMPLETING, lambda harness: harness.leave("b"), PREPARING, id="leave in Completing"),
    pytest.param(COMPLETING, lambda harness: harness.wait(10.0), EMPTY, id="all sessions expire in Completing"),
    pytest.param(STABLE, lambda harness: harness.join("c"), PREPARING, id="new member in Stable"),
    pytest.param(STABLE, lambda harness: harness.join("a"), PREPARING, id="leader rejoins"),
    pytest.param(STABLE, lambda harness: harness.join("b"), STABLE, id="follower rejoins"),
    pytest.param(
        STABLE, lambda harness: harness.join("b", OTHER), PREPARING, id="follower rejoins with changed metadata"
    ),
    pytest.param(STABLE, lambda harness: harness.leave("b"), PREPARING, id="leave in Stable"),
    pytest.param(STABLE, lambda harness: harness.leave("a", "b"), EMPTY, id="all leave in Stable"),
    pytest.param(STABLE, lambda harness: harness.wait(10.0), EMPTY, id="all sessions expire in Stable"),
    pytest.param(STABLE, lambda harness: harness.ask_id("p"), STABLE, id="pending id in Stable"),
    pytest.param(STABLE, lambda harness: harness.heartbeat("a"), STABLE, id="heartbeat"),
]


@pytest.mark.parametrize(("before", "what", "after"), MOVES)
def test_state_transitions(harness, before, what, after):
    harness.in_state(before)
    what(harness)
    assert harness.state is after


def test_generation_grows_when_the_group_empties(harness):
    harness.stable("a")
    harness.leave("a")
    assert (harness.state, harness.group.generation, harness.group.protocol) == (EMPTY, 2, None)
    assert harness.group.protocol_type == "consumer"
    assert harness.join("b").answer.generation_id == 3  # the empty generation was 2


def test_protocol_type_may_change_in_an_empty_group(harness):
    harness.stable("a")
    harness.leave("a")
    assert harness.join("b", protocol_type="connect").answer.protocol_type == "connect"


# --- initial rebalance delay --------------------------------------------------------------------------------------


def test_lone_member_is_answered_after_the_initial_delay():
    harness = GroupHarness(delay=1.0)
    assert harness.ask_id("a").error is E.MEMBER_ID_REQUIRED
    ask = harness.join("a")
    harness.wait(0.999)
    assert ask.parked
    harness.wait(5.0)
    assert ask.at == 1.0
    answer = ask.answer
    assert (answer.generation_id, answer.leader, answer.member_id, answer.protocol_name) == (1, "a", "a", "range")
    assert [(member.member_id, member.metadata) for member in answer.members] == [("a", b"m")]
    assert not answer.skip_assignment


def test_second_member_extends_the_initial_delay_once():
    harness = GroupHarness(delay=1.0)
    first = harness.join("a")
    harness.wait(0.5)
    second = harness.join("b")
    harness.wait(5.0)
    assert (first.at, second.at) == (2.0, 2.0)
    assert (first.answer.leader, second.answer.leader) == ("a", "a")
    assert set(first.listed) == {"a", "b"}
    assert second.listed == []


DELAYS = [  # delay, rebalance timeout of the first member, join times of the others, time of the responses
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
    harness = GroupHarness(delay=delay)
    first = harness.join("a", rebalance=rebalance)
    for number, when in enumerate(joins):
        harness.wait(when - harness.now)
        harness.join(f"late-{number}")
    harness.wait(60.0)
    assert first.at == at


def test_initial_delay_of_zero_completes_at_once(harness):
    assert harness.join("a").at == 0.0


def test_initial_delay_runs_though_all_have_joined():
    harness = GroupHarness(delay=3.0)
    harness.join("a")
    ask = harness.join("a")  # rejoins on another connection
    harness.wait(2.9)
    assert ask.parked


def test_rejoin_does_not_extend_the_initial_delay():
    harness = GroupHarness(delay=3.0)
    harness.join("a")
    harness.wait(1.0)
    ask = harness.join("a", OTHER)
    harness.wait(10.0)
    assert ask.at == 3.0


def test_pending_ids_do_not_hold_the_first_generation():
    harness = GroupHarness(delay=3.0)
    harness.ask_id("p", session=30.0)
    ask = harness.join("a")
    harness.wait(10.0)
    assert ask.at == 3.0


def test_only_member_leaves_during_the_initial_delay():
    harness = GroupHarness(delay=1.0)
    ask = harness.join("a")
    assert harness.leave("a") == [E.NONE]
    assert (ask.error, ask.answer.member_id) == (E.UNKNOWN_MEMBER_ID, "")
    assert harness.state is PREPARING
    harness.wait(1.0)
    assert harness.state is EMPTY
    harness.join("b")
    harness.wait(1.0)
    assert harness.group.generation == 2


def test_emptied_group_has_the_initial_delay_again():
    harness = GroupHarness(delay=1.0)
    for name in ("x", "y"):
        harness.join(name)
        harness.wait(1.0)
        harness.leave(name)
    begin = harness.now
    first = harness.join("a")
    harness.wait(0.4)
    second = harness.join("b")
    harness.wait(5.0)
    assert (first.at - begin, second.at - begin) == (2.0, 2.0)


def test_no_initial_delay_for_a_group_with_members(harness):
    harness.stable("a")
    harness.group.initial_delay = 3.0
    harness.join("b")
    assert harness.join("a").at == harness.now


# --- pending member ids -------------------------------------------------------------------------------------------


def test_pending_id_is_no_member(harness):
    ask = harness.ask_id("p")
    answer = ask.answer
    assert (ask.error, answer.member_id, answer.generation_id) == (E.MEMBER_ID_REQUIRED, "p", -1)
    assert (answer.leader, answer.members, answer.protocol_name) == ("", [], None)
    assert harness.heartbeat("p", 0) is E.UNKNOWN_MEMBER_ID
    assert harness.sync("p", generation=0).error is E.UNKNOWN_MEMBER_ID
    assert harness.leave("p") == [E.NONE]
    assert harness.join_as("p").error is E.UNKNOWN_MEMBER_ID
    assert harness.state is EMPTY
    assert len(harness.group.timers) == 0


def test_pending_id_holds_the_join_phase_until_it_joins(harness):
    harness.stable("a")
    harness.ask_id("p")
    rejoined = harness.join("a")
    assert rejoined.parked
    joined = harness.join("p")
    assert rejoined.answer.generation_id == joined.answer.generation_id == 2


def test_unused_pending_id_holds_for_its_session_timeout(harness):
    harness.stable("a", "b")
    harness.ask_id("p", session=3.0)
    harness.wait(1.0)
    asks = [harness.join("a"), harness.join("b")]
    harness.wait(1.9)
    assert asks[0].parked
    harness.wait(5.0)
    assert [ask.at for ask in asks] == [5.0, 5.0]  # assigned at 2.0
    assert harness.group.pending_members == {}


def test_rebalance_timeout_does_not_wait_for_pending_ids(harness):
    harness.stable("a", rebalance=2.0)
    harness.ask_id("p", session=30.0)
    ask = harness.join("a", rebalance=2.0)
    begin = harness.now
    harness.wait(5.0)
    assert ask.at - begin == 2.0
    assert list(harness.group.pending_members) == ["p"]


def test_pending_id_that_leaves_completes_the_join_phase(harness):
    harness.stable("a")
    harness.ask_id("p")
    ask = harness.join("a")
    assert harness.leave("p") == [E.NONE]
    assert ask.error is E.NONE


def test_pending_id_expires_after_its_session_timeout(harness):
    harness.ask_id("p", session=2.0)
    harness.wait(1.999)
    assert "p" in harness.group.pending_members
    harness.wait(0.001)
    assert harness.join_as("p").error is E.UNKNOWN_MEMBER_ID
    assert harness.state is EMPTY


def test_pending_id_that_joined_does_not_expire(harness):
    harness.ask_id("p", session=2.0)
    harness.wait(1.0)
    harness.join("p", session=30.0)
    harness.sync("p")
    harness.wait(5.0)
    assert "p" in harness.group.members


def test_refused_join_keeps_the_id_pending(harness):
    harness.stable("a")
    harness.ask_id("p")
    refused = harness.join_as("p", protocols=(("other", b""),))
    assert (refused.error, refused.answer.member_id) == (E.INCONSISTENT_GROUP_PROTOCOL, "p")
    assert "p" in harness.group.pending_members


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
def test_join_refused(harness, state, member_id, protocols, error):
    harness.in_state(state)
    members = dict(harness.group.members)
    ask = harness.join_as(member_id, "new", protocols)
    answer = ask.answer
    assert (ask.error, answer.member_id, answer.generation_id) == (error, member_id, -1)
    assert (answer.leader, answer.members, answer.protocol_name, answer.protocol_type) == ("", [], None, None)
    assert harness.group.members == members
    assert harness.state is state


def test_other_protocol_type_is_inconsistent(harness):
    harness.stable("a")
    assert harness.join("b", protocol_type="connect").error is E.INCONSISTENT_GROUP_PROTOCOL


def test_rejoin_is_checked_with_the_old_protocols_of_the_member(harness):
    harness.stable("a")
    assert harness.join_as("a", protocols=(("sticky", b""),)).error is E.INCONSISTENT_GROUP_PROTOCOL


def test_second_join_replaces_the_pending_one(harness):
    harness.stable("a", "b")
    first = harness.join("a")
    second = harness.join("a")
    harness.join("b")
    assert first.parked
    assert second.error is E.NONE


def test_unchanged_join_in_completing_is_answered_at_once(harness):
    harness.completing("a", "b")
    leader, follower = harness.join("a"), harness.join("b")
    assert leader.answer.generation_id == follower.answer.generation_id == harness.group.generation == 1
    assert set(leader.listed) == {"a", "b"}
    assert follower.listed == []


def test_leader_with_new_metadata_in_completing_rebalances(harness):
    harness.completing("a", "b")
    sync = harness.sync("b")
    ask = harness.join("a", OTHER)
    assert sync.error is E.REBALANCE_IN_PROGRESS
    assert sync.answer.assignment == b""
    assert ask.parked


def test_unchanged_follower_in_stable_is_answered_at_once(harness):
    harness.stable("a", "b")
    ask = harness.join("b")
    answer = ask.answer
    assert (answer.generation_id, answer.leader, answer.member_id, answer.members) == (1, "a", "b", [])
    assert harness.sync("b").answer.assignment == b"of b"


def test_join_answered_at_once_keeps_the_old_timeouts(harness):
    harness.stable("a", "b", session=10.0, rebalance=60.0)
    harness.join("b", session=20.0, rebalance=90.0)
    result = harness.group.members["b"]
    assert (result.session_timeout, result.rebalance_timeout) == (10.0, 60.0)


def test_changed_join_updates_the_timeouts(harness):
    harness.stable("a", "b")
    harness.join("b", OTHER, session=20.0, rebalance=90.0)
    result = harness.group.members["b"]
    assert (result.session_timeout, result.rebalance_timeout, result.protocols) == (20.0, 90.0, OTHER)


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
def test_any_difference_of_protocols_is_a_change(harness, changed):
    harness.stable("a", "b", protocols=(("range", b"m"), ("sticky", b"s")))
    ask = harness.join("b", changed)
    assert ask.parked
    assert harness.state is PREPARING


def test_equal_protocols_in_another_sequence_are_no_change(harness):
    harness.stable("a", "b")
    assert harness.join("b", list(RANGE)).error is E.NONE
    assert harness.state is STABLE


def test_leader_that_rejoins_stays_leader(harness):
    harness.stable("a", "b")
    asks = [harness.join("c"), harness.join("b"), harness.join("a")]
    assert {ask.answer.leader for ask in asks} == {"a"}
    assert {ask.answer.generation_id for ask in asks} == {2}
    assert set(asks[2].listed) == {"a", "b", "c"}
    assert asks[0].listed == asks[1].listed == []


def test_absent_leader_is_replaced_in_map_order(harness):
    names = ["first", "second", "third", "fourth"]
    harness.stable(*names, rebalance=5.0, session=30.0)
    asks = {name: harness.join(name, OTHER, rebalance=5.0, session=30.0) for name in names[1:]}
    harness.wait(5.0)
    expected = map_order(names[1:])[0]
    assert {ask.answer.leader for ask in asks.values()} == {expected}
    assert asks[expected].listed == map_order(names[1:])


def test_leader_that_leaves_is_replaced_in_map_order(harness):
    names = ["first", "second", "third", "fourth"]
    harness.stable(*names)
    harness.leave("first")
    assert harness.group.leader == map_order(names[1:])[0]


def test_empty_group_has_no_leader(harness):
    harness.stable("a")
    harness.leave("a")
    assert harness.group.leader == ""
    harness.join("b")
    assert harness.group.leader == "b"


def test_leader_gets_the_chosen_protocol_in_map_order(harness):
    names = ["zeta", "alpha", "mid"]
    harness.group.initial_delay = 1.0
    asks = [harness.join(name, (("sticky", b"s " + name.encode()), ("range", b"r"))) for name in names]
    harness.wait(5.0)
    assert asks[0].listed == map_order(names)
    assert {member.metadata for member in asks[0].answer.members} == {b"s zeta", b"s alpha", b"s mid"}


def test_tie_of_protocol_votes_goes_to_range(harness):
    harness.group.initial_delay = 1.0
    ask = harness.join("a", (("roundrobin", b""), ("range", b"")))
    harness.join("b", (("range", b""), ("roundrobin", b"")))
    harness.wait(5.0)
    assert ask.answer.protocol_name == "range"


def test_rebalance_timeout_removes_members_that_do_not_rejoin(harness):
    harness.stable("a", session=10.0, rebalance=1.5)
    begin = harness.now
    ask = harness.join("b", rebalance=1.0)
    harness.wait(1.0)
    assert harness.heartbeat("a") is E.REBALANCE_IN_PROGRESS
    harness.wait(2.0)
    assert ask.at - begin == 1.5
    assert (ask.answer.leader, ask.listed) == ("b", ["b"])
    assert harness.heartbeat("a") is E.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(("of_old", "of_new"), [pytest.param(2.5, 1.5, id="old"), pytest.param(1.5, 2.5, id="new")])
def test_longest_rebalance_timeout_counts(harness, of_old, of_new):
    harness.stable("a", session=10.0, rebalance=of_old)
    begin = harness.now
    ask = harness.join("b", rebalance=of_new)
    harness.wait(5.0)
    assert ask.at - begin == 2.5


def test_rebalance_timeout_is_set_when_the_join_phase_begins(harness):
    harness.stable("a", session=30.0, rebalance=2.0)
    begin = harness.now
    ask = harness.join("b", rebalance=1.0)
    harness.wait(1.0)
    harness.join("c", rebalance=50.0)
    harness.wait(10.0)
    assert ask.at - begin == 2.0


@pytest.mark.parametrize("rebalance", [0.0, -0.001])
def test_zero_and_negative_rebalance_timeouts(harness, rebalance):
    ask = harness.join("a", rebalance=rebalance)
    assert ask.error is E.NONE
    harness.wait(1.0)  # no member syncs in time
    assert harness.state is EMPTY


def test_pending_join_is_answered_when_its_member_leaves(harness):
    harness.stable("a", "b")
    ask = harness.join("a")
    assert harness.leave("a") == [E.NONE]
    answer = ask.answer
    assert (ask.error, answer.member_id, answer.generation_id) == (E.UNKNOWN_MEMBER_ID, "", -1)


def test_new_member_may_wait_five_minutes():
    harness = GroupHarness(delay=1_000.0)
    ask = harness.join("a", session=1.0)
    harness.wait(rules.NEW_MEMBER_TIMEOUT - 0.001)
    assert ask.parked
    harness.wait(0.001)
    assert (ask.error, ask.answer.member_id) == (E.UNKNOWN_MEMBER_ID, "")
    assert harness.group.members == {}
    assert harness.state is PREPARING  # until the delay ends


def test_new_member_that_heartbeats_has_its_session_timeout():
    harness = GroupHarness(delay=100.0)
    ask = harness.join("a", session=2.0)
    assert harness.heartbeat("a", 0) is E.REBALANCE_IN_PROGRESS  # 4.2
    assert harness.heartbeat("a", -1) is E.ILLEGAL_GENERATION
    harness.wait(2.0)
    assert (ask.error, ask.at) == (E.UNKNOWN_MEMBER_ID, 2.0)


def test_five_minutes_end_with_the_join_answer(harness):
    harness.join("a", session=2.0)
    harness.sync("a")
    harness.wait(2.0)
    assert harness.state is EMPTY


# --- SyncGroup ----------------------------------------------------------------------------------------------------


def test_follower_sync_waits_for_the_leader(harness):
    harness.completing("a", "b")
    follower = harness.sync("b")
    assert follower.parked
    leader = harness.sync("a", {"a": b"1", "b": b"2", "unknown": b"3"})
    assert (leader.answer.assignment, follower.answer.assignment) == (b"1", b"2")
    assert (leader.answer.protocol_type, leader.answer.protocol_name) == ("consumer", "range")
    assert harness.state is STABLE


def test_late_follower_sync_is_answered_in_stable(harness):
    harness.completing("a", "b")
    harness.sync("a", {"b": b"2"})
    assert harness.sync("b").answer.assignment == b"2"


def test_missing_assignment_is_zero_bytes(harness):
    harness.completing("a")
    assert harness.sync("a").answer.assignment == b""
    assert harness.sync("a", {"a": b"late"}).answer.assignment == b""


def test_assignments_of_a_follower_are_ignored(harness):
    harness.completing("a", "b")
    harness.sync("b", {"a": b"mine", "b": b"mine"})
    assert harness.sync("a", {"a": b"1", "b": b"2"}).answer.assignment == b"1"
    assert harness.sync("b", {"b": b"mine"}).answer.assignment == b"2"


def test_second_sync_replaces_the_pending_one(harness):
    harness.completing("a", "b")
    first, second = harness.sync("b"), harness.sync("b")
    harness.sync("a", {"b": b"2"})
    assert first.parked
    assert second.answer.assignment == b"2"


def test_pending_sync_is_answered_when_a_member_leaves(harness):
    harness.completing("a", "b", "c")
    ask = harness.sync("b")
    harness.leave("c")
    assert ask.error is E.REBALANCE_IN_PROGRESS
    assert (ask.answer.assignment, ask.answer.protocol_type, ask.answer.protocol_name) == (b"", None, None)


def test_pending_sync_of_a_member_that_leaves_is_dropped(harness):
    harness.completing("a", "b")
    ask = harness.sync("b")
    harness.leave("b")
    harness.join("a")
    harness.sync_all()
    assert ask.parked


def test_assignments_are_cleared_when_completing_ends(harness):
    harness.stable("a", "b")
    harness.join("a")
    harness.join("b")
    harness.join("c")
    assert {member.assignment for member in harness.group.members.values()} == {b""}


def test_assignments_are_opaque(harness):
    harness.completing("a")
    assert harness.sync("a", {"a": b"\xff" * 70_000}).answer.assignment == b"\xff" * 70_000


# --- pending sync timer -------------------------------------------------------------------------------------------


def test_member_that_never_syncs_is_removed(harness):
    ask = harness.join("a", session=2.0, rebalance=3.0)
    assert ask.at == 0.0
    harness.wait(1.5)
    assert harness.heartbeat("a") is E.NONE
    harness.wait(1.4)
    assert harness.heartbeat("a") is E.NONE
    harness.wait(0.1)
    assert harness.heartbeat("a") is E.UNKNOWN_MEMBER_ID
    assert (harness.state, harness.group.generation) == (EMPTY, 2)
    assert harness.join("b").answer.generation_id == 3  # the Empty generation was 2


def test_only_members_without_a_sync_are_removed(harness):
    harness.completing("a", "b", "c", session=30.0, rebalance=3.0)
    harness.sync("a", {"a": b"1"})
    harness.sync("b")
    harness.wait(3.0)
    assert set(harness.group.members) == {"a", "b"}
    assert harness.state is PREPARING
    assert harness.heartbeat("a") is E.REBALANCE_IN_PROGRESS


def test_leader_that_never_syncs_is_removed(harness):
    harness.completing("a", "b", session=30.0, rebalance=3.0)
    ask = harness.sync("b")
    harness.wait(3.0)
    assert ask.error is E.REBALANCE_IN_PROGRESS
    assert set(harness.group.members) == {"b"}
    assert harness.group.leader == "b"


def test_pending_sync_timer_ends_when_all_have_synced(harness):
    harness.completing("a", "b", session=30.0, rebalance=3.0)
    harness.sync("a", {"a": b"1"})
    harness.sync("b")
    harness.wait(10.0)
    assert harness.state is STABLE


def test_rebalance_cancels_the_pending_sync_timer(harness):
    harness.completing("a", "b", session=30.0, rebalance=3.0)
    harness.wait(2.0)
    harness.join("c", rebalance=3.0)
    harness.wait(2.0)
    assert set(harness.group.members) == {"a", "b", "c"}
    assert harness.state is PREPARING


# --- sessions -----------------------------------------------------------------------------------------------------


def test_silent_member_is_removed_after_its_session(harness):
    harness.completing("a", session=60.0)
    harness.join("b", session=2.0)
    harness.join("a", session=60.0)
    harness.sync_all()
    begin = harness.now
    harness.wait(1.999)
    assert harness.heartbeat("a") is E.NONE
    harness.wait(0.001)
    assert harness.heartbeat("a") is E.REBALANCE_IN_PROGRESS
    assert harness.heartbeat("b") is E.UNKNOWN_MEMBER_ID
    assert harness.now - begin == 2.0


REQUESTS = [  # state, request at 0.8 s with a session timeout of 1.2 s, whether the member exists at 1.6 s
    pytest.param(STABLE, lambda harness: harness.heartbeat("b"), E.NONE, True, id="heartbeat in Stable"),
    pytest.param(
        STABLE, lambda harness: harness.commit("b", harness.group.generation), E.NONE, True, id="commit in Stable"
    ),
    pytest.param(
        STABLE,
        lambda harness: harness.commit("b", 99),
        E.ILLEGAL_GENERATION,
        False,
        id="commit with ILLEGAL_GENERATION",
    ),
    pytest.param(STABLE, lambda harness: harness.sync("b").error, E.NONE, False, id="sync in Stable"),
    pytest.param(
        STABLE, lambda harness: harness.join("b", session=1.2).error, E.NONE, False, id="unchanged rejoin of a follower"
    ),
    pytest.param(
        STABLE,
        lambda harness: harness.heartbeat("b", 99),
        E.ILLEGAL_GENERATION,
        False,
        id="heartbeat with ILLEGAL_GENERATION",
    ),
    pytest.param(COMPLETING, lambda harness: harness.heartbeat("b"), E.NONE, True, id="heartbeat in Completing"),
    pytest.param(
        COMPLETING,
        lambda harness: harness.commit("b", harness.group.generation),
        E.REBALANCE_IN_PROGRESS,
        False,
        id="commit with REBALANCE_IN_PROGRESS",
    ),
    pytest.param(
        PREPARING, lambda harness: harness.heartbeat("b"), E.REBALANCE_IN_PROGRESS, True, id="heartbeat in Preparing"
    ),
    pytest.param(
        PREPARING, lambda harness: harness.commit("b", harness.group.generation), E.NONE, True, id="commit in Preparing"
    ),
    pytest.param(
        PREPARING, lambda harness: harness.sync("b").error, E.REBALANCE_IN_PROGRESS, False, id="sync in Preparing"
    ),
    pytest.param(
        PREPARING, lambda harness: harness.commit("z", 1), E.UNKNOWN_MEMBER_ID, False, id="commit of an unknown member"
    ),
]


@pytest.mark.parametrize(("state", "sign", "answer", "alive"), REQUESTS)
def test_requests_that_renew_the_session(harness, state, sign, answer, alive):
    harness.completing("a", session=60.0)
    harness.join("b", session=1.2)
    harness.join("a", session=60.0)
    assert harness.state is COMPLETING
    if state is not COMPLETING:
        harness.sync_all()
    if state is PREPARING:
        harness.join("c")
    begin = harness.now
    harness.wait(0.8)
    assert sign(harness) is answer
    harness.wait(0.8)
    assert ("b" in harness.group.members) is alive
    if alive:
        harness.wait(begin + 2.0 - harness.now)
        assert "b" not in harness.group.members


def test_pending_join_outlives_the_session(harness):
    harness.stable("a", "b", session=1.2, rebalance=3.0)
    begin = harness.now
    ask = harness.join("a", session=1.2, rebalance=3.0)
    for _ in range(2):
        harness.wait(1.0)
        harness.heartbeat("b")
    harness.wait(1.0)
    assert (ask.error, ask.at - begin) == (E.NONE, 3.0)
    harness.wait(1.199)
    assert "a" in harness.group.members  # the response renewed the session
    harness.wait(0.001)
    assert "a" not in harness.group.members


def test_pending_sync_outlives_the_session(harness):
    harness.completing("a", session=60.0)
    harness.join("b", session=1.2)
    harness.join("a", session=60.0)
    ask = harness.sync("b")
    harness.wait(2.5)
    assert ask.parked
    harness.sync("a", {"b": b"2"})
    assert ask.answer.assignment == b"2"
    harness.wait(1.2)
    assert "b" not in harness.group.members


def test_sync_that_must_rejoin_renews_the_session(harness):
    harness.completing("a", session=60.0)
    harness.join("b", session=1.2)
    harness.join("a", session=60.0)
    harness.sync("b")
    harness.wait(2.0)
    harness.join("c")
    harness.wait(1.199)
    assert "b" in harness.group.members
    harness.wait(0.001)
    assert "b" not in harness.group.members


def test_session_expiry_may_complete_the_join_phase(harness):
    harness.stable("a", "b", session=2.0)
    begin = harness.now
    ask = harness.join("a", session=2.0)
    harness.wait(2.0)
    assert ask.at - begin == 2.0
    assert set(harness.group.members) == {"a"}


def test_several_deadlines_at_one_time(harness):
    harness.stable("a", "b", "c", session=2.0)
    harness.ask_id("p", session=2.0)
    harness.wait(2.0)
    assert (harness.state, harness.group.members, harness.group.pending_members) == (EMPTY, {}, {})
    assert len(harness.group.timers) == 0


def test_late_tick_handles_every_due_deadline(harness):
    harness.stable("a", "b", session=2.0, rebalance=3.0)
    ask = harness.join("c", session=2.0, rebalance=3.0)
    harness.now += 1_000.0
    harness._take(timers.tick(harness.group, 0.0, harness.now))
    assert not ask.parked
    assert harness.group.timers.earliest > harness.now


# --- LeaveGroup ---------------------------------------------------------------------------------------------------


def test_leave_batch_answers_each_member_with_its_ids(harness):
    harness.stable("me")
    ask = harness._ask()
    members = [
        LeavingMember(member_id="me"),
        LeavingMember(member_id="unknown"),
        LeavingMember(member_id="", instance_id="unknown"),
    ]
    harness._tell(ask, Leave(ticket=ask.ticket, members=members))
    assert ask.answer == LeaveGroupResponse(
        members=[
            LeaveGroupResponse.Member(member_id="me", group_instance_id=None, error_code=E.NONE),
            LeaveGroupResponse.Member(member_id="unknown", group_instance_id=None, error_code=E.UNKNOWN_MEMBER_ID),
            LeaveGroupResponse.Member(member_id="", group_instance_id="unknown", error_code=E.UNKNOWN_MEMBER_ID),
        ]
    )
    assert (harness.state, harness.group.protocol_type) == (EMPTY, "consumer")


def test_leave_batch_starts_one_rebalance(harness):
    harness.stable("a", "b", "c")
    harness.leave("b", "c")
    assert [note.event for note in harness.notes].count("rebalance") == 2  # the first generation and this one
    assert harness.join("a").answer.generation_id == 2


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
def test_leave(harness, ids, answers):
    harness.stable("a", "b")
    harness.ask_id("p")
    assert harness.leave(*ids) == answers


def test_unknown_instance_of_a_known_member(harness):
    harness.stable("a")
    assert harness.leave("a", instance_id="i") == [E.UNKNOWN_MEMBER_ID]
    assert "a" in harness.group.members


def test_pending_id_leaves_whatever_its_instance_id(harness):
    harness.ask_id("p")
    assert harness.leave("p", instance_id="i") == [E.NONE]
    assert "p" not in harness.group.pending_members


def test_leave_does_not_cut_the_initial_delay():
    harness = GroupHarness(delay=3.0)
    ask = harness.join("a")
    harness.join("b")
    harness.leave("b")
    harness.wait(1.0)
    assert ask.parked


# --- a new member in a Stable group -------------------------------------------------------------------------------


def test_third_member_rebalances_a_stable_group(harness):
    harness.stable("a", "b")
    harness.ask_id("c")
    assert harness.heartbeat("a") is E.NONE
    harness.join("c")
    assert harness.heartbeat("a") is E.REBALANCE_IN_PROGRESS
    assert harness.sync("a").error is E.REBALANCE_IN_PROGRESS
    assert harness.commit("a", 1) is E.NONE
    assert harness.state is PREPARING


# --- a group that does not exist ----------------------------------------------------------------------------------

TICKET = Ticket(1, 1, 0, 0)
JOIN = Join(
    ticket=TICKET,
    member_id="z",
    new_member_id="",
    require_member_id=True,
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
def test_requests_to_an_unknown_group(event):
    (reply,) = classic.receive_without_group(event)
    assert isinstance(reply, Reply)
    assert reply.response.error_code == E.UNKNOWN_MEMBER_ID
    assert getattr(reply.response, "member_id", "z") == "z"


def test_leave_of_an_unknown_group():
    (reply,) = classic.receive_without_group(
        Leave(ticket=TICKET, members=[LeavingMember(member_id="z"), LeavingMember(member_id="y")])
    )
    assert isinstance(reply, Reply)
    assert reply.response.error_code == E.NONE
    assert [member.error_code for member in reply.response.members] == [E.UNKNOWN_MEMBER_ID] * 2


# --- metadata is opaque -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "metadata",
    [b"", b"\x00", b"\xff" * 64, b"\x00\x01\x7f\xff\xff\xff", b"x" * 2_000_000],
    ids=["empty", "one byte", "ff", "a count that lies", "2 MB"],
)
def test_unreadable_metadata_is_stored(harness, metadata):
    ask = harness.join("a", (("range", metadata),))
    assert [member.metadata for member in ask.answer.members] == [metadata]


def test_first_of_duplicate_protocol_names_wins(harness):
    ask = harness.join("a", (("range", b"first"), ("range", b"second")))
    assert ask.answer.protocol_name == "range"
    assert [member.metadata for member in ask.answer.members] == [b"first"]
    harness.sync("a")
    again = harness.join("a", (("range", b"first"), ("range", b"third")))
    assert [member.metadata for member in again.answer.members] == [b"first"]


def test_thousand_protocols_and_an_empty_name(harness):
    harness.group.initial_delay = 1.0
    many = tuple((f"p{number}", b"") for number in range(1_000))
    ask = harness.join("a", (("", b"nameless"), *many))
    harness.join("b", (("", b""),))
    harness.wait(5.0)
    assert ask.answer.protocol_name == ""
    assert {member.metadata for member in ask.answer.members} == {b"nameless", b""}


# --- journal events -----------------------------------------------------------------------------------------------


def test_journal_events_of_a_rebalance(harness):
    harness.ask_id("a")
    harness.join("a")
    harness.sync("a", {"a": b"1"})
    harness.leave("a")
    assert [note.event for note in harness.notes] == [
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
    assert [note.generation for note in harness.notes if note.event in ("generation", "empty")] == [1, 2]


# --- operations of administrators ---------------------------------------------------------------------------------

BY_ADMIN = "evicted by an administrator"


@pytest.mark.parametrize("state", [PREPARING, COMPLETING, STABLE], ids=lambda state: state.value)
def test_evicted_member_is_unknown_and_the_group_rebalances(harness, state):
    harness.in_state(state)
    generation = harness.group.generation
    harness.notes.clear()
    harness.administer(Evict("b", BY_ADMIN))
    (expired,) = [note for note in harness.notes if note.event == "expire"]
    assert (expired.member_id, expired.client_id, expired.reason) == ("b", "client", BY_ADMIN)
    assert harness.heartbeat("b") is E.UNKNOWN_MEMBER_ID
    assert harness.state is PREPARING
    assert ("rebalance" in [note.event for note in harness.notes]) == (state is not PREPARING)
    harness.join("a")
    assert (harness.state, harness.group.generation) == (COMPLETING, generation + 1)
    assert "b" not in harness.group.members


def test_pending_join_of_an_evicted_member_is_answered(harness):
    harness.stable("a", "b")
    ask = harness.join("c")
    assert ask.parked
    harness.administer(Evict("c", BY_ADMIN))
    assert ask.error is E.UNKNOWN_MEMBER_ID
    assert set(harness.group.members) == {"a", "b"}


def test_pending_sync_of_an_evicted_member_is_answered(harness):
    harness.completing("a", "b")
    ask = harness.sync("b")
    assert ask.parked
    harness.administer(Evict("b", BY_ADMIN))
    assert ask.error is E.UNKNOWN_MEMBER_ID
    assert harness.state is PREPARING


def test_eviction_of_the_last_absent_member_ends_the_join_phase(harness):
    harness.stable("a", "b")
    ask = harness.join("a")
    assert ask.parked
    harness.administer(Evict("b", BY_ADMIN))
    assert (ask.error, harness.state) == (E.NONE, COMPLETING)


def test_eviction_of_the_only_member_empties_the_group(harness):
    harness.stable("a")
    harness.administer(Evict("a", BY_ADMIN))
    assert (harness.state, harness.group.generation) == (EMPTY, 2)
    assert len(harness.group.timers) == 0


def test_eviction_of_the_leader_elects_another(harness):
    harness.stable("a", "b")
    harness.administer(Evict("a", BY_ADMIN))
    assert harness.join("b").answer.leader == "b"


def test_evicted_pending_member_id_cannot_join(harness):
    harness.ask_id("p")
    harness.administer(Evict("p", BY_ADMIN))
    assert not harness.group.pending_members
    assert harness.join_as("p").error is E.UNKNOWN_MEMBER_ID


def test_eviction_of_an_unknown_member_has_no_effects(harness):
    harness.stable("a")
    harness.notes.clear()
    harness.administer(Evict("z", BY_ADMIN))
    assert (harness.state, harness.notes) == (STABLE, [])


def test_requested_rebalance_of_a_stable_group(harness):
    harness.stable("a", "b")
    harness.administer(Rebalance("on request"))
    assert (harness.state, harness.notes[-1].event, harness.notes[-1].reason) == (PREPARING, "rebalance", "on request")
    assert harness.heartbeat("a") is E.REBALANCE_IN_PROGRESS
    harness.join("a")
    harness.join("b")
    assert (harness.state, harness.group.generation) == (COMPLETING, 2)


def test_requested_rebalance_fails_pending_syncs(harness):
    harness.completing("a", "b")
    ask = harness.sync("b")
    harness.administer(Rebalance("on request"))
    assert (ask.error, harness.state) == (E.REBALANCE_IN_PROGRESS, PREPARING)


@pytest.mark.parametrize("state", [EMPTY, PREPARING], ids=lambda state: state.value)
def test_requested_rebalance_without_effect(harness, state):
    harness.in_state(state)
    harness.notes.clear()
    harness.administer(Rebalance("on request"))
    assert (harness.state, harness.notes) == (state, [])


# --- reasons in the journal ---------------------------------------------------------------------------------------


def reasons(harness: GroupHarness) -> list[tuple[str, str, str]]:
    """Return kind, member id and reason of the journal's events that have a reason."""
    return [(note.event, note.member_id, note.reason) for note in harness.notes if note.reason]


REASONS = [  # what happens to a stable group of a (the leader) and b; the events
    (lambda h: h.join("c"), [("rebalance", "", "c joined")]),
    (lambda h: h.join("a"), [("rebalance", "", "a rejoined as leader")]),
    (lambda h: h.join("a", OTHER), [("rebalance", "", "a rejoined with other metadata")]),
    (lambda h: h.join("b", OTHER), [("rebalance", "", "b rejoined with other metadata")]),
    (lambda h: h.leave("b"), [("leave", "b", "left"), ("rebalance", "", "b left")]),
    (
        lambda h: h.leave("b", "a"),
        [("leave", "b", "left"), ("leave", "a", "left"), ("rebalance", "", "b, a left")],
    ),
    (
        lambda h: h.wait(10.0),
        [
            ("expire", "a", "no heartbeat for 10 s"),
            ("rebalance", "", "session of a timed out"),
            ("expire", "b", "no heartbeat for 10 s"),
        ],
    ),
    (lambda h: (h.ask_id("c"), h.leave("c")), [("leave", "c", "left before it joined")]),
    (
        lambda h: (h.ask_id("c", session=3.0), h.wait(3.0)),
        [("expire", "c", "member id was never used")],
    ),
]


@pytest.mark.parametrize(("happens", "events"), REASONS, ids=range(len(REASONS)))
def test_journal_has_the_reason_of_each_change(happens: Any, events: list[tuple[str, str, str]]) -> None:
    harness = GroupHarness()
    harness.stable("a", "b")
    harness.notes.clear()
    happens(harness)
    assert reasons(harness) == events


def test_reasons_of_clients_are_in_the_journal() -> None:
    harness = GroupHarness()
    harness.stable("a", "b")
    harness.ask_id("c")
    harness.notes.clear()
    ask = harness._ask()
    leaving = [LeavingMember(member_id=name, instance_id=None, reason=f"{name} ends") for name in ("b", "c")]
    harness._tell(ask, Leave(ticket=ask.ticket, members=leaving))
    assert reasons(harness) == [("leave", "b", "b ends"), ("leave", "c", "c ends"), ("rebalance", "", "b left")]


def test_members_that_do_not_rejoin_or_sync_expire_with_a_reason() -> None:
    harness = GroupHarness()
    harness.stable("a", "b", rebalance=5.0, session=60.0)
    harness.notes.clear()
    harness.join("a", rebalance=5.0, session=60.0)
    harness.wait(5.0)
    harness.wait(5.0)
    assert reasons(harness) == [
        ("rebalance", "", "a rejoined as leader"),
        ("expire", "b", "no JoinGroup within the rebalance timeout"),
        ("expire", "a", "no SyncGroup within the rebalance timeout"),
        ("rebalance", "", "1 members did not sync"),
    ]
    assert harness.state is State.EMPTY


def test_pending_member_has_a_deadline_until_it_joins() -> None:
    harness = GroupHarness()
    harness.stable("a")
    harness.ask_id("c", session=3.0)
    assert ("pending", "c") in harness.group.timers
    harness.join("c")
    assert ("pending", "c") not in harness.group.timers
    assert harness.group.pending_members == {}


def test_member_that_is_removed_has_no_deadline() -> None:
    harness = GroupHarness()
    harness.stable("a", "b")
    harness.leave("b")
    assert [("session", name) in harness.group.timers for name in "ab"] == [True, False]


def test_refused_member_of_a_full_group_ends_the_join_phase() -> None:
    """Before Kafka 4.0, the join phase ends because all remaining members have joined."""
    for release, generation in (("3.9", 2), ("4.2", 1)):
        harness = GroupHarness(max_size=2, quirks=RELEASES[release].quirks)
        harness.stable("a", "b")
        harness.group.max_size = 1
        harness.join("a")
        assert harness.join("b").error is E.GROUP_MAX_SIZE_REACHED
        assert (harness.group.generation, sorted(harness.group.members)) == (generation, ["a"])


@pytest.mark.parametrize("renews", [True, False])
def test_sync_in_stable_renews_the_session_in_old_releases(renews: bool) -> None:
    harness = GroupHarness()
    harness.group.quirks = replace(harness.group.quirks, sync_in_stable_renews_session=renews)
    harness.stable("a", "b")
    harness.wait(6.0)
    assert harness.sync("a").error is E.NONE
    harness.wait(6.0)
    assert list(harness.group.members) == (["a"] if renews else [])


@pytest.mark.parametrize(("only", "extended"), [(True, False), (False, True)])
def test_delay_of_a_later_generation_is_extended_in_old_releases(only: bool, extended: bool) -> None:
    harness = GroupHarness(delay=3.0)
    harness.group.quirks = replace(harness.group.quirks, delay_extended_in_generation_0_only=only)
    harness.stable("a")
    harness.leave("a")
    harness.join("b")
    harness.wait(2.0)
    harness.join("c")
    harness.wait(1.5)
    assert (harness.state is State.PREPARING) is extended


@pytest.mark.parametrize("only", [True, False])
def test_delay_of_the_first_generation_is_extended(only: bool) -> None:
    harness = GroupHarness(delay=3.0)
    harness.group.quirks = replace(harness.group.quirks, delay_extended_in_generation_0_only=only)
    ask = harness.join("a")
    harness.wait(2.0)
    harness.join("b")
    harness.wait(10.0)
    assert ask.at == 6.0


def test_initial_delay_is_extended_only_for_its_own_members() -> None:
    harness = GroupHarness(delay=3.0)
    harness.join("a", rebalance=3.0)
    harness.join("b", rebalance=3.0)
    harness.wait(3.0)
    assert harness.state is State.COMPLETING, "the rebalance timeout permits no extension"
    harness.leave("a", "b")
    harness.wait(3.0)
    assert harness.state is State.EMPTY
    ask, begun = harness.join("c", rebalance=60.0), harness.now
    harness.wait(10.0)
    assert ask.at == begun + 3.0


def test_only_members_of_the_group_are_described() -> None:
    harness = GroupHarness()
    harness.stable("a", "b")
    context: Any = None
    described = CLASSIC_TYPE.describe_members(harness.group, ["b", "gone"], {}, context)
    assert [member.member_id for member in described] == ["b"]


@pytest.mark.parametrize(("last_wins", "protocol"), [(True, "y"), (False, "x")])
def test_ties_of_protocols_are_broken_by_the_map_order(last_wins: bool, protocol: str) -> None:
    harness = GroupHarness()
    harness.group.quirks = replace(harness.group.quirks, last_protocol_wins_ties=last_wins)
    assert map_order(["x", "y"]) == ["x", "y"]
    harness.completing("a", protocols=(("x", b""), ("y", b"")))
    harness.join("b", (("y", b""), ("x", b"")))
    harness.join("a", (("x", b""), ("y", b"")))
    assert harness.group.protocol == protocol


def test_initial_delay_is_the_setting_in_seconds() -> None:
    group = ClassicGroup.from_settings("g", Settings.parse({"group.initial.rebalance.delay.ms": 2_500}), 7.0)
    assert (group.initial_delay, group.state_since, group.group_id) == (2.5, 7.0, "g")


def test_unloaded_group_answers_all_pending_requests() -> None:
    harness = GroupHarness()
    harness.completing("a", "b")
    waiting = harness.sync("b")
    joining = harness.join("c")
    harness._take(phases.fail_pending_requests(harness.group, E.NOT_COORDINATOR))
    assert joining.error is E.NOT_COORDINATOR
    assert waiting.error is E.REBALANCE_IN_PROGRESS, "answered by the join"
    other = GroupHarness()
    other.completing("a", "b")
    waiting = other.sync("b")
    other._take(phases.fail_pending_requests(other.group, E.NOT_COORDINATOR))
    assert waiting.error is E.NOT_COORDINATOR
    assert phases.fail_pending_requests(other.group, E.NOT_COORDINATOR) == [], "each once"


def test_unloaded_group_is_coordinated_elsewhere() -> None:
    harness = GroupHarness()
    harness.completing("a", "b")
    waiting = harness.sync("b")
    harness._take(CLASSIC_TYPE.unload(harness.group))
    assert waiting.error is E.NOT_COORDINATOR


@pytest.mark.parametrize(("join_settle", "until"), [(0.05, 10.05), (5.0, 10.1)])
def test_first_join_phase_waits_until_joins_have_settled(join_settle: float, until: float) -> None:
    group = ClassicGroup(group_id="g", initial_delay=0.0)
    group.last_join_at = group.state_since = 10.0
    assert timers._initial_delay_expired(group, join_settle, 10.01) == []
    assert group.timers.earliest == pytest.approx(until)


def test_journal_has_the_protocol_of_an_assignment(harness: GroupHarness) -> None:
    harness.join("a")
    harness.sync("a", {"a": b"x"})
    (assigned,) = [note for note in harness.notes if note.event == "assign"]
    assert (assigned.protocol, assigned.protocol_type, assigned.assignment) == ("range", "consumer", b"x")


def test_heartbeat_of_a_valid_member_takes_the_short_path(harness):
    harness.join_static("i", "a")
    harness.sync_all()
    harness.join("b")
    harness.join("a")
    harness.sync_all()

    def error(member_id: str, instance_id: str | None = None, generation: int = 2) -> E | None:
        request = HeartbeatRequest(
            group_id="g", generation_id=generation, member_id=member_id, group_instance_id=instance_id
        )
        return renew_valid_session(harness.group, request, harness.now + 5.0)

    assert harness.group.generation == 2
    assert [error("a"), error("a", "i"), error("b")] == [E.NONE] * 3
    assert harness.group.timers.at(("session", "b")) == harness.now + 15.0
    assert [error("x"), error("b", "i"), error("a", "j"), error("a", generation=1)] == [None] * 4


@pytest.mark.parametrize(("joins_at", "settle", "ends_at"), [(0.04, 0.03, 0.07), (0.04, 0.2, 0.1), (0.04, 0.005, 0.05)])
def test_initial_delay_ends_after_a_time_without_a_join(joins_at: float, settle: float, ends_at: float):
    """The join phase ends at most 0.1 seconds after the first JoinGroup."""
    harness = GroupHarness(delay=0.05)
    harness.join("a", rebalance=0.05)
    harness.now = joins_at
    harness.join("a")
    for now in (0.05, ends_at):
        timers.tick(harness.group, settle, now)
    assert (harness.group.state, harness.group.state_since) == (COMPLETING, pytest.approx(ends_at))
