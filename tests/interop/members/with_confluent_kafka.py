"""A group member with confluent-kafka (librdkafka)."""

from confluent_kafka import Consumer, KafkaError, KafkaException
from talk import OPTIONS, POLL, command, tell, tell_left, tell_partitions, tell_record

CLASSIC = {
    "session.timeout.ms": OPTIONS["session_ms"],
    "heartbeat.interval.ms": OPTIONS["heartbeat_ms"],
    "partition.assignment.strategy": OPTIONS["assignor"],
}
MOVED_ON = {
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.STALE_MEMBER_EPOCH,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
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
        "fetch.wait.max.ms": 100,  # newly assigned partitions are fetched only after the pending Fetch
    }
)
consumer.subscribe(
    [OPTIONS["regex"] or OPTIONS["topic"]],
    on_assign=lambda _, partitions: tell_partitions("assigned", partitions),
    on_revoke=lambda _, partitions: tell_partitions("revoked", partitions),
)


def committed() -> bool:
    """Commit; return False if the group rebalances or its coordinator has moved, which the next poll handles."""
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as refused:
        if refused.args[0].code() == KafkaError._NO_OFFSET:  # it has read nothing since its last assignment
            return True
        if not (refused.args[0].code() in MOVED_ON or refused.args[0].retriable()):
            raise
        return False
    return True


asked = ""
while asked != "leave":
    if asked == "commit" and committed():
        tell("committed")
        asked = ""
    if asked == "unsubscribe":
        consumer.unsubscribe()
        asked = ""
    message = consumer.poll(POLL)
    if message is not None:
        if message.error():
            raise KafkaException(message.error())
        tell_record(message.topic(), message.partition(), message.offset(), message.value())
    asked = asked or command()
consumer.close()
tell_left()
