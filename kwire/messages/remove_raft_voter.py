"""RemoveRaftVoter (key 81): remove a voter from a KRaft quorum (KIP-853)."""

from uuid import UUID

from kwire.schema import Api, Int16, Int32, String, Uuid, request, response

REMOVE_RAFT_VOTER = Api(81, versions="0", flexible="0+")


@request(REMOVE_RAFT_VOTER)
class RemoveRaftVoterRequest:
    cluster_id: str | None = String(null=True)
    voter_id: int = Int32()
    voter_directory_id: UUID = Uuid()


@response(REMOVE_RAFT_VOTER)
class RemoveRaftVoterResponse:
    throttle_time_ms: int = Int32()
    error_code: int = Int16()
    error_message: str | None = String(null=True, ignorable=True)
