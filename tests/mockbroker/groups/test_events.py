"""The events of groups."""

from __future__ import annotations

from typing import Any

import pytest

from mockbroker.groups.events import Commit

IDENTITIES: list[tuple[dict[str, Any], bool]] = [
    ({"generation": -1, "member_id": ""}, False),
    ({"generation": 0, "member_id": ""}, True),
    ({"generation": -1, "member_id": "m"}, True),
    ({"generation": -1, "member_id": "", "instance_id": "i"}, True),
]


@pytest.mark.parametrize(("fields", "has_identity"), IDENTITIES)
def test_commit_of_a_member_names_it(fields: dict[str, Any], has_identity: bool) -> None:
    assert Commit(**fields).has_member_identity is has_identity


def test_commit_has_a_generation_unless_its_version_has_epochs() -> None:
    """As each TxnOffsetCommit."""
    commit = Commit(generation=1, member_id="m")
    assert (commit.supports_member_epochs, commit.instance_id, list(commit.partitions)) == (False, None, [])
