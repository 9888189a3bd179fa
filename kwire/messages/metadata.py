"""Metadata (key 3): request brokers, topics and partition leaders.

v1 adds the controller and racks, and null topics, which mean all topics; v2 adds the cluster id; v3 adds the throttle
time; v4 adds a flag for auto-creation of topics; v5 adds offline replicas; v7 adds the leader epoch; v8 adds authorized
operations on topics and on the cluster; v9 is flexible; v10 adds topic ids (KIP-516); v11 removes the authorized
operations on the cluster; v12 adds the lookup by topic id; v13 adds the top-level error.
"""

from uuid import UUID

from kwire.schema import Api, Array, Bool, Int16, Int32, String, Uuid, request, response, struct

METADATA = Api(3, versions="0-13", flexible="9+")


@request(METADATA)
class MetadataRequest:
    @struct
    class Topic:
        topic_id: UUID = Uuid("10+", ignorable=True)
        name: str | None = String(null="10+", entity="topicName")

    topics: list[Topic] | None = Array(Topic, null="1+")
    allow_auto_topic_creation: bool = Bool("4+", default=True)
    include_cluster_authorized_operations: bool = Bool("8-10")
    include_topic_authorized_operations: bool = Bool("8+")


@response(METADATA)
class MetadataResponse:
    @struct
    class Broker:
        node_id: int = Int32(entity="brokerId")
        host: str = String()
        port: int = Int32()
        rack: str | None = String("1+", null=True, default=None, ignorable=True)

    @struct
    class Topic:
        @struct
        class Partition:
            error_code: int = Int16()
            partition_index: int = Int32()
            leader_id: int = Int32(entity="brokerId")
            leader_epoch: int = Int32("7+", default=-1, ignorable=True)
            replica_nodes: list[int] = Array(Int32, entity="brokerId")
            isr_nodes: list[int] = Array(Int32, entity="brokerId")
            offline_replicas: list[int] = Array(Int32, "5+", ignorable=True, entity="brokerId")

        error_code: int = Int16()
        name: str | None = String(null="12+", entity="topicName")
        topic_id: UUID = Uuid("10+", ignorable=True)
        is_internal: bool = Bool("1+", ignorable=True)
        partitions: list[Partition] = Array(Partition)
        topic_authorized_operations: int = Int32("8+", default=-2147483648)

    throttle_time_ms: int = Int32("3+", ignorable=True)
    brokers: list[Broker] = Array(Broker)
    cluster_id: str | None = String("2+", null=True, default=None, ignorable=True)
    controller_id: int = Int32("1+", default=-1, ignorable=True, entity="brokerId")
    topics: list[Topic] = Array(Topic)
    cluster_authorized_operations: int = Int32("8-10", default=-2147483648)
    error_code: int = Int16("13+", ignorable=True)
