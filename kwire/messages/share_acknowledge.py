"""ShareAcknowledge (key 79): acknowledge records that a share group has acquired (KIP-932).

v0 was early access in Kafka 3.9; v1 is the first stable version; v2 adds renewal of acquisition locks (KIP-1222).
"""

from uuid import UUID

from kwire.schema import Api, Array, Bool, Int8, Int16, Int32, Int64, Nested, String, Uuid, request, response, struct

SHARE_ACKNOWLEDGE = Api(79, versions="0-2", flexible="0+")


@request(SHARE_ACKNOWLEDGE)
class ShareAcknowledgeRequest:
    @struct
    class Topic:
        @struct
        class Partition:
            @struct
            class AcknowledgementBatch:
                first_offset: int = Int64()
                last_offset: int = Int64()
                acknowledge_types: list[int] = Array(Int8)

            partition_index: int = Int32()
            acknowledgement_batches: list[AcknowledgementBatch] = Array(AcknowledgementBatch)

        topic_id: UUID = Uuid()
        partitions: list[Partition] = Array(Partition)

    group_id: str | None = String(null=True, default=None, entity="groupId")
    member_id: str | None = String(null=True)
    share_session_epoch: int = Int32()
    is_renew_ack: bool = Bool("2+")
    topics: list[Topic] = Array(Topic)


@response(SHARE_ACKNOWLEDGE)
class ShareAcknowledgeResponse:
    @struct
    class Topic:
        @struct
        class Partition:
            @struct
            class Leader:
                leader_id: int = Int32()
                leader_epoch: int = Int32()

            partition_index: int = Int32()
            error_code: int = Int16()
            error_message: str | None = String(null=True, default=None)
            current_leader: Leader = Nested(Leader)

        topic_id: UUID = Uuid()
        partitions: list[Partition] = Array(Partition)

    @struct
    class NodeEndpoint:
        node_id: int = Int32(entity="brokerId")
        host: str = String()
        port: int = Int32()
        rack: str | None = String(null=True, default=None)

    throttle_time_ms: int = Int32()
    error_code: int = Int16()
    error_message: str | None = String(null=True, default=None)
    acquisition_lock_timeout_ms: int = Int32("2+", ignorable=True)
    responses: list[Topic] = Array(Topic)
    node_endpoints: list[NodeEndpoint] = Array(NodeEndpoint)
