"""Members of the classic protocol in a group of the consumer protocol."""

from __future__ import annotations

from typing import Any

import pytest
from tools.consumer_group_harness import MixedGroupHarness, subscription

from kwire import ErrorCode as E
from kwire.messages.leave_group import LeaveGroupRequest


@pytest.fixture
def harness() -> MixedGroupHarness:
    harness = MixedGroupHarness()
    harness.join("new")
    return harness


# --- joining ----------------------------------------------------------------------------------------------------


def test_a_dynamic_member_is_given_an_id_first(harness):
    answer = harness.classic_join()
    assert answer.error_code == E.MEMBER_ID_REQUIRED
    assert len(answer.member_id) == 22, "as Kafka makes them for these groups"
    assert list(harness.group.members) == ["new"]


def test_it_is_answered_at_once_and_never_leads(harness):
    member_id = harness.classic()
    answer = harness.classic_join(member_id)
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (E.NONE, 2, "range")
    assert (answer.leader, answer.members) == ("", [])


def test_before_version_4_no_id_is_given_first(harness):
    assert harness.classic_join(version=3).error_code == E.NONE


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"protocol_type": "connect"}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"metadata": b"\x00\x01\x00"}, E.UNKNOWN_SERVER_ERROR),
        ({"instance_id": "nobody's"}, E.UNKNOWN_MEMBER_ID),
    ],
)
def test_refused(harness, given, error):
    answer = harness.classic_join("made-up", **given)
    assert (answer.error_code, answer.member_id) == (error, "")
    assert list(harness.group.members) == ["new"]


def test_it_must_offer_what_the_other_classic_members_offer(harness):
    harness.classic(name="range")
    assert harness.classic_join("x", name="roundrobin").error_code == E.INCONSISTENT_GROUP_PROTOCOL


def test_a_full_group():
    harness = MixedGroupHarness({"group.consumer.max.size": 1})
    harness.join("new")
    assert harness.classic_join().error_code == E.GROUP_MAX_SIZE_REACHED


def test_partitions_come_with_the_next_join(harness):
    old = harness.classic()
    assert harness.share(old, 2) == {}
    assert harness.heartbeat(old, 2) == E.NONE, "nothing to join for: the partitions are not free"
    harness.poll("new")
    harness.poll("new")
    assert harness.heartbeat(old, 2) == E.REBALANCE_IN_PROGRESS
    harness.classic_join(old)
    assert len(harness.share(old, 2)["t"]) == 1
    assert harness.heartbeat(old, 2) == E.NONE
    assert harness.group.state_name == "Stable"


def test_it_gives_up_by_joining_without_them(harness):
    old = harness.classic()
    for _ in range(2):
        harness.poll("new")
    harness.leave("new", -1)  # the last consumer member: the group is classic, and rebalances
    assert harness.group.state_name == "PreparingRebalance"
    harness.classic_join(old)
    harness.join("new")
    assert harness.heartbeat(old, harness.group.members[old].epoch) == E.REBALANCE_IN_PROGRESS


# --- the other requests -----------------------------------------------------------------------------------------


def test_what_is_wrong_with_who_asks(harness):
    old = harness.classic()
    static = harness.classic(instance_id="i")
    generation = harness.group.members[static].epoch
    assert harness.heartbeat("new", 1) == E.UNKNOWN_MEMBER_ID
    assert harness.heartbeat("nobody", 1) == E.UNKNOWN_MEMBER_ID
    assert harness.heartbeat(old, 99) == E.ILLEGAL_GENERATION
    assert harness.heartbeat(old, generation, "i") == E.FENCED_INSTANCE_ID
    assert harness.heartbeat(old, generation, "other") == E.UNKNOWN_MEMBER_ID
    assert harness.heartbeat(static, generation, "i") == E.NONE


def test_sync_tells_of_a_newer_epoch(harness):
    old = harness.classic()
    harness.join("third")
    for name, error in (("range", E.REBALANCE_IN_PROGRESS), ("x", E.INCONSISTENT_GROUP_PROTOCOL)):
        assert harness.sync(old, 2, protocol_type="consumer", protocol_name=name).error_code == error


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_shares_are_written_in_the_version_of_the_member(harness, version):
    old = harness.classic(metadata=subscription(version=version))
    answer = harness.sync(old, 2, protocol_type="consumer", protocol_name="range")
    assert answer.assignment[:2] == version.to_bytes(2, "big")


def test_leaving(harness):
    old, other = harness.classic(), harness.classic(instance_id="i")
    epoch = harness.group.epoch
    assert harness.classic_leave((old, None), ("", "i"), ("nobody", None), ("x", "i")) == [
        E.NONE,
        E.NONE,
        E.UNKNOWN_MEMBER_ID,
        E.FENCED_INSTANCE_ID,
    ]
    assert other not in harness.group.members
    assert harness.group.epoch == epoch + 1, "once for all of them"


def test_the_journal_has_the_reasons_that_were_given(harness):
    old, other = harness.classic(), harness.classic()
    lines = [
        LeaveGroupRequest.Member(member_id=old, reason="closed"),
        LeaveGroupRequest.Member(member_id=other),
    ]
    harness.ask(LeaveGroupRequest(group_id="g", members=lines), 5)
    left = {event.member_id: event.reason for event in harness.journal.events if event.event == "leave"}
    assert left == {old: "closed", other: "left"}


# --- what time brings -------------------------------------------------------------------------------------------


def test_who_does_not_sync_is_out(harness):
    old = harness.classic(session=60_000, rebalance=5_000)
    harness.wait(5.1)
    assert old not in harness.group.members


def test_who_does_not_join_again_is_out(harness):
    old = harness.classic(session=60_000, rebalance=5_000)
    harness.share(old, 2)
    harness.wait(6.0)
    assert old in harness.group.members
    harness.join("third")
    assert harness.heartbeat(old, 2) == E.REBALANCE_IN_PROGRESS
    harness.wait(3.0)
    assert harness.heartbeat(old, 2) == E.REBALANCE_IN_PROGRESS, "which does not begin the time anew"
    harness.wait(2.1)
    assert old not in harness.group.members


def test_session(harness):
    old = harness.classic(session=6_000, rebalance=60_000)
    harness.share(old, 2)
    harness.wait(5.9)
    assert harness.heartbeat(old, 2) == E.NONE
    harness.wait(5.9)
    assert old in harness.group.members
    harness.wait(0.2)
    assert old not in harness.group.members


def turned_classic(rebalance: Any, owned: Any) -> bool:
    """A member of the consumer protocol with 2 s to give up a partition, which then joins by the classic one."""
    harness = MixedGroupHarness()
    harness.join("a", rebalance_timeout_ms=2_000)
    harness.join("b")
    harness.beat("a", member_epoch=1, topic_partitions=harness.lines({("t", 0), ("t", 1), ("t", 2)}))
    harness.classic_join("a", metadata=subscription(owned=owned), session=60_000, rebalance=rebalance)
    harness.share("a", harness.group.members["a"].epoch)
    harness.wait(2.1)
    return "a" in harness.group.members


def test_downgrade_after_revoking_clears_the_rebalance_deadline():
    assert turned_classic(20_000, owned=(0, 1))


def test_one_that_did_not_has_the_time_that_it_had():
    assert not turned_classic(20_000, owned=(0, 1, 2))


# --- static members -------------------------------------------------------------------------------------------


def test_back_by_the_other_protocol(harness):
    harness.join("s", instance_id="i")
    harness.settle()
    answer = harness.classic_join(instance_id="i")
    assert answer.error_code == E.NONE
    assert harness.describe().group_epoch == 2, "nothing has changed but who speaks"
    member = harness.group.members[answer.member_id]
    assert member.classic is not None
    assert len(member.assigned) > 0
    harness.join("s2", instance_id="i")
    assert harness.clients["s2"].answer.error_code == E.NONE, "a classic member need not have left"
