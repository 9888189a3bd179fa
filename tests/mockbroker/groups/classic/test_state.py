"""The group as data: legal moves, offers counted, joins parked, members in map order."""

from __future__ import annotations

import pytest

from kwire.java import map_order
from mockbroker.base.effects import Ticket
from mockbroker.groups.classic.state import COMES_FROM, ClassicGroup, Member, State

LEGAL = {
    ("EMPTY", "PREPARING"),
    ("PREPARING", "EMPTY"),
    ("PREPARING", "COMPLETING"),
    ("COMPLETING", "STABLE"),
    ("COMPLETING", "PREPARING"),
    ("STABLE", "PREPARING"),
}


def ticket(number: int) -> Ticket:
    return Ticket(number, number, 11, 5)


def member(member_id: str, *names: str, rebalance: float = 60.0) -> Member:
    return Member(
        member_id=member_id,
        client_id="client",
        client_host="/127.0.0.1",
        session_timeout=10.0,
        rebalance_timeout=rebalance,
        protocols=tuple((name, name.encode()) for name in names or ("range",)),
    )


@pytest.fixture
def group() -> ClassicGroup:
    return ClassicGroup(group_id="g", initial_delay=0.0)


@pytest.mark.parametrize("target", State, ids=lambda state: state.name)
@pytest.mark.parametrize("source", State, ids=lambda state: state.name)
def test_moves(source, target):
    group = ClassicGroup(group_id="g", initial_delay=0.0, state=source)
    if (source.name, target.name) in LEGAL:
        group.move_to(target, 7.0)
        assert (group.came_from, group.state, group.since) == (source, target, 7.0)
    else:
        with pytest.raises(AssertionError, match="g: "):
            group.move_to(target, 7.0)
        assert group.state is source


def test_every_state_can_be_left_and_entered():
    assert set(COMES_FROM) == set().union(*COMES_FROM.values()) == set(State)


def test_names_are_those_that_tools_show():
    assert [state.value for state in State] == ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable"]


def test_a_new_group_is_empty_and_waits_for_nothing(group):
    assert (group.state, group.generation, group.leader, group.protocol) == (State.EMPTY, 0, "", None)
    assert len(group.waits) == 0


def test_the_longest_rebalance_timeout_counts(group):
    assert group.rebalance_timeout() == 0.0
    group.add(member("a", rebalance=2.5))
    group.add(member("b", rebalance=1.5))
    assert group.rebalance_timeout() == 2.5


def test_offers_follow_members(group):
    first = member("a", "range", "sticky")
    group.add(first)
    group.add(member("b", "sticky"))
    assert (group.all_can("range"), group.all_can("sticky"), group.all_can("x")) == (False, True, False)
    group.offer(first, (("range", b""),))
    assert not group.all_can("sticky")
    group.remove(first)
    assert group.all_can("sticky")
    assert dict(group.offered) == {"sticky": 1}


def test_asking_what_all_can_do_leaves_no_trace(group):
    group.add(member("a"))
    group.all_can("never heard of")
    assert dict(group.offered) == {"range": 1}


def test_duplicate_protocol_counts_once_with_its_first_metadata(group):
    twice = member("a")
    twice.protocols = (("range", b"first"), ("range", b"second"))
    group.add(twice)
    assert dict(group.offered) == {"range": 1}
    assert twice.metadata("range") == b"first"
    group.remove(twice)
    assert not group.offered


def test_parked_joins_are_counted(group):
    first, second = member("a"), member("b")
    group.add(first)
    group.add(second)
    group.park_join(first, ticket(1))
    assert not group.all_joined()
    group.park_join(first, ticket(2))
    assert group.parked_joins == 1
    group.park_join(second, ticket(3))
    assert group.all_joined()
    assert group.take_join(first) == ticket(2)
    assert group.take_join(first) is None
    assert group.parked_joins == 1
    assert not group.all_joined()


def test_ids_not_used_yet_hold_the_join_phase(group):
    assert group.all_joined()
    group.pending["p"] = 10.0
    assert not group.all_joined()


def test_a_member_with_a_parked_join_cannot_be_taken_out(group):
    first = member("a")
    group.add(first)
    group.park_join(first, ticket(1))
    with pytest.raises(AssertionError):
        group.remove(first)


def test_members_stand_in_the_order_of_a_hash_map(group):
    for name in ("zeta", "alpha", "mid"):
        group.add(member(name))
    assert [found.member_id for found in group.in_map_order()] == map_order(["zeta", "alpha", "mid"])


def test_a_hash_map_never_shrinks(group):
    names = [f"member-{number}" for number in range(13)]
    for name in names:
        group.add(member(name))
    for name in names[3:]:
        group.remove(group.members[name])
    assert group.most_members == 13
    assert [found.member_id for found in group.in_map_order()] == map_order(names[:3], 13)
