"""OffsetForLeaderEpoch."""

from __future__ import annotations

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kwire.records.batch import Record, build_batch, read_batch

Topic = OffsetForLeaderEpochRequest.Topic


@pytest.fixture
def harness() -> BrokerHarness:
    harness = BrokerHarness()
    partition = harness.broker.cluster.partition("t", 0)
    partition.log.append(read_batch(build_batch([Record(value=b"v")] * 3)), partition.leader_epoch)
    return harness


CASES = [  # topic, partition, current epoch, requested epoch, error, returned epoch, end offset
    ("t", 0, 0, 0, E.NONE, 0, 3),
    ("t", 0, -1, 0, E.NONE, 0, 3),
    ("t", 1, -1, 0, E.NONE, 0, 0),
    ("t", 0, -1, 7, E.NONE, -1, -1),
    ("t", 0, 7, 0, E.UNKNOWN_LEADER_EPOCH, -1, -1),
    ("t", 9, -1, 0, E.UNKNOWN_TOPIC_OR_PARTITION, -1, -1),
    ("x", 0, -1, 0, E.UNKNOWN_TOPIC_OR_PARTITION, -1, -1),
]


MOVED = [  # requested epoch, returned epoch, end offset: 3 records in epoch 0, none in 1, 2 in epoch 2, none in 3
    (-1, -1, -1), (0, 0, 3), (1, 0, 3), (2, 2, 5), (3, 3, 5), (4, -1, -1),
]  # fmt: skip


@pytest.mark.parametrize(("epoch", "returned_epoch", "end"), MOVED)
def test_epochs_after_leader_changes(harness, epoch, returned_epoch, end):
    cluster = harness.broker.cluster
    partition = cluster.partition("t", 0)
    for _ in range(2):
        cluster.set_leader(partition, partition.leader)
    partition.append(read_batch(build_batch([Record(value=b"v")] * 2)))
    cluster.set_leader(partition, partition.leader)
    assert partition.epochs.end_of(epoch, partition.log.end) == (returned_epoch, end)
    assert [partition.epochs.of(offset) for offset in range(6)] == [0, 0, 0, 2, 2, 3]


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize(("topic", "index", "current", "epoch", "error", "returned_epoch", "end"), CASES)
def test_end_offset_of_an_epoch(harness, version, topic, index, current, epoch, error, returned_epoch, end):
    requested = Topic.Partition(partition=index, current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(topics=[Topic(topic=topic, partitions=[requested])])
    (result,) = harness.ask(request, version).topics[0].partitions
    assert (result.error_code, result.leader_epoch, result.end_offset) == (error, returned_epoch, end)
