"""User data of Kafka Streams in subscriptions and assignments of the assignor ``stream``.

Subscription and assignment both begin with their version. v2 adds endpoints; v3 the newest version that all members
support (KIP-268); v4 error codes in assignments; v5 topics by number; v6 standby tasks by endpoint (KIP-535); v7 sums
of offsets, and the time of the next rebalance (KIP-441); v8 a byte that makes a subscription differ from the previous
one; v9 error codes in subscriptions; v10 named topologies; v11 tags (KIP-708).

Kafka has a schema of SubscriptionInfoData. It encodes AssignmentInfo in hand-written code (AssignmentInfo.java), so the
field names of this class are our own. The text in AssignmentInfo is Java's modified UTF-8, which differs from UTF-8 for
NUL and for characters above 16 bits.
"""

from uuid import UUID

from kwire.schema import Array, Bytes, Int8, Int32, Int64, String, UInt16, Uuid, data, struct


@data(versions="1-11", flexible="none")
class SubscriptionInfoData:
    """The user data in the subscription of a Kafka Streams member: the tasks whose state the member has.

    Up to v6 the data has only task ids. From v7 on, it has the sum of offsets of each task.
    """

    @struct
    class TaskId:
        topic_group_id: int = Int32()
        partition: int = Int32()

    @struct
    class TaskOffsetSum:
        @struct
        class PartitionOffsetSum:
            partition: int = Int32()
            offset_sum: int = Int64()

        topic_group_id: int = Int32()
        partition: int = Int32("10+")
        offset_sum: int = Int64("10+")
        named_topology: str | None = String("10+", null=True)
        partition_to_offset_sum: list[PartitionOffsetSum] = Array(PartitionOffsetSum, "7-9")

    @struct
    class ClientTag:
        key: bytes = Bytes()
        value: bytes = Bytes()

    version: int = Int32()
    latest_supported_version: int = Int32("3+", default=-1)
    process_id: UUID = Uuid()
    prev_tasks: list[TaskId] = Array(TaskId, "1-6")
    standby_tasks: list[TaskId] = Array(TaskId, "1-6")
    user_end_point: bytes = Bytes("2+")
    task_offset_sums: list[TaskOffsetSum] = Array(TaskOffsetSum, "7+")
    unique_field: int = Int8("8+")
    error_code: int = Int32("9+")
    client_tags: list[ClientTag] = Array(ClientTag, "11+")


@struct
class TaskId:
    subtopology: int = Int32()
    partition: int = Int32()
    named_topology: list[int] = Array(UInt16, "10+")


@struct
class TopicPartition:
    topic: str = String()
    partition: int = Int32()


@data(versions="1-11", flexible="none")
class AssignmentInfo:
    """The user data in the assignment of a Kafka Streams member: its tasks.

    In a task, ``named_topology`` is the name of the topology as a list of UTF-16 code units; it is empty for a topology
    without a name. In the partitions by endpoint, a topic is an index into ``topics`` instead of a name.
    """

    @struct
    class StandbyTask:
        subtopology: int = Int32()
        partition: int = Int32()
        named_topology: list[int] = Array(UInt16, "10+")
        partitions: list[TopicPartition] = Array(TopicPartition)

    @struct
    class HostPartitions:
        host: str = String()
        port: int = Int32()
        partitions: list[TopicPartition] = Array(TopicPartition)

    @struct
    class Topic:
        index: int = Int32()
        name: str = String()

    @struct
    class HostIndexes:
        @struct
        class Partition:
            topic_index: int = Int32()
            partition: int = Int32()

        host: str = String()
        port: int = Int32()
        partitions: list[Partition] = Array(Partition)

    version: int = Int32()
    commonly_supported_version: int = Int32("3+", default=-1, ignorable=True)
    active_tasks: list[TaskId] = Array(TaskId)
    standby_tasks: list[StandbyTask] = Array(StandbyTask)
    partitions_by_host: list[HostPartitions] = Array(HostPartitions, "2-4")
    topics: list[Topic] = Array(Topic, "5+")
    active_by_host: list[HostIndexes] = Array(HostIndexes, "5+")
    standby_by_host: list[HostIndexes] = Array(HostIndexes, "6+")
    error_code: int = Int32("4+", ignorable=True)
    next_rebalance_ms: int = Int64("7+", default=2**63 - 1, ignorable=True)
