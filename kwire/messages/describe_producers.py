"""DescribeProducers (key 61): request the active producers of partitions from their leader (KIP-664)."""

from kwire.schema import Api, Array, Int16, Int32, Int64, String, request, response, struct

DESCRIBE_PRODUCERS = Api(61, versions="0", flexible="0+")


@request(DESCRIBE_PRODUCERS)
class DescribeProducersRequest:
    @struct
    class Topic:
        name: str = String(entity="topicName")
        partition_indexes: list[int] = Array(Int32)

    topics: list[Topic] = Array(Topic)


@response(DESCRIBE_PRODUCERS)
class DescribeProducersResponse:
    @struct
    class Topic:
        @struct
        class Partition:
            @struct
            class Producer:
                producer_id: int = Int64(entity="producerId")
                producer_epoch: int = Int32()
                last_sequence: int = Int32(default=-1)
                last_timestamp: int = Int64(default=-1)
                coordinator_epoch: int = Int32()
                current_txn_start_offset: int = Int64(default=-1)

            partition_index: int = Int32()
            error_code: int = Int16()
            error_message: str | None = String(null=True, default=None)
            active_producers: list[Producer] = Array(Producer)

        name: str = String(entity="topicName")
        partitions: list[Partition] = Array(Partition)

    throttle_time_ms: int = Int32()
    topics: list[Topic] = Array(Topic)
