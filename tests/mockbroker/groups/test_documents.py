"""The states of a classic group in Kafka 0.9 compared with today's: docs/sources.md, under "The classic protocol".

0.9 had four states. A group began in Stable, CompletingRebalance was called AwaitingSync, and a group without members
was Dead. Since 0.10.1 such a group is Empty, and Dead only when it is deleted. The tables here name both states.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest
from tools.broker_harness import BrokerHarness, commit_without_member, committed
from tools.group_harness import GroupHarness

from kwire import ErrorCode as E
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.describe_groups import DescribeGroupsRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.sync_group import SyncGroupRequest
from mockbroker.groups.classic.state import State

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = (*(state.value for state in State), "Dead")
SHIPPED = {"AwaitingSync": COMPLETING}  # the name in current releases

# --- transitions --------------------------------------------------------------------------------------------------


def joins_expire(harness: GroupHarness) -> None:
    """Let a and b send heartbeats, but not rejoin within the rebalance timeout of 20 s."""
    for seconds in (9.0, 9.0, 2.0):
        for member_id in "ab":
            harness.heartbeat(member_id)
        harness.wait(seconds)


def b_is_silent(harness: GroupHarness) -> None:
    """Let b send nothing for longer than its session timeout of 10 s."""
    harness.wait(6.0)
    harness.heartbeat("a")
    harness.wait(5.0)


BEGINNING, WAITING, AT_REST = "PreparingRebalance", "AwaitingSync", "Stable"
ARROWS = [  # from, event, to in 0.9, to in current releases if different
    pytest.param(
        BEGINNING, lambda harness: [harness.join("a"), harness.join("b")], WAITING, None, id="all have joined"
    ),
    pytest.param(BEGINNING, joins_expire, WAITING, None, id="the delayed join expires"),
    pytest.param(BEGINNING, lambda harness: harness.leave("a", "b", "c"), "Dead", EMPTY, id="all have left"),
    pytest.param(WAITING, lambda harness: harness.sync("a"), AT_REST, None, id="the leader has synced"),
    pytest.param(
        WAITING, lambda harness: harness.join("c"), BEGINNING, None, id="a member joins before the leader syncs"
    ),
    pytest.param(
        WAITING, lambda harness: harness.leave("b"), BEGINNING, None, id="a member leaves before the leader syncs"
    ),
    pytest.param(WAITING, b_is_silent, BEGINNING, None, id="a session expires before the leader syncs"),
    pytest.param(AT_REST, b_is_silent, BEGINNING, None, id="a session expires"),
    pytest.param(AT_REST, lambda harness: harness.leave("b"), BEGINNING, None, id="a member leaves"),
    pytest.param(AT_REST, lambda harness: harness.join("a"), BEGINNING, None, id="the leader rejoins"),
    pytest.param(AT_REST, lambda harness: harness.join("c"), BEGINNING, None, id="a member joins"),
]


@pytest.mark.parametrize(("before", "what", "documented", "shipped"), ARROWS)
def test_documented_state_transitions(
    before: str, what: Callable[[GroupHarness], object], documented: str, shipped: str | None
) -> None:
    harness = GroupHarness()
    if before == BEGINNING:
        harness.stable("a", "b", rebalance=20.0)
        harness.join("c", rebalance=20.0)
    elif before == WAITING:
        harness.completing("a", "b")
    else:
        harness.stable("a", "b")
    assert harness.state.value == SHIPPED.get(before, before)
    what(harness)
    assert harness.state.value == (shipped or SHIPPED.get(documented, documented))


def test_new_group_is_empty_not_stable_as_described() -> None:
    assert GroupHarness().state.value == EMPTY


def test_follower_sync_waits_for_the_leader_not_dropped() -> None:
    harness = GroupHarness()
    harness.completing("a", "b", "c")
    waiting = [harness.sync("b"), harness.sync("c")]
    assert [ask.parked for ask in waiting] == [True, True]
    leader = harness.sync("a", {"a": b"1", "b": b"2", "c": b"3"})
    assert [ask.answer.assignment for ask in (leader, *waiting)] == [b"1", b"2", b"3"]
    assert {ask.at for ask in (leader, *waiting)} == {harness.now}


# --- requests in each state ---------------------------------------------------------------------------------------

PENDING = "pending"


class GroupInState(BrokerHarness):
    """A broker with group g of the members a (leader) and b, in CompletingRebalance; offset 5 is committed."""

    def __init__(self) -> None:
        super().__init__(config={"group.initial.rebalance.delay.ms": 500})
        commit_without_member(self, "g")
        joins = [self.send(BrokerHarness.join("g"), 3, client_id=name) for name in "ab"]
        self.wait(2.0)
        self.a, self.b = (joining.answer.member_id for joining in joins)
        assert self.state == COMPLETING

    @property
    def state(self) -> str:
        return self.ask(DescribeGroupsRequest(groups=["g"]), 5).groups[0].group_state

    # --- requests: each returns the error, or PENDING ---

    def error_of(self, request: Any, version: int) -> E | str:
        answer = self.send(request, version).answer
        return PENDING if answer is None else E(answer.error_code)

    def join_as(self, member_id: str = "") -> E | str:
        return self.error_of(BrokerHarness.join("g", member_id), 3)

    def sync(self, member_id: str) -> E | str:
        return self.error_of(SyncGroupRequest(group_id="g", generation_id=1, member_id=member_id), 3)

    def beat(self, member_id: str) -> E | str:
        return self.error_of(HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id), 3)

    def leave(self, member_id: str) -> E:
        request = LeaveGroupRequest(group_id="g", members=[LeaveGroupRequest.Member(member_id=member_id)])
        return E(self.ask(request, 3).members[0].error_code)

    def commit(self, member_id: str = "", generation: int = -1) -> E:
        place = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=6)
        topics = [OffsetCommitRequest.Topic(name="t", partitions=[place])]
        who = {"member_id": member_id, "generation_id_or_member_epoch": generation}
        answer = self.ask(OffsetCommitRequest(group_id="g", topics=topics, **who), 7)
        return E(answer.topics[0].partitions[0].error_code)

    def fetch(self) -> E:
        topics = [OffsetFetchRequest.Topic(name="t", partition_indexes=[0])]
        answer = self.ask(OffsetFetchRequest(group_id="g", topics=topics), 5)
        return E(answer.error_code or answer.topics[0].partitions[0].error_code)

    def move_to_state(self, state: str) -> None:
        """Move the group from CompletingRebalance to another state."""
        if state in (STABLE, PREPARING):
            for member_id in (self.a, self.b):
                self.sync(member_id)
        if state == PREPARING:
            self.join_as()
        if state in (EMPTY, DEAD):
            for member_id in (self.a, self.b):
                self.leave(member_id)
        if state == DEAD:
            assert self.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code == E.NONE
        assert self.state == state


UNKNOWN, AGAIN, OLD, FINE = E.UNKNOWN_MEMBER_ID, E.REBALANCE_IN_PROGRESS, E.ILLEGAL_GENERATION, E.NONE
STATES = [PREPARING, COMPLETING, STABLE, EMPTY, DEAD]
REQUESTS = {  # request: in each state, the response and the state afterwards, if different
    "JoinGroup of a new member": (
        lambda harness: harness.join_as(),
        [(PENDING,), (PENDING, PREPARING), (PENDING, PREPARING), (PENDING, PREPARING), (PENDING, PREPARING)],
    ),
    "JoinGroup of the leader": (
        lambda harness: harness.join_as(harness.a),
        [(PENDING,), (FINE,), (PENDING, PREPARING), (UNKNOWN,), (UNKNOWN,)],
    ),
    "JoinGroup of a follower": (
        lambda harness: harness.join_as(harness.b),
        [(PENDING,), (FINE,), (FINE,), (UNKNOWN,), (UNKNOWN,)],
    ),
    "SyncGroup of the leader": (
        lambda harness: harness.sync(harness.a),
        [(AGAIN,), (FINE, STABLE), (FINE,), (UNKNOWN,), (UNKNOWN,)],
    ),
    "SyncGroup of a follower": (
        lambda harness: harness.sync(harness.b),
        [(AGAIN,), (PENDING,), (FINE,), (UNKNOWN,), (UNKNOWN,)],
    ),
    "Heartbeat": (
        lambda harness: harness.beat(harness.b),
        [(AGAIN,), (FINE,), (FINE,), (UNKNOWN,), (UNKNOWN,)],
    ),
    "LeaveGroup": (
        lambda harness: harness.leave(harness.b),
        [(FINE,), (FINE, PREPARING), (FINE, PREPARING), (UNKNOWN,), (UNKNOWN,)],
    ),
    "OffsetCommit of a member": (
        lambda harness: harness.commit(harness.b, 1),
        [(FINE,), (AGAIN,), (FINE,), (UNKNOWN,), (OLD,)],
    ),
    "OffsetCommit without a member": (
        lambda harness: harness.commit(),
        [(UNKNOWN,), (UNKNOWN,), (UNKNOWN,), (FINE,), (FINE, EMPTY)],
    ),
    "OffsetFetch": (
        lambda harness: harness.fetch(),
        [(FINE,)] * 5,
    ),
}
CELLS = [
    pytest.param(state, ask, *(*cell, state)[:2], id=f"{state}, {name}")
    for name, (ask, cells) in REQUESTS.items()
    for state, cell in zip(STATES, cells, strict=True)
]


@pytest.mark.parametrize(("state", "ask", "answer", "after"), CELLS)
def test_requests_served_in_each_state(
    state: str, ask: Callable[[GroupInState], E | str], answer: E | str, after: str
) -> None:
    harness = GroupInState()
    harness.move_to_state(state)
    assert ask(harness) == answer
    assert harness.state == after


def test_a_dead_group_accepts_commits_only() -> None:
    """As in 0.9. Current releases answer a request during the deletion with COORDINATOR_NOT_AVAILABLE."""
    harness = GroupInState()
    harness.move_to_state(DEAD)
    assert "g" not in harness.broker.groups
    assert harness.ask(ListGroupsRequest(), 5).groups == []
    assert committed(harness, "g") == {}
    partition = harness.broker.cluster.partition(*harness.broker.offsets_partition("g"))
    last = {record.key: record.value for batch in partition.log.batches() for record in batch.records()}
    assert last
    assert set(last.values()) == {None}
    fine = [name for name, (_, cells) in REQUESTS.items() if cells[STATES.index(DEAD)][0] == FINE]
    assert fine == ["OffsetCommit without a member", "OffsetFetch"]
    harness.commit()
    assert committed(harness, "g") == {("t", 0): 6}


# --- leader -------------------------------------------------------------------------------------------------------

# the first key of a java.util.HashMap after the first member is removed
NEXT_LEADERS = {"one": "four", "two": "four", "three": "four", "four": "one"}


@pytest.mark.parametrize("order", list(permutations(NEXT_LEADERS)), ids=" ".join)
def test_first_member_leads_then_the_first_in_map_order(order: tuple[str, ...]) -> None:
    """The choice is often described as random, but the same member ids always give the same leader."""
    harness = GroupHarness(delay=1.0)
    asks = [harness.join(name) for name in order]
    harness.wait(3.0)
    assert {ask.answer.leader for ask in asks} == {order[0]}
    harness.sync_all()
    harness.leave(order[0])
    again = [harness.join(name) for name in order[1:]]
    assert {ask.answer.leader for ask in again} == {NEXT_LEADERS[order[0]]}
    assert [ask.answer.member_id for ask in again if ask.listed] == [NEXT_LEADERS[order[0]]]
