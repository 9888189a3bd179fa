"""DescribeQuorum (key 55): request leader, voters and observers of a KRaft quorum (KIP-595).

v1 adds the last fetch and last caught-up timestamps (KIP-836); v2 adds error messages, nodes and directories
(KIP-853).
"""

from uuid import UUID

from kwire.schema import Api, Array, Int16, Int32, Int64, String, UInt16, Uuid, request, response, struct

DESCRIBE_QUORUM = Api(55, versions="0-2", flexible="0+")


@request(DESCRIBE_QUORUM)
class DescribeQuorumRequest:
    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = Int32()

        topic_name: str = String(entity="topicName")
        partitions: list[Partition] = Array(Partition)

    topics: list[Topic] = Array(Topic)


@response(DESCRIBE_QUORUM)
class DescribeQuorumResponse:
    @struct
    class Topic:
        @struct
        class Partition:
            @struct
            class ReplicaState:
                replica_id: int = Int32(entity="brokerId")
                replica_directory_id: UUID = Uuid("2+")
                log_end_offset: int = Int64()
                last_fetch_timestamp: int = Int64("1+", default=-1, ignorable=True)
                last_caught_up_timestamp: int = Int64("1+", default=-1, ignorable=True)

            partition_index: int = Int32()
            error_code: int = Int16()
            error_message: str | None = String("2+", null=True, ignorable=True)
            leader_id: int = Int32(entity="brokerId")
            leader_epoch: int = Int32()
            high_watermark: int = Int64()
            current_voters: list[ReplicaState] = Array(ReplicaState)
            observers: list[ReplicaState] = Array(ReplicaState)

        topic_name: str = String(entity="topicName")
        partitions: list[Partition] = Array(Partition)

    @struct
    class Node:
        @struct
        class Listener:
            name: str = String()
            host: str = String()
            port: int = UInt16()

        node_id: int = Int32(entity="brokerId")
        listeners: list[Listener] = Array(Listener)

    error_code: int = Int16()
    error_message: str | None = String("2+", null=True, ignorable=True)
    topics: list[Topic] = Array(Topic)
    nodes: list[Node] = Array(Node, "2+")
