"""StopReplica (key 5): the ZooKeeper controller makes brokers stop replicas, and optionally delete them.

v1 adds the broker epoch, and lists partitions by topic (KIP-380); v2 is flexible; v3 adds leader epochs, and a delete
flag for each partition (KIP-570); v4 adds a flag for requests from a KRaft controller (KIP-866). Removed in Kafka 4.
"""

from kwire.schema import Api, Array, Bool, Int16, Int32, Int64, String, request, response, struct

STOP_REPLICA = Api(5, versions="0-4", flexible="2+")


@request(STOP_REPLICA)
class StopReplicaRequest:
    @struct
    class UngroupedPartition:
        topic_name: str = String(entity="topicName")
        partition_index: int = Int32()

    @struct
    class Topic:
        name: str = String(entity="topicName")
        partition_indexes: list[int] = Array(Int32)

    @struct
    class TopicState:
        @struct
        class PartitionState:
            partition_index: int = Int32()
            leader_epoch: int = Int32(default=-1)
            delete_partition: bool = Bool()

        topic_name: str = String(entity="topicName")
        partition_states: list[PartitionState] = Array(PartitionState)

    controller_id: int = Int32(entity="brokerId")
    is_k_raft_controller: bool = Bool("4+")
    controller_epoch: int = Int32()
    broker_epoch: int = Int64("1+", default=-1, ignorable=True)
    delete_partitions: bool = Bool("0-2")
    ungrouped_partitions: list[UngroupedPartition] = Array(UngroupedPartition, "0")
    topics: list[Topic] = Array(Topic, "1-2")
    topic_states: list[TopicState] = Array(TopicState, "3+")


@response(STOP_REPLICA)
class StopReplicaResponse:
    @struct
    class PartitionError:
        topic_name: str = String(entity="topicName")
        partition_index: int = Int32()
        error_code: int = Int16()

    error_code: int = Int16()
    partition_errors: list[PartitionError] = Array(PartitionError)
