"""ReadShareGroupState (key 84): request the stored state of a share group's partitions (KIP-932).

Partition leaders send this request to share coordinators.
"""

from uuid import UUID

from kwire.schema import Api, Array, Int8, Int16, Int32, Int64, String, Uuid, request, response, struct

READ_SHARE_GROUP_STATE = Api(84, versions="0", flexible="0+")


@request(READ_SHARE_GROUP_STATE)
class ReadShareGroupStateRequest:
    @struct
    class Topic:
        @struct
        class Partition:
            partition: int = Int32()
            leader_epoch: int = Int32()

        topic_id: UUID = Uuid()
        partitions: list[Partition] = Array(Partition)

    group_id: str = String()
    topics: list[Topic] = Array(Topic)


@response(READ_SHARE_GROUP_STATE)
class ReadShareGroupStateResponse:
    @struct
    class Topic:
        @struct
        class Partition:
            @struct
            class StateBatch:
                first_offset: int = Int64()
                last_offset: int = Int64()
                delivery_state: int = Int8()
                delivery_count: int = Int16()

            partition: int = Int32()
            error_code: int = Int16()
            error_message: str | None = String(null=True, default=None)
            state_epoch: int = Int32()
            start_offset: int = Int64()
            state_batches: list[StateBatch] = Array(StateBatch)

        topic_id: UUID = Uuid()
        partitions: list[Partition] = Array(Partition)

    results: list[Topic] = Array(Topic)
