"""Produce (key 0): append record batches to partitions.

v0 and v1 have message sets of magic 0; v2 has message sets of magic 1; v3 has record batches, and adds the
transactional id; v8 adds errors of single records (KIP-467); v9 is flexible; v10 adds the new leader to the response
(KIP-951). With v12, brokers add the partitions to the transaction, and clients need no AddPartitionsToTxn (KIP-890).
v13 has topic ids instead of names. With acks=0 there is no response.
"""

from uuid import UUID

from kwire.schema import Api, Array, Int16, Int32, Int64, Nested, Records, String, Uuid, request, response, struct

PRODUCE = Api(0, versions="0-13", flexible="9+")


@request(PRODUCE)
class ProduceRequest:
    @struct
    class Topic:
        @struct
        class Partition:
            index: int = Int32()
            records: bytes | None = Records(null=True, default=None)

        name: str = String("0-12", ignorable=True, entity="topicName")
        topic_id: UUID = Uuid("13+", ignorable=True)
        partition_data: list[Partition] = Array(Partition)

    transactional_id: str | None = String("3+", null=True, default=None, entity="transactionalId")
    acks: int = Int16()
    timeout_ms: int = Int32()
    topic_data: list[Topic] = Array(Topic)


@response(PRODUCE)
class ProduceResponse:
    @struct
    class Topic:
        @struct
        class Partition:
            @struct
            class RecordError:
                batch_index: int = Int32()
                batch_index_error_message: str | None = String(null=True, default=None)

            @struct
            class Leader:
                leader_id: int = Int32(default=-1, entity="brokerId")
                leader_epoch: int = Int32(default=-1)

            index: int = Int32()
            error_code: int = Int16()
            base_offset: int = Int64()
            log_append_time_ms: int = Int64("2+", default=-1, ignorable=True)
            log_start_offset: int = Int64("5+", default=-1, ignorable=True)
            record_errors: list[RecordError] = Array(RecordError, "8+", ignorable=True)
            error_message: str | None = String("8+", null=True, default=None, ignorable=True)
            current_leader: Leader = Nested(Leader, "10+", tag=0)

        name: str = String("0-12", ignorable=True, entity="topicName")
        topic_id: UUID = Uuid("13+", ignorable=True)
        partition_responses: list[Partition] = Array(Partition)

    @struct
    class NodeEndpoint:
        node_id: int = Int32(entity="brokerId")
        host: str = String()
        port: int = Int32()
        rack: str | None = String(null=True, default=None)

    responses: list[Topic] = Array(Topic)
    throttle_time_ms: int = Int32("1+", ignorable=True)
    node_endpoints: list[NodeEndpoint] = Array(NodeEndpoint, "10+", tag=0)
