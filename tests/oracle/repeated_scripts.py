"""Conversations with duplicate elements in requests, which record.py records; each function is one conversation."""

from __future__ import annotations

from typing import Any

from consumer import Consumer, consumer_script, topic_id
from fetch_scripts import Reader, create, produce
from prober import Client, Prober
from script import NEW, script
from transaction_scripts import begin

from kwire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kwire.messages.add_partitions_to_txn import Topic as AddedTopic
from kwire.messages.create_partitions import CreatePartitionsRequest
from kwire.messages.create_topics import CreateTopicsRequest
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.delete_records import DeleteRecordsRequest
from kwire.messages.delete_topics import DeleteTopicsRequest
from kwire.messages.describe_configs import DescribeConfigsRequest
from kwire.messages.describe_groups import DescribeGroupsRequest
from kwire.messages.describe_producers import DescribeProducersRequest
from kwire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kwire.messages.describe_transactions import DescribeTransactionsRequest
from kwire.messages.elect_leaders import ElectLeadersRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.list_offsets import ListOffsetsRequest
from kwire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kwire.messages.list_transactions import ListTransactionsRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_delete import OffsetDeleteRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kwire.messages.produce import ProduceRequest
from kwire.messages.sync_group import SyncGroupRequest
from kwire.messages.txn_offset_commit import TxnOffsetCommitRequest
from kwire.messages.write_txn_markers import WriteTxnMarkersRequest
from kwire.records import Record, build_batch

TOPIC = 2  # a resource type
WRITTEN_AT = 1_700_000_000_000  # milliseconds since 1970


@script(releases=(NEW,))
async def repeated_topics(p: Prober) -> None:
    """Metadata and DescribeTopicPartitions that name a topic twice: by name, by id, and a topic that does not exist."""
    topic_struct = MetadataRequest.Topic
    there, gone, illegal = topic_struct(name="probe"), topic_struct(name="not-there"), topic_struct(name="bad/name")
    for version in (4, 8, 12):
        topics = [there, gone, there, illegal, gone, illegal]
        await p.ask("A", MetadataRequest(topics=topics, allow_auto_topic_creation=False), version)
    known = topic_struct(name=None, topic_id=topic_id(p, "probe"))
    await p.ask("A", MetadataRequest(topics=[known, known, topic_struct(name="probe2")]), 12)
    kind = DescribeTopicPartitionsRequest.Topic
    names = ["probe", "nowhere", "probe", "nowhere"]
    await p.ask("A", DescribeTopicPartitionsRequest(topics=[kind(name=name) for name in names]), 0)


@script(releases=(NEW,))
async def repeated_partitions(p: Prober) -> None:
    """ListOffsets, OffsetForLeaderEpoch and DescribeProducers that name a partition twice."""
    topic = await create(p, partitions=3)
    await produce(p, topic, 0, b"a", b"b")
    kind = ListOffsetsRequest.Topic

    async def offsets(version: int, *topics: tuple[str, list[tuple[int, int]]]) -> None:
        wanted = [
            kind(name=name, partitions=[kind.Partition(partition_index=index, timestamp=at) for index, at in places])
            for name, places in topics
        ]
        await p.ask("A", ListOffsetsRequest(replica_id=-1, topics=wanted), version)

    for version in (1, 5, 10):
        await offsets(version, (topic, [(0, -1), (1, -1), (0, -2), (0, -1)]))
        await offsets(version, (topic, [(0, -1), (1, -1)]), (topic, [(0, WRITTEN_AT), (2, -1)]))
        await offsets(version, (topic, [(9, -1), (9, -1)]), ("not-there", [(0, -1), (0, -1)]))
        await offsets(version, (topic, [(0, -1)]), ("probe", [(0, -1)]), (topic, [(1, -2)]))
    epochs = OffsetForLeaderEpochRequest.Topic
    for version in (2, 4):
        place = epochs.Partition(partition=0, leader_epoch=0)
        other = epochs.Partition(partition=1, leader_epoch=0)
        twice = epochs(topic=topic, partitions=[place, other, place])
        await p.ask("A", OffsetForLeaderEpochRequest(topics=[twice, twice]), version)
        nowhere = epochs(topic="not-there", partitions=[place, place])
        await p.ask("A", OffsetForLeaderEpochRequest(topics=[nowhere, nowhere]), version)
    topic_struct = DescribeProducersRequest.Topic
    for names in ([topic, "probe", topic], ["not-there", "not-there"]):
        twice_each = [topic_struct(name=name, partition_indexes=[0, 1, 0, 9, 9]) for name in names]
        await p.ask("A", DescribeProducersRequest(topics=twice_each), 0)


@script(releases=(NEW,))
async def repeated_in_produce(p: Prober) -> None:
    """Produce and Fetch that name a partition twice."""
    topic = await create(p, partitions=2)
    data = ProduceRequest.Topic.Partition

    def written(index: int, value: bytes) -> Any:
        return data(index=index, records=build_batch([Record(timestamp=WRITTEN_AT, value=value)]))

    for version in (9, 13):
        named: dict[str, Any] = {"name": topic} if version < 13 else {"topic_id": topic_id(p, topic)}
        first = ProduceRequest.Topic(**named, partition_data=[written(0, b"a"), written(0, b"b"), written(0, b"c")])
        second = ProduceRequest.Topic(**named, partition_data=[written(0, b"d")])
        for topics in ([first], [first, second]):
            await p.ask("P", ProduceRequest(acks=-1, timeout_ms=5000, topic_data=topics), version)
        nowhere = ProduceRequest.Topic(**named, partition_data=[written(9, b"a"), written(9, b"b")])
        await p.ask("P", ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[nowhere, nowhere]), version)
    for version in (11, 13):
        a = Reader(p=p, topic=topic, version=version, conn=f"F{version}")
        await a.fetch((0, 0), (1, 0), (0, 1), session_epoch=-1)
        await a.fetch((0, 0), also=[("probe", [(0, 0)]), (topic, [(0, 1), (1, 0)])], session_epoch=-1)
        await a.fetch((0, 0), (9, 0), (9, 0), session_epoch=-1)


@script(releases=(NEW,))
async def repeated_topics_of_admins(p: Prober) -> None:
    """CreateTopics, CreatePartitions and DeleteTopics that name a topic twice, and too many partitions at once."""
    topic = await create(p, partitions=1)
    other = await create(p, name="t-repeated-2", partitions=1)
    wanted = CreateTopicsRequest.Topic

    async def make(*names: str, partitions: int = 1, validate: bool = False, **more: Any) -> None:
        topics = [wanted(name=name, num_partitions=partitions, replication_factor=1, **more) for name in names]
        await p.ask("P", CreateTopicsRequest(topics=topics, timeout_ms=5000, validate_only=validate), 5)

    await make("t-made", "t-twice", "t-other", "t-twice", "t-twice", validate=True)
    await make(topic, topic, "bad/name", "bad/name", validate=True)
    await make("t-many", partitions=10_001, validate=True)
    await make("t-many-1", "t-many-2", partitions=5_001, validate=True)
    await make("t-many-1", "t-many-2", "bad/name", topic, partitions=5_000, validate=True)
    twice = [wanted.Config(name="retention.ms", value=value) for value in ("1000", "2000")]
    await make("t-configs", validate=True, configs=twice)
    places = [wanted.Assignment(partition_index=0, broker_ids=[1])] * 2
    topics = [wanted(name="t-places", num_partitions=-1, replication_factor=-1, assignments=places)]
    await p.ask("P", CreateTopicsRequest(topics=topics, timeout_ms=5000, validate_only=True), 5)
    grown = CreatePartitionsRequest.Topic
    for counts in (
        [(topic, 2), ("t-repeated-2", 2), (topic, 3)],
        [("not-there", 2), ("not-there", 2)],
        [(topic, 10_001)],
        [(topic, 10_002)],
        [(topic, 6_000), (other, 6_000)],
    ):
        requested = [grown(name=name, count=count, assignments=None) for name, count in counts]
        await p.ask("P", CreatePartitionsRequest(topics=requested, timeout_ms=5000, validate_only=True), 3)
    gone = DeleteTopicsRequest.Topic
    id_ = topic_id(p, topic)
    by_name = ["not-there", "not-there", "t-repeated-2", "t-repeated-2"]
    await p.ask("P", DeleteTopicsRequest(topic_names=by_name, timeout_ms=5000), 5)
    await p.wait(500, "until they are gone")
    mixed = [gone(name="not-there"), gone(name="not-there"), gone(name=topic), gone(name=None, topic_id=id_)]
    await p.ask("P", DeleteTopicsRequest(topics=mixed, timeout_ms=5000), 6)
    by_id = [gone(name=None, topic_id=id_), gone(name=None, topic_id=id_)]
    await p.ask("P", DeleteTopicsRequest(topics=by_id, timeout_ms=5000), 6)
    await p.wait(500, "until it is gone")
    await p.ask("P", DeleteTopicsRequest(topics=by_id, timeout_ms=5000), 6)


@script(releases=(NEW,))
async def repeated_configs(p: Prober) -> None:
    """DescribeConfigs and IncrementalAlterConfigs that name a resource or a configuration twice."""
    topic = await create(p, partitions=1)
    resource_struct = DescribeConfigsRequest.Resource

    async def look(*names: str, keys: list[str]) -> None:
        await p.wait(300, "until the broker has heard of it")
        resources = [
            resource_struct(resource_type=TOPIC, resource_name=name, configuration_keys=keys) for name in names
        ]
        await p.ask("D", DescribeConfigsRequest(resources=resources), 4)

    await look(topic, "probe", topic, "not-there", "not-there", keys=["retention.ms", "retention.ms"])
    one = IncrementalAlterConfigsRequest.Resource
    for name in (topic, "not-there"):
        changes = [
            one(
                resource_type=TOPIC,
                resource_name=name,
                configs=[one.Config(name="retention.ms", config_operation=0, value=value)],
            )
            for value in ("1000", "2000")
        ]
        other = one(
            resource_type=TOPIC,
            resource_name="probe2",
            configs=[one.Config(name="retention.ms", config_operation=1, value=None)],
        )
        await p.ask("A", IncrementalAlterConfigsRequest(resources=[changes[0], other, changes[1]]), 1)
        await look(topic, keys=["retention.ms"])


@script(releases=(NEW,))
async def repeated_partitions_of_admins(p: Prober) -> None:
    """DeleteRecords, ElectLeaders and ListPartitionReassignments that name a partition twice."""
    topic = await create(p, partitions=2)
    for value in (b"a", b"b", b"c"):
        await produce(p, topic, 0, value)
    kind = DeleteRecordsRequest.Topic
    for places in ([(0, 1), (1, 0), (0, 2)], [(0, 3), (0, 2)], [(9, 0), (9, 0)]):
        wanted = kind(name=topic, partitions=[kind.Partition(partition_index=i, offset=at) for i, at in places])
        await p.ask("A", DeleteRecordsRequest(topics=[wanted], timeout_ms=5000), 2)
        nowhere = kind(name="not-there", partitions=wanted.partitions)
        await p.ask("A", DeleteRecordsRequest(topics=[wanted, nowhere, wanted, nowhere], timeout_ms=5000), 2)
    which = ElectLeadersRequest.TopicPartition
    elected = [which(topic=topic, partitions=[0, 1, 0, 9, 9]), which(topic="not-there", partitions=[0, 0])]
    await p.ask("A", ElectLeadersRequest(topic_partitions=elected, timeout_ms=5000), 2)
    await p.ask("A", ElectLeadersRequest(topic_partitions=elected * 2, timeout_ms=5000), 2)
    moved = ListPartitionReassignmentsRequest.Topic(name=topic, partition_indexes=[0, 0])
    await p.ask("A", ListPartitionReassignmentsRequest(topics=[moved, moved]), 0)


@script(releases=(NEW,))
async def repeated_groups(p: Prober) -> None:
    """DescribeGroups, FindCoordinator, ListGroups and DeleteGroups that name a group or a filter twice."""
    a = Client(p=p, conn="A")
    await a.stable()
    names = [p.group, "not-there", p.group, "not-there"]
    for version in (4, 6):
        await p.ask("D", DescribeGroupsRequest(groups=names), version)
    for version in (4, 6):
        await p.ask("D", FindCoordinatorRequest(key_type=0, coordinator_keys=names), version)
    await p.ask("D", FindCoordinatorRequest(key_type=9, coordinator_keys=names), 4)
    await p.ask("D", ListGroupsRequest(states_filter=["Stable", "Stable"], types_filter=["classic", "classic"]), 5)
    await p.ask("D", DeleteGroupsRequest(groups_names=names), 2)
    await a.leave()
    await p.ask("D", DeleteGroupsRequest(groups_names=names), 2)
    await p.ask("D", DeleteGroupsRequest(groups_names=names), 2)


@script(releases=(NEW,))
async def repeated_offsets(p: Prober) -> None:
    """OffsetCommit, OffsetFetch and OffsetDelete that name a topic, a partition or a group twice."""
    kind = OffsetCommitRequest.Topic

    def commits(version: int, *places: tuple[int, int], name: str = "probe") -> OffsetCommitRequest.Topic:
        named: dict[str, Any] = {"name": name} if version < 10 else {"topic_id": topic_id(p, name)}
        partitions = [kind.Partition(partition_index=i, committed_offset=at, committed_metadata="") for i, at in places]
        return kind(**named, partitions=partitions)

    wanted = OffsetFetchRequest.Group
    for version in (8, 10):
        first = commits(version, (0, 1), (1, 1), (0, 2))
        second = commits(version, (1, 3), (9, 3), (9, 4))
        other = commits(version, (0, 5), name="probe2")
        for topics in ([first], [first, other, second]):
            await p.ask("C", OffsetCommitRequest(group_id=p.group, topics=topics), version)
            await p.ask("C", OffsetFetchRequest(groups=[wanted(group_id=p.group, topics=None)]), 9)
    nowhere = kind(name="not-there", partitions=first.partitions)
    await p.ask("C", OffsetCommitRequest(group_id=p.group, topics=[nowhere, nowhere]), 8)
    old = OffsetFetchRequest.Topic
    twice = [old(name=name, partition_indexes=[0, 1, 0]) for name in ("probe", "probe2", "probe")]
    for version in (1, 7):
        await p.ask("C", OffsetFetchRequest(group_id=p.group, topics=twice), version)
    for version in (8, 10):
        named: list[dict[str, Any]] = [{"name": "probe"}, {"name": "probe2"}] if version < 10 else []
        named = named or [{"topic_id": topic_id(p, "probe")}, {"topic_id": topic_id(p, "probe2")}]
        lists = [wanted.Topic(**one, partition_indexes=[0, 1, 0]) for one in (named[0], named[1], named[0])]
        group = wanted(group_id=p.group, topics=lists)
        everything = wanted(group_id=p.group, topics=None)
        await p.ask("C", OffsetFetchRequest(groups=[group, everything, group]), version)
    gone = OffsetDeleteRequest.Topic
    places = [gone.Partition(partition_index=index) for index in (0, 1, 0, 9, 9)]
    for name in ("probe", "not-there"):
        requested = gone(name=name, partitions=places)
        await p.ask("C", OffsetDeleteRequest(group_id=p.group, topics=[requested]), 0)
        await p.ask("C", OffsetDeleteRequest(group_id=p.group, topics=[requested, requested]), 0)


@script(releases=(NEW,))
async def repeated_assignments(p: Prober) -> None:
    """SyncGroup that has two assignments for one member."""
    a = Client(p=p, conn="A")
    await a.enter()
    share = SyncGroupRequest.Assignment
    given = [share(member_id=a.member_id, assignment=b"first"), share(member_id=a.member_id, assignment=b"second")]
    await a.synced(assignments=given)


@consumer_script()
async def kip848_repeated(p: Prober) -> None:
    """ConsumerGroupHeartbeat of a member that names a topic or a partition twice."""
    a = Consumer(p=p, conn="A")
    await a.join(subscribed_topic_names=["probe", "probe", "probe2", "probe"])
    await a.beat(0, 1, 2, 0)
    await a.beat(subscribed_topic_names=["probe", "probe"])
    await a.beat(0, 1, 2, 0)


@script(releases=(NEW,))
async def repeated_transactions(p: Prober) -> None:
    """AddPartitionsToTxn, TxnOffsetCommit, DescribeTransactions and ListTransactions that name a transaction, a
    partition or a filter twice."""
    a, topic = await begin(p)
    await a.add((topic, [0, 0]), (topic, [0, 1]))
    await a.describe()
    await a.add(("not-there", [0, 0]), (topic, [0, 0]), ("not-there", [0]))
    await p.ask("B", DescribeTransactionsRequest(transactional_ids=[a.name, "nobody", a.name, "nobody"]), 0)
    requested = ListTransactionsRequest(
        state_filters=["Ongoing", "Ongoing", "nonsense", "nonsense"],
        producer_id_filters=[a.producer_id, a.producer_id],
    )
    await p.ask("B", requested, 1)
    keys = [a.name, "nobody", a.name]
    await p.ask("B", FindCoordinatorRequest(key_type=1, coordinator_keys=keys), 4)
    kind = TxnOffsetCommitRequest.Topic
    places = [
        kind.Partition(partition_index=i, committed_offset=at, committed_metadata="")
        for i, at in ((0, 1), (0, 2), (9, 1), (9, 2))
    ]
    commits = kind(name="probe", partitions=places)
    await a.add_group()
    for topics in ([commits], [commits, commits]):
        request = TxnOffsetCommitRequest(
            transactional_id=a.name,
            group_id=p.group,
            producer_id=a.producer_id,
            producer_epoch=a.epoch,
            topics=topics,
        )
        await p.ask("A", request, 3)
    await a.end(True)
    await p.ask("C", OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id=p.group, topics=None)]), 9)


@script(releases=(NEW,))
async def repeated_in_verification(p: Prober) -> None:
    """AddPartitionsToTxn v4 that names a transaction, a topic or a partition twice."""
    a, topic = await begin(p)
    kind = AddPartitionsToTxnRequest.Transaction

    def one(*topics: AddedTopic, verify: bool = False) -> AddPartitionsToTxnRequest.Transaction:
        return kind(
            transactional_id=a.name,
            producer_id=a.producer_id,
            producer_epoch=a.epoch,
            verify_only=verify,
            topics=list(topics),
        )

    twice = AddedTopic(name=topic, partitions=[0, 0])
    both = AddedTopic(name=topic, partitions=[0, 1])
    for verify in (False, True):
        await p.ask("B", AddPartitionsToTxnRequest(transactions=[one(twice, both, verify=verify)]), 4)
    await p.ask("B", AddPartitionsToTxnRequest(transactions=[one(twice), one(both, verify=True)]), 4)
    await a.describe()


@script(releases=(NEW,))
async def repeated_markers(p: Prober) -> None:
    """WriteTxnMarkers that names a producer twice; if it names a partition twice for one producer, the broker never
    responds."""
    a, topic = await begin(p)
    await a.add((topic, [0, 1]))
    await a.produce(topic)
    kind = WriteTxnMarkersRequest.Marker

    def marker(*indexes: int) -> WriteTxnMarkersRequest.Marker:
        return kind(
            producer_id=a.producer_id,
            producer_epoch=a.epoch,
            transaction_result=True,
            topics=[kind.Topic(name=topic, partition_indexes=list(indexes))],
            coordinator_epoch=0,
        )

    for markers in ([marker(9, 9)], [marker(0), marker(0)], [marker(0), marker(1)], [marker(9), marker(0), marker(1)]):
        await p.ask("B", WriteTxnMarkersRequest(markers=markers), 1)
    last = ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=-1)
    requested = ListOffsetsRequest.Topic(name=topic, partitions=[last])
    await p.ask("B", ListOffsetsRequest(replica_id=-1, topics=[requested]), 5)
