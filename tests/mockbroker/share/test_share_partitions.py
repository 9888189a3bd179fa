"""Share partitions of a cluster: their loading, start offsets and locks."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from uuid import UUID

import pytest

from kwire import ErrorCode
from kwire.records.batch import Record, build_batch, read_batch
from mockbroker.base.settings import Settings
from mockbroker.base.timers import ShareLockDue
from mockbroker.broker.broker import Broker
from mockbroker.share.acquire import AcquireMode, Acquisition, acquire
from mockbroker.share.group_settings import ShareGroupSettings
from mockbroker.share.share_partition import SharePartition
from mockbroker.share.share_partitions import reported_error
from mockbroker.share.state import StateKey
from mockbroker.topics.model import Node, Partition

HOUR = 3_600.0  # one record is written each hour, at 0, 1 and 2 hours


@pytest.fixture
def broker() -> Broker:
    numbers = count(1)
    broker = Broker([Node(0, "localhost", 9092)], Settings(), lambda: UUID(int=next(numbers)))
    topic = broker.cluster.create_topic("t", [[0]])
    for hour in range(3):
        records = [Record(value=b"v", timestamp=int(hour * HOUR * 1000))]
        topic.partitions[0].append(read_batch(build_batch(records)))
    return broker


@pytest.fixture
def key(broker: Broker) -> StateKey:
    return StateKey("g", broker.cluster.topics["t"].topic_id, 0)


def partition(broker: Broker) -> Partition:
    return broker.cluster.topics["t"].partitions[0]


STRATEGIES = [
    ("latest", 3),
    ("earliest", 0),
    ("by_duration:PT90M", 1),
    ("by_duration:PT1H", 1),
    ("by_duration:PT0S", 2),
    ("by_duration:P9D", 0),
]


@pytest.mark.parametrize(("strategy", "start"), STRATEGIES, ids=[strategy for strategy, _ in STRATEGIES])
def test_start_offset_follows_the_reset_strategy(broker, key, strategy, start):
    settings = replace(ShareGroupSettings(30_000), auto_offset_reset=strategy)
    broker.share_partitions.group_settings = lambda group_id: settings if group_id == "g" else ShareGroupSettings(1)
    broker.share_states.initialize(key, 1, -1, 0.0)
    result = broker.share_partitions.get_or_load(key, partition(broker), 2 * HOUR)
    assert isinstance(result, SharePartition)
    assert result.start == start
    assert broker.share_partitions.get_or_load(key, partition(broker), 2 * HOUR) is result


def test_no_record_is_recent_enough(broker, key):
    settings = ShareGroupSettings(30_000, "by_duration:PT1M")
    broker.share_partitions.group_settings = lambda _: settings
    broker.share_states.initialize(key, 1, -1, 0.0)
    result = broker.share_partitions.get_or_load(key, partition(broker), 9 * HOUR)
    assert result == ErrorCode.OFFSET_NOT_AVAILABLE


def test_stored_start_offset_wins(broker, key):
    broker.share_states.initialize(key, 1, 1, 0.0)
    result = broker.share_partitions.get_or_load(key, partition(broker), 0.0)
    assert isinstance(result, SharePartition)
    assert result.start == 1


def test_uninitialized_partition_is_a_server_error(broker, key):
    result = broker.share_partitions.get_or_load(key, partition(broker), 0.0)
    assert result == ErrorCode.UNKNOWN_SERVER_ERROR
    assert reported_error(ErrorCode.FENCED_STATE_EPOCH) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_locks_have_a_deadline(broker, key):
    broker.share_states.initialize(key, 1, 0, 0.0)
    shares = broker.share_partitions
    result = shares.get_or_load(key, partition(broker), 0.0)
    assert isinstance(result, SharePartition)
    request = Acquisition("a", AcquireMode.BATCH_OPTIMIZED, 500, 500, shares.group_settings("g").lock_end(5.0))
    acquire(result, request, 0, partition(broker).log.stored())
    shares.schedule(result)
    due = ShareLockDue(key)
    assert broker.deadlines.at(due) == 35.0
    assert shares.expire_locks(key, 35.0)
    assert due not in broker.deadlines
    shares.unload_partition(key.topic_id, 0)
    assert shares.loaded == {}
    assert not shares.expire_locks(key, 99.0)
