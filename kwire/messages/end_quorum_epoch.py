"""EndQuorumEpoch (key 54): a KRaft leader resigns and lists preferred successors (KIP-595).

v1 is flexible, and adds candidates with their directories and the endpoints of the leader (KIP-853).
"""

from uuid import UUID

from kwire.schema import Api, Array, Int16, Int32, String, UInt16, Uuid, request, response, struct

END_QUORUM_EPOCH = Api(54, versions="0-1", flexible="1+")


@request(END_QUORUM_EPOCH)
class EndQuorumEpochRequest:
    @struct
    class Topic:
        @struct
        class Partition:
            @struct
            class Candidate:
                candidate_id: int = Int32(entity="brokerId")
                candidate_directory_id: UUID = Uuid()

            partition_index: int = Int32()
            leader_id: int = Int32(entity="brokerId")
            leader_epoch: int = Int32()
            preferred_successors: list[int] = Array(Int32, "0", ignorable=True)
            preferred_candidates: list[Candidate] = Array(Candidate, "1+", ignorable=True)

        topic_name: str = String(entity="topicName")
        partitions: list[Partition] = Array(Partition)

    @struct
    class LeaderEndpoint:
        name: str = String()
        host: str = String()
        port: int = UInt16()

    cluster_id: str | None = String(null=True, default=None)
    topics: list[Topic] = Array(Topic)
    leader_endpoints: list[LeaderEndpoint] = Array(LeaderEndpoint, "1+", ignorable=True)


@response(END_QUORUM_EPOCH)
class EndQuorumEpochResponse:
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
