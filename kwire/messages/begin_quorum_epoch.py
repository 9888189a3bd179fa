"""BeginQuorumEpoch (key 53): a new KRaft leader announces its epoch to the voters (KIP-595).

v1 is flexible, and adds voter ids, directories and the endpoints of the leader (KIP-853).
"""

from uuid import UUID

from kwire.schema import Api, Array, Int16, Int32, String, UInt16, Uuid, request, response, struct

BEGIN_QUORUM_EPOCH = Api(53, versions="0-1", flexible="1+")


@request(BEGIN_QUORUM_EPOCH)
class BeginQuorumEpochRequest:
    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = Int32()
            voter_directory_id: UUID = Uuid("1+", ignorable=True)
            leader_id: int = Int32(entity="brokerId")
            leader_epoch: int = Int32()

        topic_name: str = String(entity="topicName")
        partitions: list[Partition] = Array(Partition)

    @struct
    class LeaderEndpoint:
        name: str = String()
        host: str = String()
        port: int = UInt16()

    cluster_id: str | None = String(null=True, default=None)
    voter_id: int = Int32("1+", default=-1, ignorable=True, entity="brokerId")
    topics: list[Topic] = Array(Topic)
    leader_endpoints: list[LeaderEndpoint] = Array(LeaderEndpoint, "1+", ignorable=True)


@response(BEGIN_QUORUM_EPOCH)
class BeginQuorumEpochResponse:
    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = Int32()
            error_code: int = Int16()
            leader_id: int = Int32(entity="brokerId")
            leader_epoch: int = Int32()

        topic_name: str = String(entity="topicName")
        partitions: list[Partition] = Array(Partition)

    @struct
    class NodeEndpoint:
        node_id: int = Int32(entity="brokerId")
        host: str = String()
        port: int = UInt16()

    error_code: int = Int16()
    topics: list[Topic] = Array(Topic)
    node_endpoints: list[NodeEndpoint] = Array(NodeEndpoint, "1+", tag=0)
