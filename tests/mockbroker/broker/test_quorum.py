"""The quorum of controllers and the registrations of brokers. The conversations quorum_* have the errors."""

from __future__ import annotations

from typing import Any

from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kwire.messages.describe_cluster import DescribeClusterRequest
from kwire.messages.describe_quorum import DescribeQuorumRequest
from kwire.messages.unregister_broker import UnregisterBrokerRequest
from mockbroker.broker import failover


def quorum(harness: BrokerHarness, version: int = 2) -> Any:
    kind = DescribeQuorumRequest.Topic
    topic = kind(topic_name="__cluster_metadata", partitions=[kind.Partition(partition_index=0)])
    return harness.ask(DescribeQuorumRequest(topics=[topic]), version, node=max(harness.broker.cluster.nodes))


def unregister(harness: BrokerHarness, node: int) -> E:
    return E(harness.ask(UnregisterBrokerRequest(broker_id=node), 0).error_code)


def test_every_broker_is_a_voter():
    harness = BrokerHarness(brokers=3, first_node=1)
    (topic,) = quorum(harness).topics
    (partition,) = topic.partitions
    assert (partition.leader_id, [voter.replica_id for voter in partition.current_voters]) == (1, [1, 2, 3])
    assert {voter.log_end_offset for voter in partition.current_voters} == {partition.high_watermark}
    assert [node.node_id for node in quorum(harness).nodes] == [1, 2, 3]
    assert quorum(harness, 1).nodes == []


def test_another_controller_leads_while_the_first_is_stopped():
    harness = BrokerHarness(brokers=3, first_node=1)
    harness.finish(failover.stop_broker(harness.broker, 1, harness.now))
    partition = quorum(harness).topics[0].partitions[0]
    assert partition.leader_id == 2
    assert [voter.last_fetch_timestamp < 0 for voter in partition.current_voters] == [True, False, False]


def test_an_unregistered_broker_returns_when_it_starts():
    harness = BrokerHarness(brokers=3, topics={"t": 1})
    harness.finish(failover.stop_broker(harness.broker, 2, harness.now))

    def fenced() -> list[int]:
        answer = harness.ask(DescribeClusterRequest(include_fenced_brokers=True), 2)
        return [each.broker_id for each in answer.brokers if each.is_fenced]

    kind = AlterPartitionReassignmentsRequest.Topic
    moved = kind(name="t", partitions=[kind.Partition(partition_index=0, replicas=[2])])
    assert fenced() == [2]
    assert unregister(harness, 2) == E.NONE
    assert fenced() == []
    answer = harness.ask(AlterPartitionReassignmentsRequest(topics=[moved]), 1)
    assert answer.responses[0].partitions[0].error_code == E.INVALID_REPLICA_ASSIGNMENT
    assert unregister(harness, 2) == E.BROKER_ID_NOT_REGISTERED
    harness.finish(failover.start_broker(harness.broker, 2, harness.now))
    assert harness.broker.cluster.broker_ids == {0, 1, 2}
