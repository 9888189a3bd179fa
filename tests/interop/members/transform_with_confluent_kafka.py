"""Consume, transform, produce with confluent-kafka (librdkafka), in transactions."""

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from talk import OPTIONS, tell, tell_fenced, tell_left, tell_record, transact, transformed

CLASSIC = {"session.timeout.ms": OPTIONS["session_ms"], "heartbeat.interval.ms": OPTIONS["heartbeat_ms"]}

consumer = Consumer(
    {
        "bootstrap.servers": OPTIONS["bootstrap"],
        "client.id": OPTIONS["client_id"],
        "group.id": OPTIONS["group"],
        "group.protocol": OPTIONS["protocol"],
        **({} if OPTIONS["protocol"] == "consumer" else CLASSIC),
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 100,
    }
)
producer = Producer(
    {
        "bootstrap.servers": OPTIONS["bootstrap"],
        "client.id": OPTIONS["client_id"],
        "transactional.id": OPTIONS["transactional_id"],
        "transaction.timeout.ms": OPTIONS["transaction_timeout_ms"],
        "linger.ms": 0,
    }
)


def take(wanted: int) -> dict[tuple[str, int], int]:
    """Transform this many records in a transaction; return the positions after them."""
    positions = {}
    producer.begin_transaction()
    for _ in range(wanted):
        message = consumer.poll(60)
        if message.error():
            raise KafkaException(message.error())
        tell_record(message.topic(), message.partition(), message.offset(), message.value())
        producer.produce(OPTIONS["output"], transformed(message.value()), partition=message.partition())
        positions[message.partition()] = TopicPartition(message.topic(), message.partition(), message.offset() + 1)
    producer.flush()
    producer.send_offsets_to_transaction(list(positions.values()), consumer.consumer_group_metadata())
    return positions


def abort(positions: dict[tuple[str, int], int]) -> None:
    """Seek to the committed offsets of the group, because aborted records must be processed again."""
    producer.abort_transaction()
    for at in consumer.committed(list(positions.values())):
        consumer.seek(TopicPartition(at.topic, at.partition, max(at.offset, 0)))


def run() -> None:
    producer.init_transactions()
    tell("ready")
    consumer.subscribe([OPTIONS["topic"]])
    transact(take, producer.commit_transaction, abort)


try:
    run()
except KafkaException as fenced:
    if not fenced.args[0].fatal():
        raise
    tell_fenced(fenced)
consumer.close()
tell_left()
