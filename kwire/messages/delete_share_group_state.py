"""DeleteShareGroupState (key 86): delete the stored state of a share group's partitions (KIP-932).

Group coordinators send this request to share coordinators.
"""

from uuid import UUID

from kwire.schema import Api, Array, Int16, Int32, String, Uuid, request, response, struct

DELETE_SHARE_GROUP_STATE = Api(86, versions="0", flexible="0+")


@request(DELETE_SHARE_GROUP_STATE)
class DeleteShareGroupStateRequest:
    @struct
    class Topic:
        @struct
        class Partition:
            partition: int = Int32()

        topic_id: UUID = Uuid()
        partitions: list[Partition] = Array(Partition)

    group_id: str = String()
    topics: list[Topic] = Array(Topic)


@response(DELETE_SHARE_GROUP_STATE)
class DeleteShareGroupStateResponse:
    @struct
    class Topic:
        @struct
        class Partition:
            partition: int = Int32()
            error_code: int = Int16()
            error_message: str | None = String(null=True, default=None)

        topic_id: UUID = Uuid()
        partitions: list[Partition] = Array(Partition)

    results: list[Topic] = Array(Topic)
