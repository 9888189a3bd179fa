"""OffsetForLeaderEpoch (key 23): request the end offset of a leader epoch, to detect log truncation.

v1 adds the leader epoch to the response; v2 adds the current leader epoch and the throttle time (KIP-320); v3 adds
the replica id; v4 is flexible.
"""

from kwire.schema import Api, Array, Int16, Int32, Int64, String, request, response, struct

OFFSET_FOR_LEADER_EPOCH = Api(23, versions="0-4", flexible="4+")


@request(OFFSET_FOR_LEADER_EPOCH)
class OffsetForLeaderEpochRequest:
    @struct
    class Topic:
        @struct
        class Partition:
            partition: int = Int32()
            current_leader_epoch: int = Int32("2+", default=-1, ignorable=True)
            leader_epoch: int = Int32()

        topic: str = String(entity="topicName")
        partitions: list[Partition] = Array(Partition)

    replica_id: int = Int32("3+", default=-2, ignorable=True, entity="brokerId")
    topics: list[Topic] = Array(Topic)


@response(OFFSET_FOR_LEADER_EPOCH)
class OffsetForLeaderEpochResponse:
    @struct
    class Topic:
        @struct
        class Partition:
            error_code: int = Int16()
            partition: int = Int32()
            leader_epoch: int = Int32("1+", default=-1, ignorable=True)
            end_offset: int = Int64(default=-1)

        topic: str = String(entity="topicName")
        partitions: list[Partition] = Array(Partition)

    throttle_time_ms: int = Int32("2+", ignorable=True)
    topics: list[Topic] = Array(Topic)
