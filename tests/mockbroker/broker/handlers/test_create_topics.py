"""CreateTopics: created topics, errors and their messages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.create_topics import CreateTopicsRequest
from kwire.messages.delete_topics import DeleteTopicsRequest
from mockbroker.base.effects import Call, Client, Ticket, Work
from mockbroker.base.release import RELEASES
from mockbroker.base.settings import MAX_PARTITIONS
from mockbroker.broker.handlers import create_topics
from mockbroker.lab.conform.conversation import load
from mockbroker.topics.configs import SINCE_4_0

Topic = CreateTopicsRequest.Topic
VERSIONS = range(2, 8)
CONVERSATIONS = Path(__file__).parents[4] / "fixtures" / "conversations" / "4.2.0"


@pytest.fixture
def harness() -> BrokerHarness:
    return BrokerHarness(brokers=3, topics={"old": 1})


def new_topic(name: str = "new", partitions: int = 2, replicas: int = 1, **fields: Any) -> Topic:
    return Topic(name=name, num_partitions=partitions, replication_factor=replicas, **fields)


def assigned(*brokers: list[int], first: int = 0) -> Topic:
    lists = [Topic.Assignment(partition_index=first + n, broker_ids=ids) for n, ids in enumerate(brokers)]
    return new_topic(partitions=-1, replicas=-1, assignments=lists)


def create(harness: BrokerHarness, version: int, *topics: Topic, **fields: Any) -> Any:
    return harness.ask(CreateTopicsRequest(topics=list(topics), **fields), version).topics


@pytest.mark.parametrize("version", VERSIONS)
def test_topic_is_created(harness, version):
    (response,) = create(harness, version, new_topic(configs=[Topic.Config(name="retention.ms", value="5")]))
    assert (response.name, response.error_code, response.error_message) == ("new", E.NONE, None)
    created = harness.broker.cluster.topics["new"]
    assert [len(partition.replicas) for partition in created.partitions] == [1, 1]
    assert created.configs == {"retention.ms": "5"}
    if version >= 5:
        assert (response.num_partitions, response.replication_factor) == (2, 1)
        returned = {config.name: (config.value, config.config_source) for config in response.configs}
        assert returned.keys() == SINCE_4_0.keys()
        assert (returned.pop("retention.ms"), returned.pop("min.insync.replicas")) == (("5", 1), ("1", 3))
        assert {source for _, source in returned.values()} == {5}
    if version >= 7:
        assert response.topic_id == created.topic_id


@pytest.mark.parametrize("version", VERSIONS)
def test_validate_only(harness, version):
    (response,) = create(harness, version, new_topic(), validate_only=True)
    assert response.error_code == E.NONE
    assert (response.topic_id != UUID(int=0)) is (version >= 7)  # as in Kafka, although no topic has the returned id
    assert "new" not in harness.broker.cluster.topics


REFUSED = [
    pytest.param(new_topic("old"), E.TOPIC_ALREADY_EXISTS, id="topic exists"),
    pytest.param(new_topic("a/b"), E.INVALID_TOPIC_EXCEPTION, id="name with a slash"),
    pytest.param(new_topic(".."), E.INVALID_TOPIC_EXCEPTION, id="name .."),
    pytest.param(new_topic(""), E.INVALID_TOPIC_EXCEPTION, id="empty name"),
    pytest.param(new_topic("x" * 250), E.INVALID_TOPIC_EXCEPTION, id="name of 250 characters"),
    pytest.param(new_topic("x" * 32_767), E.INVALID_TOPIC_EXCEPTION, id="name of 32767 characters"),
    pytest.param(new_topic(partitions=0), E.INVALID_PARTITIONS, id="no partitions"),
    pytest.param(new_topic(partitions=-2), E.INVALID_PARTITIONS, id="negative number of partitions"),
    pytest.param(new_topic(partitions=2**31 - 1), E.POLICY_VIOLATION, id="too many partitions"),
    pytest.param(new_topic(replicas=0), E.INVALID_REPLICATION_FACTOR, id="replication factor 0"),
    pytest.param(new_topic(replicas=4), E.INVALID_REPLICATION_FACTOR, id="more than brokers"),
    pytest.param(new_topic(configs=[Topic.Config(name="x")]), E.INVALID_CONFIG, id="unknown config"),
    pytest.param(
        new_topic(configs=[Topic.Config(name="retention.ms", value="-5")]), E.INVALID_CONFIG, id="out of range"
    ),
    pytest.param(
        new_topic(configs=[Topic.Config(name="cleanup.policy", value="x")]),
        E.INVALID_CONFIG,
        id="unknown cleanup.policy",
    ),
    pytest.param(
        new_topic(configs=[Topic.Config(name="retention.ms", value=None)]), E.INVALID_CONFIG, id="null config"
    ),
    pytest.param(
        new_topic(configs=[Topic.Config(name="retention.ms", value="9" * 32_000)]), E.INVALID_CONFIG, id="32,000 digits"
    ),
    pytest.param(new_topic(configs=[Topic.Config(name="x" * 32_767)]), E.INVALID_CONFIG, id="unknown config, long"),
    pytest.param(assigned([0], first=1), E.INVALID_REPLICA_ASSIGNMENT, id="partitions not from 0"),
    pytest.param(assigned([0], [1, 2]), E.INVALID_REPLICA_ASSIGNMENT, id="different numbers of replicas"),
    pytest.param(assigned([0, 0]), E.INVALID_REPLICA_ASSIGNMENT, id="duplicate broker"),
    pytest.param(assigned([9]), E.INVALID_REPLICA_ASSIGNMENT, id="unknown broker"),
    pytest.param(assigned([]), E.INVALID_REPLICA_ASSIGNMENT, id="no brokers"),
    pytest.param(
        new_topic(assignments=[Topic.Assignment(partition_index=0, broker_ids=[0])]),
        E.INVALID_REQUEST,
        id="assignment and partition count",
    ),
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("topic", "error"), REFUSED)
def test_rejected(harness, version, topic, error):
    before = set(harness.broker.cluster.topics)
    (response,) = create(harness, version, topic)
    assert (response.name, response.error_code) == (topic.name, error)
    assert response.error_message
    assert set(harness.broker.cluster.topics) == before


def test_broker_defaults():
    harness = BrokerHarness(brokers=3, config={"num.partitions": 5, "default.replication.factor": 2})
    create(harness, 5, new_topic(partitions=-1, replicas=-1))
    created = harness.broker.cluster.topics["new"].partitions
    assert [len(partition.replicas) for partition in created] == [2] * 5


def test_manual_assignment(harness):
    create(harness, 5, assigned([2, 0], [1, 2]))
    assert [partition.replicas for partition in harness.broker.cluster.topics["new"].partitions] == [[2, 0], [1, 2]]


def test_duplicate_name_is_rejected_once(harness):
    responses = create(harness, 5, new_topic("a"), new_topic("b"), new_topic("a"))
    assert [(response.name, response.error_code) for response in responses] == [("a", E.INVALID_REQUEST), ("b", E.NONE)]
    assert "a" not in harness.broker.cluster.topics
    assert "b" in harness.broker.cluster.topics


def test_no_topics(harness):
    assert create(harness, 5) == []


def test_partitions_of_a_cluster_are_limited():
    harness = BrokerHarness(topics={"a": MAX_PARTITIONS - 59})  # the offsets topic has 50
    responses = [create(harness, 7, new_topic(name, partitions=5))[0].error_code for name in ("b", "c")]
    assert responses == [E.NONE, E.INVALID_PARTITIONS]
    assert "c" not in harness.broker.cluster.topics
    harness.ask(DeleteTopicsRequest(topic_names=["b"], timeout_ms=1_000), 4)
    assert create(harness, 7, new_topic("c", partitions=5))[0].error_code == E.NONE


def test_colliding_names_are_rejected(harness):
    create(harness, 7, new_topic("a.b_c"))
    (response,) = create(harness, 7, new_topic("a_b.c"))
    assert (response.error_code, response.error_message) == (
        E.INVALID_TOPIC_EXCEPTION,
        "Topic 'a_b.c' collides with existing topic: a.b_c",
    )
    cluster = harness.broker.cluster
    cluster.delete_topic(cluster.topics["a.b_c"])
    (response,) = create(harness, 7, new_topic("a_b.c"))
    assert response.error_code == E.NONE


@pytest.mark.parametrize(("name", "accepted"), [("3.9", True), ("4.2", False)])
def test_configs_are_those_of_the_release(name, accepted):
    harness = BrokerHarness(brokers=1, release=RELEASES[name])
    config = Topic.Config(name="message.downconversion.enable", value="false")
    (response,) = create(harness, 7, new_topic(configs=[config]))
    assert response.error_code == (E.NONE if accepted else E.INVALID_CONFIG)
    (response,) = create(harness, 7, new_topic("small", configs=[Topic.Config(name="segment.bytes", value="14")]))
    assert response.error_code == (E.NONE if accepted else E.INVALID_CONFIG)


class Watched(list[Topic]):
    """A list that counts how often it is read."""

    reads = 0

    def __iter__(self) -> Iterator[Topic]:
        self.reads += 1
        return super().__iter__()


@pytest.mark.parametrize(("size", "reads"), [(3, 0), (4, 3)])
def test_many_topics_are_counted_in_a_slice_of_their_own(harness, size, reads):
    """The slice in which the request is decoded does not read its topics."""
    harness.broker.slice_size = size
    topics = Watched([new_topic(name) for name in ("a", "a", "b", "b")])
    call = Call(Ticket(1, 1, 19, 2), Client(0, "c", "/h"), CreateTopicsRequest(topics=topics), b"")
    effects = create_topics.handle(harness.broker, call, 0.0)
    assert (isinstance(effects[0], Work), topics.reads) == (not reads, reads)


def test_the_response_has_every_configuration_of_kafka(harness):
    """The response includes those that the request does not set, as in the conversation ``elections``."""
    recorded = next(
        step.fields["topics"][0]["configs"]
        for step in load(CONVERSATIONS / "elections.json.gz").steps
        if step.event == "response" and step.api == "CreateTopics"
    )
    (created,) = create(harness, 7, new_topic())
    assert [config.name for config in created.configs] == [config["name"] for config in recorded]


@pytest.mark.parametrize("version", [2, 7])
@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_expired_request_creates_nothing(harness, timeout_ms, validate_only, version):
    topics = [Topic(name=name, num_partitions=1, replication_factor=1) for name in ("new", "bad name", "d", "d")]
    results = create(harness, version, *topics, timeout_ms=timeout_ms, validate_only=validate_only)
    expected = [(name, E.REQUEST_TIMED_OUT, None) for name in ("new", "bad name", "d", "d")]
    assert [(each.name, each.error_code, each.error_message) for each in results] == expected
    assert "new" not in harness.broker.cluster.topics


def test_expired_request_of_duplicates_alone(harness):
    topics = [Topic(name="d", num_partitions=1, replication_factor=1)] * 2
    assert [each.error_code for each in create(harness, 7, *topics, timeout_ms=0)] == [E.INVALID_REQUEST]
    assert create(harness, 7, timeout_ms=-1) == []
