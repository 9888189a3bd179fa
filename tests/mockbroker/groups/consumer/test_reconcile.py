"""The next state of a member, as a table: member, target assignment, other owners, owned partitions; and the result."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from mockbroker.groups.consumer.reconcile import ReconciliationInput, reconciled_member
from mockbroker.groups.consumer.state import (
    ConsumerMember,
    MemberState,
)
from mockbroker.groups.partition_sets import NO_PARTITIONS

STABLE, UNREVOKED, UNRELEASED = MemberState
T, U = UUID(int=1), UUID(int=2)
HELD_BY_OTHER = 9


def parts(text: str) -> frozenset[Any]:
    """Return a partition set: ``"012"`` is partitions 0, 1, 2 of T; ``"0u"`` is partition 0 of T and 0 of U."""
    return frozenset((U, 0) if letter == "u" else (T, int(letter)) for letter in text)


# state, epoch, assigned, revoking | target epoch, target, owned by others, reported as owned | state, epoch, assigned, revoking
STEPS = [
    pytest.param((STABLE, 1, "012", ""), (1, "012", "", None), (STABLE, 1, "012", ""), id="nothing to do"),
    pytest.param((STABLE, 0, "", ""), (1, "012", "", ""), (STABLE, 1, "012", ""), id="all free"),
    pytest.param((STABLE, 0, "", ""), (2, "2", "2", ""), (UNRELEASED, 2, "", ""), id="nothing free"),
    pytest.param((STABLE, 0, "", ""), (2, "12", "2", ""), (UNRELEASED, 2, "1", ""), id="some free"),
    pytest.param((STABLE, 1, "012", ""), (2, "01", "", "012"), (UNREVOKED, 1, "01", "2"), id="revoke"),
    pytest.param(
        (STABLE, 1, "012", ""),
        (2, "01", "", None),
        (UNREVOKED, 1, "01", "2"),
        id="revoke, owned partitions not reported",
    ),
    pytest.param((STABLE, 1, "012", ""), (2, "01", "", "01"), (STABLE, 2, "01", ""), id="revoked already"),
    pytest.param((STABLE, 1, "01", ""), (2, "12", "", "01"), (UNREVOKED, 1, "1", "0"), id="revoke before assigning"),
    pytest.param((UNREVOKED, 1, "01", "2"), (2, "01", "", "012"), (UNREVOKED, 1, "01", "2"), id="not revoked yet"),
    pytest.param(
        (UNREVOKED, 1, "01", "2"), (2, "01", "", None), (UNREVOKED, 1, "01", "2"), id="owned partitions not reported"
    ),
    pytest.param((UNREVOKED, 1, "01", "2"), (2, "01", "", "01"), (STABLE, 2, "01", ""), id="revoked"),
    pytest.param(
        (UNREVOKED, 1, "1", "0"), (2, "12", "2", "1"), (UNRELEASED, 2, "1", ""), id="revoked, target not released"
    ),
    pytest.param((UNREVOKED, 1, "01", "2"), (3, "0", "", "01"), (UNREVOKED, 1, "0", "1"), id="more to revoke"),
    pytest.param(
        (UNREVOKED, 1, "01", "2"),
        (3, "012", "", "01"),
        (STABLE, 3, "012", ""),
        id="revoked partition in the target again",
    ),
    pytest.param((UNRELEASED, 2, "1", ""), (2, "12", "2", None), (UNRELEASED, 2, "1", ""), id="not released yet"),
    pytest.param((UNRELEASED, 2, "1", ""), (2, "12", "", None), (STABLE, 2, "12", ""), id="released"),
    pytest.param((UNRELEASED, 2, "1", ""), (3, "2", "2", "1"), (UNREVOKED, 2, "", "1"), id="another target"),
]


def step(before: Any, goal: Any, **how: Any) -> Any:
    state, epoch, assigned, revoking = before
    target_epoch, target, held, owned = goal
    member = ConsumerMember(
        member_id="m", state=state, epoch=epoch, assigned=parts(assigned), pending_revocation=parts(revoking)
    )
    owners = dict.fromkeys(parts(assigned) | parts(revoking), epoch) | dict.fromkeys(parts(held), HELD_BY_OTHER)
    return reconciled_member(
        member,
        ReconciliationInput(
            target_epoch=target_epoch,
            target=parts(target),
            subscribed_topic_ids=how.pop("topics", {T}),
            partition_epochs=owners,
            owned_partitions=None if owned is None else parts(owned),
            **how,
        ),
    )


@pytest.mark.parametrize(("before", "goal", "after"), STEPS)
def test_next_step(before, goal, after):
    member = step(before, goal)
    state, epoch, assigned, revoking = after
    assert (member.state, member.epoch) == (state, epoch)
    assert (member.assigned, member.pending_revocation) == (parts(assigned), parts(revoking))


def test_previous_epoch_is_kept_for_lost_responses():
    assert step((STABLE, 1, "012", ""), (2, "012", "", None)).previous_epoch == 1


UNSUBSCRIBED = [
    pytest.param((STABLE, 1, "0u", ""), (1, "0u", "", "0u"), (UNREVOKED, "0", "u"), id="owned"),
    pytest.param((STABLE, 1, "0u", ""), (1, "0u", "", None), (UNREVOKED, "0", "u"), id="owned partitions not reported"),
    pytest.param((STABLE, 1, "0u", ""), (1, "0u", "", "0"), (STABLE, "0", ""), id="not owned any more"),
    pytest.param(
        (UNREVOKED, 1, "0u", "1"), (2, "0u", "", "01u"), (UNREVOKED, "0", "1u"), id="added to pending revocations"
    ),
    pytest.param((STABLE, 1, "01", ""), (1, "01", "", "01"), (STABLE, "01", ""), id="nothing to revoke"),
]


@pytest.mark.parametrize(("before", "goal", "after"), UNSUBSCRIBED)
def test_unsubscribed_topics_are_revoked_without_a_new_target(before, goal, after):
    member = step(before, goal, has_changed_subscription=True)
    assert (member.state, member.assigned, member.pending_revocation) == (after[0], parts(after[1]), parts(after[2]))
    assert member.epoch == before[1]


def test_unsubscribed_topics_of_the_target_are_not_assigned():
    member = step((STABLE, 0, "", ""), (1, "0u", "", ""), topics={T})
    assert member.assigned == parts("0")


def test_no_subscription_means_no_partitions():
    member = step((STABLE, 1, "0", ""), (2, "0", "", ""), topics=())
    assert (member.assigned, member.epoch) == (NO_PARTITIONS, 2)


def test_epoch_of_a_revoking_member_is_its_previous_one():
    assert step((STABLE, 1, "0u", ""), (1, "0u", "", "0u"), has_changed_subscription=True).previous_epoch == 1


def test_unsubscribed_partitions_may_be_revoked_already():
    after = step((STABLE, 5, "0u", ""), (5, "0", "", "0"), has_changed_subscription=True)
    assert (after.state, after.assigned, after.pending_revocation) == (STABLE, parts("0"), NO_PARTITIONS)
    assert (after.epoch, after.previous_epoch) == (5, 5)
