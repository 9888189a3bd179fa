"""DeleteRecords (key 21): delete all records of a partition before an offset (KIP-107).

Offset -1 means the high watermark. Since v1, brokers send the response before they throttle the client (KIP-219); v2 is
flexible.
"""

from kwire.schema import Api, Array, Int16, Int32, Int64, String, request, response, struct

DELETE_RECORDS = Api(21, versions="0-2", flexible="2+")


@request(DELETE_RECORDS)
class DeleteRecordsRequest:
    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = Int32()
            offset: int = Int64()

        name: str = String(entity="topicName")
        partitions: list[Partition] = Array(Partition)

    topics: list[Topic] = Array(Topic)
    timeout_ms: int = Int32()


@response(DELETE_RECORDS)
class DeleteRecordsResponse:
    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = Int32()
            low_watermark: int = Int64()
            error_code: int = Int16()

        name: str = String(entity="topicName")
        partitions: list[Partition] = Array(Partition)

    throttle_time_ms: int = Int32()
    topics: list[Topic] = Array(Topic)
