"""docs/conformance.md is what the conversations say."""

from __future__ import annotations

from conformance_table import page, rows, text
from golden import ROOT

from mockbroker.lab.conform.conversation import load

FOLDER = ROOT / "fixtures" / "conversations"


def test_the_page_is_current() -> None:
    assert (ROOT / "docs" / "conformance.md").read_text("utf-8") == page(FOLDER), "make docs"


def test_the_states_of_a_story() -> None:
    found = [
        (row.api, row.state, row.who, row.answer) for row in rows(load(FOLDER / "4.2.0" / "parked_join_leaves.json.gz"))
    ]
    assert found == [
        ("JoinGroup", "no group", "no id", "MEMBER_ID_REQUIRED"),
        ("JoinGroup", "Empty", "id given", "NONE"),
        ("SyncGroup", "CompletingRebalance", "leader", "NONE"),
        ("JoinGroup", "Stable", "no id", "MEMBER_ID_REQUIRED"),
        ("LeaveGroup", "PreparingRebalance", "", "NONE"),
        ("JoinGroup", "Stable", "id given", "UNKNOWN_MEMBER_ID, held for others"),
        ("Heartbeat", "?", "leader", "REBALANCE_IN_PROGRESS"),
        ("JoinGroup", "PreparingRebalance", "leader", "NONE"),
        ("SyncGroup", "CompletingRebalance", "leader", "NONE"),
    ]


def test_equal_answers_are_one_row() -> None:
    found = text(rows(load(FOLDER / "4.2.0" / "heartbeat_versions.json.gz"))).splitlines()
    assert "| Stable | leader | NONE | 0-4 | 4.2.0 | heartbeat_versions:8, heartbeat_versions:18 |" in found


def test_members_of_the_consumer_protocol() -> None:
    found = text(rows(load(FOLDER / "4.2.0" / "kip848_epochs.json.gz"))).splitlines()
    about = [line.split(" | ")[:3] for line in found if "kip848_epochs:12" in line]
    assert about == [["| consumer group", "member, other epoch", "FENCED_MEMBER_EPOCH"]]


def test_a_group_that_changes_its_protocol() -> None:
    path = FOLDER / "4.2.0" / "kip848_upgrade_of_a_stable_group.json.gz"
    found = [(row.api, row.state, row.who, row.answer) for row in rows(load(path)) if row.state]
    assert found == [
        ("JoinGroup", "no group", "no id", "MEMBER_ID_REQUIRED"),
        ("JoinGroup", "Empty", "id given", "NONE"),
        ("SyncGroup", "CompletingRebalance", "leader", "NONE"),
        ("OffsetCommit", "Stable", "leader", "NONE"),
        ("ConsumerGroupHeartbeat", "Stable", "stranger", "GROUP_ID_NOT_FOUND"),
        ("ConsumerGroupHeartbeat", "Stable", "stranger, leaves", "GROUP_ID_NOT_FOUND"),
        ("ConsumerGroupHeartbeat", "Stable", "stranger, joins", "NONE"),
        ("OffsetCommit", "consumer group", "member", "NONE"),
        ("SyncGroup", "consumer group", "member", "REBALANCE_IN_PROGRESS"),
        ("Heartbeat", "consumer group", "member", "REBALANCE_IN_PROGRESS"),
        ("JoinGroup", "consumer group", "member", "NONE"),
        ("SyncGroup", "consumer group", "member", "NONE"),
        ("Heartbeat", "consumer group", "member", "NONE"),
        ("ConsumerGroupHeartbeat", "consumer group", "member", "NONE"),
    ]
