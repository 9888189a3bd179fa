"""One consumer reads a topic, in a separate process: ``reading.py CLIENT HOW ADDRESS TOPIC RECORDS``.

HOW: ``assigned`` (partitions 0 to 5, no group) or ``group`` (a new one). Prints one JSON object: seconds from the
creation of the consumer to its first and to its last record, CPU seconds of the process, and bytes of the values.
Imports are not counted. Settings are each client's defaults, except auto.offset.reset=earliest and no auto commit.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from typing import Any

PARTITIONS = range(6)


class Count:
    """Counts records up to ``wanted``, and keeps the times of the first and the last."""

    def __init__(self, wanted: int) -> None:
        self.wanted, self.received, self.size = wanted, 0, 0
        self.cpu_start, self.start = time.process_time(), time.perf_counter()
        self.first = self.last = 0.0

    def take(self, values: list[Any]) -> bool:
        """Count several records; return True once all have arrived."""
        if not values:
            return False
        if not self.received:
            self.first = time.perf_counter() - self.start
        self.received += len(values)
        self.size += sum(map(len, values))
        if self.received < self.wanted:
            return False
        self.last = time.perf_counter() - self.start
        return True

    def one(self, value: Any) -> bool:
        """Count one record; return True once all have arrived."""
        if not self.received:
            self.first = time.perf_counter() - self.start
        self.received += 1
        self.size += len(value)
        if self.received < self.wanted:
            return False
        self.last = time.perf_counter() - self.start
        return True

    def to_json(self) -> str:
        cpu = time.process_time() - self.cpu_start
        return json.dumps({"first": self.first, "last": self.last, "cpu": cpu, "size": self.size})


Reader = Callable[[str, str | None, str, int], "Count"]


def ours(one_by_one: bool) -> Reader:
    import trio

    from mockbroker.consumer import open_consumer

    async def read(address: str, group: str | None, topic: str, wanted: int) -> Count:
        count = Count(wanted)
        what: dict[str, Any] = {"topics": [topic]} if group else {"partitions": [(topic, n) for n in PARTITIONS]}
        async with open_consumer(
            address, group=group, **what, auto_offset_reset="earliest", enable_auto_commit=False
        ) as consumer:
            if one_by_one:
                async for record in consumer:
                    if count.one(record.value):
                        break
            else:
                while not count.take([record.value for record in await consumer.poll()]):
                    pass
        return count

    return lambda *how: trio.run(read, *how)


def aiokafka(one_by_one: bool) -> Reader:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def read(address: str, group: str | None, topic: str, wanted: int) -> Count:
        count = Count(wanted)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=address, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
        )
        if group:
            consumer.subscribe([topic])
        else:
            consumer.assign([TopicPartition(topic, n) for n in PARTITIONS])
        async with consumer:
            if one_by_one:
                async for record in consumer:
                    if count.one(record.value):
                        break
            else:
                values: list[Any] = []
                while not count.take(values):
                    batches = await consumer.getmany(timeout_ms=60_000)
                    values = [record.value for records in batches.values() for record in records]
        return count

    return lambda *how: asyncio.run(read(*how))


def kafka_python(one_by_one: bool) -> Reader:
    from kafka import KafkaConsumer, TopicPartition

    def read(address: str, group: str | None, topic: str, wanted: int) -> Count:
        count = Count(wanted)
        consumer = KafkaConsumer(
            bootstrap_servers=address, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
        )
        if group:
            consumer.subscribe([topic])
        else:
            consumer.assign([TopicPartition(topic, n) for n in PARTITIONS])
        if one_by_one:
            for record in consumer:
                if count.one(record.value):
                    break
        else:
            values: list[Any] = []
            while not count.take(values):
                batches = consumer.poll(timeout_ms=60_000)
                values = [record.value for records in batches.values() for record in records]
        consumer.close()
        return count

    return read


def confluent_kafka(one_by_one: bool) -> Reader:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    def read(address: str, group: str | None, topic: str, wanted: int) -> Count:
        count = Count(wanted)
        settings = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = Consumer({"bootstrap.servers": address, "group.id": group or "no-group", **settings})
        if group:
            consumer.subscribe([topic])
        else:
            consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in PARTITIONS])
        if one_by_one:
            while not ((message := consumer.poll(60)) and count.one(message.value())):
                pass
        else:  # without the short timeout it would wait for all 500
            while not count.take([message.value() for message in consumer.consume(500, 0.1)]):
                pass
        consumer.close()
        return count

    return read


CLIENTS = {"ours": ours, "aiokafka": aiokafka, "kafka-python": kafka_python, "confluent-kafka": confluent_kafka}


def main() -> None:
    client, how, address, topic, wanted = sys.argv[1:]
    name, _, form = client.partition(", ")
    group = f"reader-{time.time_ns()}" if how == "group" else None
    print(CLIENTS[name](form == "one by one")(address, group, topic, int(wanted)).to_json())


if __name__ == "__main__":
    main()
