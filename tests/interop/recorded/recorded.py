"""The programs with clients in Python: ``python recorded.py CLIENT SERVERS POLL_MS``."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

TOPIC, GROUP = "orders", "billing"
VALUES = [f"order {number}".encode() for number in range(6)]
PATIENCE = 30.0  # seconds


def kafka_python(servers: str, poll_ms: int) -> list[bytes]:
    import kafka

    producer = kafka.KafkaProducer(bootstrap_servers=servers, client_id="shop")
    for number, value in enumerate(VALUES):
        producer.send(TOPIC, value, partition=number % 2).get(PATIENCE)
    producer.close()
    consumer = kafka.KafkaConsumer(
        TOPIC, bootstrap_servers=servers, group_id=GROUP, client_id="reader", auto_offset_reset="earliest",
        enable_auto_commit=False, max_poll_records=2,
    )  # fmt: skip
    found: list[bytes] = []
    until = time.monotonic() + PATIENCE
    while len(found) < len(VALUES) and time.monotonic() < until:
        for records in consumer.poll(timeout_ms=poll_ms).values():
            found += [record.value for record in records]
    consumer.commit()
    consumer.close()
    return found


def librdkafka(servers: str, poll_ms: int) -> list[bytes]:
    import confluent_kafka

    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "client.id": "shop"})
    for number, value in enumerate(VALUES):
        producer.produce(TOPIC, value, partition=number % 2)
        assert producer.flush(PATIENCE) == 0
    options = {"group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "client.id": "reader", **options})
    consumer.subscribe([TOPIC])
    found: list[bytes] = []
    until = time.monotonic() + PATIENCE
    while len(found) < len(VALUES) and time.monotonic() < until:
        message = consumer.poll(poll_ms / 1_000)
        if message is not None and message.error() is None:
            found.append(message.value() or b"")
    consumer.commit(asynchronous=False)
    consumer.close()
    return found


async def _aiokafka(servers: str, poll_ms: int) -> list[bytes]:
    import aiokafka

    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, client_id="shop")
    await producer.start()
    for number, value in enumerate(VALUES):
        await asyncio.wait_for(producer.send_and_wait(TOPIC, value, partition=number % 2), PATIENCE)
    await producer.stop()
    consumer = aiokafka.AIOKafkaConsumer(
        TOPIC, bootstrap_servers=servers, group_id=GROUP, client_id="reader", auto_offset_reset="earliest",
        enable_auto_commit=False,
    )  # fmt: skip
    await consumer.start()
    found: list[bytes] = []
    until = time.monotonic() + PATIENCE
    while len(found) < len(VALUES) and time.monotonic() < until:
        for records in (await consumer.getmany(timeout_ms=poll_ms)).values():
            found += [record.value or b"" for record in records]
    await consumer.commit()
    await consumer.stop()
    return found


def aio(servers: str, poll_ms: int) -> list[bytes]:
    return asyncio.run(_aiokafka(servers, poll_ms))


PROGRAMS: Mapping[str, Callable[[str, int], Any]] = {
    "kafka-python": kafka_python,
    "confluent-kafka": librdkafka,
    "aiokafka": aio,
}

if __name__ == "__main__":
    for found in PROGRAMS[sys.argv[1]](sys.argv[2], int(sys.argv[3])):
        print(found.decode())
