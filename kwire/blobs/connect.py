"""What workers of Kafka Connect say in a group of type ``connect``, in JoinGroup and SyncGroup.

v0 is the protocol ``default``, which stops everything to rebalance; v1 ``compatible`` tells what a worker runs and what
it is to give up (KIP-415); v2 ``sessioned`` has the same bytes, and means that workers sign what they ask of each other
(KIP-507). Task -1 is the connector itself. The names are ours: Kafka's classes are WorkerState and Assignment, and from
v1 on ExtendedWorkerState and ExtendedAssignment. Source: ConnectProtocol, IncrementalCooperativeConnectProtocol.
"""

from kwire.schema import Array, Bytes, Int16, Int32, Int64, String, data, struct


@data(versions="0-2", flexible="none")
class ConnectWorkerState:
    """``allocation``: the ConnectAssignment that the worker has, as it is stored, or null."""

    url: str = String()
    config_offset: int = Int64()
    allocation: bytes | None = Bytes("1+", null=True, default=None, ignorable=True)


@data(versions="0-2", flexible="none")
class ConnectAssignment:
    """``error``: 1 if workers have to read more of the configuration first; ``delay``: milliseconds until the next."""

    @struct
    class Connector:
        connector: str = String()
        tasks: list[int] = Array(Int32)

    error: int = Int16()
    leader: str = String()
    leader_url: str = String()
    config_offset: int = Int64()
    assignment: list[Connector] | None = Array(Connector, null="1+")
    revoked: list[Connector] | None = Array(Connector, "1+", null=True, default=None)
    delay: int = Int32("1+", ignorable=True)
