"""docs/conformance.md is made from the recorded conversations."""

from __future__ import annotations

from conformance_table import page, rows, text
from golden import ROOT

from mockbroker.lab.conform.conversation import load

FOLDER = ROOT / "fixtures" / "conversations"


def test_page_is_current() -> None:
    assert (ROOT / "docs" / "conformance.md").read_text("utf-8") == page(FOLDER), "make docs"


def test_states_follow_the_conversation() -> None:
    states = [
        (row.api, row.state, row.sender, row.response)
        for row in rows(load(FOLDER / "4.2.0" / "parked_join_leaves.json.gz"))
    ]
    assert states == [
        ("JoinGroup", "no group", "no member id", "MEMBER_ID_REQUIRED"),
        ("JoinGroup", "Empty", "new member id", "NONE"),
        ("SyncGroup", "CompletingRebalance", "leader", "NONE"),
        ("JoinGroup", "Stable", "no member id", "MEMBER_ID_REQUIRED"),
        ("LeaveGroup", "PreparingRebalance", "", "NONE"),
        ("JoinGroup", "Stable", "new member id", "UNKNOWN_MEMBER_ID, delayed for other members"),
        ("Heartbeat", "?", "leader", "REBALANCE_IN_PROGRESS"),
        ("JoinGroup", "PreparingRebalance", "leader", "NONE"),
        ("SyncGroup", "CompletingRebalance", "leader", "NONE"),
    ]


def test_equal_responses_are_one_row() -> None:
    lines = text(rows(load(FOLDER / "4.2.0" / "heartbeat_versions.json.gz"))).splitlines()
    assert "| Stable | leader | NONE | 0-4 | 4.2.0 | heartbeat_versions:8, heartbeat_versions:18 |" in lines


def test_members_of_the_consumer_protocol() -> None:
    lines = text(rows(load(FOLDER / "4.2.0" / "kip848_epochs.json.gz"))).splitlines()
    about = [line.split(" | ")[:3] for line in lines if "kip848_epochs:12" in line]
    assert about == [["| consumer group", "member, other epoch", "FENCED_MEMBER_EPOCH"]]


def test_group_that_is_upgraded() -> None:
    path = FOLDER / "4.2.0" / "kip848_upgrade_of_a_stable_group.json.gz"
    states = [(row.api, row.state, row.sender, row.response) for row in rows(load(path)) if row.state]
    assert states == [
        ("JoinGroup", "no group", "no member id", "MEMBER_ID_REQUIRED"),
        ("JoinGroup", "Empty", "new member id", "NONE"),
        ("SyncGroup", "CompletingRebalance", "leader", "NONE"),
        ("OffsetCommit", "Stable", "leader", "NONE"),
        ("ConsumerGroupHeartbeat", "Stable", "unknown member", "GROUP_ID_NOT_FOUND"),
        ("ConsumerGroupHeartbeat", "Stable", "unknown member, leaves", "GROUP_ID_NOT_FOUND"),
        ("ConsumerGroupHeartbeat", "Stable", "unknown member, joins", "NONE"),
        ("OffsetCommit", "consumer group", "member", "NONE"),
        ("SyncGroup", "consumer group", "member", "REBALANCE_IN_PROGRESS"),
        ("Heartbeat", "consumer group", "member", "REBALANCE_IN_PROGRESS"),
        ("JoinGroup", "consumer group", "member", "NONE"),
        ("SyncGroup", "consumer group", "member", "NONE"),
        ("Heartbeat", "consumer group", "member", "NONE"),
        ("ConsumerGroupHeartbeat", "consumer group", "member", "NONE"),
    ]


def test_members_of_share_groups() -> None:
    result = rows(load(FOLDER / "4.2.0" / "share_member_epochs.json.gz"))
    states = [(row.state, row.sender, row.response) for row in result if row.api == "ShareGroupHeartbeat"]
    assert states[:4] == [
        ("no group", "unknown member, joins", "NONE"),
        ("share group", "member", "NONE"),
        ("share group", "member, other epoch", "NONE"),
        ("share group", "member, other epoch", "FENCED_MEMBER_EPOCH"),
    ]
    commits = [row.state for row in rows(load(FOLDER / "4.2.0" / "share_group_has_no_offsets.json.gz"))]
    assert commits[-1] == ""
    assert set(commits) == {"", "no group", "share group"}
