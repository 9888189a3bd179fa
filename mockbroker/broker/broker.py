"""The mutable state of the cluster below the network: topics, groups, transactions and deadlines.

One ``Broker`` serves all broker ids; ``Call.client`` contains the id of the broker that received the request.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from uuid import UUID

from kwire import ErrorCode
from kwire.limits import MAX_TEXT
from kwire.schema import Versions
from mockbroker.base.deadlines import Deadlines
from mockbroker.base.release import KAFKA_4_2, Release
from mockbroker.base.response_limit import Room
from mockbroker.base.settings import Settings
from mockbroker.base.timers import Due
from mockbroker.broker.fetch.purgatory import FetchPurgatory
from mockbroker.broker.fetch.session_cache import FetchSessionCache
from mockbroker.broker.response_cache import CachedResponse, ResponseCache
from mockbroker.broker.sasl.users import Users
from mockbroker.groups.coordinated import CoordinatedGroup
from mockbroker.groups.group_type import Context, GroupTypes
from mockbroker.groups.group_types import GROUP_TYPES
from mockbroker.groups.records.rebuild import groups_from_records
from mockbroker.groups.records.replay import replay_log
from mockbroker.groups.records.wall_time import WallClock
from mockbroker.groups.records.writer import GroupRecordWriter
from mockbroker.groups.registry import Groups
from mockbroker.topics.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Cluster, Node, Partition, Topic
from mockbroker.transactions.records import TransactionKeeper
from mockbroker.transactions.records import rebuilt as rebuilt_transactions
from mockbroker.transactions.registry import Transactions
from mockbroker.transactions.state import PREPARED, State, Transaction

SLICE_SIZE = 1_000  # elements of a request, such as partitions; they take about 5 ms
NONE = ErrorCode.NONE


class Broker:
    """The state of the whole cluster: topics, groups, transactions, pending requests and deadlines.

    ``now`` is the time of the broker's clock in seconds; a test can stop and advance this clock. Client time is the
    clock of the clients, which never stops; both are equal unless the broker's clock was stopped or advanced.

    Args:
        nodes: The brokers of the cluster.
        settings: The broker configuration.
        new_uuid: Function that returns a new UUID, for member ids, topic ids and fetch session ids.
        release: The Kafka release to emulate.
        wall_at_zero: Seconds since 1970 at time 0 of the broker's clock.
        users: Users and their credentials, for SASL.
        cluster: Cluster with topics and logs, from which ``failover.recover`` loads groups and transactions; None for a
            new cluster.
        types: The group types.

    Attributes:
        deadlines: Deadlines in the broker's time.
        client_deadlines: Deadlines in client time, such as the end of the wait of a Fetch.
        to_client_time: Function that converts a time of the broker's clock to client time, both in seconds.
        fetch_purgatory: Pending Fetch requests.
        metadata_responses: Cache of Metadata responses.
        advertised_versions: API versions that ApiVersions advertises, by API key; set by the router.
        api_versions: Cached ApiVersions responses, by whether they contain the optional features.
        appended_partitions: Partitions of the transaction log appended to since the last ``write_changes``.
        loading: Indexes of the partitions of the offsets topic that their coordinators are loading.
        frozen_metadata: By broker id, the outdated cluster metadata of brokers whose metadata is frozen.
        slice_size: Maximum number of elements of a request, such as partitions, that are handled before other requests.
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
        cluster: Cluster | None = None,
        types: GroupTypes = GROUP_TYPES,
    ) -> None:
        self.settings = settings
        self.users = users or Users()
        self.release = release
        self.cluster = cluster or Cluster(nodes, new_uuid)
        self.deadlines: Deadlines[Due] = Deadlines()
        self.client_deadlines: Deadlines[Due] = Deadlines()
        self.to_client_time: Callable[[float], float] = _identity
        context = Context(self.cluster, settings, new_uuid, release.quirks, release.uniform)
        self.groups = Groups(types, context, self.deadlines)
        self.set_clock_stopped(False)
        self.fetch_purgatory = FetchPurgatory()
        self._fetch_sessions: dict[int, FetchSessionCache] = {}  # by broker id
        self.metadata_responses = ResponseCache()
        self.advertised_versions: Mapping[int, Versions] = {}
        self.api_versions: dict[bool, CachedResponse] = {}
        self._wall_at_zero = wall_at_zero
        self.transactions = Transactions(
            self.cluster,
            self.groups,
            settings,
            self.deadlines,
            self.new_producer_id,
            self.wall_ms,
            self._write_transaction,
            kip890=release.kip890,
        )
        self._new_uuid = new_uuid
        self._wall = WallClock(wall_at_zero)
        self.record_writer = GroupRecordWriter(self.cluster, types, self._wall, release.offset_value_version)
        self.transaction_keeper = TransactionKeeper(self.cluster, self._wall, int(release.kip890))
        self.appended_partitions: list[Partition] = []
        self.loading: set[int] = set()
        self.frozen_metadata: dict[int, Cluster] = {}
        if OFFSETS_TOPIC not in self.cluster.topics:
            self._create_internal_topic(
                OFFSETS_TOPIC, settings.offsets_topic_num_partitions, settings.offsets_topic_replication_factor
            )

    @property
    def serves_consumer_protocol(self) -> bool:
        """Whether the consumer rebalance protocol (KIP-848) is enabled. Before 4.0 only the setting enables it."""
        name = "group.coordinator.rebalance.protocols"
        allowed = not self.release.quirks.consumer_protocol_only_if_set or name in self.settings.given
        return allowed and "consumer" in self.settings.group_coordinator_rebalance_protocols.split(",")

    def set_clock_stopped(self, stopped: bool) -> None:
        """Record that the broker's clock has been stopped or resumed.

        While it is stopped, ``mockbroker.join.settle.ms`` does not delay the end of a join phase.
        """
        self.groups.context.join_settle = 0.0 if stopped else self.settings.mockbroker_join_settle_ms / 1000

    def response_room(self) -> Room:
        """Return a new size counter for one response, with the limit ``mockbroker.response.max.bytes``."""
        return Room(self.settings.mockbroker_response_max_bytes)

    def new_member_id(self, client_id: str) -> str:
        """Return a new member id, which begins with the client id; a long client id is truncated."""
        uuid = str(self._new_uuid())
        prefix = client_id.encode("utf-8", "surrogateescape")[: MAX_TEXT - len(uuid) - 1]
        return f"{prefix.decode('utf-8', 'ignore')}-{uuid}"

    def new_producer_id(self) -> int:
        """Return a producer id that was never used in this cluster."""
        return self.cluster.new_producer_id()

    def fetch_sessions(self, node: int) -> FetchSessionCache:
        """Return the fetch session cache of a broker."""
        cache = self._fetch_sessions.get(node)
        if cache is None:
            slots = self.settings.max_incremental_fetch_session_cache_slots
            cache = self._fetch_sessions[node] = FetchSessionCache(slots, self._new_uuid)
        return cache

    def wall_ms(self, now: float) -> int:
        """Convert a time of the broker's clock to milliseconds since 1970."""
        return round(self.wall(now) * 1000)

    def wall(self, now: float) -> float:
        """Convert a time of the broker's clock to seconds since 1970."""
        return self._wall_at_zero + now

    def offsets_partition(self, group_id: str) -> tuple[str, int]:
        """Return the partition of the offsets topic that stores a group: topic name and index."""
        return OFFSETS_TOPIC, self.cluster.topics[OFFSETS_TOPIC].partition_of(group_id).index

    def coordinator(self, group_id: str) -> int:
        """Return the id of a group's coordinator, the leader of its partition of the offsets topic; -1 for none."""
        return self.cluster.topics[OFFSETS_TOPIC].partition_of(group_id).leader

    def leads_offsets(self, index: int, node: int) -> bool:
        """Return whether a broker leads this partition of the offsets topic."""
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
        """Return the broker id of the coordinator of a transactional id; -1 if its partition has no leader.

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

    def transaction_error(self, transactional_id: str, node: int) -> ErrorCode:
        """Return the error of a transactional request to a broker: INVALID_REQUEST, NOT_COORDINATOR or NONE.

        Args:
            transactional_id: Transactional id; the empty id is an INVALID_REQUEST.
            node: Id of the broker that received the request.
        """
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        is_coordinator = self.transaction_coordinator(transactional_id) == node
        return NONE if is_coordinator else ErrorCode.NOT_COORDINATOR

    def group_error(self, group_id: str, node: int) -> ErrorCode:
        """Return INVALID_GROUP_ID for an empty group id, else the result of ``coordinator_error``."""
        return ErrorCode.INVALID_GROUP_ID if not group_id else self.coordinator_error(group_id, node)

    def metadata_view(self, node: int) -> Cluster:
        """Return the cluster metadata that a broker reports: outdated while frozen. ``node``: id of the broker."""
        return self.frozen_metadata.get(node, self.cluster) if self.frozen_metadata else self.cluster

    def leader_error(self, partition: Partition | None, node: int, leader_epoch: int = -1) -> ErrorCode:
        """Return the error of a request that reads or writes a partition; NONE if the broker leads the partition.

        Args:
            partition: The partition; None if it does not exist.
            node: Id of the broker that received the request.
            leader_epoch: Leader epoch in the request; -1 to skip its check.
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
        """Create an internal topic, with at most one replica per broker.

        With fewer brokers than replicas, Kafka never creates the topic and serves no group.
        """
        brokers = len(self.cluster.nodes) + len(self.cluster.down)
        return self.cluster.create_topic(name, self.cluster.place(partitions, min(replicas, brokers)))

    # --- the logs of groups and transactional ids ---

    def write_changes(self, now: float) -> list[Partition]:
        """Append the changes of all changed groups to the offsets topic.

        Returns:
            The partitions of the offsets topic and the transaction log that were appended to since the last call.
        """
        appended, self.appended_partitions = self.appended_partitions, []
        dirty = self.groups.dirty
        while dirty:
            group_id = next(iter(dirty))
            del dirty[group_id]
            partition = self.record_writer.write(group_id, self.groups.get(group_id), now)
            if partition is not None:
                appended.append(partition)
        return appended

    def _write_transaction(self, txn: Transaction, now: float) -> None:
        partition = self.transaction_keeper.write(txn, now)
        if partition is not None:
            self.appended_partitions.append(partition)

    def groups_of(self, index: int) -> list[CoordinatedGroup]:
        """Return the groups that are stored in a partition of the offsets topic. ``index``: index of the partition."""
        partition_of = self.cluster.topics[OFFSETS_TOPIC].partition_of
        return [group for group in self.groups.values() if partition_of(group.group_id).index == index]

    def unload_group(self, group_id: str) -> None:
        """Remove a group from memory; its records remain in the offsets topic."""
        self.groups.unload(group_id)
        self.record_writer.unload(group_id)

    def load_groups(self, index: int, now: float) -> list[CoordinatedGroup]:
        """Rebuild the groups of a partition of the offsets topic from its records alone; return these groups.

        Raises: DecodeError.
        """
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
        """Rebuild all transactional ids from the transaction log, and end transactions that have no owner.

        A transaction that is open in a partition but belongs to no ongoing transaction is aborted. After a crash, a
        transaction may be committed in the transaction log while some of its markers are missing: these are written,
        because the producer may have received the response to its EndTxn.

        Raises: DecodeError.
        """
        topic = self.cluster.topics.get(TRANSACTIONS_TOPIC)
        for partition in topic.partitions if topic else ():
            for txn in rebuilt_transactions(partition.log.batches(), self._wall):
                self.transaction_keeper.adopt(txn)
                self.transactions.adopt(txn, now)
        owners = {txn.producer_id: txn for txn in self.transactions.values()}
        for partition in self.cluster.partitions():
            for producer in partition.producers.open():
                owner = owners.get(producer.producer_id)
                if owner is None or owner.state not in {State.ONGOING, *PREPARED}:
                    commit = owner is not None and _ended_as_committed(owner, producer.epoch)
                    partition.end_open_transaction(producer, self.wall_ms(now), committed=commit, fence=owner is None)

    def delete_topics(self, topics: Collection[Topic]) -> None:
        """Delete topics, their records and their committed offsets."""
        for topic in topics:
            self.cluster.delete_topic(topic)
        names = {topic.name for topic in topics}
        for group in self.groups.values() if names else ():
            if group.offsets.delete_topics(names):
                self.groups.mark_dirty(group.group_id)


def _ended_as_committed(txn: Transaction, epoch: int) -> bool:
    """Return whether the last transaction was committed, and the open batches in a producer epoch belong to it.

    If the end of a transaction increments the epoch (KIP-890), batches in the current epoch belong to a later
    transaction, whose begin is missing in the transaction log.
    """
    return txn.state is State.COMPLETE_COMMIT and (not txn.bumped or epoch < txn.epoch)


def _identity(now: float) -> float:
    return now
