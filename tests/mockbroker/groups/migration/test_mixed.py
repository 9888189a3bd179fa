"""Members of the classic protocol in a group of the consumer protocol."""

from __future__ import annotations

from typing import Any

import pytest
from tools.consumers import Mixed, subscription

from kwire import ErrorCode as E
from kwire.messages.leave_group import LeaveGroupRequest


@pytest.fixture
def desk() -> Mixed:
    desk = Mixed()
    desk.join("new")
    return desk


# --- joining ----------------------------------------------------------------------------------------------------


def test_a_dynamic_member_is_given_an_id_first(desk):
    answer = desk.classic_join()
    assert answer.error_code == E.MEMBER_ID_REQUIRED
    assert len(answer.member_id) == 22, "as Kafka makes them for these groups"
    assert list(desk.group.members) == ["new"]


def test_it_is_answered_at_once_and_never_leads(desk):
    member_id = desk.classic()
    answer = desk.classic_join(member_id)
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (E.NONE, 2, "range")
    assert (answer.leader, answer.members) == ("", [])


def test_before_version_4_no_id_is_given_first(desk):
    assert desk.classic_join(version=3).error_code == E.NONE


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"protocol_type": "connect"}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"metadata": b"\x00\x01\x00"}, E.UNKNOWN_SERVER_ERROR),
        ({"instance_id": "nobody's"}, E.UNKNOWN_MEMBER_ID),
    ],
)
def test_refused(desk, given, error):
    answer = desk.classic_join("made-up", **given)
    assert (answer.error_code, answer.member_id) == (error, "")
    assert list(desk.group.members) == ["new"]


def test_it_must_offer_what_the_other_classic_members_offer(desk):
    desk.classic(name="range")
    assert desk.classic_join("x", name="roundrobin").error_code == E.INCONSISTENT_GROUP_PROTOCOL


def test_a_full_group():
    desk = Mixed({"group.consumer.max.size": 1})
    desk.join("new")
    assert desk.classic_join().error_code == E.GROUP_MAX_SIZE_REACHED


def test_partitions_come_with_the_next_join(desk):
    old = desk.classic()
    assert desk.share(old, 2) == {}
    assert desk.heartbeat(old, 2) == E.NONE, "nothing to join for: the partitions are not free"
    desk.poll("new")
    desk.poll("new")
    assert desk.heartbeat(old, 2) == E.REBALANCE_IN_PROGRESS
    desk.classic_join(old)
    assert len(desk.share(old, 2)["t"]) == 1
    assert desk.heartbeat(old, 2) == E.NONE
    assert desk.group.state_name == "Stable"


def test_it_gives_up_by_joining_without_them(desk):
    old = desk.classic()
    for _ in range(2):
        desk.poll("new")
    desk.leave("new", -1)  # the last consumer member: the group is classic, and rebalances
    assert desk.group.state_name == "PreparingRebalance"
    desk.classic_join(old)
    desk.join("new")
    assert desk.heartbeat(old, desk.group.members[old].epoch) == E.REBALANCE_IN_PROGRESS


# --- the other requests -----------------------------------------------------------------------------------------


def test_what_is_wrong_with_who_asks(desk):
    old = desk.classic()
    static = desk.classic(instance_id="i")
    generation = desk.group.members[static].epoch
    assert desk.heartbeat("new", 1) == E.UNKNOWN_MEMBER_ID
    assert desk.heartbeat("nobody", 1) == E.UNKNOWN_MEMBER_ID
    assert desk.heartbeat(old, 99) == E.ILLEGAL_GENERATION
    assert desk.heartbeat(old, generation, "i") == E.FENCED_INSTANCE_ID
    assert desk.heartbeat(old, generation, "other") == E.UNKNOWN_MEMBER_ID
    assert desk.heartbeat(static, generation, "i") == E.NONE


def test_sync_tells_of_a_newer_epoch(desk):
    old = desk.classic()
    desk.join("third")
    for name, error in (("range", E.REBALANCE_IN_PROGRESS), ("x", E.INCONSISTENT_GROUP_PROTOCOL)):
        assert desk.sync(old, 2, protocol_type="consumer", protocol_name=name).error_code == error


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_shares_are_written_in_the_version_of_the_member(desk, version):
    old = desk.classic(metadata=subscription(version=version))
    answer = desk.sync(old, 2, protocol_type="consumer", protocol_name="range")
    assert answer.assignment[:2] == version.to_bytes(2, "big")


def test_leaving(desk):
    old, other = desk.classic(), desk.classic(instance_id="i")
    epoch = desk.group.epoch
    assert desk.classic_leave((old, None), ("", "i"), ("nobody", None), ("x", "i")) == [
        E.NONE,
        E.NONE,
        E.UNKNOWN_MEMBER_ID,
        E.FENCED_INSTANCE_ID,
    ]
    assert other not in desk.group.members
    assert desk.group.epoch == epoch + 1, "once for all of them"


def test_the_journal_has_the_reasons_that_were_given(desk):
    old, other = desk.classic(), desk.classic()
    lines = [
        LeaveGroupRequest.Member(member_id=old, reason="closed"),
        LeaveGroupRequest.Member(member_id=other),
    ]
    desk.ask(LeaveGroupRequest(group_id="g", members=lines), 5)
    left = {event.member_id: event.reason for event in desk.journal.events if event.event == "leave"}
    assert left == {old: "closed", other: "left"}


# --- what time brings -------------------------------------------------------------------------------------------


def test_who_does_not_sync_is_out(desk):
    old = desk.classic(session=60_000, rebalance=5_000)
    desk.wait(5.1)
    assert old not in desk.group.members


def test_who_does_not_join_again_is_out(desk):
    old = desk.classic(session=60_000, rebalance=5_000)
    desk.share(old, 2)
    desk.wait(6.0)
    assert old in desk.group.members
    desk.join("third")
    assert desk.heartbeat(old, 2) == E.REBALANCE_IN_PROGRESS
    desk.wait(3.0)
    assert desk.heartbeat(old, 2) == E.REBALANCE_IN_PROGRESS, "which does not begin the time anew"
    desk.wait(2.1)
    assert old not in desk.group.members


def test_session(desk):
    old = desk.classic(session=6_000, rebalance=60_000)
    desk.share(old, 2)
    desk.wait(5.9)
    assert desk.heartbeat(old, 2) == E.NONE
    desk.wait(5.9)
    assert old in desk.group.members
    desk.wait(0.2)
    assert old not in desk.group.members


def turned_classic(rebalance: Any, owned: Any) -> bool:
    """A member of the consumer protocol with 2 s to give up a partition, which then joins by the classic one."""
    desk = Mixed()
    desk.join("a", rebalance_timeout_ms=2_000)
    desk.join("b")
    desk.beat("a", member_epoch=1, topic_partitions=desk.lines({("t", 0), ("t", 1), ("t", 2)}))
    desk.classic_join("a", metadata=subscription(owned=owned), session=60_000, rebalance=rebalance)
    desk.share("a", desk.group.members["a"].epoch)
    desk.wait(2.1)
    return "a" in desk.group.members


def test_downgrade_after_revoking_clears_the_rebalance_deadline():
    assert turned_classic(20_000, owned=(0, 1))


def test_one_that_did_not_has_the_time_that_it_had():
    assert not turned_classic(20_000, owned=(0, 1, 2))


# --- static members -------------------------------------------------------------------------------------------


def test_back_by_the_other_protocol(desk):
    desk.join("s", instance_id="i")
    desk.settle()
    answer = desk.classic_join(instance_id="i")
    assert answer.error_code == E.NONE
    assert desk.describe().group_epoch == 2, "nothing has changed but who speaks"
    member = desk.group.members[answer.member_id]
    assert member.classic is not None
    assert len(member.assigned) > 0
    desk.join("s2", instance_id="i")
    assert desk.clients["s2"].answer.error_code == E.NONE, "a classic member need not have left"
