"""Conversations about reassignments, leader elections and log directories, which record.py records.

The cluster has the brokers 1, 2 and 3. Broker 3 is down, so a replica that is moved to it never catches up.
"""

from __future__ import annotations

from collections.abc import Sequence

from prober import Prober
from script import NEW, script

from kwire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kwire.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from kwire.messages.create_topics import CreateTopicsRequest
from kwire.messages.delete_topics import DeleteTopicsRequest
from kwire.messages.describe_log_dirs import DescribeLogDirsRequest
from kwire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kwire.messages.elect_leaders import ElectLeadersRequest
from kwire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest

Topic = AlterPartitionReassignmentsRequest.Topic
SETTLED = 2_500  # milliseconds until a replica has caught up


async def create(p: Prober, name: str, *replicas: Sequence[int]) -> None:
    assigned = CreateTopicsRequest.Topic.Assignment
    listed = [assigned(partition_index=index, broker_ids=list(nodes)) for index, nodes in enumerate(replicas)]
    topic = CreateTopicsRequest.Topic(name=name, num_partitions=-1, replication_factor=-1, assignments=listed)
    await p.ask("A", CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7)
    await p.wait(800, "until the leaders are known")


async def drop(p: Prober, *names: str) -> None:
    await p.ask("A", DeleteTopicsRequest(topic_names=list(names), timeout_ms=5000), 4)


async def move(p: Prober, topic: str, *targets: Sequence[int] | None, version: int = 1, **more: bool) -> None:
    """Reassign partitions, beginning with partition 0, to these replicas; None cancels a reassignment."""
    kind = Topic.Partition
    listed = [
        kind(partition_index=index, replicas=None if nodes is None else list(nodes))
        for index, nodes in enumerate(targets)
    ]
    request = AlterPartitionReassignmentsRequest(topics=[Topic(name=topic, partitions=listed)], **more)
    await p.ask("A", request, version)


async def show(p: Prober, topic: str) -> None:
    await p.ask("A", ListPartitionReassignmentsRequest(topics=None), 0)
    described = [DescribeTopicPartitionsRequest.Topic(name=topic)]
    await p.ask("A", DescribeTopicPartitionsRequest(topics=described), 0)


async def elect(p: Prober, kind: int, topic: str | None, *indexes: int, version: int = 2) -> None:
    wanted = None if topic is None else [ElectLeadersRequest.TopicPartition(topic=topic, partitions=list(indexes))]
    await p.ask("A", ElectLeadersRequest(election_type=kind, topic_partitions=wanted, timeout_ms=5000), version)


@script(releases=(NEW,), brokers=3, down=(3,))
async def reassignments_complete(p: Prober) -> None:
    """Replicas are added, removed and reordered; the leader changes if its replica is removed."""
    topic = "t-reassignments_complete"
    await create(p, topic, [1], [1], [2], [1])
    await move(p, topic, [1, 2], [2, 1], [1], [1])
    await p.wait(SETTLED, "until the replicas have caught up")
    await show(p, topic)
    await elect(p, 0, topic, 0, 1, 2)
    await p.wait(500, "until the leaders are known")
    await show(p, topic)
    await move(p, topic, [1], [2], [2], [2, 1], version=0)
    await p.wait(SETTLED, "until the replicas have caught up")
    await show(p, topic)
    await drop(p, topic)


@script(releases=(NEW,), brokers=3, down=(3,))
async def reassignments_in_progress(p: Prober) -> None:
    """A reassignment to a broker that is down: listed, changed, cancelled, and refused."""
    topic, other = "t-reassignments_in_progress", "t-reassignments_in_progress-2"
    await create(p, topic, [1, 2], [2, 1], [1, 2])
    await create(p, other, [1])
    await move(p, topic, [2, 3], [3])
    await p.wait(SETTLED, "until the replicas could have caught up")
    await show(p, topic)
    listed = ListPartitionReassignmentsRequest.Topic
    for named in (
        [listed(name=topic, partition_indexes=[0])],
        [listed(name=topic, partition_indexes=[2, 1, 7])],
        [listed(name=other, partition_indexes=[0]), listed(name="nothing", partition_indexes=[0])],
        [],
    ):
        await p.ask("A", ListPartitionReassignmentsRequest(topics=named), 0)
    await elect(p, 0, topic, 0, 1)
    await move(p, topic, [3, 1])
    await p.wait(500, "until the brokers know it")
    await show(p, topic)
    await move(p, topic, None, None, None)
    await p.wait(500, "until the brokers know it")
    await show(p, topic)
    await move(p, topic, None)
    await move(p, topic, [3])
    await move(p, topic, [1, 2])
    await p.wait(SETTLED, "until the replicas have caught up")
    await show(p, topic)
    await drop(p, topic, other)


@script(releases=(NEW,), brokers=3, down=(3,))
async def reassignments_refused(p: Prober) -> None:
    """Requests that AlterPartitionReassignments refuses, and changes of the replication factor."""
    topic = "t-reassignments_refused"
    await create(p, topic, [1, 2], [2, 1])
    await move(p, topic, [], [1, 1], [1])
    await move(p, topic, [4], [-1])
    await move(p, "nothing", [1])
    await move(p, "a b", [1], None)
    await p.ask("A", AlterPartitionReassignmentsRequest(topics=[]), 1)
    await p.ask("A", AlterPartitionReassignmentsRequest(topics=[Topic(name=topic, partitions=[])]), 0)
    await move(p, topic, [1], [1, 2], allow_replication_factor_change=False)
    await move(p, topic, [2, 1], [2], allow_replication_factor_change=False)
    await move(p, topic, [2, 3], [3], allow_replication_factor_change=False)
    await p.wait(SETTLED, "until the replicas could have caught up")
    await show(p, topic)
    await move(p, topic, [1], [1, 2], allow_replication_factor_change=False)
    await move(p, topic, [1, 3], [1], allow_replication_factor_change=False)
    await p.wait(SETTLED, "until the replicas have caught up")
    await show(p, topic)
    await drop(p, topic)


@script(releases=(NEW,), brokers=3, down=(3,))
async def elections(p: Prober) -> None:
    """ElectLeaders: preferred and unclean elections, and requests that are refused."""
    topic = "t-elections"
    await create(p, topic, [1, 2], [2, 1], [1, 2])
    await move(p, topic, [2, 1], [1, 2], [2, 3])
    await p.wait(SETTLED, "until the replicas have caught up")
    for version in (0, 1, 2):
        await elect(p, 0, topic, version, 9, version=version)
    await elect(p, 1, topic, 0, 1, 2)
    await elect(p, 1, "nothing", 0)
    await elect(p, 7, topic, 0)
    await p.wait(500, "until the leaders are known")
    await show(p, topic)
    await move(p, topic, None, None, None)
    await drop(p, topic)


LOG_DIRS = {"log.dirs": "/tmp/kafka-log-dirs/a,/tmp/kafka-log-dirs/b"}
A, B = LOG_DIRS["log.dirs"].split(",")
Dir = AlterReplicaLogDirsRequest.Dir


async def place(p: Prober, *dirs: tuple[str, str, Sequence[int]], version: int = 2) -> None:
    listed = [Dir(path=path, topics=[Dir.Topic(name=topic, partitions=list(indexes))]) for path, topic, indexes in dirs]
    await p.ask("A", AlterReplicaLogDirsRequest(dirs=listed), version)


async def dirs_of(p: Prober, topic: str, *indexes: int, version: int = 4) -> None:
    wanted = [DescribeLogDirsRequest.Topic(topic=topic, partitions=list(indexes))]
    await p.ask("A", DescribeLogDirsRequest(topics=wanted), version)


@script(LOG_DIRS, (NEW,))
async def log_dirs_altered(p: Prober) -> None:
    """AlterReplicaLogDirs moves replicas between the log directories of a broker; invalid requests are refused."""
    topic = "t-log_dirs_altered"
    await place(p, (A, topic, [0, 1]), (B, topic, [2]))
    await create(p, topic, [1], [1], [1])
    for version in (1, 2, 3, 4):
        await dirs_of(p, topic, 0, 1, 2, 3, version=version)
    await place(p, (B, topic, [0]), (A, topic, [1, 2]))
    await p.wait(SETTLED, "until the replicas have moved")
    await dirs_of(p, topic, 0, 1, 2)
    await place(p, (B, topic, [0]), (B, topic, [1]), version=1)
    await p.wait(SETTLED, "until the replicas have moved")
    await dirs_of(p, topic, 0, 1)
    await place(p, ("/nothing", topic, [0]), ("relative", topic, [1]), (A, topic, [7]), (A, "nothing", [0]))
    await place(p, (A, topic, [0]), (B, topic, [0]))
    await p.wait(SETTLED, "until the replicas have moved")
    await dirs_of(p, topic, 0)
    await dirs_of(p, "nothing", 0)
    await p.ask("A", DescribeLogDirsRequest(topics=[]), 4)
    await drop(p, topic)
