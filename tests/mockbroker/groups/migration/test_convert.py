"""Conversion of groups between the classic and the consumer protocol."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from tools.broker_harness import SentRequest
from tools.consumer_group_harness import MixedGroupHarness, subscription

from kwire import ErrorCode as E
from kwire.blobs import decode_stored, encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.sync_group import SyncGroupRequest
from mockbroker.groups.classic.state import ClassicGroup, Member, State
from mockbroker.groups.consumer.state import (
    ClassicMemberMetadata,
    ConsumerGroup,
)
from mockbroker.groups.migration.convert import (
    UpgradeRefused,
    _to_consumer_member,
    can_downgrade,
    check_upgrade,
    encode_assignment,
    to_consumer_group,
)
from mockbroker.groups.offsets import Committed

JOIN = {
    "member_epoch": 0,
    "rebalance_timeout_ms": 60_000,
    "subscribed_topic_names": ["t"],
    "topic_partitions": [],
}
POLICY = "group.consumer.migration.policy"


def assignment(partitions: Sequence[int] = (0, 1, 2), user_data: bytes | None = None) -> bytes:
    line = ConsumerProtocolAssignment.TopicPartition(topic="t", partitions=list(partitions))
    return encode_stored(ConsumerProtocolAssignment(assigned_partitions=[line], user_data=user_data), 1)


def stable(harness: MixedGroupHarness, *, share: bytes | None = None, metadata: bytes | None = None, **how: Any) -> str:
    """Form a Stable classic group of one member; return the member id."""
    old = harness.classic(metadata=metadata, **how)
    plan = [SyncGroupRequest.Assignment(member_id=old, assignment=assignment() if share is None else share)]
    answer = harness.sync(
        old, 1, protocol_type=how.get("protocol_type", "consumer"), protocol_name="range", assignments=plan
    )
    assert answer.error_code == E.NONE
    assert isinstance(harness.group, ClassicGroup)
    return old


@pytest.fixture
def harness() -> MixedGroupHarness:
    return MixedGroupHarness()


# --- upgrade ------------------------------------------------------------------------------------------------------


def test_the_first_consumer_member_converts_the_group(harness):
    old = stable(harness)
    harness.join("new")
    assert isinstance(harness.group, ConsumerGroup)
    assert (harness.clients["new"].epoch, harness.clients["new"].owns) == (2, frozenset())
    member = harness.group.members[old]
    assert (member.epoch, len(member.assigned), member.rebalance_timeout) == (1, 3, 5.0)
    assert harness.heartbeat(old, 1) == E.REBALANCE_IN_PROGRESS
    events = [event for event in harness.journal.events if event.event in ("upgrade", "downgrade")]
    assert [(event.event, event.members) for event in events] == [("upgrade", (old,))]


def test_upgrade_answers_pending_requests_with_rebalance(harness):
    stable(harness)
    second = harness.classic_join().member_id
    pending = harness.send(MixedGroupHarness.joining(second), 5)
    assert pending.parked
    harness.join("new")
    assert pending.answer.error_code == E.REBALANCE_IN_PROGRESS
    assert harness.group.state_name in ("Reconciling", "Assigning")


@pytest.mark.parametrize(
    ("config", "group", "text"),
    [
        ({POLICY: "downgrade"}, {}, "online upgrade is disabled."),
        ({POLICY: "disabled"}, {}, "online upgrade is disabled."),
        ({"group.consumer.max.size": 1}, {"second": True}, "the group size exceeds the consumer group maximum size."),
        ({}, {"metadata": b"\x00\x01\x07"}, "the embedded consumer protocol is malformed."),
        ({}, {"share": assignment(user_data=b"x")}, "an unsupported custom assignor is in use."),
        ({}, {"protocol_type": "connect"}, "the group does not use the consumer embedded protocol."),
    ],
)
def test_upgrades_that_are_refused(config, group, text):
    harness = MixedGroupHarness(config)
    second = group.pop("second", False)
    stable(harness, **group)
    if second:
        harness.send(MixedGroupHarness.joining(harness.classic_join().member_id), 5)
    before = harness.group
    answer = harness.join("new").answer
    assert answer.error_code == E.GROUP_ID_NOT_FOUND
    assert answer.error_message.startswith("Cannot upgrade classic group g to consumer group because ")
    assert text in answer.error_message
    assert harness.group is before


@pytest.mark.parametrize("selected", ["range", "roundrobin"])
def test_upgrade_reads_the_subscription_of_the_selected_protocol(harness, selected):
    protocols = [("range", subscription(["t"])), ("roundrobin", subscription(["u"]))]
    group = ClassicGroup(group_id="g", initial_delay=0.0, protocol=selected)
    member = Member(
        member_id="m",
        instance_id=None,
        client_id="c",
        client_host="/h",
        session_timeout=10.0,
        rebalance_timeout=60.0,
        protocols=protocols,
    )
    upgraded = _to_consumer_member(group, member, harness.broker.cluster)
    assert upgraded.topics == {"t" if selected == "range" else "u"}
    assert upgraded.classic == ClassicMemberMetadata(10.0, protocols)


def test_an_empty_group_is_replaced_and_keeps_its_offsets(harness):
    old = stable(harness)
    harness.group.offsets.store("t", 0, Committed(offset=5))
    harness.classic_leave((old, None))
    assert harness.group.state is State.EMPTY
    harness.join("new")
    assert harness.clients["new"].epoch == 1
    assert harness.group.offsets.get("t", 0) == Committed(offset=5)


def offsets(harness: MixedGroupHarness, member_id: str | None = None, epoch: int = -1) -> list[int]:
    """Return the offsets of partition 0 of both topics in an OffsetFetch response."""
    kind = OffsetFetchRequest.Group
    topics = [kind.Topic(name=name, partition_indexes=[0]) for name in ("t", "u")]
    requested = kind(group_id="g", member_id=member_id, member_epoch=epoch, topics=topics)
    (answer,) = harness.ask(OffsetFetchRequest(groups=[requested]), 9).groups
    assert answer.error_code == E.NONE
    return [topic.partitions[0].committed_offset for topic in answer.topics]


def commit(harness: MixedGroupHarness, member_id: str, epoch: int, topic: str, offset: int) -> None:
    kind = OffsetCommitRequest.Topic
    place = kind.Partition(partition_index=0, committed_offset=offset, committed_metadata="")
    request = OffsetCommitRequest(
        group_id="g",
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        topics=[kind(name=topic, partitions=[place])],
    )
    answer = harness.ask(request, 9)
    assert answer.topics[0].partitions[0].error_code == E.NONE


def test_offsets_survive_upgrade_and_downgrade(harness):
    old = stable(harness)
    commit(harness, old, 1, "t", 5)
    harness.join("new")
    assert isinstance(harness.group, ConsumerGroup)
    assert offsets(harness) == offsets(harness, "new", 2) == offsets(harness, old, 1) == [5, -1]
    commit(harness, "new", 2, "u", 6)
    harness.leave("new")
    assert isinstance(harness.group, ClassicGroup)
    assert offsets(harness) == [5, 6]
    answer = harness.classic_join(old)
    assert offsets(harness, old, answer.generation_id) == [5, 6]


def second_with_pending_join(harness: MixedGroupHarness) -> SentRequest:
    """Add a second member whose JoinGroup waits for the first."""
    pending = harness.send(MixedGroupHarness.joining(harness.classic_join().member_id), 5)
    assert pending.parked
    return pending


def upgrades(harness: MixedGroupHarness) -> list[str]:
    return [event.event for event in harness.journal.events if event.event == "upgrade"]


@pytest.mark.parametrize("share", [None, b"\x00\x01\x07"], ids=["wrong expression", "wrong share"])
def test_refused_upgrade_answers_pending_joins_with_rebalance(harness, share):
    stable(harness, share=share)
    pending = second_with_pending_join(harness)
    answer = harness.beat("new", **JOIN | {"subscribed_topic_regex": "((" if share is None else None})
    assert answer.error_code == (E.INVALID_REGULAR_EXPRESSION if share is None else E.GROUP_ID_NOT_FOUND)
    assert pending.answer.error_code == E.REBALANCE_IN_PROGRESS
    assert isinstance(harness.group, ClassicGroup)
    assert upgrades(harness) == []


def test_pending_requests_stay_if_upgrades_are_disabled(harness):
    stable(harness, protocol_type="connect")
    pending = harness.send(
        MixedGroupHarness.joining(harness.classic_join(protocol_type="connect").member_id, protocol_type="connect"), 5
    )
    assert harness.join("new").answer.error_code == E.GROUP_ID_NOT_FOUND
    assert pending.parked


def test_upgrade_fails_if_a_partition_has_two_owners(harness):
    """A leader may assign a partition to two members; a consumer group cannot represent it."""
    old = stable(harness)
    pending = second_with_pending_join(harness)
    harness.classic_join(old)
    both = [
        SyncGroupRequest.Assignment(member_id=m, assignment=assignment((0,))) for m in (old, pending.answer.member_id)
    ]
    assert harness.sync(old, 2, protocol_type="consumer", protocol_name="range", assignments=both).error_code == E.NONE
    before = harness.group
    answer = harness.join("new").answer
    assert (answer.error_code, answer.error_message) == (E.UNKNOWN_SERVER_ERROR, None)
    assert harness.group is before
    assert upgrades(harness) == []


# --- downgrade ----------------------------------------------------------------------------------------------------


def mixed(config: dict[str, Any] | None = None, **how: Any) -> tuple[MixedGroupHarness, str]:
    harness = MixedGroupHarness(config)
    harness.join("new")
    old = harness.classic(**how)
    for _ in range(3):
        harness.poll("new")
        harness.classic_join(old)
        harness.share(old, 2)
    return harness, old


@pytest.mark.parametrize("way", ["leaves", "is silent", "is put out by an administrator"])
def test_last_consumer_member_leaves_and_the_group_is_classic(way):
    harness, old = mixed({"group.consumer.session.timeout.ms": 1_000})
    match way:
        case "leaves":
            harness.leave("new")
        case "is silent":
            harness.wait(1.1)
        case _:
            harness.classic_leave(("new", None))
    group = harness.group
    assert isinstance(group, ClassicGroup)
    assert (group.state, group.generation) == (State.PREPARING, 2), "and rebalances"
    share, _ = decode_stored(ConsumerProtocolAssignment, group.members[old].assignment)
    assert [len(line.partitions) for line in share.assigned_partitions] == [1]
    answer = harness.classic_join(old)
    assert (answer.error_code, answer.generation_id, answer.leader) == (E.NONE, 3, old)


def test_downgraded_group_is_on_disk_before_it_rebalances():
    harness, old = mixed()
    harness.leave("new")
    index = harness.broker.offsets_partition("g")[1]
    harness.broker.unload_group("g")
    harness.broker.load_groups(index, harness.now)
    group = harness.group
    assert isinstance(group, ClassicGroup)
    assert (group.state, group.generation, list(group.members)) == (State.STABLE, 2, [old])


@pytest.mark.parametrize("config", [{POLICY: "upgrade"}, {POLICY: "disabled"}])
def test_no_downgrade_if_the_policy_forbids_it(config):
    harness, old = mixed(config)
    harness.leave("new")
    assert isinstance(harness.group, ConsumerGroup)
    assert list(harness.group.members) == [old]


def test_no_downgrade_while_a_consumer_member_remains(harness):
    harness.join("new")
    harness.join("newer")
    harness.classic()
    harness.leave("new")
    assert isinstance(harness.group, ConsumerGroup)


@pytest.mark.parametrize(("topics", "state"), [(("t",), State.STABLE), (("t", "u"), State.PREPARING)])
def test_classic_static_member_replaces_the_last_consumer_member(topics, state):
    harness = MixedGroupHarness()
    harness.join("new", instance_id="i")
    old = harness.classic()
    for _ in range(3):
        harness.poll("new")
    before = harness.group.epoch
    answer = harness.classic_join(instance_id="i", metadata=subscription(topics))
    assert answer.error_code == E.NONE
    assert isinstance(harness.group, ClassicGroup)
    assert (harness.group.state, harness.group.generation) == (state, before)
    assert set(harness.group.members) == {old, answer.member_id}


def test_sessions_expire_in_a_downgraded_group(harness):
    harness.join("new")
    old = harness.classic(session=6_000, rebalance=60_000)
    harness.leave("new")
    harness.wait(6.1)
    assert old not in harness.group.members


def test_sessions_of_classic_members_continue_after_an_upgrade(harness):
    old = stable(harness, session=10_000)
    harness.join("new")
    harness.wait(11.0)
    assert old not in harness.group.members


def test_empty_rack_of_a_classic_member_is_none(harness):
    for rack, expected in (("", None), ("r", "r")):
        subscribed = ConsumerProtocolSubscription(topics=["t"], rack_id=rack)
        protocols = (("range", encode_stored(subscribed, 3)),)
        member = Member(
            member_id="m",
            client_id="",
            client_host="",
            session_timeout=10.0,
            rebalance_timeout=5.0,
            protocols=protocols,
        )
        group = ClassicGroup(group_id="g", initial_delay=0.0)
        group.protocol = "range"
        group.add_member(member)
        assert _to_consumer_member(group, member, harness.broker.cluster).rack_id == expected


@pytest.mark.parametrize(("size", "fits"), [(1, True), (0, False)])
def test_group_of_the_maximum_size_can_be_upgraded(size: int, fits: bool) -> None:
    harness = MixedGroupHarness()
    stable(harness)
    settings = SimpleNamespace(group_consumer_migration_policy="bidirectional", group_consumer_max_size=size)
    with nullcontext() if fits else pytest.raises(UpgradeRefused, match="exceeds the consumer group maximum size"):
        check_upgrade(harness.group, settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(("subscribed", "encoded"), [(0, 0), (1, 1), (3, 3), (4, 3), (9, 3)])
def test_assignment_has_the_version_of_the_subscription(harness, subscribed: int, encoded: int) -> None:
    metadata = subscribed.to_bytes(2, "big") + subscription(["t"])[2:]
    blob = encode_assignment(frozenset(), metadata, harness.broker.cluster)
    assert int.from_bytes(blob[:2], "big") == encoded


def test_upgrade_reads_the_first_protocol_if_none_is_selected(harness) -> None:
    protocols = [("range", subscription(["t"])), ("roundrobin", subscription(["u"]))]
    group = ClassicGroup(group_id="g", initial_delay=0.0)
    member = Member(
        member_id="m",
        client_id="",
        client_host="",
        session_timeout=10.0,
        rebalance_timeout=5.0,
        protocols=protocols,
    )
    assert _to_consumer_member(group, member, harness.broker.cluster).topics == {"t"}


@pytest.mark.parametrize(("remaining", "possible"), [(0, False), (1, True), (2, True), (3, False)])
def test_downgrade_needs_a_group_of_allowed_size(remaining: int, possible: bool) -> None:
    group = ConsumerGroup(group_id="g")
    settings: Any = SimpleNamespace(group_consumer_migration_policy="bidirectional", group_max_size=2)
    assert can_downgrade(group, [], settings, remaining=remaining) is possible


@pytest.mark.parametrize("epoch", [-1, 5])
def test_only_a_member_that_joins_upgrades_a_group(harness, epoch: int) -> None:
    stable(harness)
    before = harness.group
    answer = harness.beat("new", member_epoch=epoch)
    assert (answer.error_code, answer.error_message) == (E.GROUP_ID_NOT_FOUND, "Group g is not a consumer group.")
    assert harness.group is before


def test_upgraded_group_keeps_its_assignment(harness) -> None:
    old = stable(harness)
    group = to_consumer_group(harness.group, harness.broker.cluster, 7.0)
    topic_id = harness.topic_id("t")
    assert group.target == {old: {topic_id: [0, 1, 2]}}
    assert (group.epoch, group.assignment_epoch, group.timers.at(("session", old))) == (1, 1, 17.0)
    assert {index for _, index in group.members[old].assigned} == {0, 1, 2}


def test_downgraded_member_has_the_generation_of_the_group() -> None:
    harness = MixedGroupHarness({POLICY: "bidirectional"})
    harness.join("a", instance_id="i")
    harness.settle()
    epoch = harness.group.epoch
    answer = harness.classic_join(instance_id="i")
    assert (answer.error_code, answer.generation_id) == (E.NONE, epoch)
    assert isinstance(harness.group, ClassicGroup)
    assert (harness.group.state, harness.group.generation) == (State.STABLE, epoch)


def test_members_of_a_downgraded_group_have_joined_before() -> None:
    harness = MixedGroupHarness({POLICY: "bidirectional"})
    harness.join("a")
    member_id = harness.classic()
    harness.leave("a")
    assert isinstance(harness.group, ClassicGroup)
    member = harness.group.members[member_id]
    assert (member.is_new, harness.group.leader) == (False, member_id)
    assert harness.group.timers.at(("session", member_id)) == harness.now + 10.0
