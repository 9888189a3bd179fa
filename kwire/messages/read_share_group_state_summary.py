"""ReadShareGroupStateSummary (key 87): request start offsets of a share group's partitions (KIP-932).

Group coordinators send this request to share coordinators. v0 was not stable in Kafka 3.9, where it had no leader
epoch. v1 adds the count of completed deliveries (KIP-1226).
"""

from uuid import UUID

from kwire.schema import Api, Array, Int16, Int32, Int64, String, Uuid, request, response, struct

READ_SHARE_GROUP_STATE_SUMMARY = Api(87, versions="0-1", flexible="0+")


@request(READ_SHARE_GROUP_STATE_SUMMARY)
class ReadShareGroupStateSummaryRequest:
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


@response(READ_SHARE_GROUP_STATE_SUMMARY)
class ReadShareGroupStateSummaryResponse:
    @struct
    class Topic:
        @struct
        class Partition:
            partition: int = Int32()
            error_code: int = Int16()
            error_message: str | None = String(null=True, default=None)
            state_epoch: int = Int32()
            leader_epoch: int = Int32()
            start_offset: int = Int64()
            delivery_complete_count: int = Int32("1+", default=-1, ignorable=True)

        topic_id: UUID = Uuid()
        partitions: list[Partition] = Array(Partition)

    results: list[Topic] = Array(Topic)
