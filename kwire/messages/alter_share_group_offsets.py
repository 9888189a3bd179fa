"""AlterShareGroupOffsets (key 91): set the start offsets of an empty share group (KIP-932)."""

from uuid import UUID

from kwire.schema import Api, Array, Int16, Int32, Int64, String, Uuid, request, response, struct

ALTER_SHARE_GROUP_OFFSETS = Api(91, versions="0", flexible="0+")


@request(ALTER_SHARE_GROUP_OFFSETS)
class AlterShareGroupOffsetsRequest:
    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = Int32()
            start_offset: int = Int64()

        topic_name: str = String(entity="topicName")
        partitions: list[Partition] = Array(Partition)

    group_id: str = String(entity="groupId")
    topics: list[Topic] = Array(Topic)


@response(ALTER_SHARE_GROUP_OFFSETS)
class AlterShareGroupOffsetsResponse:
    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = Int32()
            error_code: int = Int16()
            error_message: str | None = String(null=True, default=None)

        topic_name: str = String(entity="topicName")
        topic_id: UUID = Uuid()
        partitions: list[Partition] = Array(Partition)

    throttle_time_ms: int = Int32()
    error_code: int = Int16()
    error_message: str | None = String(null=True, default=None)
    responses: list[Topic] = Array(Topic)
