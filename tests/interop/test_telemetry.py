"""Real clients push their metrics, as they do by default if a subscription matches them (KIP-714)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from interop.kafka_tools import consumed
from interop.raw import Connection
from interop.stage import CONFIG, MARKS

from kwire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from mockbroker import Cluster, run_cluster

pytest.importorskip("opentelemetry.proto.metrics.v1.metrics_pb2", reason="needs opentelemetry-proto")
pytestmark = MARKS
CLIENT_METRICS = 16  # resource type
Resource = IncrementalAlterConfigsRequest.Resource


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Yield a cluster with a subscription to all metrics, which clients push every 0.2 s."""
    config = CONFIG | {"mockbroker.client.telemetry.enable": True}
    with run_cluster(topics={"orders": 1}, config=config) as cluster:
        configs = [
            Resource.Config(name=name, value=value) for name, value in (("metrics", "*"), ("interval.ms", "200"))
        ]
        resource = Resource(resource_type=CLIENT_METRICS, resource_name="all", configs=configs)
        with Connection(cluster) as broker:
            assert broker.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0].error_code == 0
        yield cluster


def pushed(cluster: Cluster, client: str) -> Any:
    """Return the metrics that the client has pushed last."""
    results = [event.telemetry for event in cluster.events() if event.event == "telemetry" and event.client == client]
    assert results, f"{client} has pushed nothing"
    return results[-1]


def test_librdkafka_pushes_its_metrics(cluster: Cluster) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers, "client.id": "rd"})
    producer.produce("orders", b"a")
    producer.flush(10)
    producer.poll(0.5)
    del producer  # the producer pushes once more when it is closed
    last = pushed(cluster, "rd")
    assert "org.apache.kafka.producer.connection.creation.total" in last["metrics"]


def test_java_consumer_pushes_its_metrics(cluster: Cluster) -> None:
    cluster.produce("orders", ["a"])
    assert consumed(cluster.bootstrap_servers, "orders", "--from-beginning", "--max-messages", "1") == ["a"]
    last = pushed(cluster, "console-consumer")
    assert last["terminating"] is True
    assert "org.apache.kafka.consumer.fetch.manager.records.consumed.total" in last["metrics"]
    assert last["resource"]["group_id"].startswith("console-consumer-")
