"""A group member with kafka-python."""

import logging
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaConnectionError
from kafka.structs import TopicPartition
from talk import OPTIONS, awaited, command, interrupt_on_command, tell, tell_left, tell_partitions, tell_record, waiting

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}

logging.basicConfig()  # kafka-python reports only in its log that it is fenced


class Listener(ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        tell_partitions("assigned", assigned)

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        tell_partitions("revoked", revoked)


consumer = KafkaConsumer(
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


class Asked(Exception):
    """A command of the test has arrived."""


def poll() -> dict[TopicPartition, list[Any]]:
    """Return all available records. A poll ends only when there are records or a command.

    If a poll ends while kafka-python 3.0.12 joins, and SyncGroup is answered before the next poll begins, then that
    poll finds nothing to do: the share is never taken over, heartbeats stay off, and the member is evicted. (In
    BaseCoordinator.join_group_async the loop is not entered, so ``_join_task`` is never checked.)
    """
    global polling
    polling = True
    try:
        return consumer.poll(timeout_ms=60_000) if waiting() == 0 else {}
    except Asked:
        return {}
    except KafkaConnectionError:  # raised by a poll that begins while a broker is down
        return {}
    finally:
        polling = False


def interrupt(*_: object) -> None:
    """Raise Asked once in a poll; the signal is repeated, and must not interrupt the handling of the exception."""
    global polling
    if polling and waiting() > 0:
        polling = False
        raise Asked


polling = False
interrupt_on_command(interrupt)
while (asked := command()) != "leave":
    if asked == "commit":
        consumer.commit()
        tell("committed")
    if asked == "unsubscribe":
        consumer.unsubscribe()
        awaited()  # the only possible command is "leave", and a poll without a subscription is an error
        break
    for records in poll().values():
        for record in records:
            tell_record(record.topic, record.partition, record.offset, record.value)
consumer.close(autocommit=False)
tell_left()
