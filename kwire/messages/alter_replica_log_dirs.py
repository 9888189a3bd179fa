"""AlterReplicaLogDirs (key 34): move replicas to other log directories of the same broker (KIP-113).

Since v1, brokers send the response before they throttle the client (KIP-219); v2 is flexible.
"""

from kwire.schema import Api, Array, Int16, Int32, String, request, response, struct

ALTER_REPLICA_LOG_DIRS = Api(34, versions="0-2", flexible="2+")


@request(ALTER_REPLICA_LOG_DIRS)
class AlterReplicaLogDirsRequest:
    @struct
    class Dir:
        @struct
        class Topic:
            name: str = String(entity="topicName")
            partitions: list[int] = Array(Int32)

        path: str = String()
        topics: list[Topic] = Array(Topic)

    dirs: list[Dir] = Array(Dir)


@response(ALTER_REPLICA_LOG_DIRS)
class AlterReplicaLogDirsResponse:
    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = Int32()
            error_code: int = Int16()

        topic_name: str = String(entity="topicName")
        partitions: list[Partition] = Array(Partition)

    throttle_time_ms: int = Int32()
    results: list[Topic] = Array(Topic)
