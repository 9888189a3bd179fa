"""Replicas that lag, and unclean elections that truncate the log to the end of such a replica."""

from __future__ import annotations

from typing import Any

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.elect_leaders import ElectLeadersRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kwire.messages.produce import ProduceRequest
from kwire.records.batch import Record, build_batch
from mockbroker.broker import failover, reassignments
from mockbroker.broker.paused_replicas import pause_replica, resume_replica
from mockbroker.topics.model import NO_LEADER, Partition

PREFERRED, UNCLEAN = 0, 1


def harness(**configs: str) -> BrokerHarness:
    """Return a cluster of two brokers with a topic whose leader is broker 0 and whose follower is broker 1."""
    made = BrokerHarness(brokers=2, topics={})
    made.broker.cluster.create_topic("t", [[0, 1]], {name.replace("_", "."): each for name, each in configs.items()})
    return made


def partition(of: BrokerHarness) -> Partition:
    return of.broker.cluster.topics["t"].partitions[0]


def produce(of: BrokerHarness, *values: bytes, acks: int = -1) -> E:
    records = build_batch([Record(value=value, timestamp=1_000) for value in values])
    data = ProduceRequest.Topic.Partition(index=0, records=records)
    request = ProduceRequest(
        acks=acks, timeout_ms=500, topic_data=[ProduceRequest.Topic(name="t", partition_data=[data])]
    )
    answer = of.ask(request, 9, node=partition(of).leader)
    return E(answer.responses[0].partition_responses[0].error_code)


def fetch(of: BrokerHarness, node: int, offset: int, **more: Any) -> Any:
    wanted = FetchRequest.Topic.Partition(partition=0, fetch_offset=offset, partition_max_bytes=9_000, **more)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchRequest.Topic(topic="t", partitions=[wanted])])
    return of.ask(request, 12, node=node).responses[0].partitions[0]


def elect(of: BrokerHarness, kind: int) -> E:
    topics = [ElectLeadersRequest.TopicPartition(topic="t", partitions=[0])]
    request = ElectLeadersRequest(election_type=kind, topic_partitions=topics, timeout_ms=1_000)
    return E(of.ask(request, 2).replica_election_results[0].partition_result[0].error_code)


def stop(of: BrokerHarness, node: int) -> None:
    of.finish(failover.stop_broker(of.broker, node, of.now))


def lagging() -> BrokerHarness:
    """Return a topic with five records: the stopped leader has all of them and the follower has two."""
    of = harness()
    assert produce(of, b"1", b"2") == E.NONE
    pause_replica(of.broker, partition(of), 1)
    assert produce(of, b"3", b"4", b"5") == E.NONE
    stop(of, 0)
    return of


def in_sync(of: BrokerHarness) -> list[int]:
    topics = [MetadataRequest.Topic(name="t")]
    isr: list[int] = of.ask(MetadataRequest(topics=topics), 9).topics[0].partitions[0].isr_nodes
    return isr


def test_paused_replica_is_not_in_sync():
    of = harness(min_insync_replicas="2")
    assert produce(of, b"1") == E.NONE
    assert in_sync(of) == [0, 1]
    pause_replica(of.broker, partition(of), 1)
    assert in_sync(of) == [0]
    assert produce(of, b"2") == E.NOT_ENOUGH_REPLICAS
    assert produce(of, b"2", acks=1) == E.NONE
    resume_replica(of.broker, partition(of), 1)
    assert in_sync(of) == [0, 1]
    assert produce(of, b"3") == E.NONE


def test_paused_replica_serves_only_its_own_records():
    of = harness()
    produce(of, b"1")
    pause_replica(of.broker, partition(of), 1)
    produce(of, b"2")
    result = fetch(of, 1, 0)
    assert (result.high_watermark, result.last_stable_offset) == (1, 1)
    assert fetch(of, 1, 1).records == b""
    assert fetch(of, 1, 2).error_code == E.OFFSET_OUT_OF_RANGE
    assert fetch(of, 0, 1).high_watermark == 2


def test_clean_election_waits_for_an_in_sync_replica():
    of = lagging()
    assert partition(of).leader == NO_LEADER
    assert elect(of, PREFERRED) == E.PREFERRED_LEADER_NOT_AVAILABLE
    of.finish(failover.start_broker(of.broker, 0, of.now))
    assert (partition(of).leader, partition(of).log.end) == (0, 5)


def test_unclean_election_truncates_the_log():
    of = lagging()
    assert elect(of, UNCLEAN) == E.NONE
    assert (partition(of).leader, partition(of).log.end, in_sync(of)) == (1, 2, [1])
    assert elect(of, UNCLEAN) == E.ELECTION_NOT_NEEDED
    epoch = partition(of).leader_epoch
    assert partition(of).epochs.entries == [(0, 0), (epoch, 2)]
    diverging = fetch(of, 1, 5, last_fetched_epoch=0, current_leader_epoch=epoch)
    assert (diverging.error_code, diverging.diverging_epoch.end_offset) == (E.NONE, 2)
    assert fetch(of, 1, 5).error_code == E.OFFSET_OUT_OF_RANGE
    place = OffsetForLeaderEpochRequest.Topic.Partition(partition=0, leader_epoch=0)
    topics = [OffsetForLeaderEpochRequest.Topic(topic="t", partitions=[place])]
    answer = of.ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics), 4)
    assert answer.topics[0].partitions[0].end_offset == 2
    assert produce(of, b"new") == E.NONE
    of.finish(failover.start_broker(of.broker, 0, of.now))
    assert in_sync(of) == [0, 1]
    assert [record.value for batch in partition(of).log.batches() for record in batch.records()] == [b"1", b"2", b"new"]


def test_unclean_election_keeps_the_log_start():
    """The paused replica ends before the log start offset, as it may after DeleteRecords."""
    of = lagging()
    partition(of).log.delete_before(4)
    assert elect(of, UNCLEAN) == E.NONE
    assert (partition(of).log.start, partition(of).log.end) == (4, 4)


def test_paused_replica_does_not_catch_up_in_time():
    """Only a new replica catches up on the brokers' clock."""
    of = BrokerHarness(brokers=3, topics={})
    of.broker.cluster.create_topic("t", [[0, 1]])
    pause_replica(of.broker, partition(of), 1)
    of.finish(reassignments.begin(of.broker, partition(of), [0, 1, 2], of.now))
    of.finish(failover.stop_broker(of.broker, 1, of.now))
    of.finish(failover.start_broker(of.broker, 1, of.now))
    of.wait(10.0)
    assert in_sync(of) == [0, 2]
    resume_replica(of.broker, partition(of), 1)
    assert in_sync(of) == [0, 1, 2]


def test_topic_config_allows_unclean_elections():
    of = harness(unclean_leader_election_enable="true")
    produce(of, b"1")
    pause_replica(of.broker, partition(of), 1)
    produce(of, b"2")
    stop(of, 0)
    assert (partition(of).leader, partition(of).log.end) == (1, 1)


def test_changed_topic_config_elects_a_leader_at_once():
    of = lagging()
    kind = IncrementalAlterConfigsRequest.Resource
    changed = [kind.Config(name="unclean.leader.election.enable", config_operation=0, value="true")]
    request = IncrementalAlterConfigsRequest(resources=[kind(resource_type=2, resource_name="t", configs=changed)])
    assert of.ask(request, 1).responses[0].error_code == E.NONE
    assert (partition(of).leader, partition(of).log.end) == (1, 2)


def test_only_an_in_sync_follower_can_be_paused():
    of = harness()
    for node in (0, 7):
        with pytest.raises(
            failover.FailoverError, match=r"not an in-sync follower of t-0 \(in-sync followers: \[1\]\)"
        ):
            pause_replica(of.broker, partition(of), node)
    pause_replica(of.broker, partition(of), 1)
    with pytest.raises(failover.FailoverError):
        pause_replica(of.broker, partition(of), 1)
    resume_replica(of.broker, partition(of), 1)
    with pytest.raises(failover.FailoverError, match=r"on broker 1 is not paused \(paused: \[\]\)"):
        resume_replica(of.broker, partition(of), 1)
