"""OffsetDelete (key 47): delete committed offsets of topics that a group does not subscribe to (KIP-496)."""

from kwire.schema import Api, Array, Int16, Int32, String, request, response, struct

OFFSET_DELETE = Api(47, versions="0-0", flexible="none")


@request(OFFSET_DELETE)
class OffsetDeleteRequest:
    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = Int32()

        name: str = String(entity="topicName")
        partitions: list[Partition] = Array(Partition)

    group_id: str = String(entity="groupId")
    topics: list[Topic] = Array(Topic)


@response(OFFSET_DELETE)
class OffsetDeleteResponse:
    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = Int32()
            error_code: int = Int16()

        name: str = String(entity="topicName")
        partitions: list[Partition] = Array(Partition)

    error_code: int = Int16()
    throttle_time_ms: int = Int32(ignorable=True)
    topics: list[Topic] = Array(Topic)
