"""The record of a classic group in __consumer_offsets, and the group that is rebuilt from it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tools.group_harness import GroupHarness

from kwire.blobs.offsets_topic import GroupMetadataValue
from mockbroker.base.release import SINCE_4_0
from mockbroker.base.settings import Settings
from mockbroker.groups.classic.records import changed_records, creation_record, group_from_record, group_record
from mockbroker.groups.classic.state import State
from mockbroker.groups.records.wall_time import WallClock

WALL = WallClock(1_000.0)
CONTEXT: Any = SimpleNamespace(settings=Settings(), quirks=SINCE_4_0)


def stable_group() -> GroupHarness:
    harness = GroupHarness()
    harness.wait(7.25)
    harness.join_as("", "m", (("range", b"sub"),), instance_id="i", session=10.5, rebalance=60.25)
    harness.sync("m", {"m": b"assigned"})
    return harness


def test_record_of_a_stable_group_has_all_its_members() -> None:
    record = group_record(stable_group().group, WALL)
    assert record is not None
    key, value, version = record
    assert (key.group, version) == ("g", 3)
    assert value == GroupMetadataValue(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader="m",
        current_state_timestamp=1_007_250,
        members=[
            GroupMetadataValue.Member(
                member_id="m",
                group_instance_id="i",
                client_id="client",
                client_host="/127.0.0.1",
                rebalance_timeout=60_250,
                session_timeout=10_500,
                subscription=b"sub",
                assignment=b"assigned",
            )
        ],
    )


def test_rebuilt_group_equals_the_written_one() -> None:
    written = stable_group().group
    record = group_record(written, WALL)
    assert record is not None
    group = group_from_record("g", record[1], CONTEXT, WALL, 100.0)
    assert (group.state, group.state_since, group.has_record) == (State.STABLE, 7.25, True)
    assert (group.generation, group.protocol_type, group.protocol, group.leader) == (1, "consumer", "range", "m")
    assert (group.initial_delay, group.max_size) == (3.0, 2**31 - 1)
    [member] = group.members.values()
    assert (member.member_id, member.instance_id, member.client_id) == ("m", "i", "client")
    assert (member.client_host, member.session_timeout, member.rebalance_timeout) == ("/127.0.0.1", 10.5, 60.25)
    assert (list(member.protocols), member.assignment, member.is_new) == ([("range", b"sub")], b"assigned", False)
    assert group.static_members == {"i": "m"}
    assert group.timers.earliest == 110.5, "the session restarts"


@pytest.mark.parametrize(("rebalance", "expected"), [(-1, 10.0), (0, 0.0), (5_000, 5.0)])
def test_old_record_has_the_session_timeout_for_rebalances(rebalance: int, expected: float) -> None:
    """Version 0 of the record has no rebalance timeout."""
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader="m",
        members=[GroupMetadataValue.Member(member_id="m", session_timeout=10_000, rebalance_timeout=rebalance)],
    )
    [member] = group_from_record("g", value, CONTEXT, WALL, 0.0).members.values()
    assert member.rebalance_timeout == expected


@pytest.mark.parametrize(("timestamp", "since"), [(-1, 100.0), (0, -1_000.0), (1_000_500, 0.5)])
def test_time_of_the_state_is_unknown_in_older_records(timestamp: int, since: float) -> None:
    value = GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=timestamp)
    group = group_from_record("g", value, CONTEXT, WALL, 100.0)
    assert (group.state, group.state_since) == (State.EMPTY, since)
    assert (group.protocol, group.leader) == (None, "")


def test_members_without_a_protocol_have_an_empty_one() -> None:
    value = GroupMetadataValue(protocol=None, leader=None, members=[GroupMetadataValue.Member(member_id="m")])
    group = group_from_record("g", value, CONTEXT, WALL, 0.0)
    assert (group.protocol, [list(each.protocols) for each in group.members.values()]) == ("", [[("", b"")]])


def test_group_in_a_rebalance_has_no_record() -> None:
    harness = GroupHarness()
    assert group_record(harness.group, WALL) is None, "a new group"
    harness.in_state(State.COMPLETING)
    assert group_record(harness.group, WALL) is None
    harness.sync_all()
    assert group_record(harness.group, WALL) is not None
    harness.leave("a", "b")
    record = group_record(harness.group, WALL)
    assert record is not None
    assert (record[1].members, record[1].protocol, record[1].leader) == ([], None, None)


def test_first_record_of_a_group_is_written_before_it_is_stable() -> None:
    harness = GroupHarness()
    assert list(changed_records(harness.group, WALL)) == []
    harness.group.has_record = True
    harness.in_state(State.PREPARING)
    harness = GroupHarness()
    harness.group.has_record = True
    harness.completing("a")
    written = list(changed_records(harness.group, WALL))
    assert len(written) == 1
    _, value, version = creation_record(harness.group, WALL)
    assert (value.protocol, value.leader, value.members, version) == (None, None, [], 3)
    assert value.current_state_timestamp == WALL.to_ms(harness.group.state_since)


def test_record_is_written_again_only_after_a_rebalance() -> None:
    harness = GroupHarness()
    harness.group.has_record = True
    harness.stable("a")
    harness.group.changes.clear()
    harness.join("b")
    assert (harness.group.state, bool(harness.group.changes)) == (State.PREPARING, True)
    assert list(changed_records(harness.group, WALL)) == []
