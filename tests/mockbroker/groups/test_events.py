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
