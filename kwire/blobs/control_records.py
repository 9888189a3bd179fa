"""Keys and values of control records, which brokers and controllers append to logs.

The key contains the type of the record. End-transaction markers are in the logs of topics. All other control records
are in the metadata log of the controllers and in its snapshots, and their values contain a version field. Source:
ControlRecordType and ControlRecordUtils in org.apache.kafka.common.record.
"""

from uuid import UUID

from kwire.schema import Array, Int16, Int32, Int64, Nested, String, UInt16, Uuid, data, struct


@data(versions="0", flexible="none")
class ControlRecordKey:
    """The key of a control record.

    Attributes:
        type: number of the record type. ControlType lists the types that kwire knows.
    """

    type: int = Int16()


@data(versions="0", flexible="none")
class EndTxnMarker:
    """The value of ABORT and COMMIT control records. They end a transaction in a partition."""

    coordinator_epoch: int = Int32()


@data(versions="0-1", flexible="0+")
class LeaderChangeMessage:
    """The value of LEADER_CHANGE control records: leader and voters of the KRaft quorum.

    v1 adds directories (KIP-853); Kafka 4.2 does not write v1 yet.
    """

    @struct
    class Voter:
        voter_id: int = Int32()
        voter_directory_id: UUID = Uuid("1+")

    version: int = Int16()
    leader_id: int = Int32(entity="brokerId")
    voters: list[Voter] = Array(Voter)
    granting_voters: list[Voter] = Array(Voter)


@data(versions="0", flexible="0+")
class SnapshotHeaderRecord:
    """The value of SNAPSHOT_HEADER, the first record of a snapshot."""

    version: int = Int16()
    last_contained_log_timestamp: int = Int64()


@data(versions="0", flexible="0+")
class SnapshotFooterRecord:
    """The value of SNAPSHOT_FOOTER, the last record of a snapshot."""

    version: int = Int16()


@data(versions="0", flexible="0+")
class KRaftVersionRecord:
    """The value of KRAFT_VERSION: the version of the KRaft protocol (KIP-853)."""

    version: int = Int16()
    k_raft_version: int = Int16()


@data(versions="0", flexible="0+")
class VotersRecord:
    """The value of KRAFT_VOTERS: the voters of the KRaft quorum (KIP-853)."""

    @struct
    class Voter:
        @struct
        class Endpoint:
            name: str = String()
            host: str = String()
            port: int = UInt16()

        @struct
        class KRaftVersionFeature:
            min_supported_version: int = Int16()
            max_supported_version: int = Int16()

        voter_id: int = Int32(entity="brokerId")
        voter_directory_id: UUID = Uuid()
        endpoints: list[Endpoint] = Array(Endpoint)
        k_raft_version_feature: KRaftVersionFeature = Nested(KRaftVersionFeature)

    version: int = Int16()
    voters: list[Voter] = Array(Voter)
