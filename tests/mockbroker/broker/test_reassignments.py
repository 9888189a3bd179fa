"""Reassignments on the broker's clock. The conversations reassignments_* and elections have errors and responses."""

from __future__ import annotations

from typing import Any

import pytest
from tools.broker_harness import BrokerHarness
from tools.durable_broker_harness import DurableBrokerHarness

from kwire import ErrorCode as E
from kwire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kwire.messages.elect_leaders import ElectLeadersRequest
from kwire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kwire.messages.metadata import MetadataRequest
from mockbroker.broker import failover
from mockbroker.topics.model import NO_LEADER, Partition
from mockbroker.topics.reassignment import Reassignment, completed, merged, reverted

AFTER = 0.2  # seconds; mockbroker.replica.catch.up.ms
UNCLEAN = 1


@pytest.fixture
def harness() -> BrokerHarness:
    """Return a cluster of the brokers 0 to 2 and a topic with one partition led by each."""
    return BrokerHarness(brokers=3, topics={"t": 3})


def partition(harness: BrokerHarness, index: int = 0) -> Partition:
    return harness.broker.cluster.topics["t"].partitions[index]


def move(harness: BrokerHarness, *replicas: list[int] | None, topic: str = "t") -> list[E]:
    """Reassign partitions, beginning with partition 0, and return their errors."""
    kind = AlterPartitionReassignmentsRequest.Topic
    listed = [kind.Partition(partition_index=index, replicas=nodes) for index, nodes in enumerate(replicas)]
    answer = harness.ask(AlterPartitionReassignmentsRequest(topics=[kind(name=topic, partitions=listed)]), 1)
    return [E(each.error_code) for each in answer.responses[0].partitions]


def listed(harness: BrokerHarness) -> list[tuple[list[int], list[int], list[int]]]:
    answer = harness.ask(ListPartitionReassignmentsRequest(topics=None), 0)
    results: list[Any] = [each for topic in answer.topics for each in topic.partitions]
    return [(each.replicas, each.adding_replicas, each.removing_replicas) for each in results]


def test_new_replicas_are_in_sync_after_the_time_of_the_setting(harness):
    start = partition(harness).replicas[0]
    others = [node for node in range(3) if node != start]
    assert move(harness, others) == [E.NONE]
    merged_replicas = [*others, start]
    assert listed(harness) == [(merged_replicas, others, [start])]
    harness.wait(AFTER - 0.001)
    assert harness.broker.cluster.in_sync(partition(harness)) == [start]
    harness.wait(0.001)
    assert listed(harness) == []
    moved = partition(harness)
    assert (moved.replicas, moved.leader, moved.leader_epoch) == (others, others[0], 1)
    assert harness.broker.cluster.in_sync(moved) == others


def test_time_until_new_replicas_are_in_sync_is_exact():
    harness = BrokerHarness(brokers=3, topics={"t": 1}, config={"mockbroker.replica.catch.up.ms": 10_000})
    start = partition(harness).replicas[0]
    assert move(harness, [start, (start + 1) % 3]) == [E.NONE]
    harness.wait(9.999)
    assert harness.broker.cluster.in_sync(partition(harness)) == [start]
    harness.wait(0.001)
    assert harness.broker.cluster.in_sync(partition(harness)) == [start, (start + 1) % 3]


def test_a_replica_on_a_stopped_broker_waits_for_its_start(harness):
    start = partition(harness).replicas[0]
    other = (start + 1) % 3
    harness.finish(failover.stop_broker(harness.broker, other, harness.now))
    move(harness, [start, other])
    harness.wait(10)
    assert listed(harness) == [([start, other], [other], [])]
    harness.finish(failover.start_broker(harness.broker, other, harness.now))
    harness.wait(AFTER)
    assert listed(harness) == []
    assert harness.broker.cluster.in_sync(partition(harness)) == [start, other]


def test_start_of_another_broker_delays_no_replica():
    harness = BrokerHarness(brokers=4, topics={}, config={"mockbroker.replica.catch.up.ms": 10_000})
    harness.broker.cluster.create_topic("t", [[0]])
    harness.finish(failover.stop_broker(harness.broker, 3, harness.now))
    move(harness, [0, 1])
    harness.wait(6)
    harness.finish(failover.start_broker(harness.broker, 3, harness.now))
    harness.wait(4)
    assert harness.broker.cluster.in_sync(partition(harness)) == [0, 1]


def test_new_replica_catches_up_after_a_restart():
    harness = DurableBrokerHarness(brokers=2, topics={}, config={"mockbroker.replica.catch.up.ms": 10_000})
    harness.broker.cluster.create_topic("t", [[0]])
    move(harness, [0, 1])
    harness.restart()
    harness.wait(9.999)
    assert harness.broker.cluster.in_sync(partition(harness)) == [0]
    harness.wait(0.001)
    assert harness.broker.cluster.in_sync(partition(harness)) == [0, 1]
    assert listed(harness) == []


def test_replicas_that_catch_up_do_not_become_leader(harness):
    start = partition(harness).replicas[0]
    other = (start + 1) % 3
    move(harness, [start, other])
    harness.finish(failover.stop_broker(harness.broker, start, harness.now))
    assert partition(harness).leader == NO_LEADER
    wanted = [ElectLeadersRequest.TopicPartition(topic="t", partitions=[0])]
    request = ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=wanted)
    answer = harness.ask(request, 2)
    assert answer.replica_election_results[0].partition_result[0].error_code == E.NONE
    assert partition(harness).leader == other


def test_a_reassignment_waits_for_a_stopped_leader(harness):
    start = partition(harness).replicas[0]
    other = (start + 1) % 3
    move(harness, [other])
    harness.finish(failover.stop_broker(harness.broker, start, harness.now))
    harness.wait(10)
    assert len(listed(harness)) == 1
    harness.finish(failover.start_broker(harness.broker, start, harness.now))
    harness.wait(AFTER)
    assert partition(harness).replicas == [other]


def test_metadata_lists_a_replica_as_soon_as_it_is_in_sync(harness):
    """The other new replica is on a stopped broker, so the reassignment continues."""
    start = partition(harness).replicas[0]
    other, stopped = (node for node in range(3) if node != start)
    harness.finish(failover.stop_broker(harness.broker, stopped, harness.now))
    move(harness, [start, other, stopped])
    request = MetadataRequest(topics=[MetadataRequest.Topic(name="t")])
    assert harness.ask(request, 9, node=start).topics[0].partitions[0].isr_nodes == [start]
    harness.wait(AFTER)
    assert harness.ask(request, 9, node=start).topics[0].partitions[0].isr_nodes == [start, other]
    assert len(listed(harness)) == 1


def test_cancellation_restores_the_replicas(harness):
    start = partition(harness).replicas[0]
    other = (start + 1) % 3
    move(harness, [other])
    assert move(harness, None) == [E.NONE]
    assert (partition(harness).replicas, partition(harness).catching_up, listed(harness)) == ([start], frozenset(), [])
    harness.wait(AFTER)
    assert (partition(harness).replicas, partition(harness).leader) == ([start], start)
    assert move(harness, None) == [E.NO_REASSIGNMENT_IN_PROGRESS]


def test_the_same_replicas_keep_the_leader_epoch(harness):
    replicas = list(partition(harness).replicas)
    assert move(harness, replicas) == [E.NONE]
    harness.wait(AFTER)
    assert (partition(harness).replicas, partition(harness).leader_epoch) == (replicas, 0)


def test_no_cancellation_without_a_replica_in_sync(harness):
    """The rule is that of Kafka's ReplicationControlManager.cancelPartitionReassignment."""
    start = partition(harness).replicas[0]
    move(harness, [(start + 1) % 3])
    partition(harness).catching_up |= {start}
    assert move(harness, None) == [E.INVALID_REPLICA_ASSIGNMENT]
    assert len(listed(harness)) == 1


def test_a_deleted_topic_ends_its_reassignment(harness):
    move(harness, [0, 1, 2])
    harness.broker.delete_topics([harness.broker.cluster.topics["t"]])
    harness.wait(1)
    assert listed(harness) == []


def test_many_partitions_are_reassigned_in_slices(harness):
    harness.broker.slice_size = 2
    assert move(harness, [0, 1], [1, 2], [2, 0], [0], [0]) == [E.NONE] * 3 + [E.UNKNOWN_TOPIC_OR_PARTITION] * 2
    harness.wait(AFTER)
    assert [partition(harness, index).replicas for index in range(3)] == [[0, 1], [1, 2], [2, 0]]


@pytest.mark.parametrize("is_changeable", [True, False])
def test_without_topics_the_factor_is_changeable(harness, is_changeable):
    request = AlterPartitionReassignmentsRequest(topics=[], allow_replication_factor_change=is_changeable)
    response = harness.ask(request, 1)
    assert (response.allow_replication_factor_change, response.error_message) == (True, "")


def test_the_offsets_topic_can_be_reassigned(harness):
    assert move(harness, [0], topic="__consumer_offsets") == [E.NONE]
    harness.wait(AFTER)
    assert harness.broker.cluster.topics["__consumer_offsets"].partitions[0].replicas == [0]


def test_replicas_of_a_reassignment():
    replicas, reassignment = merged([1, 2], [3, 2])
    assert (replicas, reassignment) == ([3, 2, 1], Reassignment((3,), (1,)))
    assert reverted(replicas, reassignment) == [2, 1]
    assert completed(replicas, reassignment, [1, 2]) is None
    assert completed(replicas, reassignment, [1, 3]) == [3, 2]
    assert completed([1, 2], Reassignment((), (1,)), [1]) is None
    assert completed([2, 1], Reassignment((2,), (1,)), [2]) == [2]


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_expired_request_moves_nothing(harness, timeout_ms):
    kind = AlterPartitionReassignmentsRequest.Topic
    topics = [kind(name=name, partitions=[kind.Partition(replicas=[2])]) for name in ("t", "no-such-topic")]
    request = AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=timeout_ms)
    answer = harness.ask(request, 1)
    assert (answer.error_code, answer.error_message) == (E.REQUEST_TIMED_OUT, None)
    results = [
        (topic.name, each.error_code, each.error_message) for topic in answer.responses for each in topic.partitions
    ]
    assert results == [(name, E.REQUEST_TIMED_OUT, None) for name in ("t", "no-such-topic")]
    assert listed(harness) == []
    assert harness.ask(AlterPartitionReassignmentsRequest(timeout_ms=timeout_ms), 1).error_code == E.NONE
