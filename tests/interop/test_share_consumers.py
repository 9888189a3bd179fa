"""Real clients in share groups (KIP-932): their acknowledgements, and the records that are delivered again."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer
from interop.kafka_tools import dumped, tool_command
from interop.programs import ENVIRONMENT
from interop.sharers import GROUP, SHARERS, Sharer, sharer
from interop.stage import CONFIG, LIMIT, MARKS, Stage, stage_of

from mockbroker import run_cluster
from mockbroker.broker.broker import Broker
from mockbroker.share.state import ShareState, StateKey

pytestmark = MARKS
KEY = re.compile(r"key: (\{.*?\}) payload")
SHARE = {"group.share.min.heartbeat.interval.ms": 100, "group.share.heartbeat.interval.ms": 300}


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Yield a stage with two brokers, a topic with two partitions, and short heartbeat intervals of share groups."""
    topics = {Stage.topic: 2}
    with run_cluster(brokers=2, topics=topics, config=CONFIG | SHARE) as cluster, stage_of(cluster) as stage:
        yield stage


def broker_of(stage: Stage) -> Broker:
    """Return the state of the cluster, which tests must not change."""
    broker: Broker = stage.cluster._perform(lambda inside: inside._router.broker)
    return broker


def is_complete(stage: Stage) -> bool:
    """Return whether all records are acknowledged or rejected in the stored state."""
    broker = broker_of(stage)
    topic = broker.cluster.topics[stage.topic]
    for partition in topic.partitions:
        state = broker.share_states.read(StateKey(GROUP, topic.topic_id, partition.index), partition.leader_epoch, 0.0)
        assert isinstance(state, ShareState)
        done = {offset for first, last, number, _ in state.batches if number for offset in range(first, last + 1)}
        if done | set(range(state.start_offset)) != set(range(partition.log.end)):
            return False
    return True


def wait_until_read(stage: Stage) -> None:
    """Wait until the leaders have read the share state of both partitions: the group begins at the end of the log."""
    loaded = broker_of(stage).share_partitions.loaded
    stage.wait("the share partitions to be read", lambda: len(loaded) == 2)


def produce(stage: Stage, *values: str) -> None:
    producer = Producer({"bootstrap.servers": stage.cluster.bootstrap_servers})
    for number, value in enumerate(values):
        producer.produce(stage.topic, value.encode(), partition=number % 2)
    assert producer.flush(LIMIT) == 0


def taken(*members: Sharer) -> Counter[tuple[str, int]]:
    return Counter(each for member in members for each in member.taken)


def delivered_by(family: str, stage: Stage, acknowledgement: str, values: list[str], expected: int) -> Sharer:
    """Return a member that was alone in the group and has acknowledged this many records."""
    member = sharer(stage, family, "packer", acknowledgement=acknowledgement)
    wait_until_read(stage)
    produce(stage, *values)
    stage.wait(f"{expected} deliveries", lambda: len(member.taken) >= expected)
    return member


@pytest.mark.scenario("accepts, releases and rejects records")
@pytest.mark.parametrize("family", SHARERS)
def test_explicit_acknowledgements(stage: Stage, family: str) -> None:
    """Released records are delivered again, rejected records are not; the delivery of all is complete."""
    values = ["accept-1", "release-1", "reject-1", "release-2", "accept-2", "reject-2"]
    member = delivered_by(family, stage, "explicit", values, 8)
    assert taken(member) == Counter([*((value, 1) for value in values), ("release-1", 2), ("release-2", 2)])
    member.leave()
    assert is_complete(stage)


@pytest.mark.long
@pytest.mark.scenario("acknowledges implicitly")
@pytest.mark.parametrize("family", SHARERS)
def test_implicit_acknowledgements(stage: Stage, family: str) -> None:
    values = [f"v{number}" for number in range(50)]
    member = delivered_by(family, stage, "implicit", values, 50)
    member.leave()
    assert taken(member) == Counter((value, 1) for value in values)


@pytest.mark.long
@pytest.mark.parametrize("families", [("java", "franz-go"), ("franz-go", "confluent-kafka")], ids="-".join)
def test_members_of_two_clients_share_the_records(stage: Stage, families: tuple[str, str]) -> None:
    """Each record is acknowledged by one member."""
    members = [sharer(stage, family, family) for family in families]
    wait_until_read(stage)
    values = [f"v{number}" for number in range(400)]
    for first in range(0, 400, 20):
        produce(stage, *values[first : first + 20])
    stage.wait("all deliveries", lambda: len(taken(*members)) >= 400)
    for member in members:
        member.leave()
    assert taken(*members) == Counter((value, 1) for value in values)


def test_console_share_consumer(stage: Stage) -> None:
    command = tool_command("org.apache.kafka.tools.consumer.ConsoleShareConsumer")
    options = ["--topic", stage.topic, "--group", GROUP, "--max-messages", "4"]
    with subprocess.Popen(
        [*command, "--bootstrap-server", stage.cluster.bootstrap_servers, *options],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as tool:
        try:
            wait_until_read(stage)
            produce(stage, "a", "b", "c", "d")
            output, _ = tool.communicate(timeout=2 * LIMIT)
        finally:
            with suppress(ProcessLookupError):
                tool.kill()
    assert sorted(output.split()) == ["a", "b", "c", "d"]
    assert is_complete(stage)


def test_state_survives_a_restart_and_kafka_reads_it(tmp_path: Path) -> None:
    """Accepted records are not delivered again; DumpLogSegments prints the records of the state."""
    tool_command("kafka.tools.DumpLogSegments")  # a missing tool must be found before a client is started
    topics = {Stage.topic: 2}
    with run_cluster(topics=topics, config=CONFIG | SHARE, data_dir=tmp_path) as cluster, stage_of(cluster) as stage:
        member = delivered_by("confluent-kafka", stage, "explicit", ["accept-1", "release-1", "reject-1"], 4)
        member.leave()
    with run_cluster(config=CONFIG | SHARE, data_dir=tmp_path) as cluster, stage_of(cluster) as stage:
        assert is_complete(stage)
        again = delivered_by("confluent-kafka", stage, "explicit", ["accept-2", "accept-3"], 2)
        assert taken(again) == Counter({("accept-2", 1): 1, ("accept-3", 1): 1})
        again.leave()
    files = [path for path in tmp_path.glob("__share_group_state-*/*.log") if path.stat().st_size]
    lines = dumped(files, "--share-group-state-decoder")
    kinds = Counter(json.loads(result[0])["type"] for line in lines if (result := KEY.findall(line)))
    assert kinds["0"] == 2, "a snapshot of each partition"
    assert kinds["1"] >= 4, "updates"
    assert not [line for line in lines if "malformed" in line.lower() or "invalid" in line.lower()]
