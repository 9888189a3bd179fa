"""A broker for a test, mockbroker or a real Kafka, with one interface: the fixture ``ground`` of conftest.

Each test uses topics and groups with unique names, because all tests share a real broker.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from typing import Any, Self

from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from interop.stage import LIMIT
from kafka_definitions import broker_jars
from need import need
from oracle import kafka

from mockbroker import Cluster

MOCK = "mock"
SETTINGS = {  # of mockbroker and of real brokers; short heartbeat intervals of the consumer protocol
    "group.initial.rebalance.delay.ms": "50",
    "group.min.session.timeout.ms": "100",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.heartbeat.interval.ms": "300",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.initial.rebalance.delay.ms": "300",
}
REAL_SETTINGS = {  # for a quick start, also after SIGKILL: a broker waits until its old session has expired
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
}

_numbers = count()


class Ground:
    """A running broker. ``kind``: "mock", or the release of a real Kafka.

    This is a context manager. Its exit closes its clients, which would otherwise log that they cannot connect any more.
    """

    kind: str

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 2})
        self._producer = self._new_producer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        del self._producer, self._admin  # closes both clients

    def name(self, prefix: str) -> str:
        """Return a name that no other test uses."""
        return f"{prefix}-{next(_numbers)}"

    def create_topic(self, name: str, partitions: int = 1) -> None:
        self._wait_all(self._admin.create_topics([NewTopic(name, partitions, 1)]))

    def create_partitions(self, name: str, partitions: int) -> None:
        self._wait_all(self._admin.create_partitions([NewPartitions(name, partitions)]))

    def delete_topic(self, name: str) -> None:
        self._wait_all(self._admin.delete_topics([name]))
        del self._producer  # closes the producer, which caches the topic
        self._producer = self._new_producer()

    def produce(self, topic: str, values: Sequence[str], *, partition: int = 0, timestamp: int | None = None) -> None:
        """Write values, and return when all are acknowledged. ``timestamp``: timestamp of the first record, in ms; each
        further record is 1 ms later.
        """
        failed: list[object] = []
        for number, value in enumerate(values):
            options = {} if timestamp is None else {"timestamp": timestamp + number}
            self._producer.produce(
                topic, value.encode(), partition=partition, on_delivery=_collect_errors(failed), **options
            )
        assert self._producer.flush(LIMIT) == 0
        assert not failed

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """Return the committed offsets of a group."""
        futures = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        return {(one.topic, one.partition): one.offset for one in futures[group].result(LIMIT).topic_partitions}

    def restart(self) -> None:
        """Kill the broker and start it again with its data; return when it serves groups."""
        raise NotImplementedError

    def _new_producer(self) -> Producer:
        return Producer({"bootstrap.servers": self.bootstrap_servers, "log_level": 2, "linger.ms": 0})

    def _wait_all(self, futures: Mapping[str, Future[Any]]) -> None:
        for future in futures.values():
            future.result(LIMIT)


def _collect_errors(failed: list[object]) -> Any:
    return lambda error, _: failed.append(error) if error else None


class MockGround(Ground):
    kind = MOCK

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        super().__init__(cluster.bootstrap_servers)

    def restart(self) -> None:
        (node,) = self.cluster.nodes
        self.cluster.kill_broker(node.node_id)
        self.cluster.start_broker(node.node_id)


class RealGround(Ground):
    """A real Kafka from its jars. Without Java or Maven the test is skipped, or fails in CI."""

    def __init__(self, release: str) -> None:
        need("java", "Apache Kafka runs on it")
        broker_jars(release)
        self.kind = release
        self._port, address = start_broker(release, SETTINGS | REAL_SETTINGS)
        super().__init__(address)

    def restart(self) -> None:
        kafka.kill_and_start(self.kind, self._port)
        until = time.monotonic() + kafka.READY_WITHIN
        while not kafka.serves_groups(self._port):
            assert time.monotonic() < until
            time.sleep(0.1)

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        kafka.stop(self._port)


def start_broker(release: str, settings: dict[str, str]) -> tuple[int, str]:
    """Start a real broker; return its port and address. Tries three times: another process may take the free port."""
    for _ in range(2):
        port = free_port()
        with suppress(RuntimeError):
            return port, kafka.start(release, port, settings)
    port = free_port()
    return port, kafka.start(release, port, settings)


def free_port() -> int:
    """Return a free port whose successor is free too, for the controller."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port
