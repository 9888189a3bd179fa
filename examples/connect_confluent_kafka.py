"""confluent-kafka in group `demo`: python examples/connect_confluent_kafka.py HOST:PORT."""

import sys

from confluent_kafka import Consumer

consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "demo", "auto.offset.reset": "earliest"})
consumer.subscribe(["orders"])
while True:
    for message in consumer.consume(timeout=0.5):
        print(message.partition(), message.offset(), message.value().decode(), flush=True)
