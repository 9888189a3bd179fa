"""The Python clients of a soak: ``python fuzzing/soak_clients.py ROLE TOPIC NAME LEDGER ADDRESSES``, until SIGTERM.

Each client is a process that appends to its ledger what the broker has promised: a producer the values whose
acknowledgement it got, a consumer the values that it has processed, an auditor also their partitions and offsets. A
client that fails is replaced by a new one, as a supervisor restarts an application.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PAUSE = 0.05  # seconds between two records of a producer
AFTER_FAILURE = 0.5  # seconds before a client is replaced
PROCESSED_AT_ONCE = 20  # records in a transaction
TIMEOUT = 30.0  # seconds of each call of a transaction
STUCK = 45.0  # seconds after which a call of a transaction has ignored its timeout


class Stopped(BaseException):
    """Raised when the process receives SIGTERM."""


class Client:
    """A client of a soak.

    Args:
        name: Name of the process, which begins its values.
        ledger: File with a value in each line.
        addresses: Bootstrap addresses of the listeners, with ``ca`` for the path of the CA.
    """

    def __init__(self, name: str, ledger: Path, addresses: dict[str, str]) -> None:
        self.name, self.addresses = name, addresses
        self._ledger = ledger.open("a", encoding="utf-8", buffering=1)
        begun = len(ledger.read_text("utf-8").splitlines())
        self.positions: dict[int, int] = {}  # of an auditor: partition -> next offset
        self._numbers = itertools.count(begun * 1_000_000 + int(time.time() * 1_000) % 1_000_000_000_000)

    def note(self, value: bytes) -> None:
        """Append a value to the ledger."""
        self._ledger.write(value.decode() + "\n")

    def values(self) -> Iterator[bytes]:
        """Yield values that no other process and no other run of this client sends."""
        for number in self._numbers:
            yield f"{self.name}-{number}".encode()

    def tls(self) -> dict[str, Any]:
        """Return the settings of librdkafka for the listener SASL_SSL."""
        return {
            "bootstrap.servers": self.addresses["SASL_SSL"],
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": self.addresses["ca"],
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "alice",
            "sasl.password": "secret",
        }


@contextlib.contextmanager
def ended_if_stuck(seconds: float) -> Iterator[None]:
    """End this process by SIGALRM if a block takes longer than ``seconds``, as a supervisor ends a stuck application.

    librdkafka 2.16.0 ignores the timeout of ``send_offsets_to_transaction`` while the group's coordinator is down, and
    may then wait for ever (https://github.com/confluentinc/librdkafka/issues/5456). The member of such a process sends
    heartbeats, but never rejoins, so each rebalance of its group takes ``max.poll.interval.ms`` (5 minutes).
    """
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def produce_confluent(client: Client, topic: str) -> None:
    """An idempotent producer of librdkafka, over TLS and SCRAM."""
    from confluent_kafka import KafkaError, Message, Producer

    producer = Producer({**client.tls(), "enable.idempotence": True, "message.timeout.ms": 60_000, "linger.ms": 5})

    def acknowledged(error: KafkaError | None, message: Message) -> None:
        value = message.value()
        if error is None and value is not None:
            client.note(value if isinstance(value, bytes) else value.encode())
        elif error is not None and error.fatal():
            raise RuntimeError(str(error))

    for value in client.values():
        producer.produce(topic, value, key=value, on_delivery=acknowledged)
        producer.poll(0)
        time.sleep(PAUSE)


def produce_kafka_python(client: Client, topic: str) -> None:
    """A producer of kafka-python, without TLS."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=client.addresses["PLAINTEXT"], acks="all", retries=50)
    try:
        for value in client.values():
            producer.send(topic, value, key=value).get(60)
            client.note(value)
            time.sleep(PAUSE)
    finally:
        producer.close(timeout=0)


def produce_aiokafka(client: Client, topic: str) -> None:
    """A producer of aiokafka with SASL, without TLS."""
    from aiokafka import AIOKafkaProducer

    async def run() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=client.addresses["SASL_PLAINTEXT"],
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_plain_username="alice",
            sasl_plain_password="secret",  # noqa: S106 - of a broker on loopback
            acks="all",
        )
        await producer.start()
        try:
            for value in client.values():
                await asyncio.wait_for(producer.send_and_wait(topic, value, key=value), 60)
                client.note(value)
                await asyncio.sleep(PAUSE)
        finally:
            await producer.stop()

    asyncio.run(run())


def consume_confluent(client: Client, topic: str) -> None:
    """A member of a group of the consumer protocol (KIP-848)."""
    from confluent_kafka import Consumer

    settings = {"group.id": "modern", "group.protocol": "consumer", "enable.auto.commit": False}
    consumer = Consumer({**client.tls(), **settings, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        while True:
            messages = [each for each in consumer.consume(50, 0.5) if each.error() is None]
            for message in messages:
                value = message.value()
                assert isinstance(value, bytes)
                client.note(value)
            if messages:
                consumer.commit(asynchronous=False)
    finally:
        consumer.close()


def consume_kafka_python(client: Client, topic: str) -> None:
    """A member of a classic group, of kafka-python."""
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=client.addresses["PLAINTEXT"],
        group_id="classic",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=6_000,
        heartbeat_interval_ms=1_000,
    )
    try:
        while True:
            for records in consumer.poll(500).values():
                for record in records:
                    client.note(record.value)
            consumer.commit()
    finally:
        consumer.close(autocommit=False)


def consume_aiokafka(client: Client, topic: str) -> None:
    """A member of a classic group, of aiokafka."""
    from aiokafka import AIOKafkaConsumer

    async def run() -> None:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=client.addresses["PLAINTEXT"],
            group_id="classic-aio",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=6_000,
            heartbeat_interval_ms=1_000,
        )
        await consumer.start()
        try:
            while True:
                found = await consumer.getmany(timeout_ms=500)
                for records in found.values():
                    for record in records:
                        assert record.value is not None
                        client.note(record.value)
                if found:
                    await consumer.commit()
        finally:
            await consumer.stop()

    asyncio.run(run())


def process(client: Client, topic: str) -> None:
    """Copy records from one topic to another exactly once: in transactions that commit the offsets, too."""
    from confluent_kafka import Consumer, Producer

    source, _, target = topic.partition(":")
    settings = {"group.id": "processors", "enable.auto.commit": False, "isolation.level": "read_committed"}
    consumer = Consumer({**client.tls(), **settings, "auto.offset.reset": "earliest", "session.timeout.ms": 6_000})
    producer = Producer({**client.tls(), "transactional.id": client.name, "transaction.timeout.ms": 10_000})
    try:
        with ended_if_stuck(STUCK):
            producer.init_transactions(TIMEOUT)
        consumer.subscribe([source])
        while True:
            messages = [each for each in consumer.consume(PROCESSED_AT_ONCE, 0.5) if each.error() is None]
            if not messages:
                continue
            producer.begin_transaction()
            for message in messages:
                producer.produce(target, message.value(), key=message.key())
            offsets = consumer.position(consumer.assignment())
            with ended_if_stuck(STUCK):
                producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), TIMEOUT)
            with ended_if_stuck(STUCK):
                producer.commit_transaction(TIMEOUT)
    finally:
        consumer.close()


def audit(client: Client, topic: str) -> None:
    """Read all records of a topic once that a read_committed consumer sees; one process reads during the whole soak."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    settings = {"group.id": client.name, "enable.auto.commit": False, "isolation.level": "read_committed"}
    consumer = Consumer({"bootstrap.servers": client.addresses["PLAINTEXT"], **settings, "auto.offset.reset": "error"})
    name, _, count = topic.partition(":")
    consumer.assign([TopicPartition(name, index, client.positions.get(index, 0)) for index in range(int(count))])
    try:
        while True:
            for message in consumer.consume(100, 0.5):
                value, partition, offset = message.value(), message.partition(), message.offset()
                if message.error() is None:
                    assert isinstance(value, bytes)
                    assert partition is not None
                    assert offset is not None
                    client.note(value + f" {partition} {offset}".encode())
                    client.positions[partition] = offset + 1
                elif (error := message.error()) and error.code() == KafkaError._AUTO_OFFSET_RESET:
                    client.note(b"position-lost")
    finally:
        consumer.close()


ROLES: dict[str, Callable[[Client, str], None]] = {
    "produce-confluent": produce_confluent,
    "produce-kafka-python": produce_kafka_python,
    "produce-aiokafka": produce_aiokafka,
    "consume-confluent": consume_confluent,
    "consume-kafka-python": consume_kafka_python,
    "consume-aiokafka": consume_aiokafka,
    "process": process,
    "audit": audit,
}


def main() -> None:
    role, topic, name, ledger, addresses = sys.argv[1:]
    logging.disable(logging.CRITICAL)

    def stop(_signal: int, _frame: object) -> None:
        raise Stopped

    signal.signal(signal.SIGTERM, stop)
    client = Client(name, Path(ledger), json.loads(addresses))
    while True:
        try:
            ROLES[role](client, topic)
        except Stopped:
            return
        except Exception as error:
            sys.stderr.write(f"{name}: {type(error).__name__}: {error}\n")
            try:
                time.sleep(AFTER_FAILURE)
            except Stopped:
                return


if __name__ == "__main__":
    main()
