"""The checks of OffsetCommit and OffsetFetch in a streams group, row by row: Kafka's StreamsGroup."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kwire import ErrorCode as E
from mockbroker.groups.events import Commit
from mockbroker.groups.streams import commit_rules

MEMBER = SimpleNamespace(
    epoch=5,
    assigned=SimpleNamespace(active={("0", 0): 3, ("0", 1): 5}),
    pending_revocation=SimpleNamespace(active={("0", 2): 2}),
)
TOPOLOGY = SimpleNamespace(subtopology_of={"t": "0"})


def group(*, empty: bool = False, topology: object = TOPOLOGY) -> Any:
    return SimpleNamespace(members={} if empty else {"m": MEMBER}, empty=empty, topology=topology)


COMMITS = [  # member id, epoch, committed partitions, error
    ("m", 5, [("t", 9)], E.NONE),
    ("m", 4, [("t", 0)], E.NONE),
    ("m", 3, [("t", 0)], E.NONE),
    ("m", 2, [("t", 0)], E.STALE_MEMBER_EPOCH),
    ("m", 4, [("t", 1)], E.STALE_MEMBER_EPOCH),
    ("m", 4, [("t", 0), ("t", 1)], E.STALE_MEMBER_EPOCH),
    ("m", 2, [("t", 2)], E.NONE),  # a task that is being revoked
    ("m", 1, [("t", 2)], E.STALE_MEMBER_EPOCH),
    ("m", 4, [("t", 3)], E.STALE_MEMBER_EPOCH),  # the member has no such task
    ("m", 4, [("u", 0)], E.STALE_MEMBER_EPOCH),  # the topology does not have this topic
    ("m", 6, [("t", 0)], E.STALE_MEMBER_EPOCH),
    ("m", -1, [], E.NONE),
    ("x", 5, [("t", 0)], E.UNKNOWN_MEMBER_ID),
    ("", -1, [], E.UNKNOWN_MEMBER_ID),
]


@pytest.mark.parametrize(("member_id", "epoch", "partitions", "error"), COMMITS)
def test_commit_of_a_member(member_id: str, epoch: int, partitions: list[tuple[str, int]], error: E) -> None:
    commit = Commit(member_id=member_id, generation=epoch, supports_member_epochs=True, partitions=partitions)
    assert commit_rules.commit_error(group(), commit) == error
    in_transaction = {E.STALE_MEMBER_EPOCH: E.ILLEGAL_GENERATION}.get(error, error)
    if commit.has_member_identity:
        assert commit_rules.transactional_commit_error(group(), commit) == in_transaction
    else:
        assert commit_rules.transactional_commit_error(group(), commit) == E.NONE


def test_version_without_member_epochs_is_unsupported() -> None:
    for member_id, error in (("m", E.UNSUPPORTED_VERSION), ("x", E.UNKNOWN_MEMBER_ID)):
        commit = Commit(member_id=member_id, generation=5, supports_member_epochs=False)
        assert commit_rules.commit_error(group(), commit) == error


def test_group_without_a_topology_knows_no_tasks() -> None:
    commit = Commit(member_id="m", generation=4, supports_member_epochs=True, partitions=[("t", 0)])
    assert commit_rules.commit_error(group(topology=None), commit) == E.STALE_MEMBER_EPOCH


@pytest.mark.parametrize(("epoch", "error"), [(-1, E.NONE), (0, E.UNKNOWN_MEMBER_ID)])
def test_commit_to_an_empty_group(epoch: int, error: E) -> None:
    assert commit_rules.commit_error(group(empty=True), Commit(member_id="", generation=epoch)) == error


FETCHES = [  # member id, epoch, error
    (None, -1, E.NONE),
    (None, 0, E.UNKNOWN_SERVER_ERROR),
    (None, 5, E.UNKNOWN_SERVER_ERROR),
    ("m", 5, E.NONE),
    ("m", 4, E.STALE_MEMBER_EPOCH),
    ("x", 5, E.UNKNOWN_MEMBER_ID),
]


@pytest.mark.parametrize(("member_id", "epoch", "error"), FETCHES)
def test_fetch_of_a_member(member_id: str | None, epoch: int, error: E) -> None:
    assert commit_rules.fetch_error(group(), member_id, epoch) == error
