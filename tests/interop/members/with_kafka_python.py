"""A group member with kafka-python."""

from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from talk import OPTIONS, POLL, command, tell, tell_left, tell_partitions, tell_record

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class Listener(ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned):
        tell_partitions("assigned", assigned)

    def on_partitions_revoked(self, revoked):
        tell_partitions("revoked", revoked)


consumer = KafkaConsumer(
    bootstrap_servers=OPTIONS["bootstrap"],
    client_id=OPTIONS["client_id"],
    group_id=OPTIONS["group"],
    session_timeout_ms=OPTIONS["session_ms"],
    heartbeat_interval_ms=OPTIONS["heartbeat_ms"],
    partition_assignment_strategy=[ASSIGNORS[OPTIONS["assignor"]]],
    auto_offset_reset=OPTIONS["reset"],
    enable_auto_commit=False,
    metadata_max_age_ms=1000,
)
consumer.subscribe([OPTIONS["topic"]], listener=Listener())
while (asked := command()) != "leave":
    for records in consumer.poll(timeout_ms=int(POLL * 1000)).values():
        for record in records:
            tell_record(record.topic, record.partition, record.offset, record.value)
    if asked == "commit":
        consumer.commit()
        tell("committed")
consumer.close(autocommit=False)
tell_left()
