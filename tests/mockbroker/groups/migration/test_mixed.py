"""Requests of classic members in a consumer group."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from tools.consumer_group_harness import MixedGroupHarness, subscription

from kwire import ErrorCode as E
from kwire.blobs import encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolSubscription
from kwire.messages.leave_group import LeaveGroupRequest
from mockbroker.base.effects import Note
from mockbroker.base.event_kinds import EventKind
from mockbroker.groups.classic.state import ClassicGroup, State
from mockbroker.groups.consumer import machine as consumer
from mockbroker.groups.consumer.state import ConsumerGroup, MemberState
from mockbroker.groups.coordinated import RegisterGroup, session_timer
from mockbroker.groups.events import Evict
from mockbroker.groups.migration import mixed


@pytest.fixture
def harness() -> MixedGroupHarness:
    harness = MixedGroupHarness()
    harness.join("new")
    return harness


# --- joining ------------------------------------------------------------------------------------------------------


def test_a_dynamic_member_gets_member_id_required(harness):
    answer = harness.classic_join()
    assert answer.error_code == E.MEMBER_ID_REQUIRED
    assert len(answer.member_id) == 22, "as Kafka makes them for these groups"
    assert list(harness.group.members) == ["new"]


def test_join_is_answered_at_once_and_the_member_never_leads(harness):
    member_id = harness.classic()
    answer = harness.classic_join(member_id)
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (E.NONE, 2, "range")
    assert (answer.leader, answer.members) == ("", [])


def test_before_v4_a_member_joins_without_member_id_required(harness):
    assert harness.classic_join(version=3).error_code == E.NONE


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"protocol_type": "connect"}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"metadata": b"\x00\x01\x00"}, E.UNKNOWN_SERVER_ERROR),
        ({"instance_id": "unknown"}, E.UNKNOWN_MEMBER_ID),
    ],
)
def test_refused(harness, given, error):
    answer = harness.classic_join("made-up", **given)
    assert (answer.error_code, answer.member_id) == (error, "")
    assert list(harness.group.members) == ["new"]


def test_a_common_protocol_with_classic_members_is_required(harness):
    harness.classic(name="range")
    assert harness.classic_join("x", name="roundrobin").error_code == E.INCONSISTENT_GROUP_PROTOCOL


def test_a_full_group_rejects_new_members():
    harness = MixedGroupHarness({"group.consumer.max.size": 1})
    harness.join("new")
    assert harness.classic_join().error_code == E.GROUP_MAX_SIZE_REACHED


def test_partitions_are_assigned_by_the_next_join(harness):
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


def test_a_classic_member_revokes_with_its_next_join(harness):
    old = harness.classic()
    for _ in range(2):
        harness.poll("new")
    harness.leave("new", -1)  # the last consumer member: the group becomes classic and rebalances
    assert harness.group.state_name == "PreparingRebalance"
    harness.classic_join(old)
    harness.join("new")
    assert harness.heartbeat(old, harness.group.members[old].epoch) == E.REBALANCE_IN_PROGRESS


# --- SyncGroup, Heartbeat and LeaveGroup --------------------------------------------------------------------------


def test_errors_of_sync_and_heartbeat(harness):
    old = harness.classic()
    static = harness.classic(instance_id="i")
    generation = harness.group.members[static].epoch
    assert harness.heartbeat("new", 1) == E.UNKNOWN_MEMBER_ID
    assert harness.heartbeat("unknown", 1) == E.UNKNOWN_MEMBER_ID
    assert harness.heartbeat(old, 99) == E.ILLEGAL_GENERATION
    assert harness.heartbeat(old, generation, "i") == E.FENCED_INSTANCE_ID
    assert harness.heartbeat(old, generation, "other") == E.UNKNOWN_MEMBER_ID
    assert harness.heartbeat(static, generation, "i") == E.NONE


def test_sync_with_a_newer_group_epoch_must_rejoin(harness):
    old = harness.classic()
    harness.join("third")
    for name, error in (("range", E.REBALANCE_IN_PROGRESS), ("x", E.INCONSISTENT_GROUP_PROTOCOL)):
        assert harness.sync(old, 2, protocol_type="consumer", protocol_name=name).error_code == error


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_assignments_have_the_version_of_the_subscription(harness, version):
    old = harness.classic(metadata=subscription(version=version))
    answer = harness.sync(old, 2, protocol_type="consumer", protocol_name="range")
    assert answer.assignment[:2] == version.to_bytes(2, "big")


def test_leaving(harness):
    old, other = harness.classic(), harness.classic(instance_id="i")
    epoch = harness.group.epoch
    assert harness.classic_leave((old, None), ("", "i"), ("unknown", None), ("x", "i")) == [
        E.NONE,
        E.NONE,
        E.UNKNOWN_MEMBER_ID,
        E.FENCED_INSTANCE_ID,
    ]
    assert other not in harness.group.members
    assert harness.group.epoch == epoch + 1, "once for all of them"


def test_journal_has_the_reasons_of_members_that_leave(harness):
    old, other = harness.classic(), harness.classic()
    lines = [
        LeaveGroupRequest.Member(member_id=old, reason="closed"),
        LeaveGroupRequest.Member(member_id=other),
    ]
    harness.ask(LeaveGroupRequest(group_id="g", members=lines), 5)
    left = {event.member_id: event.reason for event in harness.journal.events if event.event == "leave"}
    assert left == {old: "closed", other: "left"}


# --- timers -------------------------------------------------------------------------------------------------------


def test_a_member_that_does_not_sync_is_removed(harness):
    old = harness.classic(session=60_000, rebalance=5_000)
    harness.wait(5.1)
    assert old not in harness.group.members


def test_a_member_that_does_not_rejoin_is_removed(harness):
    old = harness.classic(session=60_000, rebalance=5_000)
    harness.share(old, 2)
    harness.wait(6.0)
    assert old in harness.group.members
    harness.join("third")
    assert harness.heartbeat(old, 2) == E.REBALANCE_IN_PROGRESS
    harness.wait(3.0)
    assert harness.heartbeat(old, 2) == E.REBALANCE_IN_PROGRESS, "which does not restart the timeout"
    harness.wait(2.1)
    assert old not in harness.group.members


def test_session_timeout(harness):
    old = harness.classic(session=6_000, rebalance=60_000)
    harness.share(old, 2)
    harness.wait(5.9)
    assert harness.heartbeat(old, 2) == E.NONE
    harness.wait(5.9)
    assert old in harness.group.members
    harness.wait(0.2)
    assert old not in harness.group.members


def turned_classic(rebalance: Any, owned: Any) -> bool:
    """Let a consumer member that has 2 s to revoke a partition join with the classic protocol."""
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


def test_downgrade_before_revoking_keeps_the_deadline():
    assert not turned_classic(20_000, owned=(0, 1, 2))


# --- static members -----------------------------------------------------------------------------------------------


def test_a_member_returns_with_the_other_protocol(harness):
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


# --- eviction -----------------------------------------------------------------------------------------------------


def test_evicted_classic_member_is_unknown(harness):
    old = harness.classic()
    harness.administer("g", Evict(old, "evicted by an administrator"))
    assert harness.heartbeat(old, 2) == E.UNKNOWN_MEMBER_ID
    assert list(harness.group.members) == ["new"]


def test_eviction_of_the_last_consumer_member_downgrades(harness):
    old = harness.classic()
    harness.administer("g", Evict("new", "evicted by an administrator"))
    assert (harness.group.type_name, list(harness.group.members)) == ("classic", [old])
    assert [event.event for event in harness.journal.events[-3:]] == ["expire", "downgrade", "rebalance"]


# --- deadlines and identities -------------------------------------------------------------------------------------


def synced(harness: MixedGroupHarness, member_id: str, generation: int, **fields: Any) -> Any:
    """Send a SyncGroup with the protocol of the JoinGroup."""
    return harness.sync(member_id, generation, **{"protocol_type": "consumer", "protocol_name": "range"} | fields)


KINDS = ("session", "join", "sync", "rebalance")


def deadlines(harness: MixedGroupHarness, member_id: str) -> dict[str, float]:
    """Return the deadlines of a member, in seconds from now."""
    timers = harness.group.timers
    found: dict[str, float] = {}
    for kind in KINDS:
        if (kind, member_id) in timers:
            found[kind] = round(timers.at((kind, member_id)) - harness.now, 3)
    return found


def test_deadlines_after_each_request_of_a_classic_member(harness):
    old = harness.classic(session=10_000, rebalance=5_000)
    assert deadlines(harness, old) == {"session": 10.0, "sync": 5.0}
    harness.wait(1.0)
    assert synced(harness, old, 2).error_code == E.NONE
    assert deadlines(harness, old) == {"session": 10.0}
    harness.poll("new")
    harness.poll("new")
    harness.wait(1.0)
    assert harness.heartbeat(old, 2) == E.REBALANCE_IN_PROGRESS
    assert deadlines(harness, old) == {"session": 10.0, "join": 5.0}
    harness.wait(1.0)
    harness.heartbeat(old, 2)
    assert deadlines(harness, old) == {"session": 10.0, "join": 4.0}, "the deadline stays"
    harness.classic_join(old, session=9_000, rebalance=6_000)
    assert deadlines(harness, old) == {"session": 9.0, "sync": 6.0}


def test_sync_of_an_older_epoch_has_to_rejoin_in_time(harness):
    old = harness.classic()
    harness.poll("new", subscribed_topic_names=["t", "u"])
    assert synced(harness, old, 2).error_code == E.REBALANCE_IN_PROGRESS
    assert deadlines(harness, old) == {"session": 10.0, "sync": 5.0, "join": 5.0}


def test_rejoining_member_takes_the_new_values(harness):
    old = harness.classic(instance_id="i", metadata=subscription(["t"]), session=10_000)
    harness.classic_join(old, instance_id="i", metadata=subscription(["u"]), session=9_000, rebalance=7_000)
    member = harness.group.members[old]
    assert (sorted(member.topics), member.instance_id, member.rebalance_timeout) == (["u"], "i", 7.0)
    assert (member.classic.session_timeout, member.regex) == (9.0, "")


STATIC = [  # member id (None: the member's), instance id, error
    (None, "i", E.NONE),
    ("x", "i", E.FENCED_INSTANCE_ID),
    (None, "z", E.UNKNOWN_MEMBER_ID),
    ("new", None, E.UNKNOWN_MEMBER_ID),  # a member of the consumer protocol
    ("x", None, E.UNKNOWN_MEMBER_ID),
]


@pytest.mark.parametrize(("member_id", "instance_id", "error"), STATIC)
def test_static_member_is_identified_by_both_ids(
    harness, member_id: str | None, instance_id: str | None, error: E
) -> None:
    old = harness.classic(instance_id="i")
    generation = harness.group.members[old].epoch
    given = member_id or old
    assert harness.heartbeat(given, generation, instance_id) == error
    assert synced(harness, given, generation, group_instance_id=instance_id).error_code == error
    if instance_id is not None:
        assert harness.classic_join(given, instance_id=instance_id).error_code == error
        assert harness.classic_leave((given, instance_id)) == [error]


@pytest.mark.parametrize(
    ("beside", "fields", "error"),
    [
        (0, {"protocol_type": "consumer", "protocol_name": "range"}, E.NONE),
        (0, {"protocol_type": "connect"}, E.INCONSISTENT_GROUP_PROTOCOL),
        (0, {"protocol_name": "roundrobin"}, E.INCONSISTENT_GROUP_PROTOCOL),
        (1, {}, E.ILLEGAL_GENERATION),
        (-1, {}, E.ILLEGAL_GENERATION),
    ],
)
def test_sync_names_the_protocol_of_the_join(harness, beside: int, fields: dict[str, str], error: E) -> None:
    old = harness.classic()
    answer = synced(harness, old, 2 + beside, **fields)
    assert answer.error_code == error
    if not error:
        assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")


def test_administrator_removes_a_static_member_by_its_instance(harness):
    old = harness.classic(instance_id="i")
    assert harness.classic_leave(("", "z"), ("", "i")) == [E.UNKNOWN_MEMBER_ID, E.NONE]
    assert old not in harness.group.members
    assert harness.group.epoch == 3, "one epoch for all that leave"


def test_leaving_without_success_starts_no_epoch(harness):
    harness.classic()
    assert harness.classic_leave(("x", None)) == [E.UNKNOWN_MEMBER_ID]
    assert harness.group.epoch == 2


def test_static_member_of_the_other_protocol_has_topics(harness):
    harness.join("b")
    harness.join("a", [], subscribed_topic_names=None, subscribed_topic_regex="u.*", instance_id="i", rack_id="r")
    assert harness.group.members["a"].regex == "u.*"
    member = harness.group.members[harness.classic(instance_id="i")]
    assert (member.instance_id, member.regex, member.topics, member.rack_id) == ("i", "", {"t"}, "r")


def test_rack_of_a_classic_member_is_that_of_its_subscription(harness):
    def metadata(rack: str | None) -> bytes:
        return encode_stored(ConsumerProtocolSubscription(topics=["t"], rack_id=rack), 3)

    old = harness.classic(metadata=metadata("r1"))
    for rack, expected in ((None, "r1"), ("r2", "r2")):
        assert harness.group.members[old].rack_id == "r1"
        harness.classic_join(old, metadata=metadata(rack))
        assert harness.group.members[old].rack_id == expected


@pytest.mark.parametrize(
    ("target", "assigned", "waits"),
    [((), (), False), ((0, 1), (0, 1), False), ((0,), (), True), ((0, 1), (), True), ((1,), (), False)],
)
def test_member_waits_while_another_owns_one_of_its_partitions(target, assigned, waits):
    """Another member owns partition 0; partition 1 is free."""
    topic = UUID(int=1)
    group: Any = SimpleNamespace(
        target_of=lambda _: frozenset((topic, number) for number in target), partition_epochs={(topic, 0): 3}
    )
    member: Any = SimpleNamespace(member_id="m", assigned=frozenset((topic, number) for number in assigned))
    assert mixed._waits_for_revocation(group, member) is waits


def test_rejoining_member_has_the_client_of_its_request(harness):
    member_id = harness.classic()
    harness.group.put_member(replace(harness.group.members[member_id], client_id="old", client_host="/old"))
    harness.classic_join(member_id)
    member = harness.group.members[member_id]
    assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")


def test_static_member_may_change_to_the_consumer_protocol(harness):
    harness.classic(instance_id="i")
    assert harness.group.classic_member_count == 1
    assert harness.join("next", instance_id="i").answer.error_code == E.NONE
    assert (harness.group.members["next"].classic, harness.group.classic_member_count) == (None, 0)


def test_member_that_must_revoke_has_to_rejoin(harness):
    member_id = harness.classic()
    epoch = harness.group.epoch
    member = replace(harness.group.members[member_id], epoch=epoch)
    for state, error in ((MemberState.STABLE, E.NONE), (MemberState.UNREVOKED_PARTITIONS, E.REBALANCE_IN_PROGRESS)):
        harness.group.put_member(replace(member, state=state))
        assert harness.heartbeat(member_id, epoch) == error


def test_dynamic_member_that_changes_protocol_keeps_the_group():
    harness = MixedGroupHarness({"group.consumer.migration.policy": "bidirectional"})
    harness.join("a")
    assert harness.classic_join("a").error_code == E.NONE
    assert isinstance(harness.group, ConsumerGroup)
    assert harness.group.classic_member_count == 1


def test_regex_of_a_replaced_member_is_a_changed_subscription():
    harness = MixedGroupHarness({"group.consumer.migration.policy": "bidirectional"})
    harness.join("a", instance_id="i", subscribed_topic_regex="u.*")
    harness.settle()
    assert harness.classic_join(instance_id="i").error_code == E.NONE
    assert harness.group.state is State.PREPARING


def test_conversion_reconciles_no_reconciled_member():
    """Partitions of a deleted topic are not revoked, because the subscription has not changed."""
    harness = MixedGroupHarness({"group.consumer.migration.policy": "bidirectional"})
    harness.join("a", ["t", "u"], instance_id="i")
    harness.settle()
    harness.broker.cluster.delete_topic(harness.broker.cluster.topics["u"])
    before = len(harness.journal.events)
    answer = harness.classic_join("a", instance_id="i", metadata=subscription(["t", "u"]))
    assert answer.error_code == E.NONE
    assert isinstance(harness.group, ClassicGroup)
    assert EventKind.ASSIGN not in [event.event for event in harness.journal.events[before:]]


def test_conversion_ends_the_expiry_of_members():
    """The sessions of the classic group start again at the conversion."""
    harness = MixedGroupHarness(
        {"group.consumer.migration.policy": "bidirectional", "group.consumer.session.timeout.ms": 10_000}
    )
    harness.join("a")
    member_id = harness.classic(session=10_000)
    for timer in list(harness.group.timers):
        harness.group.timers.forget(timer)
    harness.group.timers.set(session_timer("a"), 10.0)
    harness.group.timers.set(session_timer(member_id), 10.5)
    effects = consumer.tick(harness.group, harness.broker.groups.context, 11.0)
    (registered,) = (each.group for each in effects if isinstance(each, RegisterGroup))
    assert list(registered.members) == [member_id]
    assert [each.member_id for each in effects if isinstance(each, Note) and each.event == EventKind.EXPIRE] == ["a"]
