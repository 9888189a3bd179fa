"""Clients that meet a fault: each produces a record, reads, requests the end offset, commits, or joins a group.

Python clients run in the test's process, the others in one process each. Their retries are quick, and a request times
out after a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interop import programs
from interop.stage import need_client

TOPIC, GROUP, VALUE, OFFSET = "orders", "billing", "tea", 5
REQUEST_MS = 1_000  # after which a client gives up on a request
BACKOFF_MS = 50  # before a client retries
PATIENCE = 6.0  # seconds until a client gives up on its task
JOINED = 30.0  # seconds within which a member must have rejoined
LATER = 0.3  # seconds in which more records may arrive
CONSUMING: dict[str, Any] = {"enable_auto_commit": False, "auto_offset_reset": "earliest"}
ERRORS = 3  # failed reads after which a client gives up


@dataclass
class Outcome:
    """The report of a client.

    Attributes:
        errors: Names of its errors.
        values: The values that it has read, or an end offset.
    """

    errors: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Task:
    """The task of a client.

    Attributes:
        name: The method of the client.
        bootstrap: Bootstrap servers.
        ca: File with the CA certificate, for TLS; None for plaintext.
        is_done: For ``join``: whether the member may leave.
    """

    name: str
    bootstrap: str
    ca: Path | None = None
    is_done: Callable[[], bool] = lambda: True


def perform(family: str, task: Task) -> Outcome:
    """Run an operation of a client, and return the outcome, which includes its errors."""
    need_client(family)
    outcome = Outcome()
    actions = CLIENTS.get(family) or Asked(family)
    with contextlib.suppress(_Stop):
        getattr(actions, task.name)(task, outcome)
    return outcome


class _Stop(Exception):
    """The client has given up; its error is in the outcome."""


def _gave_up(outcome: Outcome, error: BaseException) -> _Stop:
    outcome.errors.append(name_of(error))
    return _Stop()


def name_of(error: Any) -> str:
    """Return the name of an error, as users of the client see it."""
    args = getattr(error, "args", ())
    named = args[0] if args and hasattr(args[0], "code") else error  # librdkafka: the argument has the name
    return str(named.name()) if hasattr(named, "code") and hasattr(named, "name") else type(error).__name__


def _is_over(outcome: Outcome, deadline: float) -> bool:
    return bool(outcome.values) or len(outcome.errors) >= ERRORS or time.monotonic() > deadline


class KafkaPython:
    def produce(self, task: Task, outcome: Outcome) -> None:
        from kafka import KafkaProducer

        try:
            producer = KafkaProducer(
                enable_idempotence=False,
                acks="all",
                max_block_ms=int(PATIENCE * 1000),
                delivery_timeout_ms=int(PATIENCE * 1000),
                **self._settings(task),
            )
        except Exception as error:
            raise _gave_up(outcome, error) from error
        try:
            producer.send(TOPIC, VALUE.encode(), partition=0).get(2 * PATIENCE)
        except Exception as error:
            raise _gave_up(outcome, error) from error
        finally:
            producer.close(0)

    def read(self, task: Task, outcome: Outcome) -> None:
        with self._consumer(task, outcome) as (consumer, at):
            consumer.seek(at, 0)
            deadline = time.monotonic() + PATIENCE
            while not _is_over(outcome, deadline):
                self._poll(consumer, outcome, 0.2)
            self._poll(consumer, outcome, LATER)

    def _poll(self, consumer: Any, outcome: Outcome, seconds: float) -> None:
        try:
            for records in consumer.poll(timeout_ms=int(seconds * 1000)).values():
                outcome.values += [record.value.decode(errors="replace") for record in records]
        except Exception as error:
            outcome.errors.append(name_of(error))

    def end(self, task: Task, outcome: Outcome) -> None:
        with self._consumer(task, outcome) as (consumer, at):
            outcome.values.append(str(consumer.end_offsets([at])[at]))

    def commit(self, task: Task, outcome: Outcome) -> None:
        from kafka.structs import OffsetAndMetadata

        with self._consumer(task, outcome, group_id=GROUP) as (consumer, at):
            consumer.commit({at: OffsetAndMetadata(OFFSET, "", -1)})

    def join(self, task: Task, outcome: Outcome) -> None:
        from kafka import KafkaConsumer

        how = {"group_id": GROUP, "heartbeat_interval_ms": 100, "enable_auto_commit": False}
        consumer = KafkaConsumer(TOPIC, **how, **self._settings(task))
        # A leader that learns the partitions after its first join rejoins; if a poll ends during that join, kafka-python
        # 3.0.12 has stored the new metadata when it assigned, needs no rejoin any more, and heartbeats stay off.
        consumer.partitions_for_topic(TOPIC)
        deadline = time.monotonic() + JOINED
        while not task.is_done() and time.monotonic() < deadline:
            self._poll(consumer, outcome, 0.1)
        consumer.close()

    @contextlib.contextmanager
    def _consumer(self, task: Task, outcome: Outcome, **how: Any) -> Any:
        from kafka import KafkaConsumer, TopicPartition

        try:
            consumer = KafkaConsumer(**CONSUMING, fetch_max_wait_ms=100, **how, **self._settings(task))
        except Exception as error:
            raise _gave_up(outcome, error) from error
        try:
            at = TopicPartition(TOPIC, 0)
            consumer.assign([at])
            yield consumer, at
        except Exception as error:
            raise _gave_up(outcome, error) from error
        finally:
            consumer.close()

    @staticmethod
    def _settings(task: Task) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "bootstrap_servers": task.bootstrap,
            "request_timeout_ms": REQUEST_MS,
            "retry_backoff_ms": BACKOFF_MS,
            "reconnect_backoff_ms": BACKOFF_MS,
            "reconnect_backoff_max_ms": BACKOFF_MS,
            "bootstrap_timeout_ms": int(PATIENCE * 1000),
        }
        return settings | ({"security_protocol": "SSL", "ssl_cafile": str(task.ca)} if task.ca else {})


class ConfluentKafka:
    def produce(self, task: Task, outcome: Outcome) -> None:
        from confluent_kafka import Producer

        def delivered(error: Any, _: Any) -> None:
            if error is not None:
                outcome.errors.append(name_of(error))

        limit = {"message.timeout.ms": int(PATIENCE * 1000), "linger.ms": 0}
        producer = Producer({**self._settings(task), **limit})
        producer.produce(TOPIC, VALUE.encode(), partition=0, on_delivery=delivered)
        producer.flush(2 * PATIENCE)

    def read(self, task: Task, outcome: Outcome) -> None:
        from confluent_kafka import TopicPartition

        consumer = self._consumer(task)
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        deadline = time.monotonic() + PATIENCE
        while not _is_over(outcome, deadline):
            self._poll(consumer, outcome, 0.2)
        while self._poll(consumer, outcome, LATER):
            """It has one record at a time."""
        consumer.close()

    def _poll(self, consumer: Any, outcome: Outcome, seconds: float) -> bool:
        message = consumer.poll(seconds)
        if message is None:
            return False
        if message.error() is not None:
            outcome.errors.append(name_of(message.error()))
        else:
            outcome.values.append(message.value().decode(errors="replace"))
        return True

    def end(self, task: Task, outcome: Outcome) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        consumer = self._consumer(task)
        try:
            outcome.values.append(str(consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=PATIENCE)[1]))
        except KafkaException as error:
            outcome.errors.append(name_of(error))
        consumer.close()

    def commit(self, task: Task, outcome: Outcome) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        consumer = self._consumer(task)
        try:
            consumer.commit(offsets=[TopicPartition(TOPIC, 0, OFFSET)], asynchronous=False)
        except KafkaException as error:
            outcome.errors.append(name_of(error))
        consumer.close()

    def join(self, task: Task, outcome: Outcome) -> None:
        consumer = self._consumer(task)
        consumer.subscribe([TOPIC])
        deadline = time.monotonic() + JOINED
        while not task.is_done() and time.monotonic() < deadline:
            self._poll(consumer, outcome, 0.1)
        consumer.close()

    def _consumer(self, task: Task) -> Any:
        from confluent_kafka import Consumer

        how = {
            "group.id": GROUP,
            "enable.auto.commit": False,
            "check.crcs": True,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 100,
        }
        return Consumer({**self._settings(task), **how, "fetch.wait.max.ms": 100})

    @staticmethod
    def _settings(task: Task) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "bootstrap.servers": task.bootstrap,
            "socket.timeout.ms": REQUEST_MS,
            "retry.backoff.ms": BACKOFF_MS,
            "reconnect.backoff.ms": BACKOFF_MS,
            "reconnect.backoff.max.ms": BACKOFF_MS,
            "log_level": 0,
            "error_cb": lambda _: None,
        }
        return settings | ({"security.protocol": "SSL", "ssl.ca.location": str(task.ca)} if task.ca else {})


class Aiokafka:
    def produce(self, task: Task, outcome: Outcome) -> None:
        async def run() -> None:
            from aiokafka import AIOKafkaProducer

            producer = AIOKafkaProducer(acks="all", **self._settings(task))
            try:
                await producer.start()
                await asyncio.wait_for(producer.send_and_wait(TOPIC, VALUE.encode(), partition=0), PATIENCE)
            finally:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(producer.stop(), 2)

        self._run(run, outcome)

    def read(self, task: Task, outcome: Outcome) -> None:
        async def run() -> None:
            async with self._consumer(task) as (consumer, at):
                consumer.seek(at, 0)
                deadline = time.monotonic() + PATIENCE
                while not _is_over(outcome, deadline):
                    await self._poll(consumer, outcome, 0.2)
                await self._poll(consumer, outcome, LATER)

        self._run(run, outcome)

    async def _poll(self, consumer: Any, outcome: Outcome, seconds: float) -> None:
        try:
            for records in (await consumer.getmany(timeout_ms=int(seconds * 1000))).values():
                outcome.values += [record.value.decode(errors="replace") for record in records]
        except Exception as error:
            outcome.errors.append(name_of(error))

    def end(self, task: Task, outcome: Outcome) -> None:
        async def run() -> None:
            async with self._consumer(task) as (consumer, at):
                outcome.values.append(str((await consumer.end_offsets([at]))[at]))

        self._run(run, outcome)

    def commit(self, task: Task, outcome: Outcome) -> None:
        async def run() -> None:
            async with self._consumer(task, group_id=GROUP) as (consumer, at):
                await asyncio.wait_for(consumer.commit({at: OFFSET}), PATIENCE)

        self._run(run, outcome)

    def join(self, task: Task, outcome: Outcome) -> None:
        async def run() -> None:
            from aiokafka import AIOKafkaConsumer

            how = {"group_id": GROUP, "heartbeat_interval_ms": 100, "enable_auto_commit": False}
            consumer = AIOKafkaConsumer(TOPIC, **how, **self._settings(task))
            await consumer.start()
            deadline = time.monotonic() + JOINED
            while not task.is_done() and time.monotonic() < deadline:
                await self._poll(consumer, outcome, 0.1)
            await consumer.stop()

        self._run(run, outcome)

    def _run(self, action: Callable[[], Any], outcome: Outcome) -> None:
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        try:
            asyncio.run(action())
        except Exception as error:
            raise _gave_up(outcome, error) from error

    @contextlib.asynccontextmanager
    async def _consumer(self, task: Task, **how: Any) -> Any:
        from aiokafka import AIOKafkaConsumer
        from aiokafka.structs import TopicPartition

        consumer = AIOKafkaConsumer(**CONSUMING, fetch_max_wait_ms=100, **how, **self._settings(task))
        at = TopicPartition(TOPIC, 0)
        consumer.assign([at])
        try:
            await consumer.start()
            yield consumer, at
        finally:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(consumer.stop(), 2)

    @staticmethod
    def _settings(task: Task) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "bootstrap_servers": task.bootstrap,
            "request_timeout_ms": REQUEST_MS,
            "retry_backoff_ms": BACKOFF_MS,
        }
        if task.ca:
            settings |= {"security_protocol": "SSL", "ssl_context": ssl.create_default_context(cafile=str(task.ca))}
        return settings


class Asked:
    """A client in another language, which gives up after 15 seconds; its errors have no names."""

    def __init__(self, family: str) -> None:
        self._asked = programs.asked(family)

    def produce(self, task: Task, outcome: Outcome) -> None:
        records = [{"partition": 0, "value": VALUE}]
        how = {"acks": "all", "compression": "none", "idempotent": False, "timestamp": None}
        self._ask(task, outcome, "produce", records=records, **how)

    def read(self, task: Task, outcome: Outcome) -> None:
        records = self._ask(task, outcome, "read", partition=0, start=0, wanted=1, committed=False)
        outcome.values += [value for _, value in records]

    def end(self, task: Task, outcome: Outcome) -> None:
        outcome.values.append(str(self._ask(task, outcome, "ends", partition=0)[1]))

    def commit(self, task: Task, outcome: Outcome) -> None:
        self._ask(task, outcome, "commit_for", group=GROUP, partition=0, offset=OFFSET)

    def _ask(self, task: Task, outcome: Outcome, call: str, **what: Any) -> Any:
        security = {"ca": str(task.ca)} if task.ca else {}
        try:
            return self._asked.ask(call, bootstrap=task.bootstrap, security=security, topic=TOPIC, **what)
        except AssertionError as error:
            outcome.errors.append("an error")
            raise _Stop from error


CLIENTS: dict[str, Any] = {
    "kafka-python": KafkaPython(),
    "confluent-kafka": ConfluentKafka(),
    "aiokafka": Aiokafka(),
}
