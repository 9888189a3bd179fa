"""The mutable state of the cluster below the network: topics, groups, transactions and deadlines.

One ``Broker`` serves all broker ids; ``Call.client`` contains the id of the broker that received the request.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from kwire import ErrorCode
from kwire.json.objects import uuid_text
from kwire.limits import MAX_TEXT
from kwire.schema import Versions
from mockbroker.base.broker_loggers import BrokerLoggers
from mockbroker.base.deadlines import Deadlines
from mockbroker.base.effects import Client
from mockbroker.base.live_settings import BrokerSettings
from mockbroker.base.regular import RegularChecks
from mockbroker.base.release import ELIGIBLE_REPLICAS, KAFKA_4_2, Release
from mockbroker.base.response_limit import Room
from mockbroker.base.settings import RACK_AWARE, SHARE_GROUPS_ENABLED, Settings
from mockbroker.base.timers import TOKEN_SWEEP, Due
from mockbroker.broker.features import GROUP_VERSION, finalized
from mockbroker.broker.fetch.session_cache import DelayedFetch, FetchSessionCache
from mockbroker.broker.log_manager import LogManager
from mockbroker.broker.purgatory import Purgatory
from mockbroker.broker.response_cache import CachedResponse, ResponseCache
from mockbroker.broker.topic_creation import InternalTopicCreator
from mockbroker.groups.coordinated import CoordinatedGroup
from mockbroker.groups.group_type import Context, GroupTypes
from mockbroker.groups.group_types import GROUP_TYPES
from mockbroker.groups.offsets import TopicPartition
from mockbroker.groups.records.wall_time import WallClock
from mockbroker.groups.records.writer import GroupRecordWriter
from mockbroker.groups.registry import Groups
from mockbroker.quotas.client_quotas import ClientQuotas
from mockbroker.security.identity import UNKNOWN, Identity
from mockbroker.security.standard_authorizer import StandardAuthorizer
from mockbroker.security.users import Users
from mockbroker.telemetry.client_metrics import ClientMetrics
from mockbroker.topics.log_dirs import LogDirs, paths_of
from mockbroker.topics.model import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    ClusterState,
    Node,
    Partition,
    Topic,
)
from mockbroker.topics.producers import Producer
from mockbroker.transactions.records import TransactionKeeper
from mockbroker.transactions.records import rebuilt as rebuilt_transactions
from mockbroker.transactions.registry import Transactions
from mockbroker.transactions.state import PREPARED, State, Transaction

if TYPE_CHECKING:
    from mockbroker.broker.share_fetch.pending import PendingShareFetch
    from mockbroker.share.group_settings import ShareGroupSettings
    from mockbroker.share.sessions import PartitionKey, ShareSessions
    from mockbroker.share.share_partitions import SharePartitions
    from mockbroker.share.state import StateKey
    from mockbroker.share.states import ShareStates

SLICE_SIZE = 1_000  # elements of a request, such as partitions; they take about 5 ms
NONE = ErrorCode.NONE


class Broker:
    """The state of the whole cluster: topics, groups, transactions, pending requests and deadlines.

    ``now`` is the time of the broker's clock in seconds; a test can stop and advance this clock. Client time is the
    real time that clients measure; it never stops. Broker time and client time are equal until a test stops or advances
    the broker's clock.

    Args:
        nodes: the brokers of the cluster.
        settings: the broker configuration.
        new_uuid: function that returns a new UUID, for member ids, topic ids and fetch session ids.
        release: the Kafka release to emulate.
        wall_at_zero: seconds since 1970 at time 0 of the broker's clock.
        users: users and their credentials, for SASL.
        cluster: existing topics and logs; None for a new cluster. If it is not None, the caller must call
            ``failover.recover`` afterwards, which loads groups and transactions from the logs.
        types: all group types of the coordinator.
        started: the time of the broker's clock at the start of the cluster, from which regular checks, such as those of
            retention, are counted.

    Attributes:
        cluster: the topics with their logs, the brokers, and all stored configurations.
        groups: all groups, by group id.
        transactions: all transactional ids, with the coordinator's state of their transactions.
        deadlines: deadlines in the broker's time.
        client_deadlines: deadlines in client time, such as the end of the wait of a Fetch.
        to_client_time: function that converts a time of the broker's clock to client time, both in seconds.
        logs: the log manager, for retention and compaction of topics.
        fetch_purgatory: pending Fetch requests.
        metadata_responses: cache of Metadata responses.
        advertised_versions: API versions that ApiVersions advertises, by API key; set by the router.
        api_versions: cached ApiVersions responses, by whether they contain the optional features.
        appended_partitions: partitions of the transaction log and of ``__share_group_state`` that have received records
            since the last call of ``write_changes``.
        quotas: the client quotas.
        log_dirs: the log directories of the brokers.
        share_fetch_purgatory: pending ShareFetch requests.
        changed_partitions: partitions that have changed since the last call of ``Router.finish``. The list is filled
            only while ShareFetch requests wait.
        record_writer: the writer of the records of groups to the offsets topic.
        transaction_keeper: the writer of the records of transactional ids to the transaction log.
        deleted_topics: ids of deleted topics whose share states will be deleted by the next ``write_changes``.
        loading: indexes of the partitions of the offsets topic that their coordinators are loading.
        frozen_metadata: by broker id, the outdated cluster metadata of brokers whose metadata is frozen.
        authorizer: the authorizer; None if the cluster has no authorizer.
        identity: function that returns the identity of the client of a connection, by the number of the connection.
        client_metrics: the clients that push metrics.
        loggers: the levels of the brokers' loggers.
        features: feature name -> finalized level. Features of level 0 are left out.
        broker_settings: the settings of each broker. AlterConfigs changes them.
        settings: the settings of the cluster. The object remains the same when they change.
        slice_size: maximum number of elements of a request, such as partitions, that are handled at once. After them,
            requests of other connections are handled.
    """

    slice_size = SLICE_SIZE

    def __init__(
        self,
        nodes: list[Node],
        settings: Settings,
        new_uuid: Callable[[], UUID],
        release: Release = KAFKA_4_2,
        wall_at_zero: float = 0.0,
        users: Users | None = None,
        cluster: ClusterState | None = None,
        types: GroupTypes = GROUP_TYPES,
        started: float = 0.0,
    ) -> None:
        self.users = users or Users()
        self.release = release
        self.cluster = cluster or ClusterState(nodes, new_uuid)
        self.loggers = BrokerLoggers()
        self.features = finalized(release, self.cluster.changed_features)
        self.broker_settings = BrokerSettings(
            settings,
            self.cluster.broker_configs,
            keeps_min_in_sync=self.features.get(ELIGIBLE_REPLICAS, 0) > 0,
        )
        self.settings: Settings = self.broker_settings.cluster
        settings = self.settings
        self.users.alter(self.cluster.scram)
        self.users.tokens = self.cluster.tokens
        self.identity: Callable[[int], Identity] = lambda _: UNKNOWN
        self.authorizer = StandardAuthorizer.configured(settings, self.cluster.acls)
        self.deadlines: Deadlines[Due] = Deadlines()
        self._checks = checks = RegularChecks(started)
        self.client_deadlines: Deadlines[Due] = Deadlines()
        self.to_client_time: Callable[[float], float] = _identity
        self.appended_partitions: list[Partition] = []
        self._share_states: ShareStates | None = None
        creator = InternalTopicCreator(self.cluster, settings, release)
        context = Context(
            self.cluster, settings, new_uuid, release.quirks, release.uniform, lambda: self.share_states, creator.create
        )
        self.groups = Groups(types, context, self.deadlines)
        self.quotas = ClientQuotas(
            self.cluster.client_quotas,
            settings.quota_window_num,
            settings.quota_window_size_seconds,
            settings.controller_quota_window_num * settings.controller_quota_window_size_seconds,
        )
        self.quotas.changed.append(self.cluster.changed)
        self.client_metrics = ClientMetrics(
            lambda: (self.cluster.client_metrics, self.cluster.client_metrics_version), new_uuid
        )
        self.log_dirs = LogDirs(
            paths_of(settings.others.get("log.dirs") or settings.others.get("log.dir") or ""),
            self.cluster.log_dirs,
            self.cluster.future_log_dirs,
            self.cluster.changed,
        )
        self.set_clock_stopped(False)
        self._wall = WallClock(wall_at_zero)
        self.logs = LogManager(self.cluster, self.settings_of, release, self.deadlines, checks, self.wall_ms)
        self.fetch_purgatory: Purgatory[TopicPartition, DelayedFetch] = Purgatory()
        self._fetch_sessions: dict[int, FetchSessionCache] = {}  # by broker id
        self.metadata_responses = ResponseCache()
        self.advertised_versions: Mapping[int, Versions] = {}
        self.api_versions: dict[bool, CachedResponse] = {}
        self.transactions = Transactions(
            self.cluster,
            self.groups,
            settings,
            self.deadlines,
            checks,
            self.new_producer_id,
            self.wall_ms,
            self._write_transaction,
            self._erase_transaction,
            lambda: self.slice_size,
            kip890=release.kip890,
        )
        self._new_uuid = new_uuid
        self.record_writer = GroupRecordWriter(self.cluster, types, self._wall, release.offset_value_version)
        self.transaction_keeper = TransactionKeeper(self.cluster, self._wall, int(release.kip890))
        self._share_partitions: SharePartitions | None = None
        self.share_fetch_purgatory: Purgatory[PartitionKey, PendingShareFetch] = Purgatory()
        self._share_sessions: dict[int, ShareSessions] = {}  # by broker id
        self.changed_partitions: list[Partition] = []
        self.deleted_topics: set[UUID] = set()
        self.loading: set[int] = set()
        self.frozen_metadata: dict[int, ClusterState] = {}
        if OFFSETS_TOPIC not in self.cluster.topics:
            self._create_internal_topic(
                OFFSETS_TOPIC, settings.offsets_topic_num_partitions, settings.offsets_topic_replication_factor
            )

    @property
    def serves_consumer_protocol(self) -> bool:
        """Whether the consumer rebalance protocol (KIP-848) is enabled.

        Before Kafka 4.0, the setting alone enables the protocol. Since 4.0, the feature group.version must be enabled
        too.
        """
        name = "group.coordinator.rebalance.protocols"
        allowed = not self.release.quirks.consumer_protocol_only_if_set or name in self.settings.given
        if GROUP_VERSION in self.release.supported and not self.features.get(GROUP_VERSION):
            return False
        return allowed and "consumer" in self.settings.group_coordinator_rebalance_protocols.split(",")

    @property
    def serves_share_groups(self) -> bool:
        """Whether share groups (KIP-932) are enabled, by the feature share.version or, as in Kafka, by a setting."""
        settings = self.settings
        return (
            self.features.get("share.version", 0) > 0
            or "share" in settings.group_coordinator_rebalance_protocols.split(",")
            or settings.others.get(SHARE_GROUPS_ENABLED) == "true"
        )

    @property
    def serves_streams_protocol(self) -> bool:
        """Whether the streams rebalance protocol (KIP-1071) is enabled.

        Both the feature streams.version and the setting ``group.coordinator.rebalance.protocols`` must enable the
        protocol.
        """
        protocols = self.settings.group_coordinator_rebalance_protocols.split(",")
        return self.features.get("streams.version", 0) > 0 and "streams" in protocols

    def client_attributes(self, client: Client, connection: int) -> Mapping[str, str]:
        """Return the attributes of a client, for the patterns in client metrics subscriptions (KIP-714).

        Args:
            client: The client.
            connection: Number of the connection.

        Returns: attribute name -> value.
        """
        name, version = self.client_metrics.software(connection)
        return {
            "client_id": client.client_id,
            "client_software_name": name,
            "client_software_version": version,
            "client_source_address": client.host.removeprefix("/"),
        }

    def update_features(self, levels: Mapping[str, int]) -> None:
        """Change the finalized levels of features. ``levels``: the new level by name of the feature.

        The epoch of the features is incremented, and the cached ApiVersions responses are discarded.
        """
        self.cluster.changed_features |= levels
        self.cluster.features_epoch += 1
        self.features = finalized(self.release, self.cluster.changed_features)
        self.api_versions = {}
        self.broker_settings.keep_min_in_sync(self.features.get(ELIGIBLE_REPLICAS, 0) > 0)
        self.cluster.changed()

    def settings_of(self, node: int) -> Settings:
        """Return the settings of the broker with id ``node``."""
        return self.broker_settings.of(node)

    def set_clock_stopped(self, stopped: bool) -> None:
        """Record that the broker's clock has been stopped or resumed.

        While the clock is stopped, ``mockbroker.join.settle.ms`` does not delay the end of a join phase.

        ``stopped``: True if the clock has been stopped, False if it has been resumed.
        """
        self.groups.context.join_settle = 0.0 if stopped else self.settings.mockbroker_join_settle_ms / 1000

    def response_room(self) -> Room:
        """Return a new size counter for one response, with the limit ``mockbroker.response.max.bytes``."""
        return Room(self.settings.mockbroker_response_max_bytes)

    def new_member_id(self, client_id: str) -> str:
        """Return a new member id that begins with the client id.

        If the client id is long, only its beginning is used.
        """
        uuid = str(self._new_uuid())
        prefix = client_id.encode("utf-8", "surrogateescape")[: MAX_TEXT - len(uuid) - 1]
        return f"{prefix.decode('utf-8', 'ignore')}-{uuid}"

    def new_token_id(self) -> str:
        """Return a new id of a delegation token.

        As in Kafka, the id never begins with a hyphen, because a command line would read such an id as an option.
        """
        while (token_id := uuid_text(self._new_uuid())).startswith("-"):
            pass
        return token_id

    def schedule_token_sweep(self, now: float) -> None:
        """Set the deadline of the next check for expired delegation tokens.

        Do nothing if the cluster has no tokens, or if the deadline is already set.

        ``now``: the broker's time in seconds.
        """
        if len(self.cluster.tokens) and TOKEN_SWEEP not in self.deadlines:
            interval = self.settings.delegation_token_expiry_check_interval_ms / 1000
            self.deadlines.set(TOKEN_SWEEP, self._checks.next(now, now, interval))

    def delete_expired_tokens(self, now: float) -> None:
        """Delete the expired delegation tokens, and schedule the next check. ``now``: the broker's time in seconds."""
        if self.cluster.tokens.remove_expired(self.wall_ms(now)):
            self.cluster.changed()
        self.schedule_token_sweep(now)

    def new_producer_id(self) -> int:
        """Return a producer id that was never used in this cluster."""
        return self.cluster.new_producer_id()

    def fetch_sessions(self, node: int) -> FetchSessionCache:
        """Return the cache of fetch sessions of the broker with id ``node``."""
        cache = self._fetch_sessions.get(node)
        if cache is None:
            slots = self.settings.max_incremental_fetch_session_cache_slots
            cache = self._fetch_sessions[node] = FetchSessionCache(slots, self._new_uuid)
        return cache

    @property
    def share_states(self) -> ShareStates:
        """The share coordinator."""
        if self._share_states is None:
            from mockbroker.share.states import ShareStates  # late: most clusters have no share groups

            self._share_states = ShareStates(
                self.cluster,
                self.settings,
                self.share_state_topic,
                self.wall_ms,
                lambda partition: self.appended_partitions.append(partition),
            )
        return self._share_states

    @property
    def share_partitions(self) -> SharePartitions:
        """The share partitions that the leaders of partitions have loaded."""
        if self._share_partitions is None:
            from mockbroker.share.share_partitions import SharePartitions  # late, as above

            self._share_partitions = SharePartitions(
                self.settings,
                self.share_states,
                self.deadlines,
                lambda group_id: self.share_group_settings(group_id),
                self.wall_ms,
            )
        return self._share_partitions

    def _unload_share_partitions(self, matches: Callable[[StateKey], bool]) -> None:
        if self._share_partitions is not None:
            self._share_partitions.unload_matching(matches)

    def share_sessions(self, node: int) -> ShareSessions:
        """Return the share sessions of a broker. ``node``: id of the broker."""
        sessions = self._share_sessions.get(node)
        if sessions is None:
            from mockbroker.share.sessions import ShareSessions  # late: most clusters have no share groups

            sessions = self._share_sessions[node] = ShareSessions(self.settings.group_share_max_share_sessions)
        return sessions

    def all_share_sessions(self) -> Iterable[tuple[int, ShareSessions]]:
        """Yield broker id and share sessions of each broker that has had a share session."""
        return self._share_sessions.items()

    def unload_shares(self, node: int) -> None:
        """Remove the share sessions and share partitions of a broker whose process has ended.

        ``node``: id of the broker.
        """
        self._share_sessions.pop(node, None)
        self._unload_share_partitions(lambda key: self._leads(node, key))

    def unload_shares_of_group(self, node: int, group_id: str) -> None:
        """Unload a group's share partitions that a broker leads. ``node``: id of the broker."""
        self._unload_share_partitions(lambda key: key.group_id == group_id and self._leads(node, key))

    def _leads(self, node: int, key: StateKey) -> bool:
        topic = self.cluster.by_id.get(key.topic_id)
        partition = None if topic is None else topic.partition(key.partition)
        return partition is not None and partition.leader == node

    def wall_ms(self, now: float) -> int:
        """Convert a time of the broker's clock to milliseconds since 1970. ``now``: the broker's time in seconds."""
        return self._wall.to_ms(now)

    def wall(self, now: float) -> float:
        """Convert a time of the broker's clock to seconds since 1970. ``now``: the broker's time in seconds."""
        return self._wall.at_zero + now

    def offsets_partition(self, group_id: str) -> tuple[str, int]:
        """Return the topic name and partition index of the ``__consumer_offsets`` partition that stores a group."""
        return OFFSETS_TOPIC, self.cluster.topics[OFFSETS_TOPIC].partition_of(group_id).index

    def coordinator(self, group_id: str) -> int:
        """Return the broker id of a group's coordinator; -1 without a coordinator.

        The coordinator is the leader of the partition that stores the group.
        """
        return self.cluster.topics[OFFSETS_TOPIC].partition_of(group_id).leader

    def leads_offsets(self, index: int, node: int) -> bool:
        """Return whether a broker leads a partition of ``__consumer_offsets``.

        Args:
            index: Index of the partition.
            node: Id of the broker.
        """
        return self.cluster.topics[OFFSETS_TOPIC].partitions[index].leader == node

    def coordinator_error(self, group_id: str, node: int) -> ErrorCode:
        """Return the error of a group request to a broker: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS or NONE.

        Args:
            group_id: Group id.
            node: Id of the broker that received the request.
        """
        partition = self.cluster.topics[OFFSETS_TOPIC].partition_of(group_id)
        if partition.leader != node:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if partition.index in self.loading else NONE

    def transaction_coordinator(self, transactional_id: str) -> int:
        """Return the broker id of the coordinator of a transactional id, or -1 if its partition has no leader.

        The first call creates the topic ``__transaction_state``.
        """
        topic = self.cluster.topics.get(TRANSACTIONS_TOPIC)
        if topic is None:
            topic = self._create_internal_topic(
                TRANSACTIONS_TOPIC,
                self.settings.transaction_state_log_num_partitions,
                self.settings.transaction_state_log_replication_factor,
            )
        return topic.partition_of(transactional_id).leader

    def share_state_topic(self) -> Topic:
        """Return the topic ``__share_group_state``. The first call creates it."""
        topic = self.cluster.topics.get(SHARE_STATE_TOPIC)
        if topic is None:
            topic = self._create_internal_topic(
                SHARE_STATE_TOPIC,
                self.settings.share_coordinator_state_topic_num_partitions,
                self.settings.share_coordinator_state_topic_replication_factor,
            )
        return topic

    def share_group_settings(self, group_id: str) -> ShareGroupSettings:
        """Return the settings of a share group, such as the duration of acquisition locks.

        They apply when a partition leader acquires records for the group.
        """
        from mockbroker.share.group_settings import group_settings

        return group_settings(self.cluster.group_configs.get(group_id), self.settings)

    def share_coordinator(self, key: StateKey) -> int:
        """Return the broker id of the share coordinator of a share partition; -1 if it is not available.

        ``key``: the share partition.
        """
        return self.share_state_topic().partition_of(key.coordinator_key).leader

    def transaction_error(self, transactional_id: str, node: int) -> ErrorCode:
        """Return the error of a transactional request to a broker: INVALID_REQUEST, NOT_COORDINATOR or NONE.

        Args:
            transactional_id: Transactional id; the error for an empty id is INVALID_REQUEST.
            node: Id of the broker that received the request.
        """
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        is_coordinator = self.transaction_coordinator(transactional_id) == node
        return NONE if is_coordinator else ErrorCode.NOT_COORDINATOR

    def group_error(self, group_id: str, node: int) -> ErrorCode:
        """Return the error of a group request to a broker.

        The error is INVALID_GROUP_ID for an empty group id, else the result of ``coordinator_error``.

        Args:
            group_id: Group id.
            node: Id of the broker that received the request.
        """
        return ErrorCode.INVALID_GROUP_ID if not group_id else self.coordinator_error(group_id, node)

    def metadata_view(self, node: int) -> ClusterState:
        """Return the cluster metadata that a broker reports; it is outdated while the broker's metadata is frozen.

        ``node``: id of the broker.
        """
        return self.frozen_metadata.get(node, self.cluster) if self.frozen_metadata else self.cluster

    def rack(self, node: int) -> str | None:
        """Return the rack of a broker; None without racks.

        ``broker.rack`` is a list of racks. The brokers, ordered by id, get the racks in turn.

        ``node``: broker id.
        """
        racks = [rack.strip() for rack in self.settings.broker_rack.split(",")]
        if len(racks) == 1:
            return racks[0] or None
        ids = sorted(self.cluster.nodes.keys() | self.cluster.down.keys())
        return racks[ids.index(node) % len(racks)] or None

    def replica_error(self, partition: Partition | None, node: int, leader_epoch: int) -> ErrorCode:
        """Return the error for a Fetch that a leader or a follower may answer.

        For the errors, see ``leader_error``.

        The error is NONE if the broker has a replica, and the leader epoch is that of the leader.

        Args:
            partition: the partition; None if it does not exist.
            node: id of the broker that received the request.
            leader_epoch: leader epoch in the request; -1 to skip its check.
        """
        if partition is None or node not in partition.replicas:
            return self.leader_error(partition, node)
        if leader_epoch == -1:
            return NONE
        return self.leader_error(partition, partition.leader, leader_epoch)

    def preferred_replica(self, partition: Partition, rack: str) -> int:
        """Return the id of the in-sync replica from which a consumer should read; -1 for the leader.

        The result is a broker id only if all of these conditions are met:

        - ``replica.selector.class`` is the rack-aware selector.
        - The leader is not in the rack of the consumer.
        - At least one in-sync replica is in the rack of the consumer. The largest broker id is returned.

        Args:
            partition: the partition.
            rack: rack of the consumer.

        Source: Kafka's RackAwareReplicaSelector.
        """
        if self.settings.replica_selector_class != RACK_AWARE or not rack or self.rack(partition.leader) == rack:
            return -1
        return max((node for node in self.cluster.in_sync(partition) if self.rack(node) == rack), default=-1)

    def leader_error(self, partition: Partition | None, node: int, leader_epoch: int = -1) -> ErrorCode:
        """Return the error for a request that only the leader of a partition may answer.

        The errors are UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, UNKNOWN_LEADER_EPOCH (the epoch is
        too new), and FENCED_LEADER_EPOCH (the epoch is too old).

        The error is NONE if the broker is the leader, and the leader epoch is that of the leader.

        Args:
            partition: the partition; None if it does not exist.
            node: id of the broker that received the request.
            leader_epoch: leader epoch in the request; -1 to skip its check.
        """
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if partition.leader != node:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if leader_epoch in (-1, partition.leader_epoch):
            return NONE
        newer = leader_epoch > partition.leader_epoch
        return ErrorCode.UNKNOWN_LEADER_EPOCH if newer else ErrorCode.FENCED_LEADER_EPOCH

    def _create_internal_topic(self, name: str, partitions: int, replicas: int) -> Topic:
        """Create an internal topic, and return it.

        If there are fewer brokers than replicas, each broker has a replica. (Kafka would not create the topic then, so
        that its groups would never get a coordinator.)

        Args:
            name: Name of the topic.
            partitions: Number of partitions.
            replicas: Replication factor.
        """
        brokers = len(self.cluster.nodes) + len(self.cluster.down)
        return self.cluster.create_topic(name, self.cluster.place(partitions, min(replicas, brokers)))

    # --- the logs of groups and transactional ids ---

    def write_changes(self, now: float) -> list[Partition]:
        """Append the changes of all changed groups to the offsets topic, and delete the share states of deleted topics.

        ``now``: the broker's time in seconds.

        Returns:
            The partitions of internal topics that have received records since the previous call of this method.
        """
        appended, self.appended_partitions = self.appended_partitions, []
        dirty = self.groups.dirty
        while dirty:
            group_id = next(iter(dirty))
            del dirty[group_id]
            partition = self.record_writer.write(group_id, self.groups.get(group_id), now)
            if partition is not None:
                appended.append(partition)
        if self.deleted_topics:
            if self._share_states is not None:
                self._share_states.delete_topics(self.deleted_topics, now)
            self.deleted_topics.clear()
        self.logs.appended_internally(appended, now)
        return appended

    def _write_transaction(self, txn: Transaction, now: float) -> None:
        partition = self.transaction_keeper.write(txn, now)
        if partition is not None:
            self.appended_partitions.append(partition)

    def _erase_transaction(self, transactional_id: str, now: float) -> None:
        self.appended_partitions.append(self.transaction_keeper.erase(transactional_id, now))

    def groups_of(self, index: int) -> list[CoordinatedGroup]:
        """Return the groups that are stored in a partition of the offsets topic. ``index``: index of the partition."""
        partition_of = self.cluster.topics[OFFSETS_TOPIC].partition_of
        return [group for group in self.groups.values() if partition_of(group.group_id).index == index]

    def unload_group(self, group_id: str) -> None:
        """Remove a group from memory; its records remain in the offsets topic."""
        self.groups.unload(group_id)
        self.record_writer.unload(group_id)

    def load_groups(self, index: int, now: float) -> list[CoordinatedGroup]:
        """Load the groups of a partition of the offsets topic from the records of the partition. Return the groups.

        Args:
            index: Index of the partition.
            now: The broker's time in seconds.

        Raises: DecodeError if a record is not valid.
        """
        from mockbroker.groups.records.rebuild import groups_from_records  # on demand: few clusters load groups
        from mockbroker.groups.records.replay import replay_log

        groups = groups_from_records(
            replay_log(self.cluster.topics[OFFSETS_TOPIC].partitions[index].log.batches()),
            self.groups.types,
            self.groups.context,
            self._wall,
            now,
        )
        for group in groups.values():
            self.groups.load(group)
            self.record_writer.adopt(group)
            for producer_id in group.offsets.pending_transactional:
                self.transactions.add_pending_group(group.group_id, producer_id)
        self.loading.discard(index)
        return list(groups.values())

    def load_transactions(self, now: float) -> None:
        """Rebuild all transactional ids from the transaction log.

        After a crash, the transaction log may lack a partition of an ongoing transaction that has records of this
        transaction. The partition is added to the transaction again: the producer may send the records again, and gets
        a success, because they are duplicates.

        An open batch of a producer without an ongoing transaction in the log is aborted, with one exception. After a
        crash, the transaction log may contain the commit of a transaction while some of its markers are missing. These
        markers are written, because the producer may have received the response to its EndTxn.

        Args:
            now: the broker's time in seconds.

        Raises:
            DecodeError: A record is not valid.
        """
        topic = self.cluster.topics.get(TRANSACTIONS_TOPIC)
        for partition in topic.partitions if topic else ():
            for txn in rebuilt_transactions(partition.log.batches(), self._wall):
                self.transaction_keeper.adopt(txn)
                self.transactions.adopt(txn, now)
        owners = {txn.producer_id: txn for txn in self.transactions.values()}
        for partition in self.cluster.partitions():
            for producer in partition.producers.open():
                self._resume_or_end(partition, producer, owners.get(producer.producer_id), now)

    def _resume_or_end(self, partition: Partition, producer: Producer, owner: Transaction | None, now: float) -> None:
        """Add a partition with open batches to the ongoing transaction of the producer, or end the batches without it.

        Args:
            partition: the partition.
            producer: the producer of the open batches.
            owner: the producer's last transaction in the transaction log; None without one.
            now: the broker's time in seconds.
        """
        if owner is None or owner.state not in {State.ONGOING, *PREPARED}:
            commit = owner is not None and _ended_as_committed(owner, producer.epoch)
            fence = owner is None or _is_begin_lost(owner, producer.epoch)
            partition.end_open_transaction(producer, self.wall_ms(now), committed=commit, fence=fence)
        elif owner.state is State.ONGOING and owner.epoch == producer.epoch:
            place = partition.topic, partition.index
            self.transactions.add(owner.transactional_id, owner.identity, [place], now, kip890=owner.kip890)

    def load_share_states(self) -> None:
        """Load all share states from ``__share_group_state``. Raises: DecodeError if a record is not valid."""
        topic = self.cluster.topics.get(SHARE_STATE_TOPIC)
        for partition in topic.partitions if topic is not None else ():
            self.share_states.load(partition)

    def delete_topics(self, topics: Collection[Topic]) -> None:
        """Delete topics, their records and their committed offsets."""
        self.remove_topics(topics)
        for _ in self.groups.delete_topics_in_slices({topic.topic_id: topic.name for topic in topics}, self.slice_size):
            pass

    def remove_topics(self, topics: Collection[Topic]) -> None:
        """Delete topics and their records. The caller must then call ``Groups.delete_topics_in_slices``.

        The next ``write_changes`` deletes the share states of the topics.
        """
        for topic in topics:
            self.cluster.delete_topic(topic)
            self.logs.forget(topic)
            self.log_dirs.delete_topic(topic.topic_id)
            self.deleted_topics.add(topic.topic_id)
        self._unload_share_partitions(lambda key: key.topic_id in self.deleted_topics)


def _ended_as_committed(txn: Transaction, epoch: int) -> bool:
    """Return whether the open batches of a producer belong to its last transaction, and that transaction was committed.

    If the result is True, the missing markers of the last transaction must be written. With KIP-890, the end of a
    transaction increments the producer epoch. A batch in the current epoch then belongs to a later transaction; its
    start is missing in the transaction log.

    Args:
        txn: The last transaction of the producer in the transaction log.
        epoch: Producer epoch of the open batches.
    """
    return txn.state is State.COMPLETE_COMMIT and (not txn.kip890 or epoch < txn.epoch)


def _is_begin_lost(txn: Transaction, epoch: int) -> bool:
    """Return whether open batches belong to a transaction whose start is missing in the transaction log.

    The batches of this transaction are aborted. The producer is fenced as well; an unfenced producer could retry, and
    the broker would answer the retry as a duplicate of an aborted batch.

    Without KIP-890, these batches cannot be distinguished from the batches of the last transaction. The result is then
    True only if the log contains no transaction of the producer.

    Args:
        txn: The last transaction of the producer in the transaction log.
        epoch: Producer epoch of the open batches.
    """
    return epoch == txn.epoch and (txn.state is State.EMPTY or txn.kip890)


def _identity(now: float) -> float:
    return now
