"""Real clients that reach the brokers only through a TCP forwarder, as through the published ports of a container."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from interop.stage import MARKS

from mockbroker import ThreadCluster, run_cluster

pytestmark = MARKS

BROKERS = 2
TOPIC = "orders"
VALUES = [b"0", b"1", b"2", b"3"]
QUICK = {"group.initial.rebalance.delay.ms": 0}


@dataclass
class Forwarder:
    """A TCP forwarder: one port for each broker.

    Attributes:
        port: The first port.
        addresses: The addresses from which it connects to the brokers.
    """

    port: int
    addresses: set[str] = field(default_factory=set)

    def serve(self, listening: socket.socket, target: tuple[str, int]) -> None:
        """Forward each connection to the target, until the listening socket is closed."""
        with suppress(OSError):
            while True:
                inward, _ = listening.accept()
                outward = socket.create_connection(target)
                self.addresses.add("{}:{}".format(*outward.getsockname()))
                for pair in ((inward, outward), (outward, inward)):
                    threading.Thread(target=_copy, args=pair, daemon=True).start()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            sink.sendall(data)
    for each in (source, sink):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()


def _neighbours(count: int) -> list[socket.socket]:
    """Return listening sockets at consecutive ports of the loopback interface."""
    for _ in range(100):
        with ExitStack() as stack:
            results = [stack.enter_context(socket.create_server(("127.0.0.1", 0)))]
            first = results[0].getsockname()[1]
            with suppress(OSError, OverflowError):
                results += [
                    stack.enter_context(socket.create_server(("127.0.0.1", first + number)))
                    for number in range(1, count)
                ]
                stack.pop_all()
                return results
    raise AssertionError("no consecutive free ports")


@contextmanager
def forwarded(**options: Any) -> Iterator[tuple[ThreadCluster, Forwarder]]:
    """Run a cluster that advertises the ports of a forwarder."""
    ports = _neighbours(BROKERS)
    reserved = _neighbours(BROKERS)
    forwarder = Forwarder(ports[0].getsockname()[1])
    direct = reserved[0].getsockname()[1]
    for each in reserved:
        each.close()
    config = QUICK | {"advertised.listeners": f"PLAINTEXT://localhost:{forwarder.port}"}
    threads = []
    with run_cluster(brokers=BROKERS, topics={TOPIC: BROKERS}, port=direct, config=config, **options) as cluster:
        for number, listening in enumerate(ports):
            target = ("127.0.0.1", direct + number)
            threads.append(threading.Thread(target=forwarder.serve, args=(listening, target), daemon=True))
            threads[-1].start()
        try:
            yield cluster, forwarder
        finally:
            for listening in ports:
                with suppress(OSError):
                    listening.shutdown(socket.SHUT_RDWR)  # wakes accept()
                listening.close()
            for thread in threads:
                thread.join(30)


def with_confluent_kafka(servers: str, check: Callable[[], None]) -> list[bytes]:
    from confluent_kafka import Consumer, Producer

    producer = Producer({"bootstrap.servers": servers})
    for number, value in enumerate(VALUES):
        producer.produce(TOPIC, value, partition=number % BROKERS)
    assert producer.flush(20) == 0
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    results = []
    while len(results) < len(VALUES):
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        results.append(message.value())
    check()
    consumer.close()
    return results


def with_kafka_python(servers: str, check: Callable[[], None]) -> list[bytes]:
    from kafka import KafkaConsumer, KafkaProducer

    with KafkaProducer(bootstrap_servers=servers) as producer:
        for number, value in enumerate(VALUES):
            producer.send(TOPIC, value, partition=number % BROKERS)
        producer.flush(20)
    consumer = KafkaConsumer(
        TOPIC, bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest", consumer_timeout_ms=20_000
    )
    results = [next(consumer).value for _ in VALUES]
    check()
    consumer.close()
    return results


@pytest.mark.parametrize("client", [with_confluent_kafka, with_kafka_python], ids=["confluent-kafka", "kafka-python"])
def test_clients_reach_every_broker_through_a_forwarder(client: Callable[..., list[bytes]]) -> None:
    with forwarded() as (cluster, forwarder):
        ports = [forwarder.port + number for number in range(BROKERS)]
        assert cluster.bootstrap_servers == ",".join(f"localhost:{port}" for port in ports)

        def check() -> None:
            """Check that the client has connections to all brokers, and each of them through the forwarder."""
            connections = cluster.connections().values()
            assert {each.broker for each in connections} == set(range(BROKERS))
            assert {each.address for each in connections} <= forwarder.addresses

        assert sorted(client(f"localhost:{forwarder.port}", check)) == VALUES
        assert sum(cluster.committed("g").values()) == len(VALUES)
        for api in ("Produce", "Fetch"):
            assert {request.node for request in cluster.requests(api)} == set(range(BROKERS))
