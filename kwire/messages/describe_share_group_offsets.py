"""DescribeShareGroupOffsets (key 90): request the start offsets of share groups (KIP-932).

Null topics mean all topics. v1 adds the lag (KIP-1226).
"""

from uuid import UUID

from kwire.schema import Api, Array, Int16, Int32, Int64, String, Uuid, request, response, struct

DESCRIBE_SHARE_GROUP_OFFSETS = Api(90, versions="0-1", flexible="0+")


@request(DESCRIBE_SHARE_GROUP_OFFSETS)
class DescribeShareGroupOffsetsRequest:
    @struct
    class Group:
        @struct
        class Topic:
            topic_name: str = String(entity="topicName")
            partitions: list[int] = Array(Int32)

        group_id: str = String(entity="groupId")
        topics: list[Topic] | None = Array(Topic, null=True)

    groups: list[Group] = Array(Group)


@response(DESCRIBE_SHARE_GROUP_OFFSETS)
class DescribeShareGroupOffsetsResponse:
    @struct
    class Group:
        @struct
        class Topic:
            @struct
            class Partition:
                partition_index: int = Int32()
                start_offset: int = Int64()
                leader_epoch: int = Int32()
                lag: int = Int64("1+", default=-1, ignorable=True)
                error_code: int = Int16()
                error_message: str | None = String(null=True, default=None)

            topic_name: str = String(entity="topicName")
            topic_id: UUID = Uuid()
            partitions: list[Partition] = Array(Partition)

        group_id: str = String(entity="groupId")
        topics: list[Topic] = Array(Topic)
        error_code: int = Int16()
        error_message: str | None = String(null=True, default=None)

    throttle_time_ms: int = Int32()
    groups: list[Group] = Array(Group)
