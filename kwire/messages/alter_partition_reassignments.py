"""AlterPartitionReassignments (key 45): move partitions to other brokers (KIP-455).

A null list of replicas cancels the reassignment of the partition. v1 adds a flag that allows the replication factor to
change (KIP-860).
"""

from kwire.schema import Api, Array, Bool, Int16, Int32, String, request, response, struct

ALTER_PARTITION_REASSIGNMENTS = Api(45, versions="0-1", flexible="0+")


@request(ALTER_PARTITION_REASSIGNMENTS)
class AlterPartitionReassignmentsRequest:
    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = Int32()
            replicas: list[int] | None = Array(Int32, null=True, default=None, entity="brokerId")

        name: str = String(entity="topicName")
        partitions: list[Partition] = Array(Partition)

    timeout_ms: int = Int32(default=60000)
    allow_replication_factor_change: bool = Bool("1+", default=True)
    topics: list[Topic] = Array(Topic)


@response(ALTER_PARTITION_REASSIGNMENTS)
class AlterPartitionReassignmentsResponse:
    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = Int32()
            error_code: int = Int16()
            error_message: str | None = String(null=True)

        name: str = String(entity="topicName")
        partitions: list[Partition] = Array(Partition)

    throttle_time_ms: int = Int32()
    allow_replication_factor_change: bool = Bool("1+", default=True, ignorable=True)
    error_code: int = Int16()
    error_message: str | None = String(null=True)
    responses: list[Topic] = Array(Topic)
