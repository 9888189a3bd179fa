"""OffsetCommit (key 8): commit offsets of a group.

v1 adds the generation and the member id. Only v1 has a commit timestamp, and only v2 to v4 have a retention time. v3
adds the throttle time; v6 adds the leader epoch; v7 adds static members; v8 is flexible; v9 adds the member epochs of
groups of the consumer protocol (KIP-848); v10 has topic ids instead of names.
"""

from uuid import UUID

from kwire.schema import Api, Array, Int16, Int32, Int64, String, Uuid, request, response, struct

OFFSET_COMMIT = Api(8, versions="0-10", flexible="8+")


@request(OFFSET_COMMIT)
class OffsetCommitRequest:
    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = Int32()
            committed_offset: int = Int64()
            committed_leader_epoch: int = Int32("6+", default=-1, ignorable=True)
            commit_timestamp: int = Int64("1", default=-1)
            committed_metadata: str | None = String(null=True)

        name: str = String("0-9", ignorable=True, entity="topicName")
        topic_id: UUID = Uuid("10+", ignorable=True)
        partitions: list[Partition] = Array(Partition)

    group_id: str = String(entity="groupId")
    generation_id_or_member_epoch: int = Int32("1+", default=-1, ignorable=True)
    member_id: str = String("1+", ignorable=True)
    group_instance_id: str | None = String("7+", null=True, default=None)
    retention_time_ms: int = Int64("2-4", default=-1, ignorable=True)
    topics: list[Topic] = Array(Topic)


@response(OFFSET_COMMIT)
class OffsetCommitResponse:
    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = Int32()
            error_code: int = Int16()

        name: str = String("0-9", ignorable=True, entity="topicName")
        topic_id: UUID = Uuid("10+", ignorable=True)
        partitions: list[Partition] = Array(Partition)

    throttle_time_ms: int = Int32("3+", ignorable=True)
    topics: list[Topic] = Array(Topic)
