"""ListPartitionReassignments (key 46): list the partitions that are being reassigned (KIP-455).

Null topics mean all topics.
"""

from kwire.schema import Api, Array, Int16, Int32, String, request, response, struct

LIST_PARTITION_REASSIGNMENTS = Api(46, versions="0", flexible="0+")


@request(LIST_PARTITION_REASSIGNMENTS)
class ListPartitionReassignmentsRequest:
    @struct
    class Topic:
        name: str = String(entity="topicName")
        partition_indexes: list[int] = Array(Int32)

    timeout_ms: int = Int32(default=60000)
    topics: list[Topic] | None = Array(Topic, null=True, default=None)


@response(LIST_PARTITION_REASSIGNMENTS)
class ListPartitionReassignmentsResponse:
    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = Int32()
            replicas: list[int] = Array(Int32, entity="brokerId")
            adding_replicas: list[int] = Array(Int32, entity="brokerId")
            removing_replicas: list[int] = Array(Int32, entity="brokerId")

        name: str = String(entity="topicName")
        partitions: list[Partition] = Array(Partition)

    throttle_time_ms: int = Int32()
    error_code: int = Int16()
    error_message: str | None = String(null=True)
    topics: list[Topic] = Array(Topic)
