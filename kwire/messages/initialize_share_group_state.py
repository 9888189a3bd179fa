"""InitializeShareGroupState (key 83): initialize the stored state of a share group's partitions (KIP-932).

Group coordinators send this request to share coordinators.
"""

from uuid import UUID

from kwire.schema import Api, Array, Int16, Int32, Int64, String, Uuid, request, response, struct

INITIALIZE_SHARE_GROUP_STATE = Api(83, versions="0", flexible="0+")


@request(INITIALIZE_SHARE_GROUP_STATE)
class InitializeShareGroupStateRequest:
    @struct
    class Topic:
        @struct
        class Partition:
            partition: int = Int32()
            state_epoch: int = Int32()
            start_offset: int = Int64()

        topic_id: UUID = Uuid()
        partitions: list[Partition] = Array(Partition)

    group_id: str = String()
    topics: list[Topic] = Array(Topic)


@response(INITIALIZE_SHARE_GROUP_STATE)
class InitializeShareGroupStateResponse:
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
