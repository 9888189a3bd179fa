"""One member's step, as a table: what it has, what it shall have, what it says; and what it is then."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from mockbroker.groups.consumer.reconcile import Goal, next_step
from mockbroker.groups.consumer.state import NOTHING, ConsumerMember, MemberState

STABLE, UNREVOKED, UNRELEASED = MemberState
T, U = UUID(int=1), UUID(int=2)
HELD_BY_OTHER = 9


def parts(text: str) -> frozenset[Any]:
    """``"012"`` is partitions 0, 1, 2 of T; ``"0u"`` partition 0 of T and 0 of U."""
    return frozenset((U, 0) if letter == "u" else (T, int(letter)) for letter in text)


# state, epoch, assigned, revoking | target epoch, target, held by others, owned | state, epoch, assigned, revoking
STEPS = [
    pytest.param((STABLE, 1, "012", ""), (1, "012", "", None), (STABLE, 1, "012", ""), id="nothing to do"),
    pytest.param((STABLE, 0, "", ""), (1, "012", "", ""), (STABLE, 1, "012", ""), id="all free"),
    pytest.param((STABLE, 0, "", ""), (2, "2", "2", ""), (UNRELEASED, 2, "", ""), id="nothing free"),
    pytest.param((STABLE, 0, "", ""), (2, "12", "2", ""), (UNRELEASED, 2, "1", ""), id="some free"),
    pytest.param((STABLE, 1, "012", ""), (2, "01", "", "012"), (UNREVOKED, 1, "01", "2"), id="give up"),
    pytest.param((STABLE, 1, "012", ""), (2, "01", "", None), (UNREVOKED, 1, "01", "2"), id="give up, says nothing"),
    pytest.param((STABLE, 1, "012", ""), (2, "01", "", "01"), (STABLE, 2, "01", ""), id="has given up already"),
    pytest.param((STABLE, 1, "01", ""), (2, "12", "", "01"), (UNREVOKED, 1, "1", "0"), id="give up before taking"),
    pytest.param((UNREVOKED, 1, "01", "2"), (2, "01", "", "012"), (UNREVOKED, 1, "01", "2"), id="still has it"),
    pytest.param((UNREVOKED, 1, "01", "2"), (2, "01", "", None), (UNREVOKED, 1, "01", "2"), id="does not say"),
    pytest.param((UNREVOKED, 1, "01", "2"), (2, "01", "", "01"), (STABLE, 2, "01", ""), id="gave it up"),
    pytest.param((UNREVOKED, 1, "1", "0"), (2, "12", "2", "1"), (UNRELEASED, 2, "1", ""), id="gave up, waits"),
    pytest.param((UNREVOKED, 1, "01", "2"), (3, "0", "", "01"), (UNREVOKED, 1, "0", "1"), id="more to give up"),
    pytest.param((UNREVOKED, 1, "01", "2"), (3, "012", "", "01"), (STABLE, 3, "012", ""), id="gets it back"),
    pytest.param((UNRELEASED, 2, "1", ""), (2, "12", "2", None), (UNRELEASED, 2, "1", ""), id="waits on"),
    pytest.param((UNRELEASED, 2, "1", ""), (2, "12", "", None), (STABLE, 2, "12", ""), id="released"),
    pytest.param((UNRELEASED, 2, "1", ""), (3, "2", "2", "1"), (UNREVOKED, 2, "", "1"), id="another target"),
]


def step(before: Any, goal: Any, **how: Any) -> Any:
    state, epoch, assigned, revoking = before
    target_epoch, target, held, owned = goal
    member = ConsumerMember(member_id="m", state=state, epoch=epoch, assigned=parts(assigned), revoking=parts(revoking))
    owners = dict.fromkeys(parts(assigned) | parts(revoking), epoch) | dict.fromkeys(parts(held), HELD_BY_OTHER)
    return next_step(
        member,
        Goal(
            epoch=target_epoch,
            target=parts(target),
            topics=how.pop("topics", {T}),
            owners=owners,
            owned=None if owned is None else parts(owned),
            **how,
        ),
    )


@pytest.mark.parametrize(("before", "goal", "after"), STEPS)
def test_steps(before, goal, after):
    member = step(before, goal)
    state, epoch, assigned, revoking = after
    assert (member.state, member.epoch) == (state, epoch)
    assert (member.assigned, member.revoking) == (parts(assigned), parts(revoking))


def test_the_epoch_before_is_kept_for_answers_that_get_lost():
    assert step((STABLE, 1, "012", ""), (2, "012", "", None)).previous_epoch == 1


SHRINKS = [
    pytest.param((STABLE, 1, "0u", ""), (1, "0u", "", "0u"), (UNREVOKED, "0", "u"), id="has it"),
    pytest.param((STABLE, 1, "0u", ""), (1, "0u", "", None), (UNREVOKED, "0", "u"), id="does not say"),
    pytest.param((STABLE, 1, "0u", ""), (1, "0u", "", "0"), (STABLE, "0", ""), id="has given it up"),
    pytest.param((UNREVOKED, 1, "0u", "1"), (2, "0u", "", "01u"), (UNREVOKED, "0", "1u"), id="on top of others"),
    pytest.param((STABLE, 1, "01", ""), (1, "01", "", "01"), (STABLE, "01", ""), id="nothing to shrink"),
]


@pytest.mark.parametrize(("before", "goal", "after"), SHRINKS)
def test_topics_that_are_not_subscribed_any_more(before, goal, after):
    member = step(before, goal, changed=True)
    assert (member.state, member.assigned, member.revoking) == (after[0], parts(after[1]), parts(after[2]))
    assert member.epoch == before[1]


def test_a_target_that_was_made_for_another_subscription_is_cut():
    member = step((STABLE, 0, "", ""), (1, "0u", "", ""), topics={T})
    assert member.assigned == parts("0")


def test_nobody_subscribed_to_anything_has_nothing():
    member = step((STABLE, 1, "0", ""), (2, "0", "", ""), topics=())
    assert (member.assigned, member.epoch) == (NOTHING, 2)
