"""The checks of OffsetCommit and OffsetFetch in a group of the consumer protocol, row by row."""

from __future__ import annotations

import pytest

from kwire import ErrorCode as E
from mockbroker.groups.consumer import commit_rules
from mockbroker.groups.consumer.state import (
    ClassicMemberMetadata,
    ConsumerGroup,
    ConsumerMember,
)
from mockbroker.groups.events import Commit


def group_of(*members: ConsumerMember) -> ConsumerGroup:
    group = ConsumerGroup(group_id="g")
    for member in members:
        group.members[member.member_id] = member
    return group


MEMBER = ConsumerMember(member_id="m", epoch=5)
COMMITS = [  # member id, epoch, whether the version has member epochs, error (ConsumerGroup.validateOffsetCommit)
    ("m", 5, True, E.NONE),
    ("m", 4, True, E.STALE_MEMBER_EPOCH),
    ("m", 6, True, E.STALE_MEMBER_EPOCH),
    ("m", -1, True, E.STALE_MEMBER_EPOCH),
    ("m", 5, False, E.UNSUPPORTED_VERSION),
    ("m", 4, False, E.UNSUPPORTED_VERSION),
    ("x", 5, True, E.UNKNOWN_MEMBER_ID),
    ("", -1, True, E.UNKNOWN_MEMBER_ID),
]


@pytest.mark.parametrize(("member_id", "epoch", "supports", "error"), COMMITS)
def test_commit_of_a_member(member_id: str, epoch: int, supports: bool, error: E) -> None:
    commit = Commit(member_id=member_id, generation=epoch, supports_member_epochs=supports)
    assert commit_rules.commit_error(group_of(MEMBER), commit) == error


@pytest.mark.parametrize(("epoch", "error"), [(-1, E.NONE), (0, E.UNKNOWN_MEMBER_ID)])
def test_commit_to_an_empty_group(epoch: int, error: E) -> None:
    assert commit_rules.commit_error(group_of(), Commit(member_id="", generation=epoch)) == error


TRANSACTIONAL = [  # member id, epoch, error: TxnOffsetCommit has no STALE_MEMBER_EPOCH
    ("", -1, E.NONE),
    ("m", 5, E.NONE),
    ("m", 4, E.ILLEGAL_GENERATION),
    ("x", 5, E.UNKNOWN_MEMBER_ID),
    ("", 5, E.UNKNOWN_MEMBER_ID),
]


@pytest.mark.parametrize(("member_id", "epoch", "error"), TRANSACTIONAL)
def test_commit_in_a_transaction(member_id: str, epoch: int, error: E) -> None:
    commit = Commit(member_id=member_id, generation=epoch, supports_member_epochs=True)
    assert commit_rules.transactional_commit_error(group_of(MEMBER), commit) == error


FETCHES = [  # member id, epoch, error (ConsumerGroup.validateOffsetFetch)
    (None, -1, E.NONE),
    (None, 5, E.UNKNOWN_SERVER_ERROR),
    ("m", 5, E.NONE),
    ("m", 4, E.STALE_MEMBER_EPOCH),
    ("m", 6, E.STALE_MEMBER_EPOCH),
    ("x", 5, E.UNKNOWN_MEMBER_ID),
]


@pytest.mark.parametrize(("member_id", "epoch", "error"), FETCHES)
def test_fetch_of_a_member(member_id: str | None, epoch: int, error: E) -> None:
    assert commit_rules.fetch_error(group_of(MEMBER), member_id, epoch) == error


@pytest.mark.parametrize(("epoch", "error"), [(-1, E.NONE), (0, E.UNKNOWN_SERVER_ERROR), (1, E.UNKNOWN_SERVER_ERROR)])
def test_fetch_with_an_epoch_needs_a_member_id(epoch: int, error: E) -> None:
    assert commit_rules.fetch_error(group_of(MEMBER), None, epoch) == error


@pytest.mark.parametrize(
    ("classic", "error"), [(None, E.STALE_MEMBER_EPOCH), (ClassicMemberMetadata(5.0, ()), E.ILLEGAL_GENERATION)]
)
def test_wrong_epoch_is_an_error_of_the_member_protocol(classic: ClassicMemberMetadata | None, error: E) -> None:
    group = group_of(ConsumerMember(member_id="m", epoch=5, classic=classic))
    assert commit_rules.fetch_error(group, "m", 5) == E.NONE
    assert {commit_rules.fetch_error(group, "m", epoch) for epoch in (-1, 4, 6)} == {error}
    commit = Commit(member_id="m", generation=4, supports_member_epochs=True)
    assert commit_rules.commit_error(group, commit) == error


@pytest.mark.parametrize("supports", [False, True])
def test_classic_member_commits_without_member_epochs(supports: bool) -> None:
    group = group_of(ConsumerMember(member_id="m", epoch=5, classic=ClassicMemberMetadata(5.0, ())))
    commit = Commit(member_id="m", generation=5, supports_member_epochs=supports)
    assert commit_rules.commit_error(group, commit) == E.NONE
