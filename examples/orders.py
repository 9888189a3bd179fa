"""Shared code of the consumer examples: a cluster, topics with records, and a process that may crash.

    python examples/consumer_commits.py [HOST:PORT]

Without an address an example starts a mock cluster. With an address it uses that Kafka cluster, with new names for its
topics and groups in each run.
"""

import os
import sys
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, NoReturn

import trio
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import mockbroker

SESSION = (
    6.0 if sys.argv[1:] else 1.0
)  # seconds, for members that crash; 6 is the default of group.min.session.timeout.ms
MEMBER: dict[str, Any] = {
    "heartbeat_interval": 0.2,  # so rebalances are quick
    "fetch_max_wait": 0.1,  # closing waits for the pending fetch
    "auto_offset_reset": "earliest",
}


def run(main: Callable[[str], Awaitable[None]]) -> None:
    """Run ``main`` with the address of the command line, or of a mock cluster that stops afterwards."""
    with address() as bootstrap:
        trio.run(main, bootstrap)


@contextmanager
def address() -> Iterator[str]:
    if sys.argv[1:]:
        yield sys.argv[1]
    else:
        with mockbroker.run_cluster(
            config={"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 100}
        ) as cluster:
            yield cluster.bootstrap_servers


def fresh(name: str) -> str:
    """Return a unique name with this prefix."""
    return f"{name}-{uuid.uuid4().hex[:8]}"


def new_topic(bootstrap: str, *partitions: Iterable[object], name: str = "orders") -> str:
    """Create a topic with these records in its partitions; return its name."""
    topic = fresh(name)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, len(partitions), 1)])[topic].result()
    for number, values in enumerate(partitions):
        produce(bootstrap, topic, values, number)
    return topic


def produce(bootstrap: str, topic: str, values: Iterable[object], partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, str(value).encode(), partition=partition)
    producer.flush()


async def in_a_process(work: Callable[..., Awaitable[None]], *arguments: object) -> int | None:
    """Run this work in another process; return the exit code."""
    process = get_context("spawn").Process(target=trio.run, args=(work, *arguments))
    process.start()
    await trio.to_thread.run_sync(process.join)
    return process.exitcode


CRASHED = 9


def crash() -> NoReturn:
    """End this process at once: no context manager exits, nothing is committed, the member does not leave its group."""
    os._exit(CRASHED)
