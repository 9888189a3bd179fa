"""DescribeLogDirs (key 35): request the log directories of a broker, with the sizes of their replicas (KIP-113).

Since v1, brokers send the response before they throttle the client (KIP-219); v2 is flexible; v3 adds the top-level
error; v4 adds the size of the volume (KIP-827).
"""

from kwire.schema import Api, Array, Bool, Int16, Int32, Int64, String, request, response, struct

DESCRIBE_LOG_DIRS = Api(35, versions="0-4", flexible="2+")


@request(DESCRIBE_LOG_DIRS)
class DescribeLogDirsRequest:
    @struct
    class Topic:
        topic: str = String(entity="topicName")
        partitions: list[int] = Array(Int32)

    topics: list[Topic] | None = Array(Topic, null=True)


@response(DESCRIBE_LOG_DIRS)
class DescribeLogDirsResponse:
    @struct
    class LogDir:
        @struct
        class Topic:
            @struct
            class Partition:
                partition_index: int = Int32()
                partition_size: int = Int64()
                offset_lag: int = Int64()
                is_future_key: bool = Bool()

            name: str = String(entity="topicName")
            partitions: list[Partition] = Array(Partition)

        error_code: int = Int16()
        log_dir: str = String()
        topics: list[Topic] = Array(Topic)
        total_bytes: int = Int64("4+", default=-1, ignorable=True)
        usable_bytes: int = Int64("4+", default=-1, ignorable=True)

    throttle_time_ms: int = Int32()
    error_code: int = Int16("3+", ignorable=True)
    results: list[LogDir] = Array(LogDir)
