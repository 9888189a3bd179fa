"""Retention of a partition: deleted segments, leader epochs and expired producers."""

from __future__ import annotations

import pytest

from kwire.records.batch import Record, build_batch, read_batch
from mockbroker.base.release import KAFKA_4_2
from mockbroker.base.settings import Settings
from mockbroker.topics.log_config import LogConfig
from mockbroker.topics.log_segments import SegmentLimits
from mockbroker.topics.model import Partition
from mockbroker.topics.retention import delete_old_segments, next_deletion


def partition(*timestamps: int) -> Partition:
    """Return a partition with a batch of one record in each of its segments."""
    made = Partition("t", 0, [0])
    made.log.limits = SegmentLimits(size=1)
    for timestamp in timestamps:
        made.append(read_batch(build_batch([Record(timestamp=timestamp)])), timestamp)
    return made


def config(**configs: str) -> LogConfig:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    return LogConfig.of(named, Settings(), KAFKA_4_2)


@pytest.mark.parametrize(("policy", "deleted"), [("delete", 2), ("compact,delete", 2), ("compact", 0), ("", 0)])
def test_only_the_policy_delete_deletes_segments(policy, deleted):
    of = partition(1, 2, 50)
    configs = config(retention_ms="10", cleanup_policy=policy)
    assert next_deletion(of, configs, 3) == (12 if deleted else None)
    assert delete_old_segments(of, configs, 20) == deleted
    assert (of.log.start, of.log.end) == (deleted, 3)


def test_log_of_which_all_segments_expire_is_empty():
    of = partition(1, 2)
    of.leader_epoch = 4
    of.epochs.begin(4, 2)
    of.append(read_batch(build_batch([Record(timestamp=3)])), 3)
    assert delete_old_segments(of, config(retention_ms="10"), 20) == 3
    assert (of.log.start, of.log.end, of.log.size) == (3, 3, 0)
    assert of.epochs.entries == [(4, 3)]
    assert delete_old_segments(of, config(retention_ms="10"), 20) == 0
    assert of.append(read_batch(build_batch([Record(timestamp=30)])), 30) == 3
    assert of.log.segments[-1].base_offset == 3


def test_expired_producer_is_new_again():
    of = partition()
    batch = read_batch(build_batch([Record(timestamp=100)], producer_id=7, producer_epoch=0, base_sequence=4))
    of.append(batch)
    open_batch = build_batch(
        [Record(timestamp=100)], producer_id=8, producer_epoch=0, base_sequence=0, transactional=True
    )
    of.append(read_batch(open_batch))
    assert of.producers.oldest_timestamp() == 100
    of.producers.remove_expired(99)
    assert {each.producer_id for each in of.producers} == {7, 8}
    of.producers.remove_expired(100)
    assert {each.producer_id for each in of.producers} == {8}  # this producer has an open transaction
    assert of.producers.check(batch) == 0
