"""Each API in each version that the broker advertises, with data on the broker for every response."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from interop.raw import Connection

from kwire.messages.create_topics import CreateTopicsRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.messages.list_offsets import ListOffsetsRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.produce import ProduceRequest
from kwire.messages.sync_group import SyncGroupRequest
from kwire.records.batch import Record, build_batch, read_batch
from mockbroker import Cluster, run_cluster

pytestmark = pytest.mark.interop

GROUP, TOPIC = "players", "orders"
BATCH = build_batch([Record(offset=0, timestamp=1_000, key=None, value=b"hello", headers=[])])


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Yield a cluster with one record in the topic and one committed offset of the group."""
    config = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 100}
    with run_cluster(topics={TOPIC: 1}, config=config) as cluster:
        with Connection(cluster) as broker:
            assert produced(broker, 9) == 0
            assert broker.ask(commit(9), 9).topics[0].partitions[0].error_code == 0
        yield cluster


@pytest.fixture
def broker(cluster: Cluster) -> Iterator[Connection]:
    with Connection(cluster) as connection:
        yield connection


def versions(first: int, last: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("version", range(first, last + 1))


def topic_id(broker: Connection) -> Any:
    """Return the topic's id, which newer versions have instead of the name; older versions omit the id."""
    return broker.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=TOPIC)]), 12).topics[0].topic_id


def produced(broker: Connection, version: int) -> int:
    data = ProduceRequest.Topic.Partition(index=0, records=BATCH)
    topic = ProduceRequest.Topic(name=TOPIC, topic_id=topic_id(broker), partition_data=[data])
    answer = broker.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), version)
    return int(answer.responses[0].partition_responses[0].error_code)


def commit(version: int, topic_id: Any = None) -> OffsetCommitRequest:
    partition = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=1, committed_metadata="note")
    names = {"topic_id": topic_id} if version >= 10 else {"name": TOPIC}
    return OffsetCommitRequest(group_id=GROUP, topics=[OffsetCommitRequest.Topic(partitions=[partition], **names)])


@versions(3, 13)
def test_produce(broker: Connection, version: int) -> None:
    assert produced(broker, version) == 0


@versions(4, 18)
def test_fetch(broker: Connection, version: int) -> None:
    partition = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchRequest.Topic(topic=TOPIC, topic_id=topic_id(broker), partitions=[partition])
    answer = broker.ask(FetchRequest(max_wait_ms=1000, min_bytes=1, topics=[topic]), version).responses[0].partitions[0]
    assert answer.error_code == 0
    assert [record.value for record in read_batch(answer.records).records()] == [b"hello"]


@pytest.mark.parametrize(("timestamp", "offset"), [(-2, 0), (1_000, 0), (2_000, -1)])
@versions(1, 11)
def test_list_offsets(broker: Connection, version: int, timestamp: int, offset: int) -> None:
    partition = ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequest.Topic(name=TOPIC, partitions=[partition])])
    answer = broker.ask(request, version).topics[0].partitions[0]
    assert (answer.error_code, answer.offset) == (0, offset)


@versions(0, 13)
def test_metadata(broker: Connection, version: int) -> None:
    answer = broker.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=TOPIC)]), version)
    assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [(TOPIC, 1)]


@versions(10, 13)
def test_metadata_by_id(broker: Connection, version: int) -> None:
    """Before v12, a topic id is refused, as by a broker of 4.2.0."""
    requested = MetadataRequest.Topic(name=None, topic_id=topic_id(broker))
    (topic,) = broker.ask(MetadataRequest(topics=[requested]), version).topics
    assert (topic.error_code, topic.name) == ((0, TOPIC) if version >= 12 else (42, ""))


@versions(2, 10)
def test_offset_commit(broker: Connection, version: int) -> None:
    assert broker.ask(commit(version, topic_id(broker)), version).topics[0].partitions[0].error_code == 0


@versions(1, 7)
def test_offset_fetch(broker: Connection, version: int) -> None:
    topic = OffsetFetchRequest.Topic(name=TOPIC, partition_indexes=[0])
    answer = broker.ask(OffsetFetchRequest(group_id=GROUP, topics=[topic]), version).topics[0].partitions[0]
    assert (answer.committed_offset, answer.metadata) == (1, "note")


@pytest.mark.parametrize("everything", [True, False])
@versions(8, 10)
def test_offset_fetch_of_groups(broker: Connection, version: int, everything: bool) -> None:
    topic = OffsetFetchRequest.Group.Topic(name=TOPIC, partition_indexes=[0])
    if version >= 10:
        topic = OffsetFetchRequest.Group.Topic(topic_id=topic_id(broker), partition_indexes=[0])
    group = OffsetFetchRequest.Group(group_id=GROUP, topics=None if everything else [topic])
    answer = broker.ask(OffsetFetchRequest(groups=[group]), version).groups[0].topics[0].partitions[0]
    assert (answer.committed_offset, answer.metadata) == (1, "note")


@versions(0, 6)
def test_find_coordinator(broker: Connection, version: int) -> None:
    answer = broker.ask(
        FindCoordinatorRequest(**{"coordinator_keys": [GROUP]} if version >= 4 else {"key": GROUP}), version
    )
    result = answer.coordinators[0] if version >= 4 else answer
    assert (result.error_code, result.node_id) == (0, 0)


@versions(0, 9)
def test_member_joins_and_leaves(broker: Connection, version: int) -> None:
    """JoinGroup is sent in each version, and the member's other requests in versions of the same age."""

    def join(member_id: str) -> Any:
        request = JoinGroupRequest(
            group_id=f"alone-{version}",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"anything")],
        )
        return broker.ask(request, version)

    joined = join("")
    if version >= 4:
        assert joined.error_code == 79
        joined = join(joined.member_id)
    assert (joined.error_code, joined.leader, len(joined.members)) == (0, joined.member_id, 1)
    who = {"group_id": f"alone-{version}", "generation_id": joined.generation_id, "member_id": joined.member_id}
    share = SyncGroupRequest.Assignment(member_id=joined.member_id, assignment=b"all")
    synced = broker.ask(
        SyncGroupRequest(protocol_type="consumer", protocol_name="range", assignments=[share], **who), min(version, 5)
    )
    assert (synced.error_code, synced.assignment) == (0, b"all")
    assert broker.ask(HeartbeatRequest(**who), min(version, 4)).error_code == 0
    named = {"member_id": joined.member_id}
    leaving = LeaveGroupRequest(
        group_id=f"alone-{version}", **{"members": [LeaveGroupRequest.Member(**named)]} if version >= 3 else named
    )
    left = broker.ask(leaving, min(version, 5))
    assert (left.error_code, [member.error_code for member in left.members]) == (0, [0] if version >= 3 else [])


@versions(2, 7)
def test_create_topics(broker: Connection, version: int) -> None:
    topic = CreateTopicsRequest.Topic(name=f"made-{version}", num_partitions=2, replication_factor=1)
    assert [broker.ask(CreateTopicsRequest(topics=[topic]), version).topics[0].error_code for _ in range(2)] == [0, 36]


@versions(0, 5)
def test_init_producer_id(broker: Connection, version: int) -> None:
    answer = broker.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), version)
    assert (answer.error_code, answer.producer_epoch) == (0, 0)
    assert answer.producer_id >= 0
