"""Real clients and transactions: they consume, transform and produce exactly once, also after failures."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

import pytest
from interop.adapters import ADAPTERS
from interop.stage import CONFIG, CONSUMER, MARKS, Stage, stage_of
from interop.transformers import (
    HEARTBEAT_MS,
    OUTPUT,
    SESSION_MS,
    TRANSACTIONAL_ID,
    TRANSFORMERS,
    TransactionalProducer,
    Transformer,
    by_partition,
    done,
    transformer,
)

from mockbroker import run_cluster

pytestmark = MARKS
KIP_890 = ("java", "franz-go")  # clients that support KIP-890; the others use the earlier protocol of transactions
READERS = {  # the client that reads the output of each client; Python clients need only Python clients
    "kafka-python": "confluent-kafka",
    "confluent-kafka": "aiokafka",
    "aiokafka": "kafka-python",
    "java": "franz-go",
    "franz-go": "kafkajs",
    "kafkajs": "java",
}


def read_by_another(families: Iterable[str], in_long: Collection[str] = ()) -> pytest.MarkDecorator:
    """Return a mark with families, each with its reader as a required client. ``in_long``: in make test-long only."""
    marked = []
    for family in families:
        marks = [pytest.mark.clients(READERS[family]), *([pytest.mark.long] if family in in_long else [])]
        marked.append(pytest.param(family, marks=marks))
    return pytest.mark.parametrize("family", marked)


families = read_by_another(TRANSFORMERS)
PARTITIONS = 2
FENCED = "(?i)fenced|producer_?epoch"
LAST = "the last"  # the last record of each partition: a reader that returns it has read all records before it
TIMEOUT_MS = 1000
LONG_SESSION_MS = 30_000  # long enough for a commit that waits for slow markers on a slow machine


@contextmanager
def factory(brokers: int = 1, completion_ms: int = 0, as_version: str = "4.2") -> Iterator[Stage]:
    """Yield a stage with input and output topics of 2 partitions each, which soon aborts transactions that time out."""
    times = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
        "mockbroker.transaction.completion.ms": completion_ms,
        "group.consumer.session.timeout.ms": SESSION_MS,
        "group.consumer.heartbeat.interval.ms": HEARTBEAT_MS,
    }
    topics = {Stage.topic: PARTITIONS, OUTPUT: PARTITIONS}
    config = CONFIG | times
    with (
        run_cluster(brokers=brokers, topics=topics, config=config, as_version=as_version) as cluster,
        stage_of(cluster) as stage,
    ):
        stage.partitions = PARTITIONS
        yield stage


@pytest.fixture
def works() -> Iterator[Stage]:
    with factory() as stage:
        yield stage


@pytest.fixture
def slow_works() -> Iterator[Stage]:
    """Yield three brokers with delayed markers: a request that is too early gets CONCURRENT_TRANSACTIONS."""
    with factory(brokers=3, completion_ms=150) as stage:
        yield stage


def orders(stage: Stage, what: str, number: int = 6) -> list[str]:
    """Write new records to the input topic, and return their values."""
    values = [f"{what} {index}" for index in range(number)]
    stage.produce(values)
    return values


def check_output(stage: Stage, reader: str, committed: list[list[str]], uncommitted: list[list[str]]) -> None:
    """Check that the output has these batches of the input in this order, and the offsets after them are committed."""
    for partition in range(PARTITIONS):
        stage.cluster.produce(OUTPUT, [LAST], partition=partition)
    client = ADAPTERS[reader](stage.cluster.bootstrap_servers)
    for batches, only_committed in ((committed, True), (uncommitted, False)):
        for partition in range(PARTITIONS):
            expected = done([value for batch in batches for value in by_partition(stage, batch)[partition]])
            found = client.read(OUTPUT, partition, 0, len(expected) + 1, committed=only_committed)
            assert [value for _, value in found] == [*expected, LAST]
    per_partition = sum(len(batch) for batch in committed) // PARTITIONS
    assert stage.cluster.committed(stage.group) == dict.fromkeys(stage.all_partitions(), per_partition)


@pytest.mark.scenario("exactly-once loop with commits, an abort and a crash")
@families
def test_exactly_once(works: Stage, family: str) -> None:
    exactly_once(works, family, "classic")
    asked = {request.api for request in works.cluster.requests()}
    assert ("AddPartitionsToTxn" in asked) == (family not in KIP_890)


@pytest.mark.scenario("exactly-once loop as a member of the consumer protocol (KIP-848)")
@read_by_another(CONSUMER)
def test_exactly_once_by_the_consumer_protocol(works: Stage, family: str) -> None:
    exactly_once(works, family, "consumer")
    assert works.cluster.groups()[works.group].group_type == "consumer"


@read_by_another(KIP_890, in_long=KIP_890[1:])
def test_exactly_once_as_kafka_3_9(family: str) -> None:
    """Without the feature of KIP-890, the clients send AddPartitionsToTxn."""
    with factory(as_version="3.9") as stage:
        exactly_once(stage, family, "classic")
        assert stage.cluster.requests("AddPartitionsToTxn")


def exactly_once(stage: Stage, family: str, protocol: str) -> None:
    first = transformer(stage, family, "first", protocol=protocol, own_process=True)
    one = orders(stage, "one")
    first.take(len(one))
    first.end("commit")
    two = orders(stage, "two")
    first.take(len(two))
    first.end("abort")
    first.take(len(two))
    first.end("commit")
    three = orders(stage, "three")
    first.take(len(three))
    first.kill()
    second = transformer(stage, family, "second", protocol=protocol)
    second.take(len(three))
    second.end("commit")
    second.leave()
    assert {event.reason for event in stage.events("commit")} == {"a transaction was committed"}
    check_output(stage, READERS[family], [one, two, three], [one, two, two, three, three])


@read_by_another(TRANSFORMERS, in_long=("confluent-kafka", "aiokafka", "franz-go", "kafkajs"))
def test_exactly_once_while_markers_are_slow(slow_works: Stage, family: str) -> None:
    """Commits follow each other; a new producer starts while the open transaction of the old one is being aborted."""
    stage = slow_works
    first = transformer(stage, family, "first", session_ms=LONG_SESSION_MS, own_process=True)
    batches = [orders(stage, "one")]
    first.take(len(batches[0]))
    for name in ("two", "three"):
        batches.append(orders(stage, name))
        first.end("commit")
        first.take(len(batches[-1]))
    first.kill()
    (killed,) = stage.cluster.groups()[stage.group].members
    stage.cluster.evict(stage.group, killed.member_id, "it was killed")
    second = transformer(stage, family, "second", session_ms=LONG_SESSION_MS)
    second.take(len(batches[-1]))
    second.end("commit")
    second.leave()
    stage.wait("the last commit", lambda: committed(stage) == 3 * len(batches[0]))
    check_output(stage, READERS[family], batches, [*batches, batches[-1]])


def committed(stage: Stage) -> int:
    """Return the sum of the committed offsets of all partitions, from the journal."""
    newest: dict[tuple[str, int], int] = {}
    for event in stage.events("commit"):
        for topic, offsets in event.offsets.items():
            newest |= {(topic, index): offset for index, offset in offsets.items()}
    return sum(newest.values())


@pytest.mark.scenario("is fenced by a producer with the same transactional id")
@families
def test_zombie(works: Stage, family: str) -> None:
    stage = works
    first = transformer(stage, family, "first")
    one = orders(stage, "one")
    first.take(len(one))
    second = transformer(stage, family, "second")
    second.ready()
    assert re.search(FENCED, lost_when_it_commits(stage, first))
    stage.wait("the whole share for the second member", lambda: has_whole_share(stage, "second"))
    second.take(len(one))
    second.end("commit")
    second.leave()
    check_output(stage, READERS[family], [one], [one, one])


def has_whole_share(stage: Stage, client: str) -> bool:
    """Return whether a client has all partitions, or has not joined.

    If the group rebalances while it takes records, it gets the records of its first assignment twice.
    """
    return client not in {event.client for event in stage.events("join")} or stage.stable_with({client})


@pytest.mark.scenario("transaction times out")
@families
def test_timeout(works: Stage, family: str) -> None:
    stage = works
    first = transformer(stage, family, "first", timeout_ms=TIMEOUT_MS)
    one = orders(stage, "one")
    first.take(len(one))
    for partition in range(PARTITIONS):
        stage.cluster.produce(OUTPUT, ["later"], partition=partition)
        reader = ADAPTERS["confluent-kafka"](stage.cluster.bootstrap_servers)
        ((_, value),) = reader.read(OUTPUT, partition, 0, 1, committed=True)  # after the transaction is aborted
        assert value == "later"
    # the Java client reports that the state does not allow a commit, also on Kafka 4.2
    assert re.search(f"{FENCED}|InvalidTxnStateException", lost_when_it_commits(stage, first))
    assert stage.cluster.committed(stage.group) == {}


def lost_when_it_commits(stage: Stage, transformer: Transformer) -> str:
    """Let a fenced member commit; return its error."""
    transformer.say("commit")
    assert transformer.ended() == 4, stage.report(f"{transformer.name} was not fenced")
    assert transformer.events["committed"] == 0
    return transformer.error


@pytest.mark.scenario("read_committed and read_uncommitted")
def test_reads(works: Stage, family: str) -> None:
    stage = works
    producer = TransactionalProducer(stage.cluster.bootstrap_servers, TRANSACTIONAL_ID)
    for value, end in (("a", "commit"), ("b", "abort"), ("c", "commit"), ("d", "abort")):
        producer.begin(OUTPUT, [value])
        producer.end(end)
    stage.cluster.produce(OUTPUT, [LAST], partition=0)
    client = ADAPTERS[family](stage.cluster.bootstrap_servers)
    # the offsets in between are those of the transaction markers
    assert client.read(OUTPUT, 0, 0, 3, committed=True) == [(0, "a"), (4, "c"), (8, LAST)]
    assert client.read(OUTPUT, 0, 0, 5) == [(0, "a"), (2, "b"), (4, "c"), (6, "d"), (8, LAST)]
