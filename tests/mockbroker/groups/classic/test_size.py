"""group.max.size: who still gets a place."""

from __future__ import annotations

from typing import Any

import pytest
from tools.play import Play

from kwire import ErrorCode as E
from mockbroker.groups.classic.state import State


def turned_away(ask: Any) -> bool:
    return (ask.error, ask.answer.member_id) == (E.GROUP_MAX_SIZE_REACHED, "")


def test_pending_ids_do_not_count_for_the_size():
    play = Play(delay=1.0, max_size=2)
    for name in "abc":
        play.ask_id(name)
    asks = [play.join(name) for name in "abc"]
    assert turned_away(asks[2])
    play.wait(3.0)
    assert [ask.error for ask in asks[:2]] == [E.NONE, E.NONE]
    assert play.group.pending == {}


@pytest.mark.parametrize("state", [State.COMPLETING, State.STABLE])
@pytest.mark.parametrize("who", ["", "made-up"])
def test_full_group_accepts_known_members_only(state, who):
    play = Play(max_size=2)
    play.in_state(state)
    assert turned_away(play.join_as(who, "c", protocols=(("nonsense", b""),)))
    assert turned_away(play.join_static("i", "c"))
    assert set(play.group.members) == {"a", "b"}
    assert not play.join("a").answers or play.join("a").error is E.NONE


def test_last_rejoiners_of_an_oversize_group_are_removed():
    play = Play(max_size=2)
    play.stable("a")
    play.group.max_size = 1
    late = play.join("a")
    assert late.error is E.NONE  # it is a member, and nobody waits
    play.group.max_size = 3
    play.sync_all()
    play.join("b")
    play.join("c")
    play.group.max_size = 2
    assert turned_away(play.join("a"))
    assert "a" not in play.group.members
    assert play.state is State.PREPARING  # Kafka 4 leaves the rest to the timer; see max_size_while_preparing


def test_an_empty_group_has_room():
    play = Play(max_size=1)
    assert play.join("a").error is E.NONE
