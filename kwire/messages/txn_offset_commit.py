"""TxnOffsetCommit (key 28): commit offsets of a group as part of a transaction (KIP-98).

Since v1, brokers send the response before they throttle the client (KIP-219); v2 adds the leader epoch; v3 is flexible,
and adds the member and its generation (KIP-447); v4 adds the error TRANSACTION_ABORTABLE; v5 adds the group to the
transaction without AddOffsetsToTxn (KIP-890).
"""

from kwire.schema import Api, Array, Int16, Int32, Int64, String, request, response, struct

TXN_OFFSET_COMMIT = Api(28, versions="0-5", flexible="3+")


@request(TXN_OFFSET_COMMIT)
class TxnOffsetCommitRequest:
    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = Int32()
            committed_offset: int = Int64()
            committed_leader_epoch: int = Int32("2+", default=-1, ignorable=True)
            committed_metadata: str | None = String(null=True)

        name: str = String(entity="topicName")
        partitions: list[Partition] = Array(Partition)

    transactional_id: str = String(entity="transactionalId")
    group_id: str = String(entity="groupId")
    producer_id: int = Int64(entity="producerId")
    producer_epoch: int = Int16()
    generation_id: int = Int32("3+", default=-1)
    member_id: str = String("3+")
    group_instance_id: str | None = String("3+", null=True, default=None)
    topics: list[Topic] = Array(Topic)


@response(TXN_OFFSET_COMMIT)
class TxnOffsetCommitResponse:
    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = Int32()
            error_code: int = Int16()

        name: str = String(entity="topicName")
        partitions: list[Partition] = Array(Partition)

    throttle_time_ms: int = Int32()
    topics: list[Topic] = Array(Topic)
