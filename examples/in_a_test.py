"""A test of code that uses Kafka: the cluster runs until the end of the `with` block."""

from confluent_kafka import Consumer, Producer

from mockbroker import run_cluster


def test_an_order_arrives() -> None:
    with run_cluster(topics={"orders": 3}, config={"group.initial.rebalance.delay.ms": 0}) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        producer.produce("orders", b"one pizza")
        producer.flush()

        settings = {"group.id": "kitchen", "auto.offset.reset": "earliest"}
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, **settings})
        consumer.subscribe(["orders"])
        message = consumer.poll(10)
        consumer.close()

        assert message is not None
        assert message.value() == b"one pizza"
        assert [event.client for event in cluster.events() if event.event == "leave"] == ["rdkafka"]


if __name__ == "__main__":
    test_an_order_arrives()
    print("the order arrived")
