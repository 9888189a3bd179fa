"""A consumer and producer with confluent-kafka, for ``mockbroker torture -- python confluent.py``."""

import os

from confluent_kafka import Consumer, KafkaException, Producer

servers, topic = os.environ["MOCKBROKER_BOOTSTRAP_SERVERS"], os.environ["MOCKBROKER_TOPIC"]
consumer = Consumer(
    {
        "bootstrap.servers": servers,
        "group.id": os.environ["MOCKBROKER_GROUP"],
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 6_000,
        "heartbeat.interval.ms": 500,
        "socket.timeout.ms": 3_000,
        "max.poll.interval.ms": 10_000,
        "topic.metadata.refresh.interval.ms": 3_000,
    }
)
producer = Producer({"bootstrap.servers": servers, "socket.timeout.ms": 3_000, "message.timeout.ms": 10_000})
consumer.subscribe([topic])
while True:
    message = consumer.poll(0.5)
    if message is None or message.error():
        if message is not None and message.error().fatal():
            raise SystemExit(str(message.error()))
        continue
    try:
        consumer.commit(message, asynchronous=False)
    except KafkaException as error:
        print(f"commit: {error}", flush=True)
    producer.produce(f"{topic}-results", message.value()[:100])
    producer.poll(0)
