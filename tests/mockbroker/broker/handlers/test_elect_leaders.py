"""ElectLeaders."""

from __future__ import annotations

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.elect_leaders import ElectLeadersRequest

Place = ElectLeadersRequest.TopicPartition


@pytest.mark.parametrize("version", [0, 1, 2])
def test_election_not_needed(version):
    partitions = [Place(topic="t", partitions=[1, 0, 9]), Place(topic="no-such-topic", partitions=[0])]
    response = BrokerHarness().ask(ElectLeadersRequest(topic_partitions=partitions), version)
    assert [
        (topic.topic, [(each.partition_id, each.error_code) for each in topic.partition_result])
        for topic in response.replica_election_results
    ] == [
        ("t", [(1, E.ELECTION_NOT_NEEDED), (0, E.ELECTION_NOT_NEEDED), (9, E.UNKNOWN_TOPIC_OR_PARTITION)]),
        ("no-such-topic", [(0, E.UNKNOWN_TOPIC_OR_PARTITION)]),
    ]


def test_all_partitions_omit_those_without_election():
    response = BrokerHarness(topics={"t": 2, "u": 1}).ask(ElectLeadersRequest(topic_partitions=None), 2)
    assert {topic.topic: topic.partition_result for topic in response.replica_election_results} == {
        "__consumer_offsets": [],
        "t": [],
        "u": [],
    }


@pytest.mark.parametrize("timeout_ms", [0, -1])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_expired_request(version, timeout_ms):
    harness = BrokerHarness()
    partitions = [Place(topic="t", partitions=[0]), Place(topic="no-such-topic", partitions=[0])]
    response = harness.ask(ElectLeadersRequest(topic_partitions=partitions, timeout_ms=timeout_ms), version)
    assert response.error_code == (E.REQUEST_TIMED_OUT if version else E.NONE)
    results = [
        (topic.topic, each.error_code) for topic in response.replica_election_results for each in topic.partition_result
    ]
    assert results == [("t", E.REQUEST_TIMED_OUT), ("no-such-topic", E.REQUEST_TIMED_OUT)]
    of_all = harness.ask(ElectLeadersRequest(topic_partitions=None, timeout_ms=timeout_ms), 2)
    assert (of_all.error_code, of_all.replica_election_results) == (E.REQUEST_TIMED_OUT, [])
    assert harness.ask(ElectLeadersRequest(topic_partitions=[], timeout_ms=timeout_ms), 2).error_code == E.NONE


@pytest.mark.parametrize(("election_type", "timeout_ms"), [(0, 0), (-1, 1000), (2, 0)])
def test_no_partitions_are_no_error(election_type, timeout_ms):
    request = ElectLeadersRequest(election_type=election_type, topic_partitions=[], timeout_ms=timeout_ms)
    response = BrokerHarness().ask(request, 2)
    assert (response.error_code, response.replica_election_results) == (E.NONE, [])
