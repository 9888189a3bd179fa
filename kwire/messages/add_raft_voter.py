"""AddRaftVoter (key 80): add a voter to a KRaft quorum (KIP-853).

v1 adds a flag that makes the leader respond before the change is committed.
"""

from uuid import UUID

from kwire.schema import Api, Array, Bool, Int16, Int32, String, UInt16, Uuid, request, response, struct

ADD_RAFT_VOTER = Api(80, versions="0-1", flexible="0+")


@request(ADD_RAFT_VOTER)
class AddRaftVoterRequest:
    @struct
    class Listener:
        name: str = String()
        host: str = String()
        port: int = UInt16()

    cluster_id: str | None = String(null=True)
    timeout_ms: int = Int32()
    voter_id: int = Int32()
    voter_directory_id: UUID = Uuid()
    listeners: list[Listener] = Array(Listener)
    ack_when_committed: bool = Bool("1+", default=True)


@response(ADD_RAFT_VOTER)
class AddRaftVoterResponse:
    throttle_time_ms: int = Int32()
    error_code: int = Int16()
    error_message: str | None = String(null=True, ignorable=True)
