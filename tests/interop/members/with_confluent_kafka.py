"""A group member with confluent-kafka (librdkafka)."""

from confluent_kafka import Consumer, KafkaException
from talk import OPTIONS, POLL, command, tell, tell_left, tell_partitions, tell_record

consumer = Consumer(
    {
        "bootstrap.servers": OPTIONS["bootstrap"],
        "client.id": OPTIONS["client_id"],
        "group.id": OPTIONS["group"],
        "session.timeout.ms": OPTIONS["session_ms"],
        "heartbeat.interval.ms": OPTIONS["heartbeat_ms"],
        "partition.assignment.strategy": OPTIONS["assignor"],
        "auto.offset.reset": OPTIONS["reset"],
        "enable.auto.commit": False,
        **({"group.instance.id": OPTIONS["instance"]} if OPTIONS["instance"] else {}),
        "topic.metadata.refresh.interval.ms": 1000,
    }
)
consumer.subscribe(
    [OPTIONS["topic"]],
    on_assign=lambda _, partitions: tell_partitions("assigned", partitions),
    on_revoke=lambda _, partitions: tell_partitions("revoked", partitions),
)
while (asked := command()) != "leave":
    message = consumer.poll(POLL)
    if message is not None:
        if message.error():
            raise KafkaException(message.error())
        tell_record(message.topic(), message.partition(), message.offset(), message.value())
    if asked == "commit":
        consumer.commit(asynchronous=False)
        tell("committed")
consumer.close()
tell_left()
