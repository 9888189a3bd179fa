"""DeleteShareGroupOffsets (key 92): delete the offsets of topics of an empty share group (KIP-932)."""

from uuid import UUID

from kwire.schema import Api, Array, Int16, Int32, String, Uuid, request, response, struct

DELETE_SHARE_GROUP_OFFSETS = Api(92, versions="0", flexible="0+")


@request(DELETE_SHARE_GROUP_OFFSETS)
class DeleteShareGroupOffsetsRequest:
    @struct
    class Topic:
        topic_name: str = String(entity="topicName")

    group_id: str = String(entity="groupId")
    topics: list[Topic] = Array(Topic)


@response(DELETE_SHARE_GROUP_OFFSETS)
class DeleteShareGroupOffsetsResponse:
    @struct
    class Topic:
        topic_name: str = String(entity="topicName")
        topic_id: UUID = Uuid()
        error_code: int = Int16()
        error_message: str | None = String(null=True, default=None)

    throttle_time_ms: int = Int32()
    error_code: int = Int16()
    error_message: str | None = String(null=True, default=None)
    responses: list[Topic] = Array(Topic)
