"""FetchSnapshot (key 59): fetch a part of a snapshot of the KRaft log (KIP-630).

v1 adds directories and the endpoints of the leader (KIP-853).
"""

from uuid import UUID

from kwire.schema import (
    Api,
    Array,
    Int16,
    Int32,
    Int64,
    Nested,
    Records,
    String,
    UInt16,
    Uuid,
    request,
    response,
    struct,
)

FETCH_SNAPSHOT = Api(59, versions="0-1", flexible="0+")


@request(FETCH_SNAPSHOT)
class FetchSnapshotRequest:
    @struct
    class Topic:
        @struct
        class Partition:
            @struct
            class SnapshotId:
                end_offset: int = Int64()
                epoch: int = Int32()

            partition: int = Int32()
            current_leader_epoch: int = Int32()
            snapshot_id: SnapshotId = Nested(SnapshotId)
            position: int = Int64()
            replica_directory_id: UUID = Uuid("1+", tag=0, ignorable=True)

        name: str = String(entity="topicName")
        partitions: list[Partition] = Array(Partition)

    cluster_id: str | None = String(null=True, tag=0, default=None)
    replica_id: int = Int32(default=-1, entity="brokerId")
    max_bytes: int = Int32(default=2147483647)
    topics: list[Topic] = Array(Topic)


@response(FETCH_SNAPSHOT)
class FetchSnapshotResponse:
    @struct
    class Topic:
        @struct
        class Partition:
            @struct
            class SnapshotId:
                end_offset: int = Int64()
                epoch: int = Int32()

            @struct
            class Leader:
                leader_id: int = Int32(entity="brokerId")
                leader_epoch: int = Int32()

            index: int = Int32()
            error_code: int = Int16()
            snapshot_id: SnapshotId = Nested(SnapshotId)
            current_leader: Leader = Nested(Leader, tag=0)
            size: int = Int64()
            position: int = Int64()
            unaligned_records: bytes = Records()

        name: str = String(entity="topicName")
        partitions: list[Partition] = Array(Partition)

    @struct
    class NodeEndpoint:
        node_id: int = Int32(entity="brokerId")
        host: str = String()
        port: int = UInt16()

    throttle_time_ms: int = Int32(ignorable=True)
    error_code: int = Int16()
    topics: list[Topic] = Array(Topic)
    node_endpoints: list[NodeEndpoint] = Array(NodeEndpoint, "1+", tag=0)
