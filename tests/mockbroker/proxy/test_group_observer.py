"""Groups and events that the proxy derives from requests and responses, for each type of group."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tools.counting import in_slices

from kwire import ErrorCode as E
from kwire import encode_request, encode_response
from kwire.blobs import encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kwire.messages import APIS
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kwire.messages.end_txn import EndTxnRequest, EndTxnResponse
from kwire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kwire.messages.metadata import MetadataResponse
from kwire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kwire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from kwire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kwire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kwire.schema import schema_of
from mockbroker.base.settings import Settings
from mockbroker.broker.journal import Journal
from mockbroker.proxy import group_observer as module
from mockbroker.proxy.addresses import Address
from mockbroker.proxy.group_observer import GroupObserver
from mockbroker.proxy.observed_broker import ObservedBroker
from mockbroker.proxy.observed_groups import ObservedGroup
from mockbroker.proxy.observer import Connection, Exchange

CONNECTION = Connection(1, Address("10.0.0.1", 1), 2, Address("real", 9), Address("proxy", 7))
TOPIC = UUID(int=7)


class Traffic:
    """The group observer, with the groups and events that it has found."""

    def __init__(self) -> None:
        self.now = 0.0
        ids = iter(range(1, 1_000))
        self.broker = ObservedBroker(Settings.parse({}), lambda: UUID(int=next(ids)))
        self.journal = Journal(0.0)
        self.observer = GroupObserver(self.broker, self.journal, lambda: self.now, lambda: None)

    def passes(self, request: Any, response: Any, version: int = -1, *, answered_by_broker: bool = True) -> None:
        """Let a request and its response pass, in the latest version."""
        api = schema_of(type(request)).api
        assert api is not None
        assert api.versions.last is not None
        version = api.versions.last if version < 0 else version
        exchange = Exchange(CONNECTION, api.key, version, 1)
        exchange.request = encode_request(request, version, correlation_id=1, client_id="app")
        exchange.forwarded = exchange.request if answered_by_broker else None
        assert self.observer.needs(api.key, version)
        in_slices(self.observer.requested(exchange))
        exchange.response = encode_response(response, version, correlation_id=1)
        exchange.answer = exchange.response if answered_by_broker else None
        in_slices(self.observer.answered(exchange))

    def group(self, group_id: str = "g") -> ObservedGroup:
        group = self.broker.groups[group_id]
        assert isinstance(group, ObservedGroup)
        return group

    def members(self) -> dict[str, Any]:
        """Return the members as the control API returns them."""
        group, groups = self.group(), self.broker.groups
        described = groups.types.of(group).describe_members(group, group.members, {TOPIC: "t"}, groups.context)
        return {each.member_id: each for each in described}

    @property
    def kinds(self) -> list[str]:
        return [str(event.event) for event in self.journal.events]

    def expire(self) -> None:
        """Handle all deadlines that are due."""
        while (due := self.broker.deadlines.pop_due(self.now)) is not None:
            for note in self.broker.groups.tick(str(due), self.now):
                self.journal.record(note, self.now)  # type: ignore[arg-type]


@pytest.fixture
def traffic() -> Traffic:
    return Traffic()


def join(member_id: str, *others: str, generation: int = 1) -> tuple[JoinGroupRequest, JoinGroupResponse]:
    metadata = encode_stored(ConsumerProtocolSubscription(topics=["t"]), 0)
    protocol = JoinGroupRequest.Protocol(name="range", metadata=metadata)
    members = [JoinGroupResponse.Member(member_id=each) for each in others]
    return (
        JoinGroupRequest(
            group_id="g", session_timeout_ms=10_000, member_id=member_id, protocol_type="consumer", protocols=[protocol]
        ),
        JoinGroupResponse(
            generation_id=generation, protocol_name="range", leader="a", member_id=member_id, members=members
        ),
    )


def sync(member_id: str, partition: int, *others: str) -> tuple[SyncGroupRequest, SyncGroupResponse]:
    assigned = ConsumerProtocolAssignment.TopicPartition(topic="t", partitions=[partition])
    data = encode_stored(ConsumerProtocolAssignment(assigned_partitions=[assigned]), 0)
    given = [SyncGroupRequest.Assignment(member_id=each, assignment=data) for each in others]
    request = SyncGroupRequest(group_id="g", generation_id=1, member_id=member_id, assignments=given)
    return request, SyncGroupResponse(assignment=data)


def stable(traffic: Traffic) -> None:
    traffic.passes(*join("a", "a", "b"))
    traffic.passes(*join("b"))
    traffic.passes(*sync("a", 0, "a", "b"))
    traffic.passes(*sync("b", 1))


def test_a_classic_group_is_followed(traffic: Traffic) -> None:
    found = FindCoordinatorResponse.Coordinator(key="g", node_id=2)
    traffic.passes(FindCoordinatorRequest(coordinator_keys=["g"]), FindCoordinatorResponse(coordinators=[found]))
    request, response = join("")
    response.error_code, response.member_id = E.MEMBER_ID_REQUIRED, "a"
    traffic.passes(request, response)
    traffic.passes(*join("a", "a", "b"))
    traffic.passes(*join("b"))
    assert traffic.group().state_name == "CompletingRebalance"
    traffic.passes(*sync("a", 0, "a", "b"))
    traffic.passes(*sync("b", 1))
    group = traffic.group()
    assert (group.state_name, group.generation, group.leader, group.protocol) == ("Stable", 1, "a", "range")
    members = traffic.members()
    assert {each: members[each].assignment for each in members} == {"a": {"t": [0]}, "b": {"t": [1]}}
    assert (members["a"].subscription, members["a"].client_id, members["a"].client_host) == (["t"], "app", "/10.0.0.1")
    assert traffic.broker.coordinator("g") == 2
    assert [kind for kind in traffic.kinds if kind != "rebalance"] == [
        "id_given",
        "join",
        "generation",
        "join",
        "assign",
        "assign",
    ]
    assert traffic.broker.deadlines.earliest == 10.0


def test_a_rebalance_begins_with_its_first_sign(traffic: Traffic) -> None:
    stable(traffic)
    response = HeartbeatResponse(error_code=E.REBALANCE_IN_PROGRESS)
    traffic.passes(HeartbeatRequest(group_id="g", generation_id=1, member_id="a"), response)
    assert traffic.group().state_name == "PreparingRebalance"
    traffic.passes(*join("a", "a", generation=2))
    assert (traffic.group().generation, list(traffic.group().members)) == (2, ["a"])
    assert traffic.kinds[-3:] == ["rebalance", "rejoin", "generation"]


def test_members_leave_expire_and_are_refused(traffic: Traffic) -> None:
    stable(traffic)
    leaving = LeaveGroupRequest.Member(member_id="b", reason="done")
    traffic.passes(LeaveGroupRequest(group_id="g", members=[leaving]), LeaveGroupResponse())
    assert list(traffic.group().members) == ["a"]
    assert [(event.event, event.reason) for event in traffic.journal.events][-2:] == [
        ("leave", "done"),
        ("rebalance", "done"),
    ]
    traffic.now = 11.0
    traffic.expire()
    assert traffic.group().state_name == "Empty"
    assert traffic.kinds[-2:] == ["expire", "empty"]
    stable(traffic)
    unknown = HeartbeatResponse(error_code=E.UNKNOWN_MEMBER_ID)
    traffic.passes(HeartbeatRequest(group_id="g", generation_id=1, member_id="a"), unknown)
    assert list(traffic.group().members) == ["b"]


def test_what_a_fault_rule_answers_changes_nothing(traffic: Traffic) -> None:
    stable(traffic)
    unknown = HeartbeatResponse(error_code=E.UNKNOWN_MEMBER_ID)
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="a")
    traffic.passes(request, unknown, answered_by_broker=False)
    assert list(traffic.group().members) == ["a", "b"]


def heartbeat(epoch: int, answered: int, partition: int | None = None) -> tuple[Any, Any]:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="a", member_epoch=epoch, subscribed_topic_names=["t"] if not epoch else None
    )
    response = ConsumerGroupHeartbeatResponse(member_id="a", member_epoch=answered)
    if partition is not None:
        kind = ConsumerGroupHeartbeatResponse.Assignment
        assigned = kind.TopicPartition(topic_id=TOPIC, partitions=[partition])
        response.assignment = kind(topic_partitions=[assigned])
    return request, response


def test_a_consumer_group_is_followed(traffic: Traffic) -> None:
    traffic.passes(*heartbeat(0, 1, 0))
    traffic.passes(*heartbeat(1, 1))
    group, member = traffic.group(), traffic.members()["a"]
    assert (group.type_name, group.state_name, group.generation) == ("consumer", "Stable", 1)
    assert (member.assignment, member.subscription, member.epoch) == ({"t": [0]}, ["t"], 1)
    traffic.passes(*heartbeat(1, 2, 1))
    assert (traffic.group().generation, traffic.members()["a"].assignment) == (2, {"t": [1]})
    traffic.passes(*heartbeat(-1, -1))
    assert traffic.group().state_name == "Empty"
    assert traffic.kinds == ["join", "generation", "assign", "generation", "assign", "leave", "empty"]


def test_share_and_streams_groups_are_followed(traffic: Traffic) -> None:
    request = ShareGroupHeartbeatRequest(group_id="s", member_id="a", member_epoch=0, subscribed_topic_names=["t"])
    traffic.passes(request, ShareGroupHeartbeatResponse(member_id="a", member_epoch=1))
    assert (traffic.group("s").type_name, traffic.group("s").members["a"].subscription) == ("share", ["t"])
    tasks = [StreamsGroupHeartbeatResponse.TaskIds(subtopology_id="0", partitions=[1])]
    response = StreamsGroupHeartbeatResponse(member_id="a", member_epoch=1, active_tasks=tasks)
    traffic.passes(StreamsGroupHeartbeatRequest(group_id="g", member_id="a", process_id="p"), response)
    member = traffic.members()["a"]
    assert (traffic.group().type_name, member.process_id) == ("streams", "p")
    assert member.tasks == {"active": {"0": [1]}, "standby": {}, "warmup": {}}
    assert member.assignment == {}  # the topology is not known


def test_tasks_read_the_partitions_of_their_source_topics(traffic: Traffic) -> None:
    kind = StreamsGroupHeartbeatRequest.Topology
    repartition = kind.Subtopology.TopicInfo(name="counts-repartition", partitions=2)
    topology = kind(
        subtopologies=[
            kind.Subtopology(subtopology_id="0", source_topics=["t", "u"]),
            kind.Subtopology(subtopology_id="1", repartition_source_topics=[repartition]),
        ]
    )
    partitions = [MetadataResponse.Topic.Partition(partition_index=0)]
    topics = [MetadataResponse.Topic(name="u", topic_id=TOPIC, partitions=partitions)]
    list(traffic.broker.learn(MetadataResponse(topics=topics)))
    task = StreamsGroupHeartbeatResponse.TaskIds
    tasks = [task(subtopology_id="0", partitions=[0, 2]), task(subtopology_id="1", partitions=[1])]
    request = StreamsGroupHeartbeatRequest(group_id="g", member_id="a", process_id="p", topology=topology)
    traffic.passes(request, StreamsGroupHeartbeatResponse(member_id="a", member_epoch=1))
    request = StreamsGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=1)
    traffic.passes(request, StreamsGroupHeartbeatResponse(member_id="a", member_epoch=1, active_tasks=tasks))
    expected = {"t": [0, 2], "u": [0], "counts-repartition": [1]}  # topic u has no partition 2
    assert traffic.members()["a"].assignment == expected
    assert traffic.journal.events[-1].assignment == expected


def test_offsets_of_a_transaction_count_from_its_end(traffic: Traffic) -> None:
    partition = TxnOffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=5)
    topic = TxnOffsetCommitRequest.Topic(name="t", partitions=[partition])
    request = TxnOffsetCommitRequest(transactional_id="x", group_id="g", producer_id=3, topics=[topic])
    for committed, offsets in ((False, None), (True, {("t", 0): 5})):
        traffic.passes(request, TxnOffsetCommitResponse())
        traffic.passes(EndTxnRequest(transactional_id="x", producer_id=3, committed=committed), EndTxnResponse())
        group = traffic.broker.groups.get("g")
        found = None if group is None else {key: each.offset for key, each in group.offsets.committed.items()}
        assert found == offsets
    assert traffic.kinds == ["commit"]


def test_coordinators_of_many_groups_do_not_take_memory(traffic: Traffic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GROUPS", 3)
    for number in range(10):
        response = FindCoordinatorResponse.Coordinator(key=f"g{number}", node_id=number)
        request = FindCoordinatorRequest(coordinator_keys=[f"g{number}"])
        traffic.passes(request, FindCoordinatorResponse(coordinators=[response]))
    assert traffic.broker.coordinators == {"g7": 7, "g8": 8, "g9": 9}


def test_open_transactions_of_many_producers_do_not_take_memory(
    traffic: Traffic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Transactions of the producers that were seen first are dropped, as if they had been aborted."""
    monkeypatch.setattr(module, "PRODUCERS", 3)
    for number in range(5):
        partition = TxnOffsetCommitRequest.Topic.Partition(partition_index=number, committed_offset=5)
        topic = TxnOffsetCommitRequest.Topic(name="t", partitions=[partition])
        request = TxnOffsetCommitRequest(transactional_id="x", group_id="g", producer_id=number, topics=[topic])
        traffic.passes(request, TxnOffsetCommitResponse())
    for number in range(5):
        traffic.passes(EndTxnRequest(transactional_id="x", producer_id=number, committed=True), EndTxnResponse())
    assert sorted(traffic.group().offsets.committed) == [("t", 2), ("t", 3), ("t", 4)]


def test_fetched_offsets_are_those_of_the_group(traffic: Traffic) -> None:
    partition = OffsetFetchResponse.Topic.Partition(partition_index=1, committed_offset=9)
    response = OffsetFetchResponse(topics=[OffsetFetchResponse.Topic(name="t", partitions=[partition])])
    traffic.passes(OffsetFetchRequest(group_id="g"), response, 5)
    assert {key: each.offset for key, each in traffic.group().offsets.committed.items()} == {("t", 1): 9}
    assert traffic.kinds == []


def test_only_requests_about_groups_are_needed(traffic: Traffic) -> None:
    needed = {APIS[key].name for key in APIS if traffic.observer.needs(key, 0)}
    assert {"JoinGroup", "OffsetCommit", "StreamsGroupHeartbeat"} <= needed
    assert not {"Produce", "Fetch", "Metadata", "SaslAuthenticate"} & needed
