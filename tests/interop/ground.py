"""A broker to play on, the mock or a real Kafka, with the same few questions: ``ground`` in conftest.

Topics and groups of each test have names of their own, as a real broker lives as long as the tests do.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from itertools import count
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from interop.stage import LIMIT
from need import lacking, need
from oracle import kafka

from mockbroker import Cluster

MOCK = "mock"
SETTINGS = {  # of both; heartbeats of the consumer protocol are quick
    "group.initial.rebalance.delay.ms": "50",
    "group.min.session.timeout.ms": "100",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "200",
}
REAL_SETTINGS = {  # start soon, also after SIGKILL: a broker that is back waits until its session of before is over
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
}

_numbers = count()


class Ground:
    """``kind``: mock, or the release of a real Kafka."""

    kind: str

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 2})
        self._producer = self._new_producer()

    def name(self, what: str) -> str:
        """One that nobody else uses."""
        return f"{what}-{next(_numbers)}"

    def create_topic(self, name: str, partitions: int = 1) -> None:
        self._all(self._admin.create_topics([NewTopic(name, partitions, 1)]))

    def create_partitions(self, name: str, partitions: int) -> None:
        self._all(self._admin.create_partitions([NewPartitions(name, partitions)]))

    def delete_topic(self, name: str) -> None:
        self._all(self._admin.delete_topics([name]))
        self._producer = self._new_producer()  # the old one remembers the topic

    def produce(self, topic: str, values: Sequence[str], *, partition: int = 0, timestamp: int | None = None) -> None:
        """Returns when all are acknowledged. ``timestamp``: of the first, in ms; each of the others one later."""
        failed: list[object] = []
        for number, value in enumerate(values):
            when = {} if timestamp is None else {"timestamp": timestamp + number}
            self._producer.produce(topic, value.encode(), partition=partition, on_delivery=_noting(failed), **when)
        assert self._producer.flush(LIMIT) == 0
        assert not failed

    def restart(self) -> None:
        """The broker dies, and comes back with all that it had; returns when it is there."""
        raise NotImplementedError

    def _new_producer(self) -> Producer:
        return Producer({"bootstrap.servers": self.bootstrap_servers, "log_level": 2, "linger.ms": 0})

    def _all(self, asked: Mapping[str, Future[Any]]) -> None:
        for one in asked.values():
            one.result(LIMIT)


def _noting(failed: list[object]) -> Any:
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
    """A real Kafka, from its jars; skips, or in CI fails, where there is no Java or no Maven."""

    def __init__(self, release: str) -> None:
        need("java", "Apache Kafka runs on it")
        need("mvn", "it fetches the jars of Apache Kafka")
        self.kind = release
        try:
            kafka.fetch(release)
        except (OSError, subprocess.CalledProcessError) as error:
            lacking(f"the jars of Apache Kafka {release} could not be fetched: {error}")
        self._port = free_port()
        super().__init__(kafka.start(release, self._port, SETTINGS | REAL_SETTINGS))

    def restart(self) -> None:
        kafka.kill_and_start(self.kind, self._port)
        until = time.monotonic() + kafka.READY_WITHIN
        while not kafka.serves_groups(self._port):
            assert time.monotonic() < until
            time.sleep(0.1)

    def stop(self) -> None:
        kafka.stop(self._port)


def free_port() -> int:
    """A port with a free one behind it, for the controller."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port
