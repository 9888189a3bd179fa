"""The Kafka releases that a cluster can emulate: their API versions, features and differences in behaviour.

Version ranges are recorded from real brokers (fixtures/releases). An API without a handler is not advertised, even if
the release had it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from kwire.apikeys import ApiKey
from kwire.lazy_dataclass import dataclass
from kwire.records.message_set import PRODUCE_BATCHES_SINCE
from kwire.schema import Versions

NOTHING = "none"
METADATA_VERSION = "metadata.version"
ELIGIBLE_REPLICAS = "eligible.leader.replicas.version"

# By API key: the versions served since each release. 2.8 to 3.2 run with ZooKeeper.
SERVED: Mapping[int, str] = {
    ApiKey.PRODUCE: "2.8: 0-9, 3.7: 0-10, 3.8: 0-11, 4.0: 0-12, 4.1: 0-13",
    ApiKey.FETCH: "2.8: 0-12, 3.1: 0-13, 3.5: 0-15, 3.7: 0-16, 3.9: 0-17, 4.0: 4-17, 4.1: 4-18",
    ApiKey.LIST_OFFSETS: "2.8: 0-6, 3.0: 0-7, 3.5: 0-8, 3.9: 0-9, 4.0: 1-10, 4.2: 1-11",
    ApiKey.METADATA: "2.8: 0-11, 3.1: 0-12, 4.0: 0-13",
    ApiKey.LEADER_AND_ISR: "2.8: 0-5, 3.2: 0-6, 3.3: none",
    ApiKey.STOP_REPLICA: "2.8: 0-3, 3.3: none",
    ApiKey.UPDATE_METADATA: "2.8: 0-7, 3.3: none",
    ApiKey.CONTROLLED_SHUTDOWN: "2.8: 0-3, 3.3: none",
    ApiKey.OFFSET_COMMIT: "2.8: 0-8, 3.7: 0-9, 4.0: 2-9, 4.2: 2-10",
    ApiKey.OFFSET_FETCH: "2.8: 0-7, 3.0: 0-8, 3.7: 0-9, 4.0: 1-9, 4.2: 1-10",
    ApiKey.FIND_COORDINATOR: "2.8: 0-3, 3.0: 0-4, 3.8: 0-5, 3.9: 0-6",
    ApiKey.JOIN_GROUP: "2.8: 0-7, 3.2: 0-9, 4.0: 2-9, 4.1: 0-9",
    ApiKey.HEARTBEAT: "2.8: 0-4",
    ApiKey.LEAVE_GROUP: "2.8: 0-4, 3.2: 0-5",
    ApiKey.SYNC_GROUP: "2.8: 0-5",
    ApiKey.DESCRIBE_GROUPS: "2.8: 0-5, 4.0: 0-6",
    ApiKey.LIST_GROUPS: "2.8: 0-4, 3.8: 0-5",
    ApiKey.SASL_HANDSHAKE: "2.8: 0-1",
    ApiKey.API_VERSIONS: "2.8: 0-3, 3.9: 0-4",
    ApiKey.CREATE_TOPICS: "2.8: 0-7, 4.0: 2-7",
    ApiKey.DELETE_TOPICS: "2.8: 0-6, 4.0: 1-6",
    ApiKey.DELETE_RECORDS: "2.8: 0-2",
    ApiKey.INIT_PRODUCER_ID: "2.8: 0-4, 3.8: 0-5",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "2.8: 0-4, 4.0: 2-4",
    ApiKey.ADD_PARTITIONS_TO_TXN: "2.8: 0-3, 3.6: 0-4, 3.8: 0-5",
    ApiKey.ADD_OFFSETS_TO_TXN: "2.8: 0-3, 3.8: 0-4",
    ApiKey.END_TXN: "2.8: 0-3, 3.8: 0-4, 4.0: 0-5",
    ApiKey.WRITE_TXN_MARKERS: "2.8: 0-1, 4.0: 1, 4.2: 1-2",
    ApiKey.TXN_OFFSET_COMMIT: "2.8: 0-3, 3.8: 0-4, 4.0: 0-5",
    ApiKey.DESCRIBE_ACLS: "2.8: 0-2, 3.3: 0-3, 4.0: 1-3",
    ApiKey.CREATE_ACLS: "2.8: 0-2, 3.3: 0-3, 4.0: 1-3",
    ApiKey.DELETE_ACLS: "2.8: 0-2, 3.3: 0-3, 4.0: 1-3",
    ApiKey.DESCRIBE_CONFIGS: "2.8: 0-4, 4.0: 1-4",
    ApiKey.ALTER_CONFIGS: "2.8: 0-2",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "2.8: 0-2, 4.0: 1-2",
    ApiKey.DESCRIBE_LOG_DIRS: "2.8: 0-2, 3.2: 0-3, 3.3: 0-4, 4.0: 1-4",
    ApiKey.SASL_AUTHENTICATE: "2.8: 0-2",
    ApiKey.CREATE_PARTITIONS: "2.8: 0-3",
    ApiKey.CREATE_DELEGATION_TOKEN: "2.8: 0-2, 3.3: none, 3.6: 0-3, 4.0: 1-3",
    ApiKey.RENEW_DELEGATION_TOKEN: "2.8: 0-2, 3.3: none, 3.6: 0-2, 4.0: 1-2",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "2.8: 0-2, 3.3: none, 3.6: 0-2, 4.0: 1-2",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "2.8: 0-2, 3.3: none, 3.6: 0-3, 4.0: 1-3",
    ApiKey.DELETE_GROUPS: "2.8: 0-2",
    ApiKey.ELECT_LEADERS: "2.8: 0-2",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "2.8: 0-1",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "2.8: 0, 4.1: 0-1",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "2.8: 0",
    ApiKey.OFFSET_DELETE: "2.8: 0",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "2.8: 0-1",
    ApiKey.ALTER_CLIENT_QUOTAS: "2.8: 0-1",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "2.8: 0, 3.3: none, 3.5: 0",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "2.8: 0, 3.3: none, 3.5: 0",
    ApiKey.DESCRIBE_QUORUM: "3.3: 0-1, 3.9: 0-2",
    ApiKey.ALTER_PARTITION: "2.8: 0, 3.2: 0-1, 3.3: none",
    ApiKey.UPDATE_FEATURES: "2.8: 0, 3.3: 0-1, 4.0: 0-2",
    ApiKey.DESCRIBE_CLUSTER: "2.8: 0, 3.7: 0-1, 4.0: 0-2",
    ApiKey.DESCRIBE_PRODUCERS: "2.8: 0",
    ApiKey.UNREGISTER_BROKER: "3.3: 0",
    ApiKey.DESCRIBE_TRANSACTIONS: "3.0: 0",
    ApiKey.LIST_TRANSACTIONS: "3.0: 0, 3.8: 0-1, 4.1: 0-2",
    ApiKey.ALLOCATE_PRODUCER_IDS: "3.0: 0, 3.3: none",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "3.7: 0, 4.0: 0-1",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "3.8: 0, 4.0: 0-1",
    ApiKey.LIST_CONFIG_RESOURCES: "3.7: 0, 4.1: 0-1",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "3.8: 0",
    ApiKey.SHARE_GROUP_HEARTBEAT: "4.1: 1",
    ApiKey.SHARE_GROUP_DESCRIBE: "4.1: 1",
    ApiKey.SHARE_FETCH: "4.1: 1, 4.2: 1-2",
    ApiKey.SHARE_ACKNOWLEDGE: "4.1: 1, 4.2: 1-2",
    ApiKey.ADD_RAFT_VOTER: "3.9: 0, 4.2: 0-1",
    ApiKey.REMOVE_RAFT_VOTER: "3.9: 0",
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: "4.1: 0",
    ApiKey.READ_SHARE_GROUP_STATE: "4.1: 0",
    ApiKey.WRITE_SHARE_GROUP_STATE: "4.1: 0, 4.2: 0-1",
    ApiKey.DELETE_SHARE_GROUP_STATE: "4.1: 0",
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: "4.1: 0, 4.2: 0-1",
    ApiKey.STREAMS_GROUP_HEARTBEAT: "4.2: 0",
    ApiKey.STREAMS_GROUP_DESCRIBE: "4.2: 0",
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: "4.1: 0, 4.2: 0-1",
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: "4.1: 0",
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: "4.1: 0",
}

# The same for APIs that a broker serves only with a plugin that receives the metrics of clients (KIP-714).
TELEMETRY: Mapping[int, str] = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: "3.7: 0", ApiKey.PUSH_TELEMETRY: "3.7: 0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quirks:
    """The differences between Kafka before 4.0 (group coordinator in Scala) and Kafka since 4.0 (group coordinator in
    Java).

    Each field is one difference. True means the behaviour before 4.0. The text below the field describes this
    behaviour.
    """

    sync_in_stable_renews_session: bool
    """A SyncGroup in state Stable renews the session of the member."""
    delay_extended_in_generation_0_only: bool
    """Members that join extend the initial delay in generation 0 only, not whenever the group was empty."""
    assignment_described_in_stable_only: bool
    """DescribeGroups returns assignments in state Stable only, instead of the latest ones in every state."""
    last_protocol_wins_ties: bool
    """Among protocols with equal votes, the last one in HashMap order is chosen instead of the first."""
    commit_to_missing_group_is_illegal_generation: bool
    """OffsetCommit v9+ to an unknown group returns ILLEGAL_GENERATION as before v9, not GROUP_ID_NOT_FOUND."""
    txn_commit_to_missing_group_is_unknown_member: bool
    """TxnOffsetCommit with a generation to an unknown group returns UNKNOWN_MEMBER_ID, not ILLEGAL_GENERATION."""
    refused_join_may_end_join_phase: bool
    """A JoinGroup that is rejected because of group.max.size may complete the join phase."""
    last_offset_deletes_group: bool
    """OffsetDelete of the last offset of an empty group deletes the group."""
    fetch_of_no_group_is_not_answered: bool
    """OffsetFetch v8+ without a group is never answered."""
    sync_while_loading_is_rebalance: bool
    """SyncGroup while the group is loading returns REBALANCE_IN_PROGRESS, not COORDINATOR_LOAD_IN_PROGRESS."""
    group_written_when_stable: bool
    """The first record of a group is written when it becomes Stable, not at its first JoinGroup."""
    no_tombstone_for_offsets_alone: bool
    """No group tombstone is written when a group that has only committed offsets is deleted."""
    consumer_protocol_only_if_set: bool
    """Consumer groups (KIP-848) are served only if the setting group.coordinator.rebalance.protocols is set."""
    group_operations_before_4_0: bool
    """DescribeGroups reports the authorized operations that groups had before 4.0."""
    configs_before_4_0: bool
    """Topics and brokers have the configurations of 3.9."""


SINCE_4_0, BEFORE_4_0 = (Quirks(**dict.fromkeys(Quirks.__annotations__, differs)) for differs in (False, True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A Kafka release that a cluster can emulate.

    Attributes:
        name: The release, such as "3.9"; "all" for the release with every API version.
        quirks: Differences between this release and Kafka 4.0 in the group coordinator and the configurations.
        kip890: Whether transactions follow KIP-890, in part also for older clients. If False, a producer whose
            transaction timed out is fenced permanently and cannot recover its producer id; a batch with a newer epoch
            is not verified with the coordinator while the producer has a transaction open in the partition; and the
            start of the last transaction is reported until the next one begins.
        offset_value_version: Version of the OffsetCommitValue records that the coordinator writes.
        uniform: Name of the Kafka release whose ``uniform`` assignor is used for consumer groups (KIP-848); see
            kwire.assignors.
        batches_only: Whether message sets (magic 0 and 1) are not supported. Produce v0-2 is advertised nevertheless,
            because librdkafka requires these versions for compression; a Produce v0-2 closes the connection.
        everything: Whether every version of every API that mockbroker implements is served.
        features: Finalized feature levels by name, as ApiVersions reports them.
        supported: Lowest and highest supported level of each feature.
    """

    name: str
    quirks: Quirks = field(default_factory=lambda: SINCE_4_0)
    kip890: bool = True
    offset_value_version: int = 4
    uniform: str = "4.2"
    batches_only: bool = True
    everything: bool = False
    features: Mapping[str, int] = field(default_factory=dict)
    supported: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def limit(self, api_key: int, versions: Versions) -> Versions | None:
        """Return the part of a version range that the release advertises; None if the release advertises none of the
        versions.

        Args:
            api_key: API key that the versions belong to.
            versions: the versions that mockbroker implements.
        """
        if self.everything:
            return versions
        release_versions = served(api_key, self.name)
        if release_versions is None:
            return None
        assert versions.last is not None
        assert release_versions.last is not None
        first, last = max(versions.first, release_versions.first), min(versions.last, release_versions.last)
        return Versions(first, last) if first <= last else None

    @property
    def has_client_metrics(self) -> bool:
        """Whether the release has configurations of the resource type CLIENT_METRICS (KIP-714, since 3.7)."""
        return self.everything or served(ApiKey.PUSH_TELEMETRY, self.name) is not None

    def refuses(self, api_key: int, version: int) -> bool:
        """Return whether the release advertises a version of an API, but closes the connection after a request in this
        version.

        Args:
            api_key: API key.
            version: API version.
        """
        return self.batches_only and api_key == ApiKey.PRODUCE and version < PRODUCE_BATCHES_SINCE


def served(api_key: int, release: str) -> Versions | None:
    """Return the versions of an API that a release serves; None if the release does not have the API.

    Args:
        api_key: API key.
        release: Name of the release, such as "3.9".
    """
    current = NOTHING
    for change in (SERVED.get(api_key) or TELEMETRY.get(api_key, "")).split(", "):
        since, _, versions = change.partition(": ")
        if _number(since) <= _number(release):
            current = versions
    return None if current in (NOTHING, "") else Versions.parse(current)


def _number(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split("."))) if release else ()


def _scala(name: str, metadata_version: int = 0, *, supported: Mapping[str, tuple[int, int]] | None = None) -> Release:
    """Return a release before 4.0, whose group coordinator is written in Scala.

    Args:
        name: The release, such as "3.9".
        metadata_version: Finalized level of metadata.version; 0 for none, as with ZooKeeper.
        supported: Lowest and highest supported level of each feature other than metadata.version.
    """
    levels = {METADATA_VERSION: metadata_version} if metadata_version else {}
    ranges = {name: (1, level) for name, level in levels.items()}
    return Release(
        name=name,
        quirks=BEFORE_4_0,
        kip890=False,
        offset_value_version=3,
        uniform="3.9",
        batches_only=False,
        features=levels,
        supported=ranges | dict(supported or {}),
    )


KAFKA_4_2 = Release(
    name="4.2",
    features={
        ELIGIBLE_REPLICAS: 1,
        "group.version": 1,
        METADATA_VERSION: 29,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    },
    supported={
        ELIGIBLE_REPLICAS: (0, 1),
        "group.version": (0, 1),
        "kraft.version": (0, 1),
        METADATA_VERSION: (7, 29),
        "share.version": (0, 1),
        "streams.version": (0, 1),
        "transaction.version": (0, 2),
    },
)
KAFKA_4_1 = Release(
    name="4.1",
    features={
        ELIGIBLE_REPLICAS: 1,
        "group.version": 1,
        METADATA_VERSION: 27,
        "transaction.version": 2,
    },
    supported={
        ELIGIBLE_REPLICAS: (0, 1),
        "group.version": (0, 1),
        "kraft.version": (0, 1),
        METADATA_VERSION: (7, 27),
        "share.version": (0, 1),
        "transaction.version": (0, 2),
    },
)
KAFKA_4_0 = Release(
    name="4.0",
    offset_value_version=3,
    uniform="4.0",
    features={"group.version": 1, METADATA_VERSION: 25, "transaction.version": 2},
    supported={
        ELIGIBLE_REPLICAS: (0, 1),
        "group.version": (0, 1),
        "kraft.version": (0, 1),
        METADATA_VERSION: (7, 25),
        "transaction.version": (0, 2),
    },
)
KAFKA_3_9 = _scala("3.9", metadata_version=21, supported={"kraft.version": (0, 1)})
RELEASES = {
    release.name: release
    for release in (
        _scala("2.8"),
        _scala("3.0"),
        _scala("3.1"),
        _scala("3.2"),
        _scala("3.3", metadata_version=7),
        _scala("3.4", metadata_version=8),
        _scala("3.5", metadata_version=11),
        _scala("3.6", metadata_version=14),
        _scala("3.7", metadata_version=19),
        _scala("3.8", metadata_version=20),
        KAFKA_3_9,
        KAFKA_4_0,
        KAFKA_4_1,
        KAFKA_4_2,
        Release(
            name="all",
            batches_only=False,
            everything=True,
            features=KAFKA_4_2.features,
            supported=KAFKA_4_2.supported,
        ),
    )
}
