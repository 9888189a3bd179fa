"""WriteTxnMarkers (key 27): a transaction coordinator makes brokers write the end markers of transactions (KIP-98).

v1 is flexible; v2 adds the transaction version (KIP-1228).
"""

from kwire.schema import Api, Array, Bool, Int8, Int16, Int32, Int64, String, request, response, struct

WRITE_TXN_MARKERS = Api(27, versions="0-2", flexible="1+")


@request(WRITE_TXN_MARKERS)
class WriteTxnMarkersRequest:
    @struct
    class Marker:
        @struct
        class Topic:
            name: str = String(entity="topicName")
            partition_indexes: list[int] = Array(Int32)

        producer_id: int = Int64(entity="producerId")
        producer_epoch: int = Int16()
        transaction_result: bool = Bool()
        topics: list[Topic] = Array(Topic)
        coordinator_epoch: int = Int32()
        transaction_version: int = Int8("2+", ignorable=True)

    markers: list[Marker] = Array(Marker)


@response(WRITE_TXN_MARKERS)
class WriteTxnMarkersResponse:
    @struct
    class Marker:
        @struct
        class Topic:
            @struct
            class Partition:
                partition_index: int = Int32()
                error_code: int = Int16()

            name: str = String(entity="topicName")
            partitions: list[Partition] = Array(Partition)

        producer_id: int = Int64(entity="producerId")
        topics: list[Topic] = Array(Topic)

    markers: list[Marker] = Array(Marker)
