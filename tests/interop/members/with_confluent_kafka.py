"""A group member with confluent-kafka (librdkafka)."""

from confluent_kafka import Consumer, KafkaError, KafkaException
from talk import OPTIONS, POLL, command, tell, tell_left, tell_partitions, tell_record

CLASSIC = {
    "session.timeout.ms": OPTIONS["session_ms"],
    "heartbeat.interval.ms": OPTIONS["heartbeat_ms"],
    "partition.assignment.strategy": OPTIONS["assignor"],
}
AGAIN = {  # on a commit: the group has moved on, and the member with its next poll
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.STALE_MEMBER_EPOCH,
}

consumer = Consumer(
    {
        "bootstrap.servers": OPTIONS["bootstrap"],
        "client.id": OPTIONS["client_id"],
        "group.id": OPTIONS["group"],
        "group.protocol": OPTIONS["protocol"],
        **({"group.remote.assignor": OPTIONS["assignor"]} if OPTIONS["protocol"] == "consumer" else CLASSIC),
        "auto.offset.reset": OPTIONS["reset"],
        "enable.auto.commit": False,
        **({"group.instance.id": OPTIONS["instance"]} if OPTIONS["instance"] else {}),
        "topic.metadata.refresh.interval.ms": 1000,
    }
)
consumer.subscribe(
    [OPTIONS["regex"] or OPTIONS["topic"]],
    on_assign=lambda _, partitions: tell_partitions("assigned", partitions),
    on_revoke=lambda _, partitions: tell_partitions("revoked", partitions),
)
asked = ""
while asked != "leave":
    message = consumer.poll(POLL)
    if message is not None:
        if message.error():
            raise KafkaException(message.error())
        tell_record(message.topic(), message.partition(), message.offset(), message.value())
    if asked == "commit":
        try:
            consumer.commit(asynchronous=False)
        except KafkaException as refused:
            if refused.args[0].code() not in AGAIN:
                raise
            continue
        tell("committed")
    asked = command()
consumer.close()
tell_left()
