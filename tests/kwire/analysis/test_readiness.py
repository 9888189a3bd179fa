from __future__ import annotations

from typing import Any

from tools.handmade_calls import GROUP, CallLog, two_members

from kwire.analysis.readiness import BLOCKED, NOTE, READY, Statement, statements
from kwire.analysis.usage import FIRST_IN_4
from kwire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse


def statements_of(log: CallLog, kind: str) -> list[Statement]:
    return [one for one in statements(log.tables()) if one.kind == kind]


def test_client_with_removed_versions_is_blocked() -> None:
    log = two_members()
    for version in (FIRST_IN_4[8] - 1, FIRST_IN_4[8]):
        log.call("old", 900, OffsetCommitRequest(group_id=GROUP), OffsetCommitResponse(), version)
    assert statements_of(log, "client") == [
        Statement(READY, "client", "a", "tea 1.0", "all requests are served"),
        Statement(READY, "client", "b", "tea 1.0", "all requests are served"),
        Statement(BLOCKED, "client", "old", "tea 1.0", "removed requests: OffsetCommit v1 (1)"),
    ]


def test_groups_by_assignor() -> None:
    expected: dict[str, Any] = {
        "range": (READY, "can move to KIP-848 with the same assignor"),
        "sticky": (READY, "can move to KIP-848: sticky becomes uniform"),
        "own": (NOTE, "no KIP-848 equivalent of assignor own"),
    }
    for assignor, (state, detail) in expected.items():
        log = CallLog()
        log.join("a", 0, 1, "a", protocol=assignor)
        log.sync("a", 10, 1, [0, 1], {"a": [0, 1]})
        assert statements_of(log, "group") == [Statement(state, "group", GROUP, None, detail)]
