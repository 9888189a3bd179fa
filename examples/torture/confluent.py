"""A consumer and producer with confluent-kafka, for ``mockbroker torture -- python confluent.py``.

An argument sets the group protocol: classic or consumer.
"""

import os
import sys

from confluent_kafka import Consumer, KafkaException, Producer

servers, topic = os.environ["MOCKBROKER_BOOTSTRAP_SERVERS"], os.environ["MOCKBROKER_TOPIC"]
security = {
    name: os.environ[variable]
    for name, variable in {
        "security.protocol": "MOCKBROKER_SECURITY_PROTOCOL",
        "ssl.ca.location": "MOCKBROKER_TLS_CA",
        "sasl.mechanism": "MOCKBROKER_SASL_MECHANISM",
        "sasl.username": "MOCKBROKER_SASL_USERNAME",
        "sasl.password": "MOCKBROKER_SASL_PASSWORD",
    }.items()
    if variable in os.environ
}
if security.get("sasl.mechanism") == "OAUTHBEARER":
    security["enable.sasl.oauthbearer.unsecure.jwt"] = "true"
    security["sasl.oauthbearer.config"] = f"principal={security['sasl.username']}"
protocol = sys.argv[1] if len(sys.argv) > 1 else "classic"
group = (
    {"group.protocol": "consumer"}
    if protocol == "consumer"
    else {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500}
)
consumer = Consumer(
    {
        **security,
        **group,
        "bootstrap.servers": servers,
        "group.id": os.environ["MOCKBROKER_GROUP"],
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "socket.timeout.ms": 3_000,
        "max.poll.interval.ms": 10_000,
        "topic.metadata.refresh.interval.ms": 3_000,
    }
)
producer = Producer(
    {**security, "bootstrap.servers": servers, "socket.timeout.ms": 3_000, "message.timeout.ms": 10_000}
)
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
