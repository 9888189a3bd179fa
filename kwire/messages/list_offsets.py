"""ListOffsets (key 2): look up the offset at the start, the end, or a timestamp of a partition.

Negative timestamps are special: -1 latest, -2 earliest, -3 record with the largest timestamp (v7), -4 earliest local
(v8), -5 last tiered (v9), -6 earliest pending upload (v11). v0 returns a list of segment offsets. v1 returns one offset
with its timestamp; v2 adds the isolation level and the throttle time; v4 adds the leader epoch; v6 is flexible; v10
adds the timeout.
"""

from kwire.schema import Api, Array, Int8, Int16, Int32, Int64, String, request, response, struct

LIST_OFFSETS = Api(2, versions="0-11", flexible="6+")


@request(LIST_OFFSETS)
class ListOffsetsRequest:
    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = Int32()
            current_leader_epoch: int = Int32("4+", default=-1, ignorable=True)
            timestamp: int = Int64()
            max_num_offsets: int = Int32("0", default=1)

        name: str = String(entity="topicName")
        partitions: list[Partition] = Array(Partition)

    replica_id: int = Int32(entity="brokerId")
    isolation_level: int = Int8("2+")
    topics: list[Topic] = Array(Topic)
    timeout_ms: int = Int32("10+", ignorable=True)


@response(LIST_OFFSETS)
class ListOffsetsResponse:
    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = Int32()
            error_code: int = Int16()
            old_style_offsets: list[int] = Array(Int64, "0")
            timestamp: int = Int64("1+", default=-1)
            offset: int = Int64("1+", default=-1)
            leader_epoch: int = Int32("4+", default=-1)

        name: str = String(entity="topicName")
        partitions: list[Partition] = Array(Partition)

    throttle_time_ms: int = Int32("2+", ignorable=True)
    topics: list[Topic] = Array(Topic)
