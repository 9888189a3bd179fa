"""The requests, elements of requests, and connections that a rule matches."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kwire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kwire.messages.add_partitions_to_txn import Topic as AddPartitionsTopic
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.create_acls import CreateAclsRequest
from kwire.messages.describe_configs import DescribeConfigsRequest
from kwire.messages.describe_groups import DescribeGroupsRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.produce import ProduceRequest
from kwire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from kwire.schema import ZERO_UUID, schema_of
from mockbroker.base.effects import Call, Client, Ticket
from mockbroker.faults.matching import WHOLE_REQUEST, Element, Lookups, Matcher, NewConnection, Subject
from mockbroker.faults.rule import CONNECT, Match

ORDERS, AUDIT = UUID(int=1), UUID(int=2)
LOOKUPS = Lookups(
    topic_name={ORDERS: "orders", AUDIT: "audit"}.get,
    topics=lambda: ["orders", "audit"],
    principal={1: "User:alice"}.__getitem__,
)


def subject(request: Any, version: int, lookups: Lookups = LOOKUPS) -> Subject:
    api = schema_of(type(request)).api
    assert api is not None
    ticket = Ticket(connection=1, correlation_id=5, api_key=api.key, version=version)
    return Subject(Call(ticket, Client(0, "billing-1", "/10.0.0.1", "INTERNAL"), request), lookups)


def paths(request: Any, request_version: int, /, **match: Any) -> list[str | None]:
    """Return the matching elements, as ``topics.0.partitions.1``; None for one that is not in the request."""
    result = Matcher(Match(**match)).elements(subject(request, request_version))
    return [None if element.path is None else ".".join(map(str, element.path)) for element in result]


HEARTBEAT = HeartbeatRequest(group_id="billing", generation_id=3, member_id="m-1", group_instance_id=None)
OF_REQUEST = [  # condition, whether it matches
    ({}, True),
    ({"api": ("Heartbeat",)}, True),
    ({"api": ("SyncGroup", "Heartbeat")}, True),
    ({"api": ("SyncGroup",)}, False),
    ({"version": "4"}, True),
    ({"version": "3-4"}, True),
    ({"version": "2+"}, True),
    ({"version": "0-3"}, False),
    ({"broker": 0}, True),
    ({"broker": 1}, False),
    ({"listener": "INTERNAL"}, True),
    ({"listener": "EXT*"}, False),
    ({"client_id": "billing-?"}, True),
    ({"client_id": "billing"}, False),
    ({"principal": "User:a*"}, True),
    ({"principal": "User:bob"}, False),
    ({"group": "bill*"}, True),
    ({"group": "orders"}, False),
    ({"member_id": "m-1"}, True),
    ({"member_id": "m-2"}, False),
    ({"group": "billing", "member_id": "m-2"}, False),
    ({"instance_id": "*"}, False),  # null does not match any glob
    ({"topic": "*"}, False),  # a Heartbeat has no topic
    ({"where": "body.generation_id > 2"}, True),
    ({"where": "body.generation_id > 3"}, False),
    ({"group": "billing", "where": "body.member_id != 'm-1'"}, False),
]


@pytest.mark.parametrize(("match", "matches"), OF_REQUEST, ids=lambda value: str(value))
def test_conditions_about_the_whole_request(match, matches):
    assert bool(paths(HEARTBEAT, 4, **match)) is matches


def test_the_whole_request_matches_if_no_element_is_named():
    assert Matcher(Match(client_id="*")).elements(subject(HEARTBEAT, 4)) == [WHOLE_REQUEST]


def commit(name: str = "", topic_id: UUID = ZERO_UUID, partitions: tuple[int, ...] = (0, 1)) -> Any:
    indexes = [OffsetCommitRequest.Topic.Partition(partition_index=index) for index in partitions]
    return OffsetCommitRequest.Topic(name=name, topic_id=topic_id, partitions=indexes)


def offset_fetch(group: str, *topics: str) -> Any:
    return OffsetFetchRequest.Group(
        group_id=group,
        topics=[OffsetFetchRequest.Group.Topic(name=name, partition_indexes=[0, 4]) for name in topics],
    )


def in_transaction(transactional_id: str, *topics: str) -> Any:
    return AddPartitionsToTxnRequest.Transaction(
        transactional_id=transactional_id,
        topics=[AddPartitionsTopic(name=name, partitions=[0, 1]) for name in topics],
    )


COMMIT = OffsetCommitRequest(group_id="g", topics=[commit("orders"), commit("audit")])
COMMIT_BY_ID = OffsetCommitRequest(group_id="g", topics=[commit(topic_id=AUDIT), commit(topic_id=UUID(int=9))])
OFFSET_FETCH = OffsetFetchRequest(groups=[offset_fetch("a", "orders"), offset_fetch("b", "audit", "orders")])
TRANSACTIONS = AddPartitionsToTxnRequest(transactions=[in_transaction("t1", "orders"), in_transaction("t2", "orders")])
LEAVE = LeaveGroupRequest(
    group_id="g",
    members=[
        LeaveGroupRequest.Member(member_id="m1", group_instance_id="i1"),
        LeaveGroupRequest.Member(member_id="m2", group_instance_id=None),
    ],
)
RESOURCES = DescribeConfigsRequest(
    resources=[DescribeConfigsRequest.Resource(resource_type=kind, resource_name="orders") for kind in (2, 4, 32)]
)
ACLS = CreateAclsRequest(
    creations=[CreateAclsRequest.Creation(resource_type=kind, resource_name="x") for kind in (2, 3, 5)]
)
Topology = StreamsGroupHeartbeatRequest.Topology
SUBSCRIBED = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=["audit", "orders"])
UNCHANGED = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=None)
STREAMS = StreamsGroupHeartbeatRequest(
    group_id="g",
    member_id="m",
    topology=Topology(
        subtopologies=[
            Topology.Subtopology(subtopology_id="0", source_topics=["audit"], repartition_sink_topics=["again"]),
            Topology.Subtopology(
                subtopology_id="1", repartition_source_topics=[Topology.Subtopology.TopicInfo(name="again")]
            ),
        ]
    ),
)
NO_TOPOLOGY = StreamsGroupHeartbeatRequest(group_id="g", member_id="m", topology=None)
KEYS = FindCoordinatorRequest(coordinator_keys=["a", "b"], key_type=0)
PRODUCE = ProduceRequest(
    transactional_id="t",
    topic_data=[
        ProduceRequest.Topic(
            name="orders", partition_data=[ProduceRequest.Topic.Partition(index=index) for index in (3, 5)]
        )
    ],
)
OF_ELEMENTS = [  # request, version, conditions, matching elements
    (COMMIT, 9, {"topic": "orders"}, ["topics.0"]),
    (STREAMS, 0, {"group": "g", "member_id": "m"}, [""]),
    (STREAMS, 0, {"topic": "audit"}, ["topology.0.subtopologies.0.source_topics.0"]),
    (
        STREAMS,
        0,
        {"group": "g", "topic": "again"},
        [
            "topology.0.subtopologies.0.repartition_sink_topics.0",
            "topology.0.subtopologies.1.repartition_source_topics.0",
        ],
    ),
    (NO_TOPOLOGY, 0, {"topic": "audit"}, []),
    (COMMIT, 9, {"topic": "*"}, ["topics.0", "topics.1"]),
    (COMMIT, 9, {"topic": "orders", "partition": 1}, ["topics.0.partitions.1"]),
    (COMMIT, 9, {"partition": 0}, ["topics.0.partitions.0", "topics.1.partitions.0"]),
    (COMMIT, 9, {"partition": 7}, []),
    (COMMIT, 9, {"group": "g"}, [""]),
    (COMMIT, 9, {"group": "g", "topic": "audit"}, ["topics.1"]),
    (COMMIT, 9, {"group": "h", "topic": "audit"}, []),
    (COMMIT_BY_ID, 10, {"topic": "audit"}, ["topics.0"]),
    (COMMIT_BY_ID, 10, {"topic": "*"}, ["topics.0"]),
    (OFFSET_FETCH, 8, {"group": "b"}, ["groups.1"]),
    (OFFSET_FETCH, 8, {"topic": "orders"}, ["groups.0.topics.0", "groups.1.topics.1"]),
    (OFFSET_FETCH, 8, {"group": "b", "topic": "orders"}, ["groups.1.topics.1"]),
    (OFFSET_FETCH, 8, {"group": "a", "topic": "audit"}, []),
    (OFFSET_FETCH, 8, {"group": "a", "partition": 4}, ["groups.0.topics.0.partition_indexes.1"]),
    (TRANSACTIONS, 5, {"transactional_id": "t2"}, ["transactions.1"]),
    (TRANSACTIONS, 5, {"transactional_id": "t2", "partition": 1}, ["transactions.1.topics.0.partitions.1"]),
    (LEAVE, 5, {"member_id": "m2"}, ["members.1"]),
    (LEAVE, 5, {"instance_id": "i*"}, ["members.0"]),
    (LEAVE, 5, {"group": "g", "member_id": "*"}, ["members.0", "members.1"]),
    (LeaveGroupRequest(group_id="g", member_id="m1"), 2, {"member_id": "m1"}, [""]),
    (DescribeGroupsRequest(groups=["a", "b", "ab"]), 5, {"group": "a*"}, ["groups.0", "groups.2"]),
    (KEYS, 4, {"group": "b"}, ["coordinator_keys.1"]),
    (KEYS, 4, {"transactional_id": "b"}, []),
    (FindCoordinatorRequest(key="a", key_type=0), 3, {"group": "a"}, [""]),
    (FindCoordinatorRequest(key="t", key_type=1), 3, {"transactional_id": "t"}, [""]),
    (FindCoordinatorRequest(key="t", key_type=1), 3, {"group": "t"}, []),
    (RESOURCES, 4, {"topic": "orders"}, ["resources.0"]),
    (RESOURCES, 4, {"group": "orders"}, ["resources.2"]),
    (ACLS, 3, {"topic": "x"}, ["creations.0"]),
    (ACLS, 3, {"group": "x"}, ["creations.1"]),
    (ACLS, 3, {"transactional_id": "x"}, ["creations.2"]),
    (SUBSCRIBED, 1, {"topic": "orders"}, ["subscribed_topic_names.1"]),
    (SUBSCRIBED, 1, {"group": "g", "member_id": "m"}, [""]),
    (UNCHANGED, 1, {"topic": "*"}, []),
    (PRODUCE, 9, {"topic": "orders", "partition": 5}, ["topic_data.0.partition_data.1"]),
    (PRODUCE, 9, {"transactional_id": "t", "topic": "o*"}, ["topic_data.0"]),
    (PRODUCE, 2, {"transactional_id": "t"}, []),  # v2 has no transactional id
    (MetadataRequest(topics=None), 12, {"topic": "orders"}, [None]),
    (MetadataRequest(topics=None), 12, {"topic": "*"}, [None, None]),
    (MetadataRequest(topics=[]), 12, {"topic": "orders"}, []),
    (MetadataRequest(topics=[]), 0, {"topic": "orders"}, [None]),
    (
        MetadataRequest(topics=[MetadataRequest.Topic(name=None, topic_id=ORDERS)]),
        12,
        {"topic": "orders"},
        ["topics.0"],
    ),
    (MetadataRequest(topics=[MetadataRequest.Topic(name="orders")]), 1, {"topic": "orders"}, ["topics.0"]),
    (OffsetFetchRequest(group_id="g", topics=None), 7, {"group": "g", "topic": "orders"}, [None]),
]


@pytest.mark.parametrize(("request_", "version", "match", "expected"), OF_ELEMENTS)
def test_matching_elements(request_, version, match, expected):
    assert paths(request_, version, **match) == expected


def test_an_element_has_its_names_and_those_around_it():
    result = Matcher(Match(group="b", partition=4)).elements(subject(OFFSET_FETCH, 8))
    path = ("groups", 1, "topics", 0, "partition_indexes", 1)
    assert result[0] == Element(path, {"group": "b", "topic": "audit", "partition": 4})


def test_a_partition_of_all_topics_has_the_index_of_the_rule():
    result = Matcher(Match(topic="orders", partition=3)).elements(
        subject(OffsetFetchRequest(group_id="g", topics=None), 7)
    )
    assert result == [Element(None, {"group": "g", "topic": "orders", "partition": 3})]


FETCH = FetchRequest(session_id=4, session_epoch=2, topics=[])


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        ({"topic": "orders"}, [("orders", 0), ("orders", 1)]),
        ({"topic": "orders", "partition": 1}, [("orders", 1)]),
        ({"partition": 0}, [("orders", 0), ("audit", 0)]),
        ({"topic": "other"}, []),
    ],
)
def test_partitions_of_a_fetch_session_match(match, expected):
    lookups = Lookups(fetch_partitions=lambda _: [("orders", 0), ("orders", 1), ("audit", 0)])
    result = Matcher(Match(**match)).elements(subject(FETCH, 12, lookups))
    assert result == [Element(None, {"topic": topic, "partition": partition}) for topic, partition in expected]


def test_partitions_of_a_request_match_without_a_fetch_session():
    topic = FetchRequest.Topic(topic="orders", partitions=[FetchRequest.Topic.Partition(partition=2)])
    assert paths(FetchRequest(topics=[topic]), 12, topic="orders", partition=2) == ["topics.0.partitions.0"]
    assert paths(FetchRequest(topics=[topic]), 12, topic="audit") == []


@pytest.mark.parametrize(
    ("match", "matches"),
    [
        ({}, True),
        ({"broker": 1, "listener": "EXTERNAL", "address": "10.*"}, True),
        ({"broker": 0}, False),
        ({"listener": "INTERNAL"}, False),
        ({"address": "127.*"}, False),
    ],
)
def test_conditions_about_a_connection(match, matches):
    connection = NewConnection(node=1, listener="EXTERNAL", address="10.0.0.7")
    assert Matcher(Match(on=CONNECT, **match)).matches_connection(connection) is matches
