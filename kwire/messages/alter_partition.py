"""AlterPartition (key 56): a leader asks the controller to change the in-sync replicas (KIP-497).

v1 adds the leader recovery state (KIP-704); v2 has topic ids instead of names (KIP-841); v3 adds broker epochs
(KIP-903).
"""

from uuid import UUID

from kwire.schema import Api, Array, Int8, Int16, Int32, Int64, String, Uuid, request, response, struct

ALTER_PARTITION = Api(56, versions="0-3", flexible="0+")


@request(ALTER_PARTITION)
class AlterPartitionRequest:
    @struct
    class Topic:
        @struct
        class Partition:
            @struct
            class BrokerState:
                broker_id: int = Int32(entity="brokerId")
                broker_epoch: int = Int64(default=-1)

            partition_index: int = Int32()
            leader_epoch: int = Int32()
            new_isr: list[int] = Array(Int32, "0-2", entity="brokerId")
            new_isr_with_epochs: list[BrokerState] = Array(BrokerState, "3+")
            leader_recovery_state: int = Int8("1+")
            partition_epoch: int = Int32()

        topic_name: str = String("0-1", ignorable=True, entity="topicName")
        topic_id: UUID = Uuid("2+", ignorable=True)
        partitions: list[Partition] = Array(Partition)

    broker_id: int = Int32(entity="brokerId")
    broker_epoch: int = Int64(default=-1)
    topics: list[Topic] = Array(Topic)


@response(ALTER_PARTITION)
class AlterPartitionResponse:
    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = Int32()
            error_code: int = Int16()
            leader_id: int = Int32(entity="brokerId")
            leader_epoch: int = Int32()
            isr: list[int] = Array(Int32, entity="brokerId")
            leader_recovery_state: int = Int8("1+", ignorable=True)
            partition_epoch: int = Int32()

        topic_name: str = String("0-1", ignorable=True, entity="topicName")
        topic_id: UUID = Uuid("2+", ignorable=True)
        partitions: list[Partition] = Array(Partition)

    throttle_time_ms: int = Int32()
    error_code: int = Int16()
    topics: list[Topic] = Array(Topic)
