"""Real administrators: each operation of each client, on three brokers with an active group."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from interop.adapters import ADAPTERS
from interop.admins import ADMINS, Admin
from interop.raw import Connection
from interop.stage import CONFIG, MARKS, Stage, stage_of
from interop.transformers import TransactionalProducer

from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from mockbroker import run_cluster

pytestmark = MARKS


def offering(call: str) -> pytest.MarkDecorator:
    """Return a mark with the clients that have this operation."""
    return pytest.mark.parametrize("family", [family for family, admin in ADMINS.items() if hasattr(admin, call)])


@pytest.fixture(scope="module")
def at_work() -> Iterator[Stage]:
    """Yield a stage with three brokers; ``worker`` is alone in group ``players`` and owns all of ``orders``."""
    topics = {Stage.topic: Stage.partitions}
    with run_cluster(brokers=3, topics=topics, config=CONFIG) as cluster, stage_of(cluster) as stage:
        stage.joined("confluent-kafka", "worker")
        yield stage


@pytest.fixture
def admin(at_work: Stage, family: str) -> Admin:
    result: Admin = ADMINS[family](at_work.cluster.bootstrap_servers)
    return result


@pytest.fixture
def topic(at_work: Stage, family: str, request: pytest.FixtureRequest) -> str:
    """Return a unique name for a topic or a group of this test."""
    return f"{family}.{request.node.originalname}"


@pytest.fixture
def idle(at_work: Stage, topic: str) -> str:
    """Create a group without members, with offsets 11 and 12 for partitions 1 and 2 of ``orders``; return its name."""
    partitions = [OffsetCommitRequest.Topic.Partition(partition_index=n, committed_offset=10 + n) for n in (1, 2)]
    commit = OffsetCommitRequest(
        group_id=topic, topics=[OffsetCommitRequest.Topic(name="orders", partitions=partitions)]
    )
    with Connection(at_work.cluster) as broker:
        node = broker.ask(FindCoordinatorRequest(coordinator_keys=[topic]), 4).coordinators[0].node_id
    with Connection(at_work.cluster, node) as broker:
        answer = broker.ask(commit, 8)
    assert [partition.error_code for partition in answer.topics[0].partitions] == [0, 0]
    return topic


COMMITTED = {("orders", 1): 11, ("orders", 2): 12}


def partitions_of(stage: Stage, topic: str) -> int:
    """Return the number of partitions of a topic; 0 if there is no such topic."""
    with Connection(stage.cluster) as broker:
        request = MetadataRequest(topics=[MetadataRequest.Topic(name=topic)], allow_auto_topic_creation=False)
        return len(broker.ask(request, 12).topics[0].partitions)


@pytest.mark.scenario("create topic")
@offering("create_topic")
def test_create_topic(at_work: Stage, admin: Admin, topic: str) -> None:
    admin.create_topic(topic, 4, replicas=3)
    assert partitions_of(at_work, topic) == 4


@pytest.mark.scenario("delete topic")
@offering("delete_topic")
def test_delete_topic(at_work: Stage, admin: Admin, topic: str) -> None:
    admin.create_topic(topic, 1)
    admin.delete_topic(topic)
    assert partitions_of(at_work, topic) == 0


@pytest.mark.scenario("create partitions")
@offering("create_partitions")
def test_create_partitions(at_work: Stage, admin: Admin, topic: str) -> None:
    admin.create_topic(topic, 1)
    admin.create_partitions(topic, 4)
    assert partitions_of(at_work, topic) == 4


@pytest.mark.scenario("list topics")
@offering("partitions")
def test_list_topics(admin: Admin) -> None:
    assert admin.partitions()["orders"] == Stage.partitions


@pytest.mark.scenario("list offsets")
@offering("ends")
def test_list_offsets(at_work: Stage, admin: Admin, topic: str) -> None:
    ADAPTERS["confluent-kafka"](at_work.cluster.bootstrap_servers).produce(topic, {0: ["a", "b", "c"]})
    assert admin.ends(topic, 0) == (0, 3)


@offering("set_broker_config")
def test_alter_configs_of_a_broker(admin: Admin) -> None:
    node = admin.nodes()[0]
    admin.set_broker_config(node, "log.cleaner.delete.retention.ms", "12345")
    assert ("log.cleaner.delete.retention.ms", "12345") in admin.broker_configs(node).items()
    assert admin.configs("orders")["max.message.bytes"] == "1048588"


@pytest.mark.scenario("describe configs")
@offering("configs")
def test_describe_configs(admin: Admin) -> None:
    assert {("cleanup.policy", "delete"), ("max.message.bytes", "1048588")} <= set(admin.configs("orders").items())


@offering("set_config")
def test_alter_configs(admin: Admin, topic: str) -> None:
    admin.create_topic(topic, 1)
    admin.set_config(topic, "retention.ms", "12345")
    assert ("retention.ms", "12345") in admin.configs(topic).items()


@offering("delete_records")
def test_delete_records(at_work: Stage, admin: Admin, family: str, topic: str) -> None:
    admin.create_topic(topic, 1)
    ADAPTERS[family](at_work.cluster.bootstrap_servers).produce(topic, {0: ["a", "b", "c"]})
    assert admin.delete_records(topic, 0, 2) == 2
    assert admin.ends(topic, 0) == (2, 3)


@offering("has_acls")
def test_no_authorizer(admin: Admin) -> None:
    assert not admin.has_acls()


@pytest.mark.scenario("describe cluster")
@offering("nodes")
def test_describe_cluster(admin: Admin) -> None:
    assert sorted(admin.nodes()) == [0, 1, 2]


@pytest.mark.scenario("list groups")
@offering("groups")
def test_list_groups(admin: Admin, idle: str) -> None:
    assert {"players", idle} <= set(admin.groups())


@pytest.mark.scenario("describe group")
@offering("members")
def test_describe_group(at_work: Stage, admin: Admin) -> None:
    assert admin.members("players") == ("Stable", {"worker": at_work.all_partitions()})


@pytest.mark.scenario("list group offsets")
@offering("committed")
def test_list_group_offsets(admin: Admin, idle: str) -> None:
    assert admin.committed(idle) == COMMITTED


@pytest.mark.scenario("alter group offsets")
@offering("commit_for")
def test_alter_group_offsets(admin: Admin, idle: str) -> None:
    admin.commit_for(idle, "orders", 1, 5)
    assert admin.committed(idle) == {**COMMITTED, ("orders", 1): 5}


@pytest.mark.scenario("delete group offsets")
@offering("delete_offset")
def test_delete_group_offsets(admin: Admin, idle: str) -> None:
    admin.delete_offset(idle, "orders", 1)
    assert admin.committed(idle) == {("orders", 2): 12}


@pytest.mark.scenario("delete group")
@offering("delete_group")
def test_delete_group(admin: Admin, idle: str) -> None:
    admin.delete_group(idle)
    assert idle not in admin.groups()


@pytest.fixture
def busy(at_work: Stage, admin: Admin, topic: str) -> TransactionalProducer:
    """Create a topic, and a producer with the same transactional id that has written to it in an open transaction."""
    admin.create_topic(topic, 1)
    producer = TransactionalProducer(at_work.cluster.bootstrap_servers, topic)
    producer.begin(topic, ["pending"])
    return producer


@pytest.mark.scenario("list transactions")
@offering("transactions")
@pytest.mark.usefixtures("busy")
def test_list_transactions(admin: Admin, topic: str) -> None:
    assert admin.transactions()[topic] == "Ongoing"


@pytest.mark.scenario("describe transaction")
@offering("transaction")
def test_describe_transaction(admin: Admin, topic: str, busy: TransactionalProducer) -> None:
    assert admin.transaction(topic) == ("Ongoing", 60_000, [(topic, 0)])
    busy.end("commit")
    assert admin.transaction(topic) == ("CompleteCommit", 60_000, [])


@pytest.mark.scenario("describe producers")
@offering("producers")
def test_describe_producers(admin: Admin, topic: str, busy: TransactionalProducer) -> None:
    (before,) = admin.producers(topic, 0)
    assert before.start == 0
    busy.end("commit")
    (after,) = admin.producers(topic, 0)
    assert (after.producer_id, after.start) == (before.producer_id, -1)


@pytest.mark.scenario("abort transaction")
@offering("abort")
@pytest.mark.usefixtures("busy")
def test_abort_transaction(at_work: Stage, admin: Admin, topic: str) -> None:
    admin.abort(topic, 0, *admin.producers(topic, 0))
    at_work.cluster.produce(topic, ["later"], partition=0)
    reader = ADAPTERS["confluent-kafka"](at_work.cluster.bootstrap_servers)
    assert reader.read(topic, 0, 0, 1, committed=True) == [(2, "later")]


@pytest.mark.scenario("fence producers")
@offering("fence")
def test_fence_producers(admin: Admin, topic: str, busy: TransactionalProducer) -> None:
    from confluent_kafka import KafkaError, KafkaException

    admin.fence(topic)
    with pytest.raises(KafkaException) as refused:
        busy.end("commit")
    assert refused.value.args[0].code() == KafkaError._FENCED
    assert admin.transaction(topic)[0] == "Empty"  # the state after InitProducerId of a new producer
