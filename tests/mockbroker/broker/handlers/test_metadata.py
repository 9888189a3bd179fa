"""Metadata: all topics, named topics, topic ids and auto-created topics."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.metadata import MetadataRequest

ZERO = UUID(int=0)
VERSIONS = range(14)


@pytest.fixture
def harness() -> BrokerHarness:
    return BrokerHarness(brokers=3, topics={"t": 2})


def ask(harness: BrokerHarness, version: int, *names: str, **fields: Any) -> Any:
    topics = [MetadataRequest.Topic(name=name) for name in names]
    return harness.ask(MetadataRequest(**{"topics": topics} | fields), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_topic(harness, version):
    response = ask(harness, version, "t")
    assert [(broker.node_id, broker.host, broker.port) for broker in response.brokers] == [
        (number, "127.0.0.1", 9_000 + number) for number in range(3)
    ]
    assert response.controller_id == (0 if version >= 1 else -1)
    assert response.cluster_id == (harness.broker.cluster.cluster_text if version >= 2 else None)
    (topic,) = response.topics
    assert (topic.error_code, topic.name) == (E.NONE, "t")
    assert topic.topic_id == (harness.topic_id("t") if version >= 10 else ZERO)
    leaders = [harness.leader("t", index) for index in range(2)]
    assert [(p.partition_index, p.leader_id, p.replica_nodes, p.isr_nodes) for p in topic.partitions] == [
        (index, leader, [leader], [leader]) for index, leader in enumerate(leaders)
    ]
    assert {p.leader_epoch for p in topic.partitions} == {0 if version >= 7 else -1}


@pytest.mark.parametrize("version", VERSIONS)
def test_all_topics(harness, version):
    response = ask(harness, version, topics=[] if version == 0 else None)
    assert {topic.name: len(topic.partitions) for topic in response.topics} == {"__consumer_offsets": 50, "t": 2}
    if version >= 1:
        assert [topic.name for topic in response.topics if topic.is_internal] == ["__consumer_offsets"]


@pytest.mark.parametrize("version", range(1, 14))
def test_no_topics(harness, version):
    response = ask(harness, version)
    assert (response.topics, len(response.brokers)) == ([], 3)


@pytest.mark.parametrize("version", VERSIONS)
def test_auto_created_topic_exists_in_the_next_response(harness, version):
    assert [topic.error_code for topic in ask(harness, version, "new").topics] == [E.UNKNOWN_TOPIC_OR_PARTITION]
    (topic,) = ask(harness, version, "new").topics
    assert (topic.error_code, len(topic.partitions)) == (E.NONE, 1)


@pytest.mark.parametrize("version", range(4, 14))
def test_no_auto_creation_if_the_client_forbids_it(harness, version):
    response = ask(harness, version, "new", allow_auto_topic_creation=False)
    assert [topic.error_code for topic in response.topics] == [E.UNKNOWN_TOPIC_OR_PARTITION]
    assert "new" not in harness.broker.cluster.topics


@pytest.mark.parametrize("version", [0, 4, 13])
def test_no_auto_creation_if_the_broker_forbids_it(version):
    harness = BrokerHarness(config={"auto.create.topics.enable": False})
    ask(harness, version, "new")
    assert "new" not in harness.broker.cluster.topics


def test_no_auto_creation_of_a_colliding_topic(harness):
    ask(harness, 9, "a.b")
    for _ in range(2):
        (topic,) = ask(harness, 9, "a_b").topics
        assert topic.error_code == E.UNKNOWN_TOPIC_OR_PARTITION
    assert "a_b" not in harness.broker.cluster.topics


def test_auto_created_topics_have_broker_defaults():
    harness = BrokerHarness(brokers=3, config={"num.partitions": 4, "default.replication.factor": 2})
    ask(harness, 9, "new")
    (topic,) = ask(harness, 9, "new").topics
    assert [len(partition.replica_nodes) for partition in topic.partitions] == [2, 2, 2, 2]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["bad/name", "", ".", "..", "x" * 250])
def test_invalid_topic_names(harness, version, name):
    (topic,) = ask(harness, version, name).topics
    assert (topic.error_code, topic.name, topic.partitions) == (E.INVALID_TOPIC_EXCEPTION, name, [])
    assert name not in harness.broker.cluster.topics


@pytest.mark.parametrize("version", [12, 13])
def test_topic_by_id(harness, version):
    unknown = UUID(int=999_999)
    requested = [MetadataRequest.Topic(topic_id=which, name=None) for which in (harness.topic_id("t"), unknown)]
    cached, missing = harness.ask(MetadataRequest(topics=requested), version).topics
    assert (cached.error_code, cached.name, len(cached.partitions)) == (E.NONE, "t", 2)
    assert (missing.error_code, missing.name, missing.topic_id) == (E.UNKNOWN_TOPIC_ID, None, unknown)


@pytest.mark.parametrize("version", [12, 13])
def test_neither_id_nor_name(harness, version):
    """As in Kafka, the error is UNKNOWN_SERVER_ERROR."""
    requested = [MetadataRequest.Topic(name=None), MetadataRequest.Topic(name="t")]
    response = harness.ask(MetadataRequest(topics=requested), version)
    assert [(topic.error_code, topic.name) for topic in response.topics] == [
        (E.UNKNOWN_SERVER_ERROR, name) for name in ("", "t")
    ]
    assert (response.brokers, response.error_code) == ([], E.UNKNOWN_SERVER_ERROR if version == 13 else E.NONE)


def test_topic_ids_take_precedence_over_names(harness):
    requested = [MetadataRequest.Topic(topic_id=harness.topic_id("t"), name=None), MetadataRequest.Topic(name="u")]
    assert [topic.name for topic in harness.ask(MetadataRequest(topics=requested), 12).topics] == ["t"]


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("name", [None, "t"])
def test_v10_and_v11_reject_topic_ids(harness, version, name):
    requested = [MetadataRequest.Topic(topic_id=harness.topic_id("t"), name=name), MetadataRequest.Topic(name="t")]
    response = harness.ask(MetadataRequest(topics=requested), version)
    assert [(topic.error_code, topic.name) for topic in response.topics] == [
        (E.INVALID_REQUEST, name or ""),
        (E.INVALID_REQUEST, "t"),
    ]
    assert response.brokers == []


def test_cached_response_is_replaced_after_a_change(harness):
    def sizes() -> dict[str, int]:
        return {topic.name: len(topic.partitions) for topic in ask(harness, 9, topics=None).topics}

    cluster = harness.broker.cluster
    before = sizes()
    assert sizes() == before
    cluster.create_topic("new", cluster.place(3, 1))
    assert sizes() == before | {"new": 3}
    cluster.add_partitions(cluster.topics["new"], [[0], [1]])
    assert sizes() == before | {"new": 5}
    cluster.delete_topic(cluster.topics["new"])
    assert sizes() == before


def test_different_requests_have_different_responses(harness):
    cached = [ask(harness, version, *names) for version in (8, 9) for names in (["t"], ["u", "t"], ["t", "u"], [])]
    again = [ask(harness, version, *names) for version in (8, 9) for names in (["t"], ["u", "t"], ["t", "u"], [])]
    assert [[topic.name for topic in response.topics] for response in again] == [["t"], ["u", "t"], ["t", "u"], []] * 2
    assert again[0] == cached[0]
    assert ask(harness, 9, "v", allow_auto_topic_creation=False).topics[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION
    assert "v" not in harness.broker.cluster.topics
    ask(harness, 9, "v")
    assert "v" in harness.broker.cluster.topics


def test_cached_responses_are_limited(harness):
    for number in range(3_000):
        ask(harness, 9, "t", *[f"{'?' * 300}{number}"] * 20, allow_auto_topic_creation=False)
    cache = harness.broker.metadata_responses
    assert 0 < len(cache) < 3_000


NOT_ASKED = -(2**31)
TOPIC_BITS, CLUSTER_BITS = 3576, 8096  # the values of Kafka 4.2.0 and 3.9.1 without an authorizer


@pytest.mark.parametrize("version", range(8, 14))
def test_authorized_operations_if_requested(harness, version):
    """Requests that differ only in these flags do not share a cached response."""
    cluster = {"include_cluster_authorized_operations": True} if version <= 10 else {}
    for requested in (False, True):
        flags = {"include_topic_authorized_operations": True} | cluster if requested else {}
        response = ask(harness, version, "t", "a/b", **flags)
        bits = TOPIC_BITS if requested else NOT_ASKED
        assert [topic.topic_authorized_operations for topic in response.topics] == [bits, bits]
        assert response.cluster_authorized_operations == (CLUSTER_BITS if requested and cluster else NOT_ASKED)


def test_unknown_topic_id_has_no_authorized_operations(harness):
    requested_topics = [MetadataRequest.Topic(name=None, topic_id=UUID(int=99))]
    response = ask(harness, 12, topics=requested_topics, include_topic_authorized_operations=True)
    assert [topic.topic_authorized_operations for topic in response.topics] == [NOT_ASKED]
