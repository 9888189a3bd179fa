"""Metadata and assignment of Kafka Connect workers in groups of type ``connect``, in JoinGroup and SyncGroup.

v0 is the protocol ``default``, which stops all tasks during a rebalance. v1, ``compatible``, adds the tasks that a
worker runs to the metadata, and the tasks that a worker must stop to the assignment (KIP-415). v2, ``sessioned``, has
the same encoding as v1; it means that workers sign their requests to each other (KIP-507). Task -1 is the connector
itself.

The class names are our own. Kafka's classes are WorkerState and Assignment, and from v1 on ExtendedWorkerState and
ExtendedAssignment. Source: ConnectProtocol, IncrementalCooperativeConnectProtocol.
"""

from kwire.schema import Array, Bytes, Int16, Int32, Int64, String, data, struct


@data(versions="0-2", flexible="none")
class ConnectWorkerState:
    """The metadata of a Kafka Connect worker in JoinGroup.

    Attributes:
        url: URL of the REST API of the worker.
        config_offset: offset up to which the worker has read the configuration topic.
        allocation: encoded ConnectAssignment with the tasks that the worker runs; None before v1.
    """

    url: str = String()
    config_offset: int = Int64()
    allocation: bytes | None = Bytes("1+", null=True, default=None, ignorable=True)


@data(versions="0-2", flexible="none")
class ConnectAssignment:
    """The assignment of a Kafka Connect worker in SyncGroup.

    Attributes:
        error: 1 if workers must first read more of the configuration topic, else 0.
        leader: member id of the leader of the group.
        leader_url: URL of the REST API of the leader.
        config_offset: offset in the configuration topic that the assignment is based on.
        assignment: connectors and tasks that the worker runs; None for null.
        revoked: connectors and tasks that the worker must stop; None for null.
        delay: time until the next rebalance, in milliseconds.
    """

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
