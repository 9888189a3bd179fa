"""The state of a classic group: transitions, supported protocols, pending joins, and map order."""

from __future__ import annotations

import pytest

from kwire.java import map_order
from mockbroker.base.effects import Ticket
from mockbroker.groups.classic.state import VALID_PREVIOUS_STATES, ClassicGroup, Member, State

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
def test_state_transitions(source, target):
    group = ClassicGroup(group_id="g", initial_delay=0.0, state=source)
    if (source.name, target.name) in LEGAL:
        group.transition_to(target, 7.0)
        assert (group.previous_state, group.state, group.state_since) == (source, target, 7.0)
    else:
        with pytest.raises(AssertionError, match="g: "):
            group.transition_to(target, 7.0)
        assert group.state is source


def test_every_state_can_be_left_and_entered():
    assert set(VALID_PREVIOUS_STATES) == set().union(*VALID_PREVIOUS_STATES.values()) == set(State)


def test_state_names_are_those_of_describe_groups():
    assert [state.value for state in State] == ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable"]


def test_a_new_group_is_empty_and_has_no_timers(group):
    assert (group.state, group.generation, group.leader, group.protocol) == (State.EMPTY, 0, "", None)
    assert len(group.timers) == 0


def test_the_longest_rebalance_timeout_of_the_members_is_used(group):
    assert group.rebalance_timeout() == 0.0
    group.add_member(member("a", rebalance=2.5))
    group.add_member(member("b", rebalance=1.5))
    assert group.rebalance_timeout() == 2.5


def test_supported_protocols_follow_the_members(group):
    first = member("a", "range", "sticky")
    group.add_member(first)
    group.add_member(member("b", "sticky"))
    assert (group.all_support("range"), group.all_support("sticky"), group.all_support("x")) == (False, True, False)
    group.update_protocols(first, (("range", b""),))
    assert not group.all_support("sticky")
    group.remove_member(first)
    assert group.all_support("sticky")
    assert dict(group.supported_protocols) == {"sticky": 1}


def test_all_support_does_not_change_the_counts(group):
    group.add_member(member("a"))
    group.all_support("never heard of")
    assert dict(group.supported_protocols) == {"range": 1}


def test_duplicate_protocol_counts_once_with_its_first_metadata(group):
    twice = member("a")
    twice.protocols = (("range", b"first"), ("range", b"second"))
    group.add_member(twice)
    assert dict(group.supported_protocols) == {"range": 1}
    assert twice.metadata("range") == b"first"
    group.remove_member(twice)
    assert not group.supported_protocols


def test_pending_joins_are_counted(group):
    first, second = member("a"), member("b")
    group.add_member(first)
    group.add_member(second)
    group.set_pending_join(first, ticket(1))
    assert not group.all_members_joined()
    group.set_pending_join(first, ticket(2))
    assert group.pending_join_count == 1
    group.set_pending_join(second, ticket(3))
    assert group.all_members_joined()
    assert group.pop_pending_join(first) == ticket(2)
    assert group.pop_pending_join(first) is None
    assert group.pending_join_count == 1
    assert not group.all_members_joined()


def test_pending_members_delay_the_join_phase(group):
    assert group.all_members_joined()
    group.pending_members["p"] = 10.0
    assert not group.all_members_joined()


def test_a_member_with_a_pending_join_cannot_be_removed(group):
    first = member("a")
    group.add_member(first)
    group.set_pending_join(first, ticket(1))
    with pytest.raises(AssertionError):
        group.remove_member(first)


def test_members_have_the_order_of_a_hash_map(group):
    for name in ("zeta", "alpha", "mid"):
        group.add_member(member(name))
    assert [found.member_id for found in group.in_map_order()] == map_order(["zeta", "alpha", "mid"])


def test_map_order_depends_on_the_peak_member_count(group):
    names = [f"member-{number}" for number in range(13)]
    for name in names:
        group.add_member(member(name))
    for name in names[3:]:
        group.remove_member(group.members[name])
    assert group.peak_member_count == 13
    assert [found.member_id for found in group.in_map_order()] == map_order(names[:3], 13)


def test_new_group_has_no_generation() -> None:
    group = ClassicGroup(group_id="g", initial_delay=3.0)
    assert (group.generation, group.state, group.previous_state, group.protocol) == (0, State.EMPTY, None, None)
    assert (group.peak_member_count, group.pending_join_count, group.leader) == (0, 0, "")
    assert (group.has_record, group.new_member_added) == (False, False)


def test_group_has_kafkas_default_of_the_maximum_size() -> None:
    assert ClassicGroup(group_id="g", initial_delay=3.0).max_size == 2_147_483_647


def test_changes_of_a_removed_member_are_not_those_of_its_group(group: ClassicGroup) -> None:
    removed = member("m")
    group.add_member(removed)
    removed.assignment = b"x"
    assert group.changes
    group.remove_member(removed)
    group.changes.clear()
    removed.assignment = b"y"
    assert not group.changes


def test_rebalance_writes_only_the_first_record_of_a_group(group: ClassicGroup) -> None:
    group.changes.clear()
    group.generation = 1
    assert group.has_unwritten_changes
    group.state = State.PREPARING
    group.changes.clear()
    assert not group.has_unwritten_changes
    group.generation = 2
    assert not group.has_unwritten_changes
    group.has_record = True
    assert group.has_unwritten_changes


def test_replaced_static_member_keeps_its_place(group: ClassicGroup) -> None:
    static = member("a")
    static.instance_id = "i"
    group.add_member(static)
    group.add_member(member("b"))
    group.leader, group.pending_sync_members = "a", {"a", "b"}
    group.replace_static_member(static, "c")
    assert (group.leader, group.pending_sync_members) == ("c", {"b", "c"})
    assert (set(group.members), group.static_members, static.member_id) == ({"b", "c"}, {"i": "c"}, "c")
    group.leader, group.pending_sync_members = "b", {"b"}
    group.replace_static_member(static, "d")
    assert (group.leader, group.pending_sync_members) == ("b", {"b"})
