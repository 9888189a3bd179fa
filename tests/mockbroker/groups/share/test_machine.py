"""Share groups (KIP-932): rules of Kafka's coordinator, recorded in fixtures/conversations as share_*."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from tools.share_group_harness import ShareGroupHarness

from kwire import ErrorCode as E
from kwire.blobs import decode_record
from kwire.blobs.offsets_topic import ShareGroupStatePartitionMetadataValue
from kwire.json.objects import uuid_text
from mockbroker.api.snapshots import snapshot
from mockbroker.base.effects import Ticket
from mockbroker.broker import failover
from mockbroker.groups.events import Commit, Evict, Rebalance, ShareHeartbeat
from mockbroker.groups.offsets import Committed
from mockbroker.groups.records.replay import replay_log
from mockbroker.groups.share import machine
from mockbroker.groups.share.description import to_json
from mockbroker.groups.share.group_type import SHARE_TYPE
from mockbroker.groups.share.machine import session_timeout
from mockbroker.groups.share.state import SharedTopic, ShareGroup
from mockbroker.share.state import StateKey
from mockbroker.topics.model import OFFSETS_TOPIC

SESSION = 45.0  # seconds, which is the default


def harness(**how: Any) -> ShareGroupHarness:
    return ShareGroupHarness(**({"topics": {"t": 3, "u": 2}} | how))


def pair() -> ShareGroupHarness:
    """Return a settled group of two members at epoch 3."""
    group = harness()
    group.enter("a")
    group.poll("a")
    group.enter("b")
    group.poll("a")
    return group


# --- joining and assignments --------------------------------------------------------------------------------------


def test_partitions_are_assigned_once_their_state_is_initialized() -> None:
    group = harness()
    assert group.enter("a").assigned == {}
    assert group.sharers["a"].epoch == 1
    assert group.poll("a").assigned == {"t": [0, 1, 2]}
    assert group.sharers["a"].epoch == 2
    topic_id = group.topic_id("t")
    assert group.broker.share_states.summary(StateKey("g", topic_id, 2)) is not None
    assert group.broker.share_states.summary(StateKey("g", topic_id, 3)) is None


def test_more_members_than_partitions_share_them() -> None:
    group = harness()
    for name in "abcd":
        group.enter(name)
    group.settle()
    counts = Counter(index for indexes in group.assigned().values() for index in indexes)
    assert counts == {0: 2, 1: 2, 2: 2}


def test_a_member_that_leaves_starts_an_epoch() -> None:
    group = pair()
    answer = group.leave("b")
    assert (answer.error_code, answer.member_epoch, answer.heartbeat_interval_ms) == (E.NONE, -1, 0)
    assert (group.group.epoch, group.group.assignment_epoch) == (4, 3)
    assert group.poll("a").assigned == {"t": [0, 1, 2]}


def test_the_assignment_is_sent_if_it_changed_or_was_requested() -> None:
    group = pair()
    assert group.poll("a").answer.assignment is None
    assert group.poll("a", subscribed_topic_names=["t"]).answer.assignment is not None
    assert group.poll("a", subscribed_topic_names=["u"]).answer.assignment is not None


def test_a_topic_that_is_created_later_is_initialized() -> None:
    group = harness(topics={"t": 1})
    group.enter("a", ["t", "late"])
    group.settle()
    group.broker.cluster.create_topic("late", group.broker.cluster.place(2, 1))
    group.settle()
    assert group.sharers["a"].assigned == {"t": [0], "late": [0, 1]}


def test_new_partitions_are_initialized_too() -> None:
    group = pair()
    cluster = group.broker.cluster
    cluster.add_partitions(cluster.topics["t"], cluster.place(1, 1))
    group.settle()
    assert sorted(index for indexes in group.assigned().values() for index in indexes) == [0, 1, 2, 3]


def test_a_deleted_topic_is_no_share_partition_any_more() -> None:
    group = harness()
    group.enter("a", ["t", "u"])
    group.settle()
    epoch = group.sharers["a"].epoch
    group.broker.delete_topics([group.broker.cluster.topics["t"]])
    assert [shared.name for shared in group.group.initialized.values()] == ["u"]
    group.settle()
    assert (group.sharers["a"].assigned, group.sharers["a"].epoch) == ({"u": [0, 1]}, epoch + 1)


def test_initialization_waits_for_the_share_coordinator() -> None:
    group = harness(brokers=2, config={"share.coordinator.state.topic.replication.factor": 1})
    failover.stop_broker(group.broker, 1, group.now)
    group.enter("a", ["t"])
    keys = [StateKey("g", group.topic_id("t"), index) for index in range(3)]
    available = {key.partition for key in keys if group.broker.share_coordinator(key) == 0}
    assert 0 < len(available) < 3
    (initialized,) = group.group.initialized.values()
    (initializing,) = group.group.initializing.values()
    assert (set(initialized.partitions), set(initializing.partitions)) == (available, {0, 1, 2} - available)
    failover.start_broker(group.broker, 1, group.now)
    group.wait(31)
    assert (len(group.group.initialized), len(group.group.initializing)) == (1, 0)


# --- epochs and checks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epoch", "error"), [(3, E.NONE), (2, E.NONE), (1, E.FENCED_MEMBER_EPOCH), (4, E.FENCED_MEMBER_EPOCH), (0, E.NONE)]
)
def test_the_member_epoch_is_the_present_or_the_previous_one(epoch: int, error: E) -> None:
    group = pair()
    names = ["t"] if epoch == 0 else None
    assert group.beat("a", member_epoch=epoch, subscribed_topic_names=names).error_code == error


def test_unknown_members_and_groups_are_rejected() -> None:
    group = pair()
    assert group.beat("x", member_epoch=3).error_code == E.UNKNOWN_MEMBER_ID
    assert group.beat("x", member_epoch=-1).error_code == E.UNKNOWN_MEMBER_ID
    assert group.beat("a", group="h", member_epoch=1).error_message == "Share group h not found."
    assert group.beat("a", group="h", member_epoch=-1).error_message == "Group h not found."


def test_a_full_group_rejects_new_members_only() -> None:
    group = harness(config={"group.share.max.size": 1})
    group.enter("a")
    assert group.enter("b").answer.error_code == E.GROUP_MAX_SIZE_REACHED
    assert group.poll("a").answer.error_code == E.NONE


# --- time and administrators --------------------------------------------------------------------------------------


def test_a_member_without_heartbeats_expires() -> None:
    group = pair()
    group.wait(SESSION - 1)
    group.poll("a")
    group.wait(1)
    assert list(group.group.members) == ["a"]
    assert group.poll("b").answer.error_code == E.UNKNOWN_MEMBER_ID
    assert group.poll("a").assigned == {"t": [0, 1, 2]}
    assert [event.reason for event in group.journal.events if event.event == "expire"] == [
        "no heartbeat within the session timeout"
    ]


def test_a_group_without_members_is_kept() -> None:
    group = pair()
    group.leave("a")
    group.leave("b")
    group.wait(30 * 24 * 3600.0)
    assert group.describe().group_state == "Empty"


def test_administrators_evict_members_and_start_epochs() -> None:
    group = pair()
    group.administer("g", Evict("b", "evicted"))
    assert list(group.group.members) == ["a"]
    group.settle()
    epoch = group.group.epoch
    group.administer("g", Rebalance("wanted"))
    assert group.group.epoch == epoch + 1
    assert group.poll("a").epoch == epoch + 1
    group.administer("g", Evict("nobody", "evicted"))
    assert group.group.epoch == epoch + 1


# --- records and failover -----------------------------------------------------------------------------------------


def test_another_coordinator_continues_with_the_records() -> None:
    group = harness(brokers=2)
    for name in "abc":
        group.enter(name, ["t", "u"])
    group.settle()
    before, loaded = group.describe(), group.group
    partition = group.broker.cluster.topics[OFFSETS_TOPIC].partition_of("g")
    failover.move_leader(group.broker, partition, 1 - partition.leader, group.now)
    group.wait(0.0)
    assert group.group is not loaded
    assert group.describe() == before
    group.settle()
    assert group.describe() == before


def test_the_status_of_share_partitions_is_recorded() -> None:
    group = pair()
    values = [value for key, value in _records(group) if isinstance(value, ShareGroupStatePartitionMetadataValue)]
    (status,) = values
    assert [(each.topic_name, each.partitions) for each in status.initialized_topics] == [("t", [0, 1, 2])]
    assert (status.initializing_topics, status.deleting_topics) == ([], [])


def _records(group: ShareGroupHarness) -> list[tuple[object, object]]:
    partition = group.broker.cluster.topics[OFFSETS_TOPIC].partition_of("g")
    values = replay_log(partition.log.batches()).values
    return [decode_record(OFFSETS_TOPIC, key, value) for key, value in values.items()]


# --- descriptions for tests and the control API -------------------------------------------------------------------


def test_a_snapshot_shows_members_and_assignments() -> None:
    result = snapshot(pair().broker, "g")
    assert result is not None
    assert (result.group_type, result.state, result.generation, result.protocol) == ("share", "Stable", 3, "simple")
    assert {member.member_id: sorted(member.assignment or {}) for member in result.members} == {"a": ["t"], "b": ["t"]}


def test_members_are_described_with_the_timeout_of_the_group() -> None:
    group = pair()
    group.broker.cluster.configure_group("g", {"share.session.timeout.ms": "50000"})
    names = {group.topic_id("t"): "t"}
    described = SHARE_TYPE.describe_members(group.group, ["a", "gone"], names, group.broker.groups.context)
    (member,) = described
    assert (member.member_id, member.subscription, member.epoch, member.session_timeout_ms) == ("a", ["t"], 3, 50_000)


def test_the_imported_form_has_the_status_of_partitions() -> None:
    group = pair()
    form = SHARE_TYPE.to_json(group.group, {group.topic_id("t"): "t"}, group.broker.settings)
    assert (form["type"], form["initialized"], form["initializing"], form["deleting"]) == (
        "share",
        {"t": [0, 1, 2]},
        {},
        [],
    )
    assert [(member["member_id"], member["member_epoch"]) for member in form["members"]] == [("a", 3), ("b", 3)]


def test_the_imported_form_has_the_id_of_a_topic_without_name() -> None:
    group = pair()
    group.group.set_shared_topics(initializing={UUID(int=1): SharedTopic("", frozenset({2, 0}))})
    form = SHARE_TYPE.to_json(group.group, {}, group.broker.settings)
    assert form["initializing"] == {uuid_text(UUID(int=1)): [0, 2]}


# --- changes by a heartbeat, and the reason of each change ----------------------------------------------------------


def reasons(harness: ShareGroupHarness) -> list[tuple[str, str, str]]:
    """Return kind, member id and reason of the journal's events that have a reason."""
    return [(event.event, event.member_id, event.reason) for event in harness.journal.events if event.reason]


def test_journal_has_the_reason_of_each_epoch() -> None:
    harness = ShareGroupHarness(topics={"t": 2, "u": 1}, config={"group.share.session.timeout.ms": 46_000})
    cluster = harness.broker.cluster
    harness.enter("a")
    harness.poll("a")
    harness.poll("a", subscribed_topic_names=["t", "u"])
    harness.settle()
    cluster.add_partitions(cluster.topics["u"], [[0]])
    harness.poll("a")
    harness.leave("a")
    harness.enter("b")
    harness.wait(46.0)
    found = [each for each in reasons(harness) if each[2] != "share partitions were initialized"]
    assert found == [
        ("rebalance", "", "a joined"),
        ("rebalance", "", "a subscribes to other topics"),
        ("rebalance", "", "subscribed topics changed"),
        ("leave", "a", "left"),
        ("rebalance", "", "left: a"),
        ("rebalance", "", "b joined"),
        ("expire", "b", "no heartbeat within the session timeout"),
        ("rebalance", "", "no heartbeat within the session timeout: b"),
    ]
    assert ("rebalance", "", "share partitions were initialized") in reasons(harness)
    assert harness.journal.events[-1].event == "empty"


def test_omitted_field_keeps_its_value() -> None:
    harness = ShareGroupHarness(topics={"t": 2, "u": 1})
    harness.enter("a", rack_id="r")
    harness.poll("a")
    member = harness.group.members["a"]
    assert (member.rack_id, sorted(member.topics)) == ("r", ["t"])
    harness.poll("a", rack_id="s", subscribed_topic_names=["u"])
    member = harness.group.members["a"]
    assert (member.rack_id, sorted(member.topics)) == ("s", ["u"])


def test_response_has_the_assignment_only_if_it_changed() -> None:
    harness = ShareGroupHarness(topics={"t": 2, "u": 1})
    harness.enter("a")
    harness.settle()
    assert harness.poll("a").answer.assignment is None
    assert harness.poll("a", subscribed_topic_names=["t"]).answer.assignment is not None
    assert harness.poll("a", subscribed_topic_names=["t", "u"]).answer.assignment is not None


def test_unsubscribed_topic_is_taken_at_once() -> None:
    harness = ShareGroupHarness(topics={"t": 2, "u": 1})
    harness.enter("a", ["t", "u"])
    harness.settle()
    assert sorted(harness.sharers["a"].assigned) == ["t", "u"]
    harness.poll("a", subscribed_topic_names=["u"])
    assert sorted(harness.sharers["a"].assigned) == ["u"]


EPOCHS = [  # distance from the member epoch, error, part of the message
    (0, E.NONE, ""),
    (-1, E.NONE, ""),
    (1, E.FENCED_MEMBER_EPOCH, "greater member epoch (4) than the one known by the group coordinator (3)"),
    (
        -2,
        E.FENCED_MEMBER_EPOCH,
        "smaller member epoch (1) than the one known by the group coordinator (3), and it does not match the previous "
        "member epoch (2)",
    ),
]


@pytest.mark.parametrize(("distance", "error", "text"), EPOCHS)
def test_epoch_that_is_refused_is_explained(distance: int, error: E, text: str) -> None:
    harness = ShareGroupHarness(topics={"t": 2, "u": 1})
    harness.enter("a")
    for topics in (["u"], ["t"], ["u"], ["t"]):
        if harness.sharers["a"].epoch < 3:
            harness.poll("a", subscribed_topic_names=topics)
    member = harness.group.members["a"]
    assert (member.epoch, member.previous_epoch) == (3, 2)
    answer = harness.beat("a", member_epoch=3 + distance)
    assert answer.error_code == error
    assert not error or answer.error_message == (
        f"The share group member has a {text}. The member must abandon all its partitions and rejoin."
    )


def test_member_that_leaves_has_no_deadline() -> None:
    harness = ShareGroupHarness(topics={"t": 2})
    harness.enter("a")
    harness.enter("b")
    harness.leave("a")
    assert [("session", name) in harness.group.timers for name in ("a", "b")] == [False, True]


def test_assigned_event_has_the_partitions() -> None:
    harness = ShareGroupHarness(topics={"t": 2})
    harness.enter("a")
    harness.settle()
    assigned = [event for event in harness.journal.events if event.event == "assign"]
    assert [event.assignment for event in assigned][-1] == {"t": [0, 1]}
    harness.poll("a")
    assert [event for event in harness.journal.events if event.event == "assign"] == assigned


@pytest.mark.parametrize(("seconds", "again"), [(-0.5, False), (0.0, True)])
def test_metadata_is_read_again_after_the_refresh_interval(seconds: float, again: bool) -> None:
    group = harness()
    group.enter("a")
    group.settle()
    first = group.group.metadata_refresh_at
    while group.now + 30.0 < first + seconds:
        group.wait(30.0)
        group.poll("a")
    group.wait(first + seconds - group.now)
    epoch = group.group.epoch
    group.poll("a")
    assert (group.group.metadata_refresh_at > first) is again
    assert group.group.epoch == epoch


@pytest.mark.parametrize(("configs", "seconds"), [({}, 45.0), ({"share.session.timeout.ms": "50000"}, 50.0)])
def test_session_timeout_is_a_setting_of_the_group(configs: dict[str, str], seconds: float) -> None:
    group = harness()
    if configs:
        group.broker.cluster.configure_group("g", configs)
    assert session_timeout("g", group.broker.groups.context) == seconds


def test_share_group_has_no_committed_offsets() -> None:
    group, event = pair().group, Commit(member_id="", instance_id=None, generation=-1)
    assert SHARE_TYPE.commit_error(group, event, 0.0) == E.GROUP_ID_NOT_FOUND
    assert SHARE_TYPE.transactional_commit_error(group, event) == E.GROUP_ID_NOT_FOUND
    assert SHARE_TYPE.offset_delete_error(group) == E.GROUP_ID_NOT_FOUND
    assert SHARE_TYPE.subscribed_topics(group) is None
    assert SHARE_TYPE.retention_start(group)("t", Committed(offset=1, at=5.0)) is None


def test_share_group_is_deleted_only_by_an_administrator() -> None:
    group = pair()
    for name in "ab":
        group.leave(name)
    assert group.group.state_name == "Empty"
    assert not group.group.is_deletable


def test_metadata_of_a_new_subscription_is_read_at_once() -> None:
    group = pair()
    assert group.group.metadata_version == group.broker.cluster.epoch
    group.poll("a", subscribed_topic_names=["t", "u"])
    assert set(group.group.topic_metadata) == {"t", "u"}


def test_changed_topics_start_one_epoch_with_a_leaving_member() -> None:
    group = pair()
    cluster = group.broker.cluster
    cluster.add_partitions(cluster.topics["t"], cluster.place(1, 1))
    epoch = group.group.epoch
    group.leave("b")
    assert group.group.topic_metadata["t"][1] == 4
    assert (group.group.epoch, group.group.metadata_version) == (epoch + 1, cluster.epoch)


@pytest.mark.parametrize(("forced", "assigned"), [(False, set()), (True, {0, 1, 2})])
def test_member_of_the_epoch_takes_a_new_assignment_if_forced(forced: bool, assigned: set[int]) -> None:
    group = pair()
    group.leave("b")
    group.settle()
    member = replace(group.group.members["a"], assigned=frozenset())
    after = machine._reconciled(group.group, member, group.broker.groups.context, forced=forced)
    assert {index for _, index in after.assigned} == assigned
    assert (after.epoch, after.previous_epoch) == (member.epoch, member.previous_epoch)


def test_journal_has_one_join_of_each_member() -> None:
    group = pair()
    count = len(group.journal.events)
    assert [event.member_id for event in group.journal.events if event.event == "join"] == ["a", "b"]
    group.settle()
    group.settle()
    settled = len(group.journal.events)
    group.poll("a")
    assert (len(group.journal.events), settled >= count) == (settled, True)


def test_the_imported_form_names_deleted_topics() -> None:
    group = pair()
    group.group.set_shared_topics(deleting={UUID(int=7): "", UUID(int=8): "old"})
    assert to_json(group.group, {})["deleting"] == sorted(["old", uuid_text(UUID(int=7))])


def test_member_that_sends_only_defaults_joins() -> None:
    group, context = ShareGroup(group_id="g"), harness().broker.groups.context
    event = ShareHeartbeat(ticket=Ticket(1, 1, 76, 1), member_id="m", epoch=0, client_id="", client_host="")
    machine.heartbeat(group, event, context, 0.0)
    assert list(group.members) == ["m"]
    machine.heartbeat(group, replace(event, client_id="c", client_host="/h"), context, 0.0)
    assert (group.members["m"].client_id, group.members["m"].client_host) == ("c", "/h")


def test_member_that_rejoins_keeps_its_assignment() -> None:
    group = pair()
    group.settle()
    member = group.group.members["a"]
    answer = group.beat("a", member_epoch=0, subscribed_topic_names=["t"])
    assert (answer.error_code, answer.member_epoch) == (E.NONE, member.epoch)
    assert group.group.members["a"] == member
