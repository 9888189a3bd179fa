"""Streams groups (KIP-1071) in virtual time.

The responses of real brokers, request by request, are in fixtures/conversations.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from tools.broker_harness import commit_without_member, committed, stable_member
from tools.streams_group_harness import (
    NOTHING,
    STATEFUL,
    STATELESS,
    WORD_COUNT,
    StreamsGroupHarness,
    internal,
    owned_fields,
    part,
    topology,
)

from kwire import ErrorCode as E
from kwire.assignors.sticky_tasks import Tasks
from kwire.java import map_order
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_delete import OffsetDeleteRequest
from kwire.messages.streams_group_heartbeat import KeyValue, StreamsGroupHeartbeatRequest
from mockbroker.base.effects import Ticket
from mockbroker.groups.coordinated import generation_note
from mockbroker.groups.events import Evict, Rebalance, StreamsHeartbeat
from mockbroker.groups.offsets import Committed
from mockbroker.groups.partition_sets import METADATA_REFRESH_INTERVAL
from mockbroker.groups.streams import machine, records
from mockbroker.groups.streams.configured import configure
from mockbroker.groups.streams.endpoints import _partitions
from mockbroker.groups.streams.group_settings import StreamsGroupSettings, group_settings
from mockbroker.groups.streams.group_type import STREAMS_TYPE
from mockbroker.groups.streams.state import INITIAL_REBALANCE_TIMER, StreamsGroup, StreamsMember
from mockbroker.groups.streams.status import Status

SESSION = {"group.streams.session.timeout.ms": 6_000}
Endpoint = StreamsGroupHeartbeatRequest.Endpoint


@pytest.fixture
def harness() -> StreamsGroupHarness:
    return StreamsGroupHarness(config=SESSION)


# --- joining and reconciling --------------------------------------------------------------------------------------


def test_a_lone_member_gets_all_tasks_at_once(harness):
    client = harness.join("a")
    assert client.owns.active == {("0", 0), ("0", 1), ("0", 2)}
    assert (client.epoch, client.answer.heartbeat_interval_ms) == (2, 5_000)
    assert harness.group.state_name == "Stable"


def test_tasks_are_assigned_only_after_revocation(harness):
    harness.join("a")
    assert harness.join("b").owns == NOTHING
    kept = harness.poll("a").assigned
    assert (len(kept.active), harness.clients["a"].epoch) == (2, 2), "the epoch stays until the task is revoked"
    assert harness.group.state_name == "Reconciling"
    assert harness.poll("b").owns == NOTHING
    harness.poll("a")
    assert harness.poll("b").owns.active | kept.active == {("0", 0), ("0", 1), ("0", 2)}
    assert harness.group.state_name == "Stable"


def test_a_process_never_has_a_task_twice(harness):
    harness = StreamsGroupHarness(config={"group.streams.num.standby.replicas": 1})
    harness.join("a", STATEFUL, process_id="one")
    harness.join("b", STATEFUL, process_id="one")
    harness.poll("a")
    harness.join("c", STATEFUL, process_id="two")
    harness.settle()
    for name, other in (("a", "b"), ("b", "a")):
        mine, theirs = harness.clients[name].owns, harness.clients[other].owns
        assert not (mine.active | mine.standby) & (theirs.active | theirs.standby)
    every = [task for client in harness.clients.values() for task in client.owns.standby]
    assert sorted(every) == [("0", 0), ("0", 1), ("0", 2)]


def test_a_standby_takes_over_when_the_owner_leaves(harness):
    harness = StreamsGroupHarness(config={"group.streams.num.standby.replicas": 1})
    for name in "ab":
        harness.join(name, STATEFUL)
    harness.poll("a")
    harness.settle()
    had = harness.clients["a"].owns
    assert had.standby
    harness.leave("b")
    harness.settle()
    assert harness.clients["a"].owns == Tasks(had.active | had.standby)


def test_a_member_that_does_not_revoke_is_fenced(harness):
    harness.join("a", rebalance_timeout_ms=2_000)
    harness.join("b")
    owned = harness.clients["a"].owns
    for _ in range(3):
        harness.poll("a", **owned_fields(owned))
        harness.wait(1.0)
    assert list(harness.group.members) == ["b"]
    assert harness.poll("b").owns == owned


def test_a_session_that_ends_frees_the_tasks(harness):
    harness.join("a")
    harness.join("b")
    for _ in range(4):
        harness.poll("b")
        harness.wait(2.0)
    assert list(harness.group.members) == ["b"]
    assert len(harness.poll("b").owns.active) == 3


def test_evicted_and_rebalanced_by_an_administrator(harness):
    harness.join("a")
    harness.administer("g", Rebalance("on request"))
    assert (harness.group.epoch, harness.group.state_name) == (3, "Assigning")
    assert harness.poll("a").epoch == 3
    harness.administer("g", Evict("a", "evicted by an administrator"))
    assert harness.poll("a").answer.error_code == E.UNKNOWN_MEMBER_ID
    harness.administer("g", Rebalance("on request"))
    assert (harness.group.epoch, harness.group.state_name) == (4, "Empty")


def test_previous_epoch_with_assigned_tasks_is_accepted(harness):
    harness.join("a")
    harness.join("b")
    harness.settle()
    client = harness.clients["a"]
    harness.leave("b")
    last, had = client.epoch, client.owns
    harness.poll("a")
    assert client.epoch > last
    assert harness.beat("a", member_epoch=last, **owned_fields(had)).error_code == E.NONE
    assert harness.beat("a", member_epoch=last).error_code == E.FENCED_MEMBER_EPOCH
    assert harness.beat("a", member_epoch=client.epoch + 1).error_code == E.FENCED_MEMBER_EPOCH


def test_a_rejected_heartbeat_changes_nothing(harness):
    harness.join("a")
    before = harness.group.epoch, dict(harness.group.members), harness.broker.cluster.epoch
    other = topology(part("0", "u"))
    answer = harness.beat("b", member_epoch=0, rebalance_timeout_ms=1, topology=other, **owned_fields(NOTHING))
    assert answer.error_code == E.INVALID_REQUEST
    assert (harness.group.epoch, dict(harness.group.members), harness.broker.cluster.epoch) == before


# --- initial rebalance delay --------------------------------------------------------------------------------------


def test_initial_delay_assigns_all_members_at_once():
    harness = StreamsGroupHarness(config={"group.streams.initial.rebalance.delay.ms": 3_000})
    assert harness.join("a").owns == NOTHING
    assert harness.statuses("a") == [Status.ASSIGNMENT_DELAYED]
    harness.wait(1.0)
    harness.join("b")
    assert (harness.clients["b"].epoch, harness.group.assignment_epoch) == (1, 0)
    harness.wait(2.0)
    assert harness.group.assignment_epoch == harness.group.epoch
    harness.settle()
    assert sorted(map(len, harness.active().values())) == [1, 2]
    assert harness.statuses("a") == []


def test_initial_delay_of_one_heartbeat_ends_with_the_next():
    """Kafka keeps the topics of a new group only from the second heartbeat, so the timer has nothing to assign."""
    harness = StreamsGroupHarness(config={"group.streams.initial.rebalance.delay.ms": 3_000})
    harness.join("a")
    harness.wait(4.0)
    assert harness.group.assignment_epoch == 0
    assert len(harness.poll("a").owns.active) == 3


# --- topics and topology ------------------------------------------------------------------------------------------


def test_internal_topics_are_created(harness):
    harness.join("a", WORD_COUNT)
    assert harness.statuses("a") == [Status.MISSING_INTERNAL_TOPICS]
    assert harness.clients["a"].answer.status[0].status_detail == "Internal topics are missing: log, again"
    topics = harness.broker.cluster.topics
    assert (len(topics["again"].partitions), len(topics["log"].partitions)) == (3, 3)
    assert harness.group.state_name == "NotReady"
    assert len(harness.poll("a").owns.active) == 6
    assert harness.statuses("a") == []


def test_internal_topics_that_cannot_be_created_are_tried_again(harness):
    topics = [internal("log", replication_factor=3)]
    harness.join("a", topology(part("0", "t", state_changelog_topics=topics)))
    harness.poll("a")
    detail = harness.clients["a"].answer.status[0].status_detail
    assert detail.startswith("Internal topics are missing: log; Creation failed: log (Unable to replicate")
    harness.wait(5.0)
    harness.poll("a")
    assert "Creation failed" in harness.clients["a"].answer.status[0].status_detail
    harness.wait(5.0)
    harness.poll("a")
    assert "Creation failed" not in harness.clients["a"].answer.status[0].status_detail, "tried again"


@pytest.mark.parametrize(("count", "more"), [(3, "."), (4, " and 1 more.")])
def test_status_names_three_topics_that_cannot_be_created(harness, count, more):
    topics = [internal(f"log{number}", replication_factor=3) for number in range(count)]
    harness.join("a", topology(part("0", "t", state_changelog_topics=topics)))
    detail = harness.poll("a").answer.status[0].status_detail
    assert detail.count("Unable to replicate") == 3
    assert detail.endswith(f"){more}")


def test_internal_topics_above_the_limit_are_not_created(harness):
    harness.join(
        "a", topology(part("0", "t", repartition_sink_topics=["r"], repartition_source_topics=[internal("r", 10_001)]))
    )
    assert "r" not in harness.broker.cluster.topics
    harness.poll("a")
    assert "Excessively large number of partitions" in harness.clients["a"].answer.status[0].status_detail


def test_missing_source_topic_takes_the_tasks(harness):
    harness.join("a", topology(part("0", "t", "u")))
    assert len(harness.clients["a"].owns.active) == 3
    harness.broker.cluster.delete_topic(harness.broker.cluster.topics["u"])
    harness.poll("a")
    assert harness.statuses("a") == [Status.MISSING_SOURCE_TOPICS]
    harness.poll("a")
    assert (harness.clients["a"].owns, harness.group.state_name) == (NOTHING, "NotReady")


def test_new_partitions_are_new_tasks(harness):
    harness.join("a")
    cluster = harness.broker.cluster
    cluster.add_partitions(cluster.topics["t"], [[0], [0]])
    assert len(harness.poll("a").owns.active) == 5


def test_stale_topology_epoch_is_reported(harness):
    harness.join("a", topology(part("0", "t"), epoch=2))
    harness.join("b", topology(part("0", "u"), epoch=1))
    assert harness.statuses("b") == [Status.STALE_TOPOLOGY]
    harness.settle()
    assert sorted(map(len, harness.active().values())) == [1, 2], "it gets tasks of the group's topology"


def test_shutdown_of_the_application_is_told_to_all(harness):
    harness.join("a")
    harness.join("b")
    harness.poll("b", shutdown_application=True)
    harness.poll("a")
    assert harness.statuses("a") == [Status.SHUTDOWN_APPLICATION]
    harness.leave("a")
    harness.leave("b")
    harness.join("c")
    assert harness.statuses("c") == [], "an empty group has forgotten it"


def test_endpoints_have_the_partitions_of_their_tasks(harness):
    harness.join("a", WORD_COUNT, user_endpoint=Endpoint(host="h", port=1))
    harness.poll("a")
    (endpoint,) = harness.clients["a"].answer.partitions_by_user_endpoint
    assert (endpoint.user_endpoint.host, endpoint.user_endpoint.port) == ("h", 1)
    assert {each.topic: each.partitions for each in endpoint.active_partitions} == {"t": [0, 1, 2], "again": [0, 1, 2]}
    assert harness.poll("a").answer.partitions_by_user_endpoint is None, "the member knows this endpoint epoch"


def test_missing_source_topic_fails_only_endpoint_information(harness):
    harness.join("a", topology(part("0", "t", "u")), user_endpoint=Endpoint(host="h", port=1))
    harness.poll("a")
    harness.broker.delete_topics([harness.broker.cluster.topics["u"]])
    known = harness.clients["a"].endpoint_epoch
    owned = owned_fields(harness.clients["a"].owns)
    for epoch, error in ((known, E.NONE), (known - 1, E.UNKNOWN_SERVER_ERROR)):
        answer = harness.beat("a", member_epoch=harness.clients["a"].epoch, endpoint_information_epoch=epoch, **owned)
        assert answer.error_code == error


# --- other types and requests -------------------------------------------------------------------------------------


def test_empty_classic_group_becomes_a_streams_group_and_back(harness):
    commit_without_member(harness, "g")
    member_id = stable_member(harness, "g")
    assert (
        harness.beat(
            "a", member_epoch=0, rebalance_timeout_ms=1, topology=STATELESS, **owned_fields(NOTHING)
        ).error_code
        == E.GROUP_ID_NOT_FOUND
    )
    harness.ask(LeaveGroupRequest(group_id="g", members=[LeaveGroupRequest.Member(member_id=member_id)]), 5)
    harness.join("a")
    assert (harness.group.type_name, committed(harness, "g")) == ("streams", {("t", 0): 5})
    assert harness.ask(harness.__class__.__mro__[1].join("g"), 9).error_code == E.INCONSISTENT_GROUP_PROTOCOL
    harness.leave("a")
    stable_member(harness, "g")
    assert (harness.group.type_name, committed(harness, "g")) == ("classic", {("t", 0): 5})


def test_listed_with_type_and_state(harness):
    harness.join("a")
    (listed,) = harness.ask(ListGroupsRequest(types_filter=["Streams"], states_filter=["stable"]), 5).groups
    assert (listed.group_id, listed.group_type, listed.protocol_type, listed.group_state) == (
        "g",
        "streams",
        "streams",
        "Stable",
    )


def test_only_an_empty_group_is_deleted(harness):
    harness.join("a")
    request = DeleteGroupsRequest(groups_names=["g"])
    assert harness.ask(request, 2).results[0].error_code == E.NON_EMPTY_GROUP
    harness.leave("a")
    assert harness.ask(request, 2).results[0].error_code == E.NONE
    assert harness.broker.groups == {}
    assert harness.join("a").epoch == 2, "the group begins again"


def test_deletion_writes_tombstones_for_missing_records_too():
    """As in Kafka 4.2.0, a group that has no target assignment yet gets a tombstone for it."""
    harness = StreamsGroupHarness(config={"group.streams.initial.rebalance.delay.ms": 3_000})
    harness.join("a")
    harness.leave("a")
    log = harness.broker.cluster.topics["__consumer_offsets"].partition_of("g").log
    end = log.end
    assert harness.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code == E.NONE
    written = [record for batch in log.batches() for record in batch.records() if record.offset >= end]
    assert [(record.key[:2], record.value) for record in written] == [(bytes([0, kind]), None) for kind in (20, 17, 23)]


def commit(harness: Any, name: str, epoch: int, partition: int = 0, version: int = 9) -> int:
    place = OffsetCommitRequest.Topic.Partition(partition_index=partition, committed_offset=1)
    topics = [OffsetCommitRequest.Topic(name="t", partitions=[place])]
    request = OffsetCommitRequest(group_id="g", member_id=name, generation_id_or_member_epoch=epoch, topics=topics)
    return harness.ask(request, version).topics[0].partitions[0].error_code


def test_commits_with_the_epoch_since_which_a_task_is_owned(harness):
    harness.join("a")
    harness.join("b")
    harness.settle()
    client = harness.clients["a"]
    mine = next(number for _, number in client.owns.active)
    theirs = next(number for _, number in harness.clients["b"].owns.active)
    assert client.epoch == 3
    assert commit(harness, "a", 3, mine) == E.NONE
    assert commit(harness, "a", 2, mine) == E.NONE
    assert commit(harness, "a", 1, mine) == E.STALE_MEMBER_EPOCH
    assert commit(harness, "a", 2, theirs) == E.STALE_MEMBER_EPOCH
    assert commit(harness, "a", 4, mine) == E.STALE_MEMBER_EPOCH
    assert commit(harness, "b", 2, theirs) == E.STALE_MEMBER_EPOCH
    assert commit(harness, "z", 3, mine) == E.UNKNOWN_MEMBER_ID
    assert commit(harness, "a", 3, mine, version=8) == E.UNSUPPORTED_VERSION


def test_offsets_of_source_topics_are_not_deleted(harness):
    harness.join("a")
    assert commit(harness, "a", 2) == E.NONE
    partition = OffsetDeleteRequest.Topic.Partition(partition_index=0)
    request = OffsetDeleteRequest(group_id="g", topics=[OffsetDeleteRequest.Topic(name="t", partitions=[partition])])
    answer = harness.ask(request, 0)
    assert answer.topics[0].partitions[0].error_code == E.GROUP_SUBSCRIBED_TO_TOPIC
    harness.leave("a")
    assert harness.ask(request, 0).topics[0].partitions[0].error_code == E.NONE


def test_a_group_survives_the_loss_of_its_coordinator(harness):
    harness = StreamsGroupHarness(config={"group.streams.num.standby.replicas": 1}, brokers=2)
    for name in "ab":
        harness.join(name, STATEFUL, user_endpoint=Endpoint(host=name, port=1))
    harness.poll("a")
    harness.settle()
    before, described = harness.active(), harness.describe()
    index = harness.broker.offsets_partition("g")[1]
    node = harness.broker.coordinator("g")
    harness.broker.unload_group("g")
    harness.broker.load_groups(index, harness.now)
    assert harness.broker.coordinator("g") == node
    again = harness.describe()
    assert again.members == described.members
    assert (again.group_epoch, again.assignment_epoch, again.group_state) == (
        described.group_epoch,
        described.assignment_epoch,
        "Stable",
    )
    harness.settle()
    assert harness.active() == before
    harness.wait(50.0)
    assert harness.group.empty, "the sessions have begun again, and ended"


def test_configurations_of_the_group_replace_the_settings() -> None:
    harness = StreamsGroupHarness(config={"group.streams.heartbeat.interval.ms": 1_000})
    context = harness.broker.groups.context
    assert group_settings("g", context).heartbeat_interval_ms == 1_000
    harness.broker.cluster.configure_group("g", {"streams.num.standby.replicas": "1"})
    settings = group_settings("g", context)
    assert (settings.standby_replicas, settings.heartbeat_interval_ms) == (1, 5_000)


# --- changes by a heartbeat, and the reason of each change ----------------------------------------------------------


def reasons(harness: StreamsGroupHarness) -> list[tuple[str, str, str]]:
    """Return kind, member id and reason of the journal's events that have a reason."""
    return [(event.event, event.member_id, event.reason) for event in harness.journal.events if event.reason]


def test_journal_has_the_reason_of_each_epoch(harness):
    cluster = harness.broker.cluster
    harness.join("a")
    harness.poll("a", rack_id="r")
    cluster.add_partitions(cluster.topics["t"], [[0]])
    harness.poll("a")
    cluster.configure_group("g", {"streams.num.standby.replicas": "1"})
    harness.poll("a")
    cluster.delete_topic(cluster.topics["t"])
    harness.poll("a")
    harness.leave("a")
    assert reasons(harness) == [
        ("rebalance", "", "a joined"),
        ("rebalance", "", "a changed"),
        ("rebalance", "", "topics of the topology changed"),
        ("rebalance", "", "settings of the assignor changed"),
        ("rebalance", "", "topics of the topology changed"),
        ("leave", "a", "left"),
        ("rebalance", "", "left: a"),
    ]
    assert harness.journal.events[-1].event == "empty"


def test_journal_has_the_reason_of_an_expired_member(harness):
    harness.join("a", rebalance_timeout_ms=3_000)
    harness.join("b")
    harness.beat("a", member_epoch=2, **owned_fields(harness.clients["a"].owns))
    harness.wait(3.0)
    assert reasons(harness)[-2:] == [
        ("expire", "a", "tasks were not revoked within the rebalance timeout"),
        ("rebalance", "", "tasks were not revoked within the rebalance timeout: a"),
    ]
    harness.wait(3.0)
    assert reasons(harness)[-2] == ("expire", "b", "no heartbeat within the session timeout")


FIELDS = [  # field of the heartbeat, attribute of the member, value, its form in the group
    ("rack_id", "rack_id", "r", "r"),
    ("rebalance_timeout_ms", "rebalance_timeout", 5_000, 5.0),
    ("process_id", "process_id", "p", "p"),
    ("client_tags", "client_tags", [KeyValue(key="k", value="v")], None),
    ("user_endpoint", "endpoint", Endpoint(host="h", port=7), None),
]


@pytest.mark.parametrize(("field", "attribute", "value", "expected"), FIELDS)
def test_omitted_field_keeps_its_value(harness, field: str, attribute: str, value: Any, expected: Any) -> None:
    harness.join("a", **{field: value})
    first = getattr(harness.group.members["a"], attribute)
    assert first if expected is None else first == expected
    harness.poll("a")
    harness.poll("a")
    assert getattr(harness.group.members["a"], attribute) == first
    assert harness.clients["a"].answer.error_code == E.NONE


@pytest.mark.parametrize(
    ("epoch", "owned", "error"),
    [
        pytest.param(0, "all", E.NONE, id="current"),
        pytest.param(-1, "all", E.NONE, id="previous, with all tasks"),
        pytest.param(-1, "none", E.NONE, id="previous, without tasks"),
        pytest.param(-1, None, E.FENCED_MEMBER_EPOCH, id="previous, tasks not reported"),
        pytest.param(-1, "more", E.FENCED_MEMBER_EPOCH, id="previous, with a task that is not assigned"),
        pytest.param(1, "all", E.FENCED_MEMBER_EPOCH, id="next"),
        pytest.param(90, None, E.FENCED_MEMBER_EPOCH, id="far ahead"),
    ],
)
def test_valid_member_epochs(harness, epoch: int, owned: str | None, error: E) -> None:
    harness.join("a")
    harness.join("b")
    harness.settle()
    member = harness.group.members["a"]
    assert member.previous_epoch < member.epoch
    reported = {"all": member.assigned, "none": NOTHING}
    reported["more"] = Tasks(frozenset(("0", number) for number in range(3)))
    fields = {} if owned is None else owned_fields(reported[owned])
    number = member.previous_epoch if epoch == -1 else member.epoch + epoch
    assert harness.beat("a", member_epoch=number, **fields).error_code == error


TaskIds = StreamsGroupHeartbeatRequest.TaskIds


@pytest.mark.parametrize(
    ("name", "number", "message"),
    [
        ("0", 2, None),
        ("0", 3, "Task 3 for subtopology 0 is invalid. Number of tasks for this subtopology: 3"),
        ("0", -1, "Task -1 for subtopology 0 is invalid. Number of tasks for this subtopology: 3"),
        ("9", 0, "Subtopology 9 does not exist in the topology."),
    ],
)
@pytest.mark.parametrize("kind", ["active_tasks", "standby_tasks"])
def test_reported_task_exists(harness, kind: str, name: str, number: int, message: str | None) -> None:
    harness.join("a")
    tasks = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    tasks[kind] = [TaskIds(subtopology_id=name, partitions=[number])]
    answer = harness.beat("a", member_epoch=2, **tasks)
    expected = (E.NONE, None) if message is None else (E.INVALID_REQUEST, message)
    assert (answer.error_code, answer.error_message) == expected


@pytest.mark.parametrize(("epoch", "message"), [(1, "Streams group g not found."), (-1, "Group g not found.")])
def test_unknown_group_is_named(harness, epoch: int, message: str) -> None:
    answer = harness.beat("a", member_epoch=epoch)
    assert (answer.error_code, answer.error_message) == (E.GROUP_ID_NOT_FOUND, message)
    assert "g" not in harness.broker.groups


@pytest.mark.parametrize("epoch", [1, -1])
def test_member_without_a_group_of_the_type_is_refused(harness, epoch: int) -> None:
    stable_member(harness, "g")
    answer = harness.beat("a", member_epoch=epoch)
    assert (answer.error_code, answer.error_message) == (E.GROUP_ID_NOT_FOUND, "Group g is not a streams group.")


OTHER = topology(part("0", "u"))


@pytest.mark.parametrize(
    ("sent", "epoch", "error"),
    [
        (STATELESS, 1, E.NONE),
        (OTHER, 0, E.NONE),  # an older topology
        (OTHER, 1, E.INVALID_REQUEST),
        (OTHER, 2, E.INVALID_REQUEST),
        (STATELESS, 2, E.INVALID_REQUEST),
    ],
)
def test_topology_cannot_be_updated(harness, sent: Any, epoch: int, error: E) -> None:
    harness.join("a", replace(STATELESS, epoch=1))
    answer = harness.join("b", replace(sent, epoch=epoch)).answer
    assert answer.error_code == error
    assert not error or answer.error_message == "Topology updates are not supported yet."
    assert harness.group.topology.epoch == 1


def test_fenced_member_has_no_deadlines(harness):
    harness.join("a", rebalance_timeout_ms=3_000)
    harness.join("b")
    harness.beat("a", member_epoch=2, **owned_fields(harness.clients["a"].owns))
    timers = harness.group.timers
    assert all((kind, "a") in timers for kind in ("session", "rebalance"))
    harness.leave("a")
    assert not any((kind, "a") in timers for kind in ("session", "rebalance"))
    assert ("session", "b") in timers


def test_revoked_tasks_end_the_rebalance_deadline(harness):
    harness.join("a", rebalance_timeout_ms=3_000)
    harness.join("b")
    harness.beat("a", member_epoch=2, **owned_fields(harness.clients["a"].owns))
    assert ("rebalance", "a") in harness.group.timers
    harness.beat("a", member_epoch=2, **owned_fields(NOTHING))
    assert ("rebalance", "a") not in harness.group.timers


def test_first_member_that_asks_shuts_the_application_down(harness):
    for name in "abc":
        harness.join(name)
    harness.poll("b", shutdown_application=True)
    harness.poll("a", shutdown_application=True)
    harness.leave("c", shutdown_application=True)
    assert harness.group.shutdown_by == "b"
    [status] = [each for each in harness.poll("a").answer.status if each.status_code == Status.SHUTDOWN_APPLICATION]
    assert status.status_detail == (
        "Streams group member b encountered a fatal error and requested a shutdown for the entire application."
    )


def test_member_that_leaves_can_shut_the_application_down(harness):
    harness.join("a")
    harness.join("b")
    harness.leave("b", shutdown_application=True)
    assert harness.group.shutdown_by == "b"


def test_response_has_the_tasks_only_if_they_changed(harness):
    assert harness.join("a").answer.active_tasks
    assert harness.poll("a").answer.active_tasks is None
    assert harness.join("a").answer.active_tasks, "a member that joins gets them again"


def test_assigned_event_has_the_partitions_of_the_source_topics(harness):
    harness.join("a", topology(part("0", "t", "u")))
    [event] = [event for event in harness.journal.events if event.event == "assign"]
    assert event.assignment == {"t": [0, 1, 2], "u": [0, 1, 2]}


def test_full_group_refuses_members_that_join_again():
    harness = StreamsGroupHarness(config={"group.streams.max.size": 1})
    harness.join("a")
    for name in ("a", "b"):
        assert harness.join(name).answer.error_code == E.GROUP_MAX_SIZE_REACHED
    assert harness.beat("a", member_epoch=2).error_code == E.NONE


def test_members_are_described_with_the_timeout_of_the_group(harness):
    harness.join("a")
    harness.broker.cluster.configure_group("g", {"streams.session.timeout.ms": "50000"})
    described = STREAMS_TYPE.describe_members(harness.group, ["a", "gone"], {}, harness.broker.groups.context)
    assert [(member.member_id, member.session_timeout_ms) for member in described] == [("a", 50_000)]


def test_steady_heartbeat_causes_no_event(harness):
    for name in "ab":
        harness.join(name)
    harness.settle()
    events = len(harness.journal.events)
    harness.poll("a")
    assert len(harness.journal.events) == events


def test_settings_of_a_group_replace_those_of_the_broker():
    given = {"session.timeout.ms": 50_000, "heartbeat.interval.ms": 7_000, "initial.rebalance.delay.ms": 2_000}
    given["num.standby.replicas"] = 1
    harness = StreamsGroupHarness(config={f"group.streams.{name}": value for name, value in given.items()})
    context, expected = harness.broker.groups.context, StreamsGroupSettings(50.0, 7_000, 1, 2.0)
    assert group_settings("g", context) == expected
    own = given | {"initial.rebalance.delay.ms": 1_000, "session.timeout.ms": 60_000}
    harness.broker.cluster.configure_group("g", {f"streams.{name}": str(value) for name, value in own.items()})
    expected = replace(expected, session_timeout=60.0, initial_rebalance_delay=1.0)
    assert group_settings("g", context) == expected


def test_imported_form_has_the_topology(harness):
    harness.join("a", WORD_COUNT)
    form = STREAMS_TYPE.to_json(harness.group, {}, harness.broker.settings)
    again = {"source_topics": ["t"], "repartition_topics": [], "changelog_topics": []}
    log = {"source_topics": [], "repartition_topics": ["again"], "changelog_topics": ["log"]}
    assert (form["topology_epoch"], form["subtopologies"]) == (0, {"0": again, "1": log})
    empty = STREAMS_TYPE.to_json(StreamsGroup(group_id="g"), {}, harness.broker.settings)
    assert (empty["topology_epoch"], empty["subtopologies"]) == (None, {})


def test_offsets_of_the_topology_do_not_expire(harness):
    harness.join("a", WORD_COUNT)
    start = STREAMS_TYPE.retention_start(harness.group)
    found = {topic: start(topic, Committed(offset=1, at=5.0)) for topic in ("t", "again", "log", "u")}
    assert found == {"t": None, "again": None, "log": 5.0, "u": 5.0}


def test_imported_form_of_a_member_has_its_endpoint(harness):
    harness.join("a", user_endpoint=Endpoint(host="h", port=7), rebalance_timeout_ms=60_250)
    harness.join("b")
    members = STREAMS_TYPE.to_json(harness.group, {}, harness.broker.settings)["members"]
    assert [(each["endpoint"], each["rebalance_timeout_ms"]) for each in members] == [("h:7", 60_250), (None, 60_000)]


def test_metadata_is_read_again_after_the_refresh_interval(harness):
    harness.join("a")
    assert harness.group.metadata_refresh_at == harness.now + METADATA_REFRESH_INTERVAL


def test_tombstones_of_a_deleted_group_end_with_the_group_itself():
    group = StreamsGroup(group_id="g")
    target, metadata, topology_key = records.group_keys("g")
    image: Any = {topology_key: b"", b"a member": b"", metadata: b""}
    assert list(STREAMS_TYPE.keys_to_delete(group, image)) == [b"a member", target, metadata, topology_key]


def test_initial_delay_keeps_a_target_of_the_current_epoch(harness):
    harness.join("a")
    harness.settle()
    group = harness.group
    assert group.assignment_epoch == group.epoch > 0
    group.timers.set(INITIAL_REBALANCE_TIMER, harness.now)
    assert machine.tick(group, harness.now) == []


@pytest.mark.parametrize(("seconds", "again"), [(-0.001, False), (0.0, True)])
def test_topics_are_read_again_after_the_refresh_interval(harness, monkeypatch, seconds: float, again: bool):
    harness.join("a")
    harness.settle()
    reads: list[str] = []
    real = StreamsGroup.read_metadata
    monkeypatch.setattr(StreamsGroup, "read_metadata", lambda *args: reads.append("") or real(*args))
    harness.poll("a")
    assert reads == []
    harness.group.metadata_refresh_at = harness.now - seconds
    harness.poll("a")
    assert bool(reads) is again


def test_initial_delay_is_not_prolonged_by_a_later_join():
    """The delay is not prolonged even if the group was empty in the meantime."""
    harness = StreamsGroupHarness(config={"group.streams.initial.rebalance.delay.ms": 3_000})
    harness.join("a")
    harness.wait(1.0)
    harness.leave("a")
    assert harness.group.empty
    harness.join("b")
    assert harness.group.timers.at(INITIAL_REBALANCE_TIMER) == 3.0


def test_tasks_are_listed_in_the_order_of_kafka():
    harness = StreamsGroupHarness(config={"group.streams.num.standby.replicas": 1}, topics={"t": 2})
    names = [str(number) for number in range(12)]
    parts = [part(name, "t", state_changelog_topics=[internal(f"log{name}")]) for name in names]
    harness.join("a", topology(*parts))
    harness.settle()
    harness.join("b", topology(*parts))
    for _ in range(2):
        harness.poll("a")
        answer = harness.poll("b").answer
    assert [each.subtopology_id for each in answer.active_tasks] == list(map_order(names)) != sorted(names)
    assert [each.subtopology_id for each in answer.standby_tasks] == list(map_order(names))


def test_warmup_tasks_are_listed_in_the_order_of_kafka(harness):
    """The assignors assign no warm-up tasks, but a stored target assignment may contain some."""
    harness.join("a")
    harness.settle()
    names = [str(number) for number in range(1, 13)]
    harness.group.target["a"] = Tasks(warmup=frozenset((name, 0) for name in names))
    harness.group.epoch += 1
    harness.group.assignment_epoch = harness.group.epoch
    harness.poll("a")  # revokes the active tasks
    answer = harness.poll("a").answer
    assert [each.subtopology_id for each in answer.warmup_tasks] == list(map_order(names)) != sorted(names)


def test_topics_that_a_member_may_not_create_are_listed():
    created: list[Any] = []
    context: Any = SimpleNamespace(create_topics=lambda topics, *_: created.append(topics) or {})
    settings: Any = SimpleNamespace(heartbeat_interval_ms=5_000)
    topics = [SimpleNamespace(name=name) for name in ("log", "again")]
    missing: Any = SimpleNamespace(problem=(Status.MISSING_INTERNAL_TOPICS, "Missing"), missing_topics=topics)
    (status,) = machine._topic_status(missing, settings, context, 0.0, lambda name: name != "log")
    assert (status.status_detail, created) == ("Missing; Unauthorized to CREATE on topics log.", [])
    for may_create in (None, lambda _: True):
        (status,) = machine._topic_status(missing, settings, context, 0.0, may_create)
        assert status.status_detail == "Missing"
    assert created == [topics, topics]


def test_endpoints_leave_out_tasks_that_no_subtopology_has(harness):
    harness.join("a", STATELESS)
    harness.poll("a")
    found = _partitions([("0", 0), ("removed", 1)], harness.group.configured.subtopologies, harness.broker.cluster)
    assert [(each.topic, each.partitions) for each in found] == [("t", [0])]


@pytest.mark.parametrize(("count", "listed"), [(1_000, 1_000), (1_001, 0)])
def test_generation_event_lists_at_most_1000_members(count: int, listed: int):
    group = StreamsGroup(group_id="g")
    for number in range(count):
        group.members[str(number)] = SimpleNamespace()
    assert len(generation_note(group, "sticky").members) == listed


@pytest.mark.parametrize(
    ("fields", "attribute", "value"),
    [
        ({"process_id": "other"}, "process_id", "other"),
        ({"rack_id": "r"}, "rack_id", "r"),
        ({"rebalance_timeout_ms": 7_000}, "rebalance_timeout", 7.0),
    ],
)
def test_changed_field_of_a_member_starts_an_epoch(harness, fields: dict[str, Any], attribute: str, value: Any):
    harness.join("a")
    harness.settle()
    epoch = harness.group.epoch
    assert harness.poll("a", **fields).answer.error_code == E.NONE
    assert (getattr(harness.group.members["a"], attribute), harness.group.epoch) == (value, epoch + 1)


def test_member_that_sends_only_defaults_joins():
    group, context = StreamsGroup(group_id="g"), StreamsGroupHarness().broker.groups.context
    event = StreamsHeartbeat(
        ticket=Ticket(1, 1, 88, 0), member_id="m", epoch=0, client_id="", client_host="", topology=STATELESS
    )
    machine.heartbeat(group, event, context, 0.0)
    assert list(group.members) == ["m"]
    other = replace(event, member_id="n", topology=None)
    machine.heartbeat(group, other, context, 0.0)
    assert list(group.members) == ["m", "n"]


def test_member_joins_once_in_the_journal(harness):
    harness.join("a")
    harness.poll("a", rack_id="r")
    harness.join("b")
    harness.settle()
    assert [note.member_id for note in harness.journal.events if note.event == "join"] == ["a", "b"]


def test_journal_tells_whether_the_topology_is_valid(harness):
    harness.join("a", topology(part("0", "late")))
    harness.poll("a")
    cluster = harness.broker.cluster
    cluster.create_topic("late", cluster.place(1, 1))
    group = harness.group
    configured = configure(group.topology, cluster)
    settings: Any = SimpleNamespace(assignment_configs=group.assignment_configs)
    member = group.members["a"]
    for ready, reason in ((configured, "topology validated"), (group.configured, "topology not valid any more")):
        update: Any = SimpleNamespace(
            before=member, after=member, metadata_hash=group.metadata_hash, validated=7, configured=ready
        )
        assert machine._epoch_bump_reason(group, update, settings) == reason


def test_missing_topics_matter_only_for_endpoints(harness):
    missing = topology(part("0", "missing"))
    harness.join("a", missing)
    assert harness.beat("a", member_epoch=harness.clients["a"].epoch, endpoint_information_epoch=9).error_code == E.NONE
    assert harness.join("b", missing, endpoint_information_epoch=9).answer.error_code == E.NONE
    endpoint = Endpoint(host="h", port=1)
    assert harness.join("c", missing, user_endpoint=endpoint).answer.error_code == E.UNKNOWN_SERVER_ERROR
    assert harness.join("c", missing, user_endpoint=endpoint, endpoint_information_epoch=1).answer.error_code == E.NONE
    assert harness.group.endpoint_epoch == 1
    assert harness.join("d", missing, endpoint_information_epoch=1).answer.error_code == E.NONE
    assert harness.join("e", missing, endpoint_information_epoch=2).answer.error_code == E.UNKNOWN_SERVER_ERROR


def test_endpoint_epoch_grows_by_one_with_each_change_of_tasks(harness):
    harness.join("a")
    assert harness.clients["a"].endpoint_epoch == 0
    epochs = [harness.join(name, user_endpoint=Endpoint(host=name, port=1)).endpoint_epoch for name in "bc"]
    assert epochs == [1, 2]
    harness.join("d")
    assert harness.group.endpoint_epoch == 2


def test_error_of_a_creation_is_kept_for_two_heartbeats():
    kept: list[float] = []
    context: Any = SimpleNamespace(create_topics=lambda _topics, _now, seconds: kept.append(seconds) or {})
    missing: Any = SimpleNamespace(
        problem=(Status.MISSING_INTERNAL_TOPICS, "Missing"), missing_topics=[SimpleNamespace(name="log")]
    )
    machine._topic_status(missing, SimpleNamespace(heartbeat_interval_ms=5_000), context, 0.0, None)  # type: ignore[arg-type]
    assert kept == [10.0]


def test_tasks_return_with_the_source_topic(harness):
    """The target assignment is computed for all members again, even when a member joins."""
    for name in "ab":
        harness.join(name)
    harness.settle()
    harness.broker.delete_topics([harness.broker.cluster.topics["t"]])
    harness.settle()
    assert harness.active() == {"a": [], "b": []}
    cluster = harness.broker.cluster
    cluster.create_topic("t", cluster.place(3, 1))
    harness.join("c")
    harness.settle()
    assert sorted(task for tasks in harness.active().values() for task in tasks) == [("0", 0), ("0", 1), ("0", 2)]
    assert {len(tasks) for tasks in harness.active().values()} == {1}


def test_member_that_has_revoked_has_no_rebalance_timeout(harness):
    harness.join("a", rebalance_timeout_ms=2_000)
    harness.join("b")
    owned = harness.clients["a"].owns
    harness.poll("a", **owned_fields(owned))
    assert harness.group.timers.at(("rebalance", "a")) == harness.now + 2.0
    harness.settle()
    assert harness.group.timers.at(("rebalance", "a")) is None


def test_endpoint_without_source_topics_has_no_partitions(harness):
    for name in "ab":
        harness.join(name, user_endpoint=Endpoint(host=name, port=1))
    harness.settle()
    assert len(harness.clients["b"].owns.active) == 1
    harness.broker.delete_topics([harness.broker.cluster.topics["t"]])
    answer = harness.poll("a", endpoint_information_epoch=harness.group.endpoint_epoch).answer
    assert answer.error_code == E.NONE
    listed = {each.user_endpoint.host: each.active_partitions for each in answer.partitions_by_user_endpoint}
    assert listed == {"a": [], "b": []}


def test_group_without_a_topology_reads_no_topic():
    group = StreamsGroup(group_id="g")
    group.put_member(StreamsMember(member_id="m"))
    assert (STREAMS_TYPE.subscribed_topics(group), group.is_subscribed_to("t")) == ((), False)


def test_initial_delay_of_an_empty_group_assigns_nothing():
    harness = StreamsGroupHarness(config={"group.streams.initial.rebalance.delay.ms": 3_000})
    harness.join("a")
    harness.poll("a")
    harness.leave("a")
    harness.wait(4.0)
    assert "generation" not in [event.event for event in harness.journal.events]


def test_initial_delay_may_be_shorter_than_a_second():
    harness = StreamsGroupHarness(config={"group.streams.initial.rebalance.delay.ms": 500})
    harness.join("a")
    assert harness.group.timers.at(INITIAL_REBALANCE_TIMER) == 0.5


def test_response_with_tasks_has_all_types(harness):
    answer = harness.join("a").answer
    assert (len(answer.active_tasks), answer.standby_tasks, answer.warmup_tasks) == (1, [], [])


@pytest.mark.parametrize("epoch", [-1, 3])
def test_only_a_member_that_joins_replaces_an_empty_group(harness, epoch: int):
    commit_without_member(harness, "g")
    answer = harness.beat("a", member_epoch=epoch)
    assert (answer.error_code, answer.error_message) == (E.GROUP_ID_NOT_FOUND, "Group g is not a streams group.")


def test_member_that_leaves_shuts_nothing_down_unasked(harness):
    harness.join("a")
    harness.join("b")
    harness.leave("b")
    assert harness.group.shutdown_by == ""
