"""``mockbroker import`` reads the committed offsets of a real broker, which was stopped or killed."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from interop.ground import start_broker
from interop.stage import MARKS
from kafka_definitions import broker_jars
from need import lacking, need
from oracle import kafka

from mockbroker.cli import main

pytestmark = MARKS

QUIET = {"log_level": 2}  # the broker stops before its clients, which would log this
RELEASES = ["4.2.0", "3.9.1"]
COMMITS = 300


class RealBroker:
    def __init__(self, release: str) -> None:
        self.release = release
        self.port, self.address = start_broker(release, {"offsets.topic.num.partitions": "3"})
        self.data = kafka.FOLDER / f"run-{self.port}" / "data"

    def consumer(self, group: str, **settings: Any) -> Consumer:
        given = {"bootstrap.servers": self.address, "group.id": group, "enable.auto.commit": False, **QUIET}
        return Consumer(given | settings)

    def tool(self, group: str) -> dict[int, int]:
        """Return the committed offsets of a group for topic orders, by partition, from Kafka's own tool."""
        command = [
            "java",
            "-cp",
            f"{kafka.fetch(self.release)}/*",
            "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        ]
        arguments = ["--bootstrap-server", self.address, "--describe", "--group", group, "--offsets"]
        output = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=60, check=True).stdout
        rows = [line.split() for line in output.splitlines() if line.startswith(f"{group} ")]
        return {int(row[2]): int(row[3]) for row in rows if row[1] == "orders"}


@pytest.fixture(params=RELEASES)
def broker(request: pytest.FixtureRequest) -> Iterator[RealBroker]:
    need("java", "it runs Apache Kafka")
    broker_jars(request.param)
    try:
        result = RealBroker(request.param)
    except (subprocess.CalledProcessError, RuntimeError) as error:
        lacking(f"no Apache Kafka: {error}")
    try:
        admin = AdminClient({"bootstrap.servers": result.address, **QUIET})
        admin.create_topics([NewTopic("orders", 4)])["orders"].result()
        yield result
    finally:
        kafka.stop(result.port)
        shutil.rmtree(result.data.parent)


def imported(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    result = CliRunner().invoke(main, ["import", "--json", "--log-dir", str(folder)], catch_exceptions=False)
    assert (result.exit_code, result.stderr) == (0, "")
    *groups, rest = map(json.loads, result.stdout.splitlines())
    return {group["group_id"]: group for group in groups}, rest


def offsets(group: dict[str, Any]) -> dict[int, int]:
    return {each["partition"]: each["offset"] for each in group["offsets"] if each["topic"] == "orders"}


def joined(consumer: Consumer) -> None:
    consumer.subscribe(["orders"])
    while len(consumer.assignment()) < 4:
        consumer.poll(0.1)


@pytest.mark.long
def test_a_broker_that_is_stopped(broker: RealBroker) -> None:
    consumer = broker.consumer("billing", **{"group.instance.id": "shelf", "client.id": "teller"})
    joined(consumer)
    consumer.commit(offsets=[TopicPartition("orders", n, 10 + n) for n in range(4)], asynchronous=False)
    simple = broker.consumer("alone")
    simple.commit(offsets=[TopicPartition("orders", 2, 7)], asynchronous=False)
    simple.close()
    offsets_before = {name: broker.tool(name) for name in ("billing", "alone")}
    member_id = consumer.memberid()
    running = CliRunner().invoke(main, ["import", "--log-dir", str(broker.data)])
    assert running.exit_code == 1
    assert running.stderr == f"Error: {broker.data}: locked by a running broker; stop the broker first\n"

    kafka.stop(broker.port, signal.SIGTERM)
    groups, rest = imported(broker.data)
    assert (
        {name: offsets(groups[name]) for name in offsets_before}
        == offsets_before
        == {
            "billing": {n: 10 + n for n in range(4)},
            "alone": {2: 7},
        }
    )
    (member,) = groups["billing"]["members"]
    assert (member["member_id"], member["instance_id"], member["client_id"]) == (member_id, "shelf", "teller")
    assert member["assignment"] == {"orders": [0, 1, 2, 3]}
    assert (groups["billing"]["state"], groups["billing"]["protocol"]) == ("Stable", "range")
    assert rest["topics"]["orders"]["partitions"] == 4


@pytest.mark.long
def test_a_broker_that_is_killed_while_it_is_asked(broker: RealBroker) -> None:
    """Every acknowledged commit is imported; the pending commit may be imported."""
    consumer = broker.consumer("billing")
    joined(consumer)
    for n in range(COMMITS):
        consumer.commit(offsets=[TopicPartition("orders", n % 4, n)], asynchronous=False)
    consumer.commit(offsets=[TopicPartition("orders", 0, COMMITS)], asynchronous=True)
    kafka.stop(broker.port, signal.SIGKILL)
    groups, _ = imported(broker.data)
    result = offsets(groups["billing"])
    assert result.pop(0) in (COMMITS - 4, COMMITS)
    assert result == {n: COMMITS - 4 + n for n in (1, 2, 3)}
