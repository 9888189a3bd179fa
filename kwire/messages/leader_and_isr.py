"""LeaderAndIsr (key 4): the ZooKeeper controller sends each broker the partitions that the broker leads or follows.

v1 adds a flag for new replicas; v2 adds the broker epoch, and lists partitions by topic (KIP-380); v3 adds the replicas
being added and removed (KIP-455); v4 is flexible; v5 adds topic ids (KIP-516); v6 adds the leader recovery state
(KIP-704); v7 adds a flag for requests from a KRaft controller (KIP-866). Removed in Kafka 4.
"""

from uuid import UUID

from kwire.schema import Api, Array, Bool, Int8, Int16, Int32, Int64, String, Uuid, request, response, struct

LEADER_AND_ISR = Api(4, versions="0-7", flexible="4+")


@struct
class PartitionState:
    topic_name: str = String("0-1", ignorable=True, entity="topicName")
    partition_index: int = Int32()
    controller_epoch: int = Int32()
    leader: int = Int32(entity="brokerId")
    leader_epoch: int = Int32()
    isr: list[int] = Array(Int32, entity="brokerId")
    partition_epoch: int = Int32()
    replicas: list[int] = Array(Int32, entity="brokerId")
    adding_replicas: list[int] = Array(Int32, "3+", ignorable=True, entity="brokerId")
    removing_replicas: list[int] = Array(Int32, "3+", ignorable=True, entity="brokerId")
    is_new: bool = Bool("1+", ignorable=True)
    leader_recovery_state: int = Int8("6+")


@struct
class PartitionError:
    topic_name: str = String("0-4", ignorable=True, entity="topicName")
    partition_index: int = Int32()
    error_code: int = Int16()


@request(LEADER_AND_ISR)
class LeaderAndIsrRequest:
    @struct
    class Topic:
        topic_name: str = String(entity="topicName")
        topic_id: UUID = Uuid("5+", ignorable=True)
        partition_states: list[PartitionState] = Array(PartitionState)

    @struct
    class LiveLeader:
        broker_id: int = Int32(entity="brokerId")
        host_name: str = String()
        port: int = Int32()

    controller_id: int = Int32(entity="brokerId")
    is_k_raft_controller: bool = Bool("7+")
    controller_epoch: int = Int32()
    broker_epoch: int = Int64("2+", default=-1, ignorable=True)
    type: int = Int8("5+")
    ungrouped_partition_states: list[PartitionState] = Array(PartitionState, "0-1")
    topic_states: list[Topic] = Array(Topic, "2+")
    live_leaders: list[LiveLeader] = Array(LiveLeader)


@response(LEADER_AND_ISR)
class LeaderAndIsrResponse:
    @struct
    class Topic:
        topic_id: UUID = Uuid()
        partition_errors: list[PartitionError] = Array(PartitionError)

    error_code: int = Int16()
    partition_errors: list[PartitionError] = Array(PartitionError, "0-4")
    topics: list[Topic] = Array(Topic, "5+")
