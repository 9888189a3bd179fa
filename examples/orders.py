"""What the examples of the consumer share: a cluster, topics with records in them, and a process that may crash.

    python examples/consumer_commits.py [HOST:PORT]

Without an address an example opens a cluster of its own. With one it works on that Kafka: each run makes topics and
groups of new names there.
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

SESSION = 6.0 if sys.argv[1:] else 1.0  # seconds, where members die; brokers take no less than 6 unless told to
MEMBER: dict[str, Any] = {
    "heartbeat_interval": 0.2,  # so rebalances are quick
    "fetch_max_wait": 0.1,  # closing waits for a fetch that is under way
    "auto_offset_reset": "earliest",
}


def run(main: Callable[[str], Awaitable[None]]) -> None:
    """Run ``main`` with the address of the command line, or of a cluster that lives as long."""
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
    """A name that nothing has yet."""
    return f"{name}-{uuid.uuid4().hex[:8]}"


def new_topic(bootstrap: str, *partitions: Iterable[object], name: str = "orders") -> str:
    """A topic with these records in its partitions."""
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
    """Let another process do this work, and wait for its end; the exit code."""
    process = get_context("spawn").Process(target=trio.run, args=(work, *arguments))
    process.start()
    await trio.to_thread.run_sync(process.join)
    return process.exitcode


CRASHED = 9


def crash() -> NoReturn:
    """This process is gone, here and now: no block is left, nothing is committed, nobody says goodbye."""
    os._exit(CRASHED)
