"""ListOffsets: earliest, latest, by timestamp, and special timestamps that a version does not support."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from google_crc32c import value as crc32c
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.list_offsets import ListOffsetsRequest
from kwire.records.batch import CRC_FROM, HEADER, Record, build_batch, read_batch
from kwire.records.compression import NAMES, NONE

Topic = ListOffsetsRequest.Topic
VERSIONS = range(1, 12)


@pytest.fixture
def harness() -> BrokerHarness:
    harness = BrokerHarness(topics={"t": 2})
    log = harness.broker.cluster.topics["t"].partitions[0].log
    for timestamps in ((100, 300), (200,)):
        log.append(read_batch(build_batch([Record(timestamp=each) for each in timestamps])), 0)
    return harness


def ask(
    harness: BrokerHarness,
    version: int,
    timestamp: int,
    name: str = "t",
    index: int = 0,
    node: int = 0,
    epoch: int = -1,
) -> tuple[Any, ...]:
    requested = Topic.Partition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch)
    response = harness.ask(
        ListOffsetsRequest(replica_id=-1, topics=[Topic(name=name, partitions=[requested])]), version, node=node
    )
    ((partition_response,),) = [topic.partitions for topic in response.topics]
    assert partition_response.partition_index == index
    return (
        partition_response.error_code,
        partition_response.offset,
        partition_response.timestamp,
        partition_response.leader_epoch,
    )


def epoch(version: int) -> int:
    return 0 if version >= 4 else -1


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("timestamp", "offset", "at"),
    [
        pytest.param(-1, 3, -1, id="latest"),
        pytest.param(-2, 0, -1, id="earliest"),
        pytest.param(0, 0, 100, id="before the first record"),
        pytest.param(100, 0, 100, id="timestamp of a record"),
        pytest.param(101, 1, 300, id="between two records"),
        pytest.param(300, 1, 300, id="last record"),
    ],
)
def test_offset_and_timestamp(harness, version, timestamp, offset, at):
    assert ask(harness, version, timestamp) == (E.NONE, offset, at, epoch(version))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("timestamp", "index"), [(301, 0), (2**62, 0), (0, 1)])
def test_timestamp_after_the_last_record(harness, version, timestamp, index):
    assert ask(harness, version, timestamp, index=index) == (E.NONE, -1, -1, -1)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("timestamp", "since", "offset", "at"),
    [
        pytest.param(-3, 7, 1, 300, id="largest timestamp"),
        pytest.param(-4, 8, 0, -1, id="earliest local"),
        pytest.param(-5, 9, -1, -1, id="latest tiered"),
        pytest.param(-6, 11, -1, -1, id="earliest pending upload"),
        pytest.param(-7, 99, -1, -1, id="unknown special timestamp"),
    ],
)
def test_special_timestamps_of_later_versions(harness, version, timestamp, since, offset, at):
    partition_response = ask(harness, version, timestamp)
    if version < since:
        assert partition_response == (E.UNSUPPORTED_VERSION, -1, -1, -1)
    else:
        assert partition_response == (E.NONE, offset, at, 0 if offset >= 0 else -1)


def test_leader_epoch_of_a_deleted_record(harness):
    partition = harness.broker.cluster.topics["t"].partitions[1]
    partition.log.append(read_batch(build_batch([Record(timestamp=300), Record(timestamp=100)])), 0)
    partition.delete_before(1)
    assert ask(harness, 11, -3, index=1) == (E.NONE, 0, 300, 0)  # the response of Kafka 4.2.0


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("name", "index"), [("t", 9), ("t", -1), ("no-such-topic", 0)])
def test_unknown_partition(harness, version, name, index):
    assert ask(harness, version, -1, name, index) == (E.UNKNOWN_TOPIC_OR_PARTITION, -1, -1, -1)


@pytest.mark.parametrize("version", [1, 11])
def test_not_the_leader(version):
    harness = BrokerHarness(brokers=2)
    assert ask(harness, version, -1, node=1 - harness.leader("t", 0))[0] == E.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("version", [4, 11])
@pytest.mark.parametrize(
    ("given", "error"), [(0, E.NONE), (-1, E.NONE), (1, E.UNKNOWN_LEADER_EPOCH), (-2, E.FENCED_LEADER_EPOCH)]
)
def test_leader_epochs(harness, version, given, error):
    assert ask(harness, version, -1, epoch=given)[0] == error


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("codec", NAMES)
def test_compressed_batches_are_decoded(harness, version, codec):
    log = harness.broker.cluster.topics["t"].partitions[1].log
    for times in ([10, 40, 20], [15, 60, 60], [30]):
        batch = build_batch([Record(timestamp=each, value=bytes(100)) for each in times], codec=codec)
        log.append(read_batch(batch), 0)
    for timestamp, offset, at in ((0, 0, 10), (11, 1, 40), (41, 4, 60), (60, 4, 60)):
        assert ask(harness, version, timestamp, index=1) == (E.NONE, offset, at, epoch(version))
    if version >= 7:
        assert ask(harness, version, -3, index=1) == (E.NONE, 4, 60, epoch(version))  # the first of two records


@pytest.mark.parametrize("codec", [codec for codec in NAMES if codec != NONE])
@pytest.mark.parametrize("timestamp", [0, -3])
def test_undecodable_records(harness, codec, timestamp):
    tail = build_batch([Record(timestamp=10)], codec=codec)[CRC_FROM : HEADER.size] + b"not compressed at all"
    batch = read_batch(struct.pack(">qiibI", 0, len(tail) + 9, -1, 2, crc32c(tail)) + tail)
    assert batch.crc_is_right()
    harness.broker.cluster.topics["t"].partitions[1].log.append(batch, 0)
    assert ask(harness, 7, timestamp, index=1) == (E.CORRUPT_MESSAGE, -1, -1, -1)
    assert ask(harness, 7, -1, index=1)[:2] == (E.NONE, 1)  # the end offset needs no records


@pytest.mark.parametrize("isolation_level", [-1, 2, 7])
@pytest.mark.parametrize("version", [2, 8, 11])
def test_unknown_isolation_level_is_a_server_error(harness, version, isolation_level):
    partitions = [Topic.Partition(partition_index=index, timestamp=-1) for index in (0, 9, 9)]
    request = ListOffsetsRequest(isolation_level=isolation_level, topics=[Topic(name="t", partitions=partitions)])
    (topic,) = harness.ask(request, version).topics
    expected = [(index, E.UNKNOWN_SERVER_ERROR, -1) for index in (0, 9, 9)]
    assert [(each.partition_index, each.error_code, each.offset) for each in topic.partitions] == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_topic_without_partitions_is_not_in_the_response(harness, version):
    partition = Topic.Partition(partition_index=0, timestamp=-1)
    topics = [Topic(name="unknown"), Topic(name="t", partitions=[partition]), Topic(name="t")]
    response = harness.ask(ListOffsetsRequest(replica_id=-1, topics=topics), version)
    assert [(topic.name, len(topic.partitions)) for topic in response.topics] == [("t", 1)]
