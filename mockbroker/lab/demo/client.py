"""The program that runs one real client of the demo in a separate process, so that the demo can kill the client.

``python -m mockbroker.lab.demo.client`` has three commands:

- ``consume BOOTSTRAP KIND`` reads and commits records, and prints them as lines ``{"records": [[partition, offset,
  value], ...]}``. A line on stdin, or the end of stdin, makes the client leave the group and exit.
- ``produce BOOTSTRAP FIRST COUNT`` produces records.
- ``committed BOOTSTRAP`` prints the committed offsets of the group.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mockbroker.lab.demo import GROUP, HEARTBEAT_S, PARTITIONS, SESSION_S, TOPIC

HEARTBEAT_MS = int(HEARTBEAT_S * 1000)
SESSION_MS = int(SESSION_S * 1000)
POLL_S = 0.2
# A poll of kafka-python 3.0.12 that times out during a join may lose the member's assignment, so its polls end when
# records arrive or the client is stopped.
LONG_POLL_MS = 60_000
Rows = Iterable[tuple[Any, Any, Any]]  # partition, offset, value; each client library has its own types


def print_json(**fields: object) -> None:
    """Print a JSON object on one line."""
    print(json.dumps(fields), flush=True)


def print_records(rows: Rows) -> None:
    """Print records as one JSON line; print nothing for no records. ``rows``: partition, offset and value of each
    record.
    """
    records = [[partition, offset, value.decode()] for partition, offset, value in rows]
    if records:
        print_json(records=records)


def consume_kafka_python(bootstrap: str, stop: threading.Event) -> None:
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    consumer = KafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        client_id="kafka-python",
        group_id=GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        partition_assignment_strategy=[RangePartitionAssignor],
    )
    consumer.partitions_for_topic(TOPIC)  # load metadata first: a leader without it would assign no partitions
    while not stop.is_set():
        try:
            with stop_interrupts(stop):
                polled = consumer.poll(timeout_ms=LONG_POLL_MS)
        except StoppedError:
            break
        rows = [(record.partition, record.offset, record.value) for records in polled.values() for record in records]
        if rows:
            consumer.commit()
        print_records(rows)
    consumer.close()


class StoppedError(Exception):
    """The error that interrupts a poll because the client was requested to stop."""


@contextmanager
def stop_interrupts(stop: threading.Event) -> Iterator[None]:
    """Make a request to stop raise StoppedError in the main thread, for the duration of a ``with`` block.

    ``stop``: event that is set to request the stop.
    """

    def interrupt(*_: object) -> None:
        raise StoppedError

    signal.signal(signal.SIGINT, interrupt)
    try:
        if stop.is_set():
            raise StoppedError
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def consume_confluent_kafka(bootstrap: str, stop: threading.Event) -> None:
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": "confluent-kafka",
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "partition.assignment.strategy": "range",
        }
    )
    consumer.subscribe([TOPIC])
    while not stop.is_set():
        messages = [message for message in consumer.consume(500, POLL_S) if message.error() is None]
        if messages:
            consumer.commit(asynchronous=False)
        print_records((message.partition(), message.offset(), message.value()) for message in messages)
    consumer.close()


def consume_aiokafka(bootstrap: str, stop: threading.Event) -> None:
    asyncio.run(_consume_aiokafka(bootstrap, stop))


async def _consume_aiokafka(bootstrap: str, stop: threading.Event) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor

    consumer = AIOKafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        client_id="aiokafka",
        group_id=GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        partition_assignment_strategy=(RangePartitionAssignor,),
    )
    await consumer.start()
    try:
        while not stop.is_set():
            polled = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
            rows = [(record.partition, record.offset, record.value) for batch in polled.values() for record in batch]
            if rows:
                await consumer.commit()
            print_records(rows)
    finally:
        await consumer.stop()


CONSUMERS: Mapping[str, Callable[[str, threading.Event], None]] = {
    "kafka-python": consume_kafka_python,
    "confluent-kafka": consume_confluent_kafka,
    "aiokafka": consume_aiokafka,
}


def produce(bootstrap: str, first: int, count: int) -> None:
    """Produce records with the values ``first`` to ``first + count - 1``, round-robin over the partitions.

    Then print a JSON object with ``count`` as ``produced``, and the error texts of undelivered records as ``failures``.

    ``bootstrap``: address of the cluster, ``host:port``.
    """
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "producer", "linger.ms": 5})
    failures: list[str] = []

    def delivered(error: Any, _: Any) -> None:
        if error is not None:
            failures.append(str(error))

    for number in range(first, first + count):
        producer.produce(TOPIC, str(number).encode(), partition=number % PARTITIONS, on_delivery=delivered)
    producer.flush()
    print_json(produced=count, failures=failures)


def committed(bootstrap: str) -> None:
    """Print the committed offsets of the group, with a client that does not join the group.

    ``bootstrap``: address of the cluster, ``host:port``.
    """
    from kafka import KafkaConsumer
    from kafka.structs import TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, client_id="reader", group_id=GROUP)
    print_json(committed={index: consumer.committed(TopicPartition(TOPIC, index)) for index in range(PARTITIONS)})
    consumer.close()


def consume(kind: str, bootstrap: str) -> None:
    """Run a consumer until stdin has a line or is closed.

    Args:
        kind: kind of the client, one of CONSUMERS.
        bootstrap: address of the cluster, ``host:port``.
    """
    stop = threading.Event()

    def wait() -> None:
        sys.stdin.readline()
        stop.set()
        os.kill(os.getpid(), signal.SIGINT)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=wait, daemon=True).start()
    CONSUMERS[kind](bootstrap, stop)


def main(verb: str, bootstrap: str, *rest: str) -> None:
    """Run a command.

    Args:
        verb: name of the command: consume, produce or committed.
        bootstrap: address of the cluster, ``host:port``.
        rest: other arguments of the command.
    """
    logging.basicConfig(level=logging.ERROR)  # client libraries log rebalances as warnings
    match verb:
        case "consume":
            consume(rest[0], bootstrap)
        case "produce":
            produce(bootstrap, int(rest[0]), int(rest[1]))
        case "committed":
            committed(bootstrap)
        case _:
            raise ValueError(f"unknown command {verb!r}: use consume, produce or committed")


if __name__ == "__main__":
    main(*sys.argv[1:])
