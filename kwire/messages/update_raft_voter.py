"""UpdateRaftVoter (key 82): a voter sends its endpoints and supported KRaft versions to the leader (KIP-853)."""

from uuid import UUID

from kwire.schema import Api, Array, Int16, Int32, Nested, String, UInt16, Uuid, request, response, struct

UPDATE_RAFT_VOTER = Api(82, versions="0", flexible="0+")


@request(UPDATE_RAFT_VOTER)
class UpdateRaftVoterRequest:
    @struct
    class Listener:
        name: str = String()
        host: str = String()
        port: int = UInt16()

    @struct
    class KRaftVersionFeature:
        min_supported_version: int = Int16()
        max_supported_version: int = Int16()

    cluster_id: str | None = String(null=True)
    current_leader_epoch: int = Int32()
    voter_id: int = Int32()
    voter_directory_id: UUID = Uuid()
    listeners: list[Listener] = Array(Listener)
    k_raft_version_feature: KRaftVersionFeature = Nested(KRaftVersionFeature)


@response(UPDATE_RAFT_VOTER)
class UpdateRaftVoterResponse:
    @struct
    class Leader:
        leader_id: int = Int32(default=-1, entity="brokerId")
        leader_epoch: int = Int32(default=-1)
        host: str = String()
        port: int = Int32()

    throttle_time_ms: int = Int32()
    error_code: int = Int16()
    current_leader: Leader = Nested(Leader, tag=0)
