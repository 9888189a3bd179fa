"""Real clients and the partition logs: all ways to produce, to find an offset, and to read."""

from __future__ import annotations

import pytest
from interop.adapters import ADAPTERS, Adapter, Kcat
from interop.raw import Connection
from interop.stage import FAMILIES, MARKS, Stage

from kwire.messages.fetch import FetchRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.list_offsets import ListOffsetsRequest
from kwire.messages.produce import ProduceRequest
from kwire.records.batch import Record, build_batch, read_batch
from kwire.records.compression import NAMES

pytestmark = MARKS

VALUES = [f"value-{number}-{'x' * 50}" for number in range(20)]
RECORDS = list(enumerate(VALUES))
NOT_LEADER, NOT_COORDINATOR = 6, 16
EVERY_CODEC = ("confluent-kafka", "kcat", "java", "franz-go")  # the others need additional packages for these


@pytest.fixture
def client(stage: Stage, family: str) -> Adapter:
    return ADAPTERS[family](stage.cluster.bootstrap_servers)


@pytest.mark.scenario("acks={acks}")
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(client: Adapter, acks: str) -> None:
    client.produce("orders", {0: VALUES}, acks=acks)
    assert client.read("orders", 0, 0, len(VALUES)) == RECORDS


@pytest.mark.scenario("idempotent producer")
def test_idempotent_producer(client: Adapter) -> None:
    client.produce("orders", {0: VALUES, 1: VALUES}, idempotent=True)
    assert client.read("orders", 1, 0, len(VALUES)) == RECORDS


@pytest.mark.scenario("{codec}")
@pytest.mark.parametrize(
    ("family", "codec"),
    [(family, "gzip") for family in FAMILIES]
    + [(family, codec) for family in EVERY_CODEC for codec in ("snappy", "lz4", "zstd")],
)
def test_compressed_batches_pass_as_they_are(stage: Stage, family: str, codec: str) -> None:
    client = ADAPTERS[family](stage.cluster.bootstrap_servers)
    client.produce("orders", {0: VALUES}, compression=codec)
    assert client.read("orders", 0, 0, len(VALUES)) == RECORDS
    assert stored_codecs(stage) == {codec}


def stored_codecs(stage: Stage) -> set[str]:
    """Return the codecs of the batches in partition 0, as Fetch returns them."""
    partition = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchRequest.Topic(topic="orders", partitions=[partition])
    with Connection(stage.cluster) as broker:
        records = broker.ask(FetchRequest(max_wait_ms=0, topics=[topic]), 11).responses[0].partitions[0].records
    found, at = set(), 0
    while at < len(records):
        batch = read_batch(records, at)
        found.add(NAMES[batch.codec])
        at += len(batch.data)
    return found


@pytest.mark.scenario("seeks; beginning and end offsets")
def test_seek_and_ends(client: Adapter) -> None:
    assert client.ends("orders", 2) == (0, 0)
    client.produce("orders", {2: VALUES})
    assert client.ends("orders", 2) == (0, len(VALUES))
    assert client.read("orders", 2, 15, 5) == RECORDS[15:]


@pytest.mark.scenario("offset by time")
def test_offset_by_time(stage: Stage, family: str) -> None:
    writer = ADAPTERS["confluent-kafka"](stage.cluster.bootstrap_servers)  # kcat cannot set the timestamp of a record
    for timestamp in (1_000_000, 2_000_000, 3_000_000):
        writer.produce("orders", {0: ["a", "b"]}, timestamp=timestamp)
    client = ADAPTERS[family](stage.cluster.bootstrap_servers)
    requested = (0, 1_000_001, 2_000_000, 2_500_000)
    assert [client.at("orders", 0, timestamp) for timestamp in requested] == [0, 2, 2, 4]
    the_end = 6 if family in ("confluent-kafka", "franz-go", "kafkajs") else -1  # these return the end offset for -1
    assert client.at("orders", 0, 3_000_001) in (the_end, -1)


@pytest.mark.scenario("topic auto-creation")
def test_topic_on_first_use(client: Adapter) -> None:
    client.produce("made.by.writing", {0: VALUES})
    assert client.read("made.by.writing", 0, 0, len(VALUES)) == RECORDS


@pytest.mark.scenario("create topic")
@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "kcat"])
def test_create_topic(client: Adapter, stage: Stage) -> None:
    client.create_topic("made", 4)
    assert Kcat(stage.cluster.bootstrap_servers).topics()["made"] == 4
    client.produce("made", {3: VALUES})
    assert client.read("made", 3, 0, len(VALUES)) == RECORDS


@pytest.mark.scenario("begins at the {reset} offset")
@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_where_a_new_group_begins(stage: Stage, family: str, reset: str) -> None:
    writer = ADAPTERS["confluent-kafka"](stage.cluster.bootstrap_servers)
    writer.produce("orders", {0: ["old"]})
    member = stage.joined(family, reset=reset)
    if reset == "earliest":
        stage.wait_values(["old"], member)
        return
    sent = 0  # no client reports that it has reached the end, so write until it has read a record
    while not member.records:
        writer.produce("orders", {0: ["new"]})
        sent += 1
        assert sent < 100, stage.report("never read anything")
        stage.wait_a_moment(lambda: member.records)
    assert set(member.values) == {"new"}


@pytest.mark.scenario("three brokers")
def test_three_brokers(wide_stage: Stage, family: str) -> None:
    """From one bootstrap broker, a client finds the leader of each partition and the coordinator of each group."""
    first_node = wide_stage.cluster.nodes[0]
    bootstrap = f"{first_node.host}:{first_node.port}"
    client = ADAPTERS[family](bootstrap)
    client.produce("orders", dict.fromkeys(range(wide_stage.partitions), VALUES))
    for partition in range(wide_stage.partitions):
        assert client.read("orders", partition, 0, len(VALUES)) == RECORDS
    for group in ("a", "b", "c"):  # in adjacent partitions of the offsets topic: each has another coordinator
        wide_stage.group = group
        member = wide_stage.joined(family, f"{family}-{group}", bootstrap=bootstrap)
        wide_stage.wait_values(VALUES * wide_stage.partitions, member)
        member.leave()


def test_the_wrong_broker(wide_stage: Stage) -> None:
    """One of three brokers leads a partition or coordinates a group; the others return the error for that."""
    batch = build_batch([Record(value=b"x")])
    write = ProduceRequest.Topic(name="orders", partition_data=[ProduceRequest.Topic.Partition(index=0, records=batch)])
    read = FetchRequest.Topic(
        topic="orders",
        partitions=[FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1000)],
    )
    look = ListOffsetsRequest.Topic(
        name="orders", partitions=[ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=-1)]
    )
    answers = []
    for node in wide_stage.cluster.nodes:
        with Connection(wide_stage.cluster, node.node_id) as broker:
            produced = broker.ask(ProduceRequest(acks=1, timeout_ms=1000, topic_data=[write]), 9)
            fetched = broker.ask(FetchRequest(max_wait_ms=0, topics=[read]), 11)
            response = broker.ask(ListOffsetsRequest(replica_id=-1, topics=[look]), 5)
            beaten = broker.ask(HeartbeatRequest(group_id="unknown", generation_id=1, member_id="unknown"), 4)
        answers.append(
            (
                produced.responses[0].partition_responses[0].error_code,
                fetched.responses[0].partitions[0].error_code,
                response.topics[0].partitions[0].error_code,
                beaten.error_code,
            )
        )
    produced, fetched, response, beaten = (sorted(column) for column in zip(*answers, strict=True))
    assert produced == fetched == response == [0, NOT_LEADER, NOT_LEADER]
    assert beaten == [NOT_COORDINATOR, NOT_COORDINATOR, 25]
