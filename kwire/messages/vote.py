"""Vote (key 52): a KRaft candidate asks a voter for its vote (KIP-595).

v1 adds the voter id and directories (KIP-853); v2 adds the pre-vote, and renames the candidate fields to replica fields
(KIP-996).
"""

from uuid import UUID

from kwire.schema import Api, Array, Bool, Int16, Int32, Int64, String, UInt16, Uuid, request, response, struct

VOTE = Api(52, versions="0-2", flexible="0+")


@request(VOTE)
class VoteRequest:
    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = Int32()
            replica_epoch: int = Int32()
            replica_id: int = Int32(entity="brokerId")
            replica_directory_id: UUID = Uuid("1+", ignorable=True)
            voter_directory_id: UUID = Uuid("1+", ignorable=True)
            last_offset_epoch: int = Int32()
            last_offset: int = Int64()
            pre_vote: bool = Bool("2+")

        topic_name: str = String(entity="topicName")
        partitions: list[Partition] = Array(Partition)

    cluster_id: str | None = String(null=True, default=None)
    voter_id: int = Int32("1+", default=-1, ignorable=True, entity="brokerId")
    topics: list[Topic] = Array(Topic)


@response(VOTE)
class VoteResponse:
    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = Int32()
            error_code: int = Int16()
            leader_id: int = Int32(entity="brokerId")
            leader_epoch: int = Int32()
            vote_granted: bool = Bool()

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
