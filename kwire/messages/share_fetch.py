"""ShareFetch (key 78): a member of a share group acquires records, and acknowledges earlier records (KIP-932).

v0 was early access in Kafka 3.9; v1 is the first stable version; v2 adds a mode that enforces the maximum number of
records (KIP-1206), and renewal of acquisition locks (KIP-1222).
"""

from uuid import UUID

from kwire.schema import (
    Api,
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Nested,
    Records,
    String,
    Uuid,
    request,
    response,
    struct,
)

SHARE_FETCH = Api(78, versions="0-2", flexible="0+")


@request(SHARE_FETCH)
class ShareFetchRequest:
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
            partition_max_bytes: int = Int32("0")
            acknowledgement_batches: list[AcknowledgementBatch] = Array(AcknowledgementBatch)

        topic_id: UUID = Uuid()
        partitions: list[Partition] = Array(Partition)

    @struct
    class ForgottenTopic:
        topic_id: UUID = Uuid()
        partitions: list[int] = Array(Int32)

    group_id: str | None = String(null=True, default=None, entity="groupId")
    member_id: str | None = String(null=True)
    share_session_epoch: int = Int32()
    max_wait_ms: int = Int32()
    min_bytes: int = Int32()
    max_bytes: int = Int32(default=2147483647)
    max_records: int = Int32("1+")
    batch_size: int = Int32("1+")
    share_acquire_mode: int = Int8("2+", ignorable=True)
    is_renew_ack: bool = Bool("2+")
    topics: list[Topic] = Array(Topic)
    forgotten_topics_data: list[ForgottenTopic] = Array(ForgottenTopic)


@response(SHARE_FETCH)
class ShareFetchResponse:
    @struct
    class Topic:
        @struct
        class Partition:
            @struct
            class Leader:
                leader_id: int = Int32()
                leader_epoch: int = Int32()

            @struct
            class AcquiredRecords:
                first_offset: int = Int64()
                last_offset: int = Int64()
                delivery_count: int = Int16()

            partition_index: int = Int32()
            error_code: int = Int16()
            error_message: str | None = String(null=True, default=None)
            acknowledge_error_code: int = Int16()
            acknowledge_error_message: str | None = String(null=True, default=None)
            current_leader: Leader = Nested(Leader)
            records: bytes | None = Records(null="0")
            acquired_records: list[AcquiredRecords] = Array(AcquiredRecords)

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
    acquisition_lock_timeout_ms: int = Int32("1+")
    responses: list[Topic] = Array(Topic)
    node_endpoints: list[NodeEndpoint] = Array(NodeEndpoint)
