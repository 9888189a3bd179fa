"""kwire and mockbroker without fcntl, epoll, fork and /proc, as on Windows or macOS."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from golden import ROOT
from interop.stage import MARKS, need_client

from tools import other_system

pytestmark = MARKS
SYSTEM = str(Path(other_system.__file__))
PATIENCE = 60.0


def with_kafka_python(servers: str, topic: str) -> bytes:
    from kafka import KafkaConsumer, KafkaProducer

    producer = KafkaProducer(bootstrap_servers=servers)
    producer.send(topic, b"tea").get(PATIENCE)
    producer.close()
    consumer = KafkaConsumer(topic, bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest")
    value: bytes = next(consumer).value
    consumer.commit()
    consumer.close()
    return value


def with_confluent_kafka(servers: str, topic: str) -> bytes:
    from confluent_kafka import Consumer, Producer

    producer = Producer({"bootstrap.servers": servers})
    producer.produce(topic, b"tea")
    assert producer.flush(PATIENCE) == 0
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    record = consumer.poll(PATIENCE)
    assert record is not None
    value: bytes = record.value()
    consumer.commit(record, asynchronous=False)
    consumer.close()
    return value


def with_aiokafka(servers: str, topic: str) -> bytes:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def talk() -> bytes:
        producer = AIOKafkaProducer(bootstrap_servers=servers)
        await producer.start()
        await producer.send_and_wait(topic, b"tea")
        await producer.stop()
        consumer = AIOKafkaConsumer(topic, bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest")
        await consumer.start()
        record = await consumer.getone()
        await consumer.commit()
        await consumer.stop()
        value: bytes = record.value
        return value

    return asyncio.run(talk())


CLIENTS: dict[str, Callable[[str, str], bytes]] = {
    "kafka-python": with_kafka_python,
    "confluent-kafka": with_confluent_kafka,
    "aiokafka": with_aiokafka,
}


def test_real_clients_are_served(tmp_path: Path) -> None:
    """The broker has a data directory, the control API and certificates, which all use features of the system."""
    for client in CLIENTS:
        need_client(client)
    topics = [word for client in CLIENTS for word in ("--topic", client)]
    options = ["--set", "group.initial.rebalance.delay.ms=0", "--listener", "PLAINTEXT", "--listener", "SSL"]
    storage = ["--data-dir", str(tmp_path / "data"), "--ready-file", str(tmp_path / "ready.json")]
    command = [sys.executable, SYSTEM, "mockbroker", "serve", "--port", "0", "--http", "0", *topics, *options, *storage]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            servers = process.stdout.readline().strip().removeprefix("ready bootstrap.servers=")
            for client, talk in CLIENTS.items():
                assert talk(servers, client) == b"tea"
        finally:
            process.terminate()
    assert process.returncode == 0
    assert list((tmp_path / "data").glob("aiokafka-0/*.log"))


KWIRE = [
    ["decode", "00120000000000070000"],
    ["explain", "00120000000000070000"],
    ["layout", "JoinGroup"],
    ["groups", str(next((ROOT / "fixtures" / "captures").glob("*three.pcap.gz")))],
]


@pytest.mark.parametrize("words", KWIRE, ids=lambda words: words[0])
def test_kwire_runs(words: list[str]) -> None:
    done = subprocess.run([sys.executable, SYSTEM, "kwire", *words], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_the_parts_are_hidden() -> None:
    code = "import other_system as s, os, select; s.hide(); print([hasattr(select, 'epoll'), hasattr(os, 'fork')])\nimport fcntl"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(SYSTEM).parent, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.stdout == "[False, False]\n"
    assert "No module named 'fcntl'" in done.stderr or "import of fcntl halted" in done.stderr
