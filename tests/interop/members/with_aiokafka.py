"""A group member with aiokafka."""

import asyncio

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition
from talk import OPTIONS, POLL, awaited, command, tell, tell_left, tell_partitions, tell_record

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Listener(ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        tell_partitions("assigned", assigned)

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        tell_partitions("revoked", revoked)


async def committed(consumer: AIOKafkaConsumer) -> bool:
    """Commit; return False if the commit has to be retried."""
    try:
        await consumer.commit()
    except KafkaError as refused:
        if not refused.retriable:
            raise
        return False
    return True


async def main() -> None:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=OPTIONS["bootstrap"],
        client_id=OPTIONS["client_id"],
        group_instance_id=OPTIONS["instance"] or None,
        group_id=OPTIONS["group"],
        session_timeout_ms=OPTIONS["session_ms"],
        heartbeat_interval_ms=OPTIONS["heartbeat_ms"],
        partition_assignment_strategy=[ASSIGNORS[name] for name in OPTIONS["assignor"].split(",")],
        auto_offset_reset=OPTIONS["reset"],
        enable_auto_commit=False,
        metadata_max_age_ms=1000,
    )
    consumer.subscribe([OPTIONS["topic"]], listener=Listener())
    await consumer.start()
    requested = ""
    while requested != "leave":
        for records in (await consumer.getmany(timeout_ms=int(POLL * 1000))).values():
            for record in records:
                tell_record(record.topic, record.partition, record.offset, record.value)
        if requested == "commit" and await committed(consumer):
            tell("committed")
            requested = ""
        if requested == "unsubscribe":
            consumer.unsubscribe()
            await asyncio.to_thread(awaited)  # the only possible command is "leave"
            break
        requested = requested or command()
    await consumer.stop()
    tell_left()


asyncio.run(main())
