"""The events of groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mockbroker.base.effects import Ticket
from mockbroker.groups.events import Commit, ConsumerHeartbeat, Join, ShareHeartbeat, StreamsHeartbeat

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
    """Every TxnOffsetCommit has a generation, too."""
    commit = Commit(generation=1, member_id="m")
    assert (commit.supports_member_epochs, commit.instance_id, list(commit.partitions)) == (False, None, [])


FULL: dict[str, Any] = {"topics": frozenset({"t"}), "rebalance_timeout": 5.0, "owned_partitions": frozenset()}


@pytest.mark.parametrize(
    ("without", "regex", "is_full"),
    [
        ((), None, True),
        (("topics",), "t.*", True),
        (("topics",), None, False),
        (("rebalance_timeout",), None, False),
        (("owned_partitions",), None, False),
    ],
)
def test_full_heartbeat_has_all_fields(without: tuple[str, ...], regex: str | None, is_full: bool) -> None:
    fields = {name: value for name, value in FULL.items() if name not in without}
    beat = ConsumerHeartbeat(
        ticket=Ticket(1, 1, 68, 1), member_id="m", epoch=3, client_id="", client_host="", regex=regex, **fields
    )
    assert beat.is_full_request is is_full
    assert replace(beat, epoch=0).is_full_request


@pytest.mark.parametrize(("epoch", "topics", "is_full"), [(0, None, True), (3, None, False), (3, frozenset(), True)])
def test_full_heartbeat_of_a_share_group_has_topics(epoch: int, topics: frozenset[str] | None, is_full: bool) -> None:
    beat = ShareHeartbeat(
        ticket=Ticket(1, 1, 76, 1), member_id="m", epoch=epoch, client_id="", client_host="", topics=topics
    )
    assert beat.is_full_request is is_full


def test_fields_that_a_request_lacks_have_their_defaults() -> None:
    client: Any = {"ticket": Ticket(1, 1, 11, 0), "member_id": "", "client_id": "", "client_host": ""}
    times: Any = {"session_timeout": 1.0, "rebalance_timeout": 1.0}
    joining = Join(**client, **times, new_member_id="", require_member_id=False, protocol_type="", protocols=())
    assert (joining.supports_skipping_assignment, joining.instance_id, joining.reason) == (False, None, "")
    beat = StreamsHeartbeat(**client, epoch=0)
    assert (beat.endpoint_epoch, beat.shutdown_application, beat.owned_tasks) == (0, False, None)
