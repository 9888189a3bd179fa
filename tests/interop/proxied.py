"""A cluster of three brokers, the mock or a real Kafka, and groups of real clients that reach it through proxies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from interop.ground import MOCK, SETTINGS, Ground
from interop.stage import LIMIT
from kafka_definitions import broker_jars
from need import need
from oracle import kafka
from oracle.quorum import Quorum

from mockbroker import ThreadCluster

USERS = {"alice": "alice-secret"}
CONFIG = SETTINGS | {  # with the minimum values, because Kafka checks a share group's configuration against all of them
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "300",
}
REPLICAS = 3


class Behind(Protocol):
    """The cluster to which the proxies forward. ``listeners``: addresses by security protocol; ``ca``: of its
    certificates.
    """

    @property
    def listeners(self) -> Mapping[str, str]: ...

    @property
    def ca(self) -> Path: ...

    def stop(self, node: int) -> None:
        """Shut down a broker. ``node``: 0, 1 or 2."""

    def start(self, node: int) -> None:
        """Start a broker again, with its data."""


class MockBehind:
    def __init__(self, cluster: ThreadCluster) -> None:
        self._cluster = cluster
        self.listeners = cluster.listeners
        self.ca = cluster.tls.ca

    def stop(self, node: int) -> None:
        self._cluster.stop_broker(node)

    def start(self, node: int) -> None:
        self._cluster.start_broker(node)


class RealBehind:
    """A real Kafka from its jars. Without Java or Maven the test is skipped, or fails in CI."""

    def __init__(self) -> None:
        need("java", "Apache Kafka runs on it")
        broker_jars(kafka.NEWEST)
        self._quorum = Quorum(USERS, CONFIG)
        self.listeners = self._quorum.listeners
        self.ca = self._quorum.ca
        try:
            self._quorum.start_all()
        except BaseException:
            self.end()
            raise

    def stop(self, node: int) -> None:
        self._quorum.stop(node + 1)

    def start(self, node: int) -> None:
        self._quorum.start(node + 1)
        self._quorum.wait_ready()

    def end(self) -> None:
        self._quorum.stop_all()


class ProxiedGround(Ground):
    """The ground of a ``Gathering`` whose clients connect through a proxy. Topics have a replica on each broker."""

    kind = MOCK

    def create_topic(self, name: str, partitions: int = 1) -> None:
        self._wait_all(self._admin.create_topics([NewTopic(name, partitions, REPLICAS)]))

    def read_from_the_beginning(self, share_group: str) -> None:
        """Let a share group begin at the earliest records of its topics."""
        entry: Any = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.GROUP, share_group, incremental_configs=[entry])
        self._wait_all(self._admin.incremental_alter_configs([resource]))

    def topics(self) -> set[str]:
        """Return the names of all topics."""
        return set(self._admin.list_topics(timeout=LIMIT).topics)

    def ports(self) -> dict[int, int]:
        """Return the port of each broker, by node id, in a new Metadata response."""
        return {node: broker.port for node, broker in self._admin.list_topics(timeout=LIMIT).brokers.items()}
