"""The one mutable cell below the shell: groups, cluster, settings, and what waits.

One ``Broker`` is all brokers of the cluster; which of them was asked is in the call.
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
from mockbroker.groups.records.keeper import Keeper
from mockbroker.groups.records.rebuild import rebuilt
from mockbroker.groups.records.replay import replayed
from mockbroker.groups.records.wall_time import Wall
from mockbroker.groups.registry import Groups
from mockbroker.topics.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Cluster, Node, Partition, Topic
from mockbroker.transactions.records import TransactionKeeper
from mockbroker.transactions.records import rebuilt as rebuilt_transactions
from mockbroker.transactions.registry import Transactions
from mockbroker.transactions.state import PREPARED, State, Transaction

SLICE_SIZE = 1_000  # they take about 5 ms
NONE = ErrorCode.NONE


class Broker:
    """``new_uuid``: where ids come from; ``served``: what ApiVersions tells, set by the router.

    ``wall_at_zero``: seconds since 1970 at time 0 of the clock that times are told in. ``cluster``: one that was there
    before, with its topics and logs; ``failover.recover`` goes on with what is written there. ``outside``: from a
    time to that of the clients, who measure how long they wait by a clock of their own; where nobody holds up time it
    is the same. ``slice_size``: elements of a request, as partitions, that are handled before others have their turn.
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
        self.client_deadlines: Deadlines[Due] = Deadlines()  # of clients, in the time outside
        self.to_client_time: Callable[[float], float] = _identity
        context = Context(self.cluster, settings, new_uuid, release.quirks, release.uniform)
        self.groups = Groups(types, context, self.deadlines)
        self.set_clock_stopped(False)
        self.fetch_purgatory = FetchPurgatory()
        self._fetch_sessions: dict[int, FetchSessionCache] = {}  # by node
        self.metadata_responses = ResponseCache()
        self.advertised_versions: Mapping[int, Versions] = {}
        self.api_versions: dict[
            bool, CachedResponse
        ] = {}  # once a client has asked: with optional features, or without
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
        self._wall = Wall(wall_at_zero)
        self.keeper = Keeper(self.cluster, types, self._wall, release.offset_value_version)
        self.transaction_keeper = TransactionKeeper(self.cluster, self._wall, int(release.kip890))
        self.appended_partitions: list[Partition] = []  # where transactional ids were written
        self.loading: set[int] = set()  # partitions of the offsets topic that their coordinators are reading
        self.frozen_metadata: dict[int, Cluster] = {}  # what brokers believe whose metadata is stale
        if OFFSETS_TOPIC not in self.cluster.topics:
            self._create_internal(
                OFFSETS_TOPIC, settings.offsets_topic_num_partitions, settings.offsets_topic_replication_factor
            )

    @property
    def serves_consumer_protocol(self) -> bool:
        """True if groups of the consumer protocol are allowed (KIP-848). Before 4.0 they are not, unless told so."""
        name = "group.coordinator.rebalance.protocols"
        allowed = not self.release.quirks.consumer_protocol_only_if_set or name in self.settings.given
        return allowed and "consumer" in self.settings.group_coordinator_rebalance_protocols.split(",")

    def set_clock_stopped(self, stopped: bool) -> None:
        """Time stands still, or runs again. While it stands no group waits for JoinGroups that may be on their way."""
        self.groups.context.settle = 0.0 if stopped else self.settings.mockbroker_join_settle_ms / 1000

    def response_room(self) -> Room:
        """How large the response to one request may be."""
        return Room(self.settings.mockbroker_response_max_bytes)

    def new_member_id(self, client_id: str) -> str:
        """A member id that nobody had before. It must fit into a string, however long the client's name is."""
        uuid = str(self._new_uuid())
        name = client_id.encode("utf-8", "surrogateescape")[: MAX_TEXT - len(uuid) - 1]
        return f"{name.decode('utf-8', 'ignore')}-{uuid}"

    def new_producer_id(self) -> int:
        """A producer id that nobody had before."""
        return self.cluster.new_producer_id()

    def fetch_sessions(self, node: int) -> FetchSessionCache:
        """The fetch sessions that this broker has."""
        found = self._fetch_sessions.get(node)
        if found is None:
            slots = self.settings.max_incremental_fetch_session_cache_slots
            found = self._fetch_sessions[node] = FetchSessionCache(slots, self._new_uuid)
        return found

    def wall_ms(self, now: float) -> int:
        """A time as milliseconds since 1970."""
        return round(self.wall(now) * 1000)

    def wall(self, now: float) -> float:
        """The same in seconds."""
        return self._wall_at_zero + now

    def offsets_partition(self, group_id: str) -> tuple[str, int]:
        """The partition of the offsets topic that keeps the group: topic name and index."""
        return OFFSETS_TOPIC, self.cluster.topics[OFFSETS_TOPIC].partition_of(group_id).index

    def coordinator(self, group_id: str) -> int:
        """Id of the broker that leads the group's partition of the offsets topic, -1 if none does."""
        return self.cluster.topics[OFFSETS_TOPIC].partition_of(group_id).leader

    def leads_offsets(self, index: int, node: int) -> bool:
        """True if the broker leads this partition of the offsets topic."""
        return self.cluster.topics[OFFSETS_TOPIC].partitions[index].leader == node

    def coordinator_error(self, group_id: str, node: int) -> ErrorCode:
        """NOT_COORDINATOR if this broker is not the group's, what it says while it reads the groups, else NONE."""
        partition = self.cluster.topics[OFFSETS_TOPIC].partition_of(group_id)
        if partition.leader != node:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if partition.index in self.loading else NONE

    def transaction_coordinator(self, transactional_id: str) -> int:
        """Id of the broker that leads the id's partition of the transaction log, which is made for the first."""
        topic = self.cluster.topics.get(TRANSACTIONS_TOPIC)
        if topic is None:
            topic = self._create_internal(
                TRANSACTIONS_TOPIC,
                self.settings.transaction_state_log_num_partitions,
                self.settings.transaction_state_log_replication_factor,
            )
        return topic.partition_of(transactional_id).leader

    def transaction_error(self, transactional_id: str, node: int) -> ErrorCode:
        """What stops a request about this id at this broker: an empty id, or another coordinator."""
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        here = self.transaction_coordinator(transactional_id) == node
        return NONE if here else ErrorCode.NOT_COORDINATOR

    def group_error(self, group_id: str, node: int) -> ErrorCode:
        """What stops a request for this group at this broker: an empty id, or another coordinator."""
        return ErrorCode.INVALID_GROUP_ID if not group_id else self.coordinator_error(group_id, node)

    def metadata_view(self, node: int) -> Cluster:
        """The cluster as a broker believes it to be: as it is, unless its metadata was frozen."""
        return self.frozen_metadata.get(node, self.cluster) if self.frozen_metadata else self.cluster

    def leader_error(self, partition: Partition | None, node: int, leader_epoch: int = -1) -> ErrorCode:
        """What stops reading or writing a partition at this broker; ``leader_epoch`` -1 is not checked."""
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if partition.leader != node:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if leader_epoch in (-1, partition.leader_epoch):
            return NONE
        newer = leader_epoch > partition.leader_epoch
        return ErrorCode.UNKNOWN_LEADER_EPOCH if newer else ErrorCode.FENCED_LEADER_EPOCH

    def _create_internal(self, name: str, partitions: int, replicas: int) -> Topic:
        """A topic of the coordinators. Kafka never makes it, and serves no group, with fewer brokers than replicas."""
        brokers = len(self.cluster.nodes) + len(self.cluster.down)
        return self.cluster.create_topic(name, self.cluster.place(partitions, min(replicas, brokers)))

    # --- what is written of groups and transactional ids ---

    def write_changes(self, now: float) -> list[Partition]:
        """Write what has changed in groups that were touched; the internal partitions that have appended."""
        appended, self.appended_partitions = self.appended_partitions, []
        touched = self.groups.touched
        while touched:
            group_id = next(iter(touched))
            del touched[group_id]
            partition = self.keeper.write(group_id, self.groups.get(group_id), now)
            if partition is not None:
                appended.append(partition)
        return appended

    def _write_transaction(self, txn: Transaction, now: float) -> None:
        partition = self.transaction_keeper.write(txn, now)
        if partition is not None:
            self.appended_partitions.append(partition)

    def groups_of(self, index: int) -> list[CoordinatedGroup]:
        """The groups that a partition of the offsets topic keeps."""
        partition_of = self.cluster.topics[OFFSETS_TOPIC].partition_of
        return [group for group in self.groups.values() if partition_of(group.group_id).index == index]

    def unload_group(self, group_id: str) -> None:
        """Forget a group; its records stay."""
        self.groups.unload(group_id)
        self.keeper.unload(group_id)

    def load_groups(self, index: int, now: float) -> list[CoordinatedGroup]:
        """Make the groups of a partition of what is written there, and of nothing else. Raises: DecodeError."""
        groups = rebuilt(
            replayed(self.cluster.topics[OFFSETS_TOPIC].partitions[index].log.batches()),
            self.groups.types,
            self.groups.context,
            self._wall,
            now,
        )
        for group in groups.values():
            self.groups.load(group)
            self.keeper.adopt(group)
            for producer_id in group.offsets.pending:
                self.transactions.add_pending_group(group.group_id, producer_id)
        self.loading.discard(index)
        return list(groups.values())

    def load_transactions(self, now: float) -> None:
        """Make all transactional ids of what is written in their log; what belongs to none of them is aborted.

        A crash leaves of what was written at once any part: it may be known that a transaction was committed, and
        markers of it are lost. They are written again, for its producer is told so if it asks. Raises: DecodeError.
        """
        topic = self.cluster.topics.get(TRANSACTIONS_TOPIC)
        for partition in topic.partitions if topic else ():
            for txn in rebuilt_transactions(partition.log.batches(), self._wall):
                self.transaction_keeper.adopt(txn)
                self.transactions.adopt(txn, now)
        known = {txn.producer_id: txn for txn in self.transactions.values()}
        for partition in self.cluster.partitions():
            for producer in partition.producers.open():
                owner = known.get(producer.producer_id)
                if owner is None or owner.state not in {State.ONGOING, *PREPARED}:  # nobody else would ever end it
                    commit = owner is not None and _ended_as_committed(owner, producer.epoch)
                    partition.end_open_transaction(producer, self.wall_ms(now), committed=commit, fence=owner is None)

    def delete_topics(self, topics: Collection[Topic]) -> None:
        """Topics are gone, with their records and all offsets committed for them."""
        for topic in topics:
            self.cluster.delete_topic(topic)
        names = {topic.name for topic in topics}
        for group in self.groups.values() if names else ():
            if group.offsets.forget_topics(names):
                self.groups.touch(group.group_id)


def _ended_as_committed(txn: Transaction, epoch: int) -> bool:
    """True if what a producer has open in this epoch is of the transaction that ended last, and that was committed.

    Where each end brings an epoch, what is in the present one came later: the begin of the next, which is lost.
    """
    return txn.state is State.COMPLETE_COMMIT and (not txn.bumped or epoch < txn.epoch)


def _identity(now: float) -> float:
    return now
