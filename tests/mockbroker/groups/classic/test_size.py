"""The limit group.max.size: which joins are accepted."""

from __future__ import annotations

from typing import Any

import pytest
from tools.group_harness import GroupHarness

from kwire import ErrorCode as E
from mockbroker.groups.classic.group_type import CLASSIC_TYPE
from mockbroker.groups.classic.state import State


def is_rejected(ask: Any) -> bool:
    return (ask.error, ask.answer.member_id) == (E.GROUP_MAX_SIZE_REACHED, "")


def test_pending_ids_do_not_count_for_the_size():
    harness = GroupHarness(delay=1.0, max_size=2)
    for name in "abc":
        harness.ask_id(name)
    asks = [harness.join(name) for name in "abc"]
    assert is_rejected(asks[2])
    harness.wait(3.0)
    assert [ask.error for ask in asks[:2]] == [E.NONE, E.NONE]
    assert harness.group.pending_members == {}


@pytest.mark.parametrize("state", [State.COMPLETING, State.STABLE])
@pytest.mark.parametrize("who", ["", "made-up"])
def test_full_group_accepts_known_members_only(state, who):
    harness = GroupHarness(max_size=2)
    harness.in_state(state)
    assert is_rejected(harness.join_as(who, "c", protocols=(("nonsense", b""),)))
    assert is_rejected(harness.join_static("i", "c"))
    assert set(harness.group.members) == {"a", "b"}
    assert not harness.join("a").answers or harness.join("a").error is E.NONE


def test_last_rejoiners_of_an_oversize_group_are_removed():
    harness = GroupHarness(max_size=2)
    harness.stable("a")
    harness.group.max_size = 1
    late = harness.join("a")
    assert late.error is E.NONE  # it is a member, and no join is pending
    harness.group.max_size = 3
    harness.sync_all()
    harness.join("b")
    harness.join("c")
    harness.group.max_size = 2
    assert is_rejected(harness.join("a"))
    assert "a" not in harness.group.members
    assert harness.state is State.PREPARING  # Kafka 4 waits for the timer; see the recording max_size_while_preparing


def test_an_empty_group_accepts_every_member():
    harness = GroupHarness(max_size=1)
    assert harness.join("a").error is E.NONE


def test_refused_leader_of_a_full_group_is_replaced():
    harness = GroupHarness(max_size=3)
    harness.stable("a")
    harness.join("b")
    harness.join("c")
    harness.group.max_size = 2
    assert harness.group.leader == "a"
    assert is_rejected(harness.join("a"))
    assert harness.group.leader in {"b", "c"}


@pytest.mark.parametrize(("size", "state"), [(2, State.STABLE), (1, State.PREPARING)])
def test_loaded_group_above_its_size_rebalances(size: int, state: State):
    harness = GroupHarness()
    harness.stable("a", "b")
    harness.group.max_size = size
    effects = CLASSIC_TYPE.load(harness.group, 5.0)
    assert (harness.state, bool(effects)) == (state, state is State.PREPARING)


def test_member_that_waits_may_rejoin_a_full_group():
    harness = GroupHarness(max_size=2)
    harness.stable("a")
    harness.join("b")
    harness.group.max_size = 1
    assert harness.join("b").parked
    assert harness.group.pending_join_count == 1
