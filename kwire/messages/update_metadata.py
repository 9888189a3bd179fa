"""UpdateMetadata (key 6): the ZooKeeper controller sends brokers the state of partitions and the list of live brokers.

v1 allows several endpoints for a broker; v2 adds the rack; v3 adds listener names; v4 adds offline replicas; v5 adds
the broker epoch, and lists partitions by topic (KIP-380); v6 is flexible; v7 adds topic ids (KIP-516); v8 adds a flag
for requests from a KRaft controller (KIP-866). Removed in Kafka 4.
"""

from uuid import UUID

from kwire.schema import Api, Array, Bool, Int8, Int16, Int32, Int64, String, Uuid, request, response, struct

UPDATE_METADATA = Api(6, versions="0-8", flexible="6+")


@struct
class PartitionState:
    topic_name: str = String("0-4", ignorable=True, entity="topicName")
    partition_index: int = Int32()
    controller_epoch: int = Int32()
    leader: int = Int32(entity="brokerId")
    leader_epoch: int = Int32()
    isr: list[int] = Array(Int32, entity="brokerId")
    zk_version: int = Int32()
    replicas: list[int] = Array(Int32, entity="brokerId")
    offline_replicas: list[int] = Array(Int32, "4+", ignorable=True, entity="brokerId")


@request(UPDATE_METADATA)
class UpdateMetadataRequest:
    @struct
    class Topic:
        topic_name: str = String(entity="topicName")
        topic_id: UUID = Uuid("7+", ignorable=True)
        partition_states: list[PartitionState] = Array(PartitionState)

    @struct
    class Broker:
        @struct
        class Endpoint:
            port: int = Int32()
            host: str = String()
            listener: str = String("3+", ignorable=True)
            security_protocol: int = Int16()

        id: int = Int32(entity="brokerId")
        v0_host: str = String("0", ignorable=True)
        v0_port: int = Int32("0", ignorable=True)
        endpoints: list[Endpoint] = Array(Endpoint, "1+", ignorable=True)
        rack: str | None = String("2+", null=True, ignorable=True)

    controller_id: int = Int32(entity="brokerId")
    is_k_raft_controller: bool = Bool("8+")
    type: int = Int8("8+", tag=0)
    controller_epoch: int = Int32()
    broker_epoch: int = Int64("5+", default=-1, ignorable=True)
    ungrouped_partition_states: list[PartitionState] = Array(PartitionState, "0-4")
    topic_states: list[Topic] = Array(Topic, "5+")
    live_brokers: list[Broker] = Array(Broker)


@response(UPDATE_METADATA)
class UpdateMetadataResponse:
    error_code: int = Int16()
