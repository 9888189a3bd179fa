"""Fetch (key 1): fetch records of partitions, starting at an offset.

v2 has message sets of magic 1; v3 adds the size limit of the response; v4 has record batches, and adds the isolation
level and the last stable offset; v5 adds the log start offset; v7 adds fetch sessions (KIP-227); v9 adds the leader
epoch; v11 adds the rack (KIP-392); v12 is flexible, and adds the diverging epoch; v13 has topic ids instead of names;
v15 adds the replica state; v16 adds the endpoints of new leaders (KIP-951); v17 adds the replica directory; v18 adds
the high watermark of the follower.
"""

from uuid import UUID

from kwire.schema import Api, Array, Int8, Int16, Int32, Int64, Nested, Records, String, Uuid, request, response, struct

FETCH = Api(1, versions="0-18", flexible="12+")


@request(FETCH)
class FetchRequest:
    @struct
    class ReplicaState:
        replica_id: int = Int32(default=-1, entity="brokerId")
        replica_epoch: int = Int64(default=-1)

    @struct
    class Topic:
        @struct
        class Partition:
            partition: int = Int32()
            current_leader_epoch: int = Int32("9+", default=-1, ignorable=True)
            fetch_offset: int = Int64()
            last_fetched_epoch: int = Int32("12+", default=-1)
            log_start_offset: int = Int64("5+", default=-1, ignorable=True)
            partition_max_bytes: int = Int32()
            replica_directory_id: UUID = Uuid("17+", tag=0, ignorable=True)
            high_watermark: int = Int64("18+", tag=1, default=2**63 - 1, ignorable=True)

        topic: str = String("0-12", ignorable=True, entity="topicName")
        topic_id: UUID = Uuid("13+", ignorable=True)
        partitions: list[Partition] = Array(Partition)

    @struct
    class ForgottenTopic:
        topic: str = String("7-12", ignorable=True, entity="topicName")
        topic_id: UUID = Uuid("13+", ignorable=True)
        partitions: list[int] = Array(Int32)

    cluster_id: str | None = String("12+", null=True, tag=0, default=None, ignorable=True)
    replica_id: int = Int32("0-14", default=-1, entity="brokerId")
    replica_state: ReplicaState = Nested(ReplicaState, "15+", tag=1)
    max_wait_ms: int = Int32()
    min_bytes: int = Int32()
    max_bytes: int = Int32("3+", default=2147483647, ignorable=True)
    isolation_level: int = Int8("4+", ignorable=True)
    session_id: int = Int32("7+", ignorable=True)
    session_epoch: int = Int32("7+", default=-1, ignorable=True)
    topics: list[Topic] = Array(Topic)
    forgotten_topics_data: list[ForgottenTopic] = Array(ForgottenTopic, "7+")
    rack_id: str = String("11+", ignorable=True)


@response(FETCH)
class FetchResponse:
    @struct
    class Topic:
        @struct
        class Partition:
            @struct
            class EpochEndOffset:
                epoch: int = Int32(default=-1)
                end_offset: int = Int64(default=-1)

            @struct
            class Leader:
                leader_id: int = Int32(default=-1, entity="brokerId")
                leader_epoch: int = Int32(default=-1)

            @struct
            class SnapshotId:
                end_offset: int = Int64(default=-1)
                epoch: int = Int32(default=-1)

            @struct
            class AbortedTransaction:
                producer_id: int = Int64(entity="producerId")
                first_offset: int = Int64()

            partition_index: int = Int32()
            error_code: int = Int16()
            high_watermark: int = Int64()
            last_stable_offset: int = Int64("4+", default=-1, ignorable=True)
            log_start_offset: int = Int64("5+", default=-1, ignorable=True)
            diverging_epoch: EpochEndOffset = Nested(EpochEndOffset, "12+", tag=0)
            current_leader: Leader = Nested(Leader, "12+", tag=1)
            snapshot_id: SnapshotId = Nested(SnapshotId, "12+", tag=2)
            aborted_transactions: list[AbortedTransaction] | None = Array(
                AbortedTransaction, "4+", null=True, ignorable=True
            )
            preferred_read_replica: int = Int32("11+", default=-1, entity="brokerId")
            records: bytes | None = Records(null=True, default=None)

        topic: str = String("0-12", ignorable=True, entity="topicName")
        topic_id: UUID = Uuid("13+", ignorable=True)
        partitions: list[Partition] = Array(Partition)

    @struct
    class NodeEndpoint:
        node_id: int = Int32(entity="brokerId")
        host: str = String()
        port: int = Int32()
        rack: str | None = String(null=True, default=None)

    throttle_time_ms: int = Int32("1+", ignorable=True)
    error_code: int = Int16("7+", ignorable=True)
    session_id: int = Int32("7+")
    responses: list[Topic] = Array(Topic)
    node_endpoints: list[NodeEndpoint] = Array(NodeEndpoint, "16+", tag=0)
