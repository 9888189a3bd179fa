"""A consumer of confluent-kafka in a plain test: it reads records, commits, and continues after them."""

import pytest
from confluent_kafka import Consumer

from mockbroker import ThreadCluster


def read(cluster: ThreadCluster, count: int) -> list[bytes | None]:
    """The code under test: read records in group ``billing`` and commit."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "billing", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    values = [message.value() for message in consumer.consume(count, timeout=10)]
    consumer.commit(asynchronous=False)
    consumer.close()
    return values


@pytest.mark.kafka(topics={"orders": 1})
def test_a_restart_goes_on_where_it_was(kafka_cluster: ThreadCluster) -> None:
    kafka_cluster.produce("orders", ["tea", "milk", "sugar"])
    assert read(kafka_cluster, 2) == [b"tea", b"milk"]
    assert kafka_cluster.committed("billing") == {("orders", 0): 2}
    kafka_cluster.wait_group("billing", state="Empty")
    assert read(kafka_cluster, 1) == [b"sugar"]
