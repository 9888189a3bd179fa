"""WriteShareGroupState (key 85): store changes of the state of a share group's partitions (KIP-932).

Partition leaders send this request to share coordinators. v1 adds the count of completed deliveries (KIP-1226).
"""

from uuid import UUID

from kwire.schema import Api, Array, Int8, Int16, Int32, Int64, String, Uuid, request, response, struct

WRITE_SHARE_GROUP_STATE = Api(85, versions="0-1", flexible="0+")


@request(WRITE_SHARE_GROUP_STATE)
class WriteShareGroupStateRequest:
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
            state_epoch: int = Int32()
            leader_epoch: int = Int32()
            start_offset: int = Int64()
            delivery_complete_count: int = Int32("1+", default=-1, ignorable=True)
            state_batches: list[StateBatch] = Array(StateBatch)

        topic_id: UUID = Uuid()
        partitions: list[Partition] = Array(Partition)

    group_id: str = String()
    topics: list[Topic] = Array(Topic)


@response(WRITE_SHARE_GROUP_STATE)
class WriteShareGroupStateResponse:
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
