"""A worker that consumes and produces in transactions: it crashes in the middle, and each order is billed once."""

from confluent_kafka import Consumer, Producer, TopicPartition

from mockbroker import run_cluster


def bill_everything(bootstrap: str, failures: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "billing"})
    settings = {"group.id": "billing", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.subscribe(["orders"])
    producer.init_transactions(10)
    done = 0
    while done < 3:
        order = consumer.poll(10)
        assert order is not None
        producer.begin_transaction()
        producer.produce("invoices", b"one bill for " + order.value())
        here, after = (TopicPartition("orders", 0, offset) for offset in (order.offset(), order.offset() + 1))
        producer.send_offsets_to_transaction([after], consumer.consumer_group_metadata())
        if failures:
            failures -= 1
            producer.abort_transaction()
            consumer.seek(here)
        else:
            producer.commit_transaction()
            done += 1
    consumer.close()


def test_each_order_is_billed_once() -> None:
    topics = {"orders": 1, "invoices": 1}
    with run_cluster(topics=topics, config={"group.initial.rebalance.delay.ms": 0}) as cluster:
        cluster.produce("orders", ["tea", "milk", "bread"])
        bill_everything(cluster.bootstrap_servers, failures=2)
        bills = [record.value for record in cluster.records("invoices", committed=True)]
        assert bills == [b"one bill for tea", b"one bill for milk", b"one bill for bread"]
        assert cluster.committed("billing") == {("orders", 0): 3}


if __name__ == "__main__":
    test_each_order_is_billed_once()
    print("each order was billed once")
