"""DescribeLogDirs."""

from __future__ import annotations

from typing import Any

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.describe_log_dirs import DescribeLogDirsRequest
from kwire.records.batch import Record, build_batch, read_batch

Topic = DescribeLogDirsRequest.Topic
DATA = build_batch([Record(value=b"v")])


def sizes(response: Any) -> dict[tuple[str, int], int]:
    (log_dir,) = response.results
    assert log_dir.error_code == E.NONE
    return {
        (topic.name, each.partition_index): each.partition_size for topic in log_dir.topics for each in topic.partitions
    }


@pytest.mark.parametrize("version", range(1, 5))
def test_replicas_of_the_broker(version):
    harness = BrokerHarness(brokers=2, topics={"t": 2})
    log = harness.broker.cluster.topics["t"].partitions[0].log
    for _ in range(3):
        log.append(read_batch(DATA), 0)
    request = DescribeLogDirsRequest(topics=[Topic(topic="t", partitions=[0, 1, 9]), Topic(topic="u", partitions=[0])])
    leader = harness.leader("t", 0)
    assert sizes(harness.ask(request, version, node=leader)) == {("t", 0): 3 * len(DATA)}
    assert sizes(harness.ask(request, version, node=1 - leader)) == {("t", 1): 0}
    log.delete_before(1)
    everything = sizes(harness.ask(DescribeLogDirsRequest(topics=None), version, node=leader))
    assert everything["t", 0] == 2 * len(DATA)
    assert ("__consumer_offsets", 0) in everything or ("__consumer_offsets", 1) in everything
