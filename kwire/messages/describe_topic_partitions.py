"""DescribeTopicPartitions (key 75): request the partitions of topics, page by page (KIP-966).

The response includes the eligible leader replicas.
"""

from uuid import UUID

from kwire.schema import Api, Array, Bool, Int16, Int32, Nested, String, Uuid, request, response, struct

DESCRIBE_TOPIC_PARTITIONS = Api(75, versions="0", flexible="0+")


@request(DESCRIBE_TOPIC_PARTITIONS)
class DescribeTopicPartitionsRequest:
    @struct
    class Topic:
        name: str = String(entity="topicName")

    @struct
    class Cursor:
        topic_name: str = String(entity="topicName")
        partition_index: int = Int32()

    topics: list[Topic] = Array(Topic)
    response_partition_limit: int = Int32(default=2000)
    cursor: Cursor | None = Nested(Cursor, null=True, default=None)


@response(DESCRIBE_TOPIC_PARTITIONS)
class DescribeTopicPartitionsResponse:
    @struct
    class Topic:
        @struct
        class Partition:
            error_code: int = Int16()
            partition_index: int = Int32()
            leader_id: int = Int32(entity="brokerId")
            leader_epoch: int = Int32(default=-1, ignorable=True)
            replica_nodes: list[int] = Array(Int32, entity="brokerId")
            isr_nodes: list[int] = Array(Int32, entity="brokerId")
            eligible_leader_replicas: list[int] | None = Array(Int32, null=True, default=None, entity="brokerId")
            last_known_elr: list[int] | None = Array(Int32, null=True, default=None, entity="brokerId")
            offline_replicas: list[int] = Array(Int32, ignorable=True, entity="brokerId")

        error_code: int = Int16()
        name: str | None = String(null=True, entity="topicName")
        topic_id: UUID = Uuid(ignorable=True)
        is_internal: bool = Bool(ignorable=True)
        partitions: list[Partition] = Array(Partition)
        topic_authorized_operations: int = Int32(default=-2147483648)

    @struct
    class Cursor:
        topic_name: str = String(entity="topicName")
        partition_index: int = Int32()

    throttle_time_ms: int = Int32(ignorable=True)
    topics: list[Topic] = Array(Topic)
    next_cursor: Cursor | None = Nested(Cursor, null=True, default=None)
