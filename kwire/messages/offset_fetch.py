"""OffsetFetch (key 9): fetch committed offsets of a group.

v2 adds the top-level error, and null topics, which mean all topics; v3 adds the throttle time; v5 adds the leader
epoch; v6 is flexible; v7 adds the flag require_stable (KIP-447); v8 allows many groups in one request (KIP-709); v9
adds the member id and epoch (KIP-848); v10 has topic ids instead of names.
"""

from uuid import UUID

from kwire.schema import Api, Array, Bool, Int16, Int32, Int64, String, Uuid, request, response, struct

OFFSET_FETCH = Api(9, versions="0-10", flexible="6+")


@request(OFFSET_FETCH)
class OffsetFetchRequest:
    @struct
    class Topic:
        name: str = String(entity="topicName")
        partition_indexes: list[int] = Array(Int32)

    @struct
    class Group:
        @struct
        class Topic:
            name: str = String("8-9", ignorable=True, entity="topicName")
            topic_id: UUID = Uuid("10+", ignorable=True)
            partition_indexes: list[int] = Array(Int32)

        group_id: str = String(entity="groupId")
        member_id: str | None = String("9+", null=True, default=None, ignorable=True)
        member_epoch: int = Int32("9+", default=-1, ignorable=True)
        topics: list[Topic] | None = Array(Topic, null=True)

    group_id: str = String("0-7", entity="groupId")
    topics: list[Topic] | None = Array(Topic, "0-7", null="2-7")
    groups: list[Group] = Array(Group, "8+")
    require_stable: bool = Bool("7+")


@response(OFFSET_FETCH)
class OffsetFetchResponse:
    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = Int32()
            committed_offset: int = Int64()
            committed_leader_epoch: int = Int32("5-7", default=-1, ignorable=True)
            metadata: str | None = String(null=True)
            error_code: int = Int16()

        name: str = String(entity="topicName")
        partitions: list[Partition] = Array(Partition)

    @struct
    class Group:
        @struct
        class Topic:
            @struct
            class Partition:
                partition_index: int = Int32()
                committed_offset: int = Int64()
                committed_leader_epoch: int = Int32(default=-1, ignorable=True)
                metadata: str | None = String(null=True)
                error_code: int = Int16()

            name: str = String("8-9", ignorable=True, entity="topicName")
            topic_id: UUID = Uuid("10+", ignorable=True)
            partitions: list[Partition] = Array(Partition)

        group_id: str = String(entity="groupId")
        topics: list[Topic] = Array(Topic)
        error_code: int = Int16()

    throttle_time_ms: int = Int32("3+", ignorable=True)
    topics: list[Topic] = Array(Topic, "0-7")
    error_code: int = Int16("2-7", ignorable=True)
    groups: list[Group] = Array(Group, "8+")
