"""Internal topics of streams groups. The checks of a new topic: tests/mockbroker/broker/handlers/test_create_topics.py."""

from __future__ import annotations

from dataclasses import dataclass, field

from tools.broker_harness import BrokerHarness

from mockbroker.broker.topic_creation import CACHED_ERRORS, InternalTopicCreator


@dataclass(frozen=True)
class Topic:
    name: str
    partitions: int = 1
    replication_factor: int = 0
    configs: dict[str, str] = field(default_factory=dict)


def creator() -> tuple[InternalTopicCreator, BrokerHarness]:
    harness = BrokerHarness(topics={})
    broker = harness.broker
    return InternalTopicCreator(broker.cluster, broker.settings, broker.release), harness


def test_created_with_partitions_and_configurations() -> None:
    create, harness = creator()
    assert create.create([Topic("log", 3, 1, {"cleanup.policy": "compact"})], 0.0, 1.0) == {}
    topic = harness.broker.cluster.topics["log"]
    assert (len(topic.partitions), topic.configs) == (3, {"cleanup.policy": "compact"})


def test_a_failed_creation_is_repeated_when_its_error_expires() -> None:
    create, _ = creator()
    wrong = Topic("log", configs={"zz": "1"})
    assert create.create([wrong], 0.0, 10.0) == {}
    assert list(create.create([wrong], 9.9, 10.0)) == ["log"]
    assert create.create([wrong], 10.0, 10.0) == {}


def test_the_number_of_kept_errors_is_limited() -> None:
    create, _ = creator()
    wrong = [Topic(f"log-{number}", replication_factor=5) for number in range(CACHED_ERRORS + 5)]
    create.create(wrong, 0.0, 10.0)
    assert len(create.create(wrong, 1.0, 10.0)) == CACHED_ERRORS
