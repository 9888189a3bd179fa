"""A member of a share group with librdkafka. In explicit mode, the value of a record decides how it is acknowledged:
``reject...`` is rejected, ``release...`` is released at its first delivery, and every other value is accepted.
"""

from __future__ import annotations

from confluent_kafka import AcknowledgeType, Message, ShareConsumer
from talk import OPTIONS, POLL, command, tell

EXPLICIT = OPTIONS["acknowledgement"] == "explicit"


def kind_of(value: str, deliveries: int) -> AcknowledgeType:
    if value.startswith("reject"):
        return AcknowledgeType.REJECT
    return AcknowledgeType.RELEASE if value.startswith("release") and deliveries == 1 else AcknowledgeType.ACCEPT


def take(consumer: ShareConsumer, message: Message) -> list[object]:
    value = message.value().decode()
    if EXPLICIT:
        consumer.acknowledge(message, kind_of(value, message.delivery_count()))
    return [value, message.delivery_count()]


consumer = ShareConsumer(
    {
        "bootstrap.servers": OPTIONS["bootstrap"],
        "client.id": OPTIONS["client_id"],
        "group.id": OPTIONS["group"],
        "share.acknowledgement.mode": OPTIONS["acknowledgement"],
        "topic.metadata.refresh.interval.ms": 1000,
    }
)
consumer.subscribe([OPTIONS["topic"]])
while command() != "leave":
    records = [take(consumer, message) for message in consumer.poll(POLL) if message.error() is None]
    if records:
        consumer.commit_sync()
        tell("records", records=records)
consumer.close()
tell("left")
