"""One interface for all clients: produce, read, find offsets and list topics.

These clients run in the test's process; group members run outside of it (``stage``).
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Protocol

from interop.programs import asked
from interop.stage import LIMIT, need_client

MILLISECONDS = int(LIMIT * 1000)
ISOLATION = {True: "read_committed", False: "read_uncommitted"}


class Adapter(Protocol):
    """A client. ``acks``: "0", "1" or "all"; timestamps are in milliseconds; an offset of -1 means no offset."""

    def __init__(self, bootstrap: str) -> None: ...

    def produce(
        self,
        topic: str,
        by_partition: Mapping[int, Sequence[str]],
        *,
        acks: str = "all",
        compression: str = "none",
        idempotent: bool = False,
        timestamp: int | None = None,
    ) -> None:
        """Send all values, and return when each is acknowledged, or sent with acks=0."""

    def read(
        self, topic: str, partition: int, start: int, wanted: int, *, committed: bool = False
    ) -> list[tuple[int, str]]:
        """Read this many records from an offset; return their offsets and values. ``committed``: read_committed."""

    def ends(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the earliest offset and the end offset of a partition."""

    def at(self, topic: str, partition: int, timestamp: int) -> int:
        """Return the offset of the first record at or after a time."""

    def create_topic(self, topic: str, partitions: int, replicas: int = 1) -> None: ...


class KafkaPython:
    def __init__(self, bootstrap: str) -> None:
        need_client("kafka-python")
        self.bootstrap = bootstrap

    def produce(
        self,
        topic: str,
        by_partition: Mapping[int, Sequence[str]],
        *,
        acks: str = "all",
        compression: str = "none",
        idempotent: bool = False,
        timestamp: int | None = None,
    ) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap,
            acks=acks if acks == "all" else int(acks),
            compression_type=None if compression == "none" else compression,
            enable_idempotence=idempotent,
        )
        sent = [
            producer.send(topic, value.encode(), partition=partition, timestamp_ms=timestamp)
            for partition, values in by_partition.items()
            for value in values
        ]
        producer.flush(LIMIT)
        for future in sent:
            future.get(LIMIT)
        producer.close()

    def read(
        self, topic: str, partition: int, start: int, wanted: int, *, committed: bool = False
    ) -> list[tuple[int, str]]:
        with self._consumer(isolation_level=ISOLATION[committed]) as consumer:
            at = self._partition(topic, partition)
            consumer.assign([at])
            consumer.seek(at, start)
            records = list(islice(consumer, wanted))  # fewer records after the timeout
        return [(record.offset, record.value.decode()) for record in records]

    def ends(self, topic: str, partition: int) -> tuple[int, int]:
        at = self._partition(topic, partition)
        with self._consumer() as consumer:
            return consumer.beginning_offsets([at])[at], consumer.end_offsets([at])[at]

    def at(self, topic: str, partition: int, timestamp: int) -> int:
        at = self._partition(topic, partition)
        with self._consumer() as consumer:
            offset = consumer.offsets_for_times({at: timestamp})[at]
        return offset.offset if offset else -1

    def create_topic(self, topic: str, partitions: int, replicas: int = 1) -> None:
        from kafka import KafkaAdminClient

        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": replicas}})
        admin.close()

    def _consumer(self, **how: str) -> Any:
        from kafka import KafkaConsumer

        return KafkaConsumer(bootstrap_servers=self.bootstrap, consumer_timeout_ms=MILLISECONDS, **how)

    def _partition(self, topic: str, partition: int) -> Any:
        from kafka import TopicPartition

        return TopicPartition(topic, partition)


class ConfluentKafka:
    def __init__(self, bootstrap: str) -> None:
        need_client("confluent-kafka")
        self.bootstrap = bootstrap

    def produce(
        self,
        topic: str,
        by_partition: Mapping[int, Sequence[str]],
        *,
        acks: str = "all",
        compression: str = "none",
        idempotent: bool = False,
        timestamp: int | None = None,
    ) -> None:
        from confluent_kafka import Producer

        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "acks": acks,
                "compression.type": compression,
                "enable.idempotence": idempotent,
            }
        )
        failed: list[object] = []

        def delivered(error: object, _: object) -> None:
            if error is not None:
                failed.append(error)

        for partition, values in by_partition.items():
            for value in values:
                stamp = {} if timestamp is None else {"timestamp": timestamp}
                producer.produce(topic, value.encode(), partition=partition, on_delivery=delivered, **stamp)
        assert producer.flush(LIMIT) == 0
        assert not failed

    def read(
        self, topic: str, partition: int, start: int, wanted: int, *, committed: bool = False
    ) -> list[tuple[int, str]]:
        from confluent_kafka import TopicPartition

        consumer = self._consumer(committed=committed)
        consumer.assign([TopicPartition(topic, partition, start)])
        records: list[tuple[int, str]] = []
        while len(records) < wanted:
            message = consumer.poll(LIMIT)
            assert message is not None, f"{len(records)} of {wanted} records"
            assert message.error() is None, message.error()
            records.append((message.offset(), message.value().decode()))
        consumer.close()
        return records

    def ends(self, topic: str, partition: int) -> tuple[int, int]:
        from confluent_kafka import TopicPartition

        consumer = self._consumer()
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=LIMIT)
        consumer.close()
        return low, high

    def at(self, topic: str, partition: int, timestamp: int) -> int:
        from confluent_kafka import TopicPartition

        consumer = self._consumer()
        (position,) = consumer.offsets_for_times([TopicPartition(topic, partition, timestamp)], timeout=LIMIT)
        consumer.close()
        assert position.error is None, position.error
        return position.offset

    def create_topic(self, topic: str, partitions: int, replicas: int = 1) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(topic, partitions, replicas)])[topic].result(LIMIT)

    def _consumer(self, *, committed: bool = False) -> Any:
        from confluent_kafka import Consumer

        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "reader",
                "enable.auto.commit": False,
                "isolation.level": ISOLATION[committed],
            }
        )


class AioKafka:
    def __init__(self, bootstrap: str) -> None:
        need_client("aiokafka")
        self.bootstrap = bootstrap

    def produce(
        self,
        topic: str,
        by_partition: Mapping[int, Sequence[str]],
        *,
        acks: str = "all",
        compression: str = "none",
        idempotent: bool = False,
        timestamp: int | None = None,
    ) -> None:
        from aiokafka import AIOKafkaProducer

        async def run() -> None:
            producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap,
                acks=acks if acks == "all" else int(acks),
                compression_type=None if compression == "none" else compression,
                enable_idempotence=idempotent,
            )
            async with producer:
                sent = [
                    await producer.send(topic, value.encode(), partition=partition, timestamp_ms=timestamp)
                    for partition, values in by_partition.items()
                    for value in values
                ]
                await asyncio.gather(*sent)

        asyncio.run(asyncio.wait_for(run(), LIMIT))

    def read(
        self, topic: str, partition: int, start: int, wanted: int, *, committed: bool = False
    ) -> list[tuple[int, str]]:
        from aiokafka import TopicPartition

        async def run(consumer: Any) -> list[tuple[int, str]]:
            at = TopicPartition(topic, partition)
            consumer.assign([at])
            consumer.seek(at, start)
            records = [await consumer.getone() for _ in range(wanted)]
            return [(record.offset, record.value.decode()) for record in records]

        return self._with_consumer(run, isolation_level=ISOLATION[committed])

    def ends(self, topic: str, partition: int) -> tuple[int, int]:
        from aiokafka import TopicPartition

        async def run(consumer: Any) -> tuple[int, int]:
            at = TopicPartition(topic, partition)
            return (await consumer.beginning_offsets([at]))[at], (await consumer.end_offsets([at]))[at]

        return self._with_consumer(run)

    def at(self, topic: str, partition: int, timestamp: int) -> int:
        from aiokafka import TopicPartition

        async def run(consumer: Any) -> int:
            at = TopicPartition(topic, partition)
            offset = (await consumer.offsets_for_times({at: timestamp}))[at]
            return offset.offset if offset else -1

        return self._with_consumer(run)

    def create_topic(self, topic: str, partitions: int, replicas: int = 1) -> None:
        from aiokafka.admin import AIOKafkaAdminClient, NewTopic

        async def run() -> None:
            admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
            await admin.start()
            response = await admin.create_topics([NewTopic(topic, partitions, replicas)])
            await admin.close()
            assert [error[1] for error in response.topic_errors] == [0]

        asyncio.run(asyncio.wait_for(run(), LIMIT))

    def _with_consumer(self, use: Any, **how: str) -> Any:
        from aiokafka import AIOKafkaConsumer

        async def run() -> Any:
            async with AIOKafkaConsumer(bootstrap_servers=self.bootstrap, **how) as consumer:
                return await use(consumer)

        return asyncio.run(asyncio.wait_for(run(), LIMIT))


class Kcat:
    def __init__(self, bootstrap: str) -> None:
        need_client("kcat")
        self.bootstrap = bootstrap

    def produce(
        self,
        topic: str,
        by_partition: Mapping[int, Sequence[str]],
        *,
        acks: str = "all",
        compression: str = "none",
        idempotent: bool = False,
        timestamp: int | None = None,
    ) -> None:
        assert timestamp is None, "kcat cannot set timestamps"
        settings = {"acks": acks, "compression.codec": compression, "enable.idempotence": str(idempotent).lower()}
        options = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
        for partition, values in by_partition.items():
            self._run("-P", "-t", topic, "-p", str(partition), *options, given="\n".join(values))

    def read(
        self, topic: str, partition: int, start: int, wanted: int, *, committed: bool = False
    ) -> list[tuple[int, str]]:
        where = ("-t", topic, "-p", str(partition), "-o", str(start), "-c", str(wanted))
        lines = self._run("-C", *where, "-X", f"isolation.level={ISOLATION[committed]}", "-f", "%o %s\n").splitlines()
        return [(int(offset), value) for offset, value in (line.split(" ", 1) for line in lines)]

    def ends(self, topic: str, partition: int) -> tuple[int, int]:
        return self.at(topic, partition, -2), self.at(topic, partition, -1)

    def at(self, topic: str, partition: int, timestamp: int) -> int:
        return int(self._run("-Q", "-t", f"{topic}:{partition}:{timestamp}").split()[-1])

    def create_topic(self, topic: str, partitions: int, replicas: int = 1) -> None:
        raise NotImplementedError("kcat has no admin calls")

    def topics(self) -> dict[str, int]:
        """Return the number of partitions by topic, as ``kcat -L`` lists them."""
        listed = json.loads(self._run("-L", "-J"))["topics"]
        return {topic["topic"]: len(topic["partitions"]) for topic in listed}

    def _run(self, *arguments: str, given: str = "") -> str:
        command = ["kcat", "-b", self.bootstrap, *arguments]
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, done.stderr
        return done.stdout


class Program:
    """A client in another language, to which requests are sent over a pipe."""

    family: str

    def __init__(self, bootstrap: str) -> None:
        need_client(self.family)
        self.bootstrap = bootstrap

    def produce(
        self,
        topic: str,
        by_partition: Mapping[int, Sequence[str]],
        *,
        acks: str = "all",
        compression: str = "none",
        idempotent: bool = False,
        timestamp: int | None = None,
    ) -> None:
        records = [{"partition": at, "value": value} for at, values in by_partition.items() for value in values]
        how = {"acks": acks, "compression": compression, "idempotent": idempotent, "timestamp": timestamp}
        self.ask("produce", topic=topic, records=records, **how)

    def read(
        self, topic: str, partition: int, start: int, wanted: int, *, committed: bool = False
    ) -> list[tuple[int, str]]:
        options = {"start": start, "wanted": wanted, "committed": committed}
        records = self.ask("read", topic=topic, partition=partition, **options)
        return [(offset, value) for offset, value in records]

    def ends(self, topic: str, partition: int) -> tuple[int, int]:
        low, high = self.ask("ends", topic=topic, partition=partition)
        return low, high

    def at(self, topic: str, partition: int, timestamp: int) -> int:
        return int(self.ask("at", topic=topic, partition=partition, timestamp=timestamp))

    def create_topic(self, topic: str, partitions: int, replicas: int = 1) -> None:
        self.ask("create_topic", topic=topic, partitions=partitions, replicas=replicas)

    def ask(self, call: str, **what: Any) -> Any:
        return asked(self.family).ask(call, bootstrap=self.bootstrap, **what)


class Java(Program):
    family = "java"


class FranzGo(Program):
    family = "franz-go"


class KafkaJs(Program):
    family = "kafkajs"


ADAPTERS: Mapping[str, type[Adapter]] = {
    "kafka-python": KafkaPython,
    "confluent-kafka": ConfluentKafka,
    "aiokafka": AioKafka,
    "kcat": Kcat,
    "java": Java,
    "franz-go": FranzGo,
    "kafkajs": KafkaJs,
}
