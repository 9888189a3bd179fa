"""The metadata of a cluster: brokers, topics, partitions and their leaders."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from copy import copy
from dataclasses import field, replace
from typing import Protocol
from uuid import UUID

from kwire import ErrorCode
from kwire.java import partition_for
from kwire.json.objects import uuid_text
from kwire.lazy_dataclass import dataclass
from kwire.records.batch import Batch, read_batch
from mockbroker.base.settings import MAX_PARTITIONS
from mockbroker.base.texts import shortened
from mockbroker.quotas.entity import Entity
from mockbroker.security.acls import Acls
from mockbroker.security.delegation_tokens import DelegationTokens
from mockbroker.security.users import ScramCredential
from mockbroker.topics.epochs import LeaderEpochs
from mockbroker.topics.log import LogListener, PartitionLog
from mockbroker.topics.log_config import LogConfig
from mockbroker.topics.log_dirs import Replica
from mockbroker.topics.placement import place
from mockbroker.topics.producers import LAST_EPOCH, Producer, Producers
from mockbroker.topics.reassignment import Reassignment
from mockbroker.topics.record_rules import RecordRules

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
INTERNAL = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})
METADATA_LOG = "__cluster_metadata"  # of the controllers; it has a directory like a topic, but clients cannot see it
NO_LEADER = -1  # leader of a partition whose brokers are all down
INDEX_INTERVAL = 4_096  # bytes between two entries of Kafka's offset index: its precision in looking up positions
OF_LOGS = "log."  # prefix of the broker settings that are defaults of the logs of topics
PRODUCER_IDS = 1_000  # ids that Kafka's brokers allocate at a time; those left over after a restart are never used
SPARE_NAMES = 1_000  # names of deleted topics that ``Cluster.created`` keeps, besides as many as there are topics
MAX_NAME = 249  # maximum characters of a topic name
_LEGAL = re.compile(rf"[a-zA-Z0-9._-]{{1,{MAX_NAME}}}").fullmatch


@dataclass(frozen=True, slots=True)
class Node:
    """A broker and its advertised addresses.

    Attributes:
        node_id: broker id.
        host: host of the first listener.
        port: port of the first listener.
        ports: listener name -> port.
        hosts: listener name -> host.
    """

    node_id: int
    host: str
    port: int
    ports: Mapping[str, int] = field(default_factory=dict, hash=False)
    hosts: Mapping[str, str] = field(default_factory=dict, hash=False)

    def port_of(self, listener: str) -> int:
        """Return the port to advertise to clients that are connected through this listener."""
        return self.ports.get(listener, self.port)

    def host_of(self, listener: str) -> str:
        """Return the host to advertise to clients that are connected through this listener."""
        return self.hosts.get(listener, self.host)


@dataclass(frozen=True, slots=True)
class Aborted:
    """An aborted transaction in one partition.

    Attributes:
        producer_id: producer id.
        first: offset of the first record of the transaction.
        last: offset of the abort marker.
    """

    producer_id: int
    first: int
    last: int


@dataclass(slots=True)
class Partition:
    """One partition of a topic.

    Attributes:
        topic: topic name.
        index: partition number.
        replicas: broker ids, the preferred leader first.
        leader: broker id of the leader; NO_LEADER if no replica is alive.
        leader_epoch: number of leader changes.
        log: the record batches.
        producers: sequence numbers and transactions of idempotent and transactional producers.
        aborted: aborted transactions, in the order of their markers.
        epochs: leader epochs and their first offsets.
        cleaned_until: offset before which the log was compacted.
        reassignment: replicas that are being added and removed; None without a reassignment.
        catching_up: broker ids of replicas that are not in sync yet.
        paused: log end offset of each paused replica, by broker id. A test has stopped the fetching of a paused
            replica, so the replica is not in sync.
    """

    topic: str
    index: int
    replicas: Sequence[int]
    leader: int = field(init=False)
    leader_epoch: int = 0
    log: PartitionLog = field(default_factory=PartitionLog)
    producers: Producers = field(default_factory=Producers)
    aborted: list[Aborted] = field(default_factory=list)
    _aborted_of: dict[int, list[Aborted]] = field(default_factory=dict)  # aborted transactions by producer id
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    cleaned_until: int = 0
    reassignment: Reassignment | None = None
    catching_up: frozenset[int] = frozenset()
    paused: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.leader = self.replicas[0]
        self.epochs.begin(self.leader_epoch, self.log.end)

    @property
    def last_stable(self) -> int:
        """The last stable offset: the first offset of the oldest open transaction, else the log end offset."""
        first = self.producers.first_unstable
        return self.log.end if first is None else first

    def end_at(self, node: int) -> int:
        """Return the log end offset of the replica on a broker. ``node``: broker id."""
        return self.log.end if node == self.leader else self.paused.get(node, self.log.end)

    def is_committed(self, batch: Batch) -> bool:
        """Return whether a read_committed consumer receives a batch of this partition."""
        if batch.base_offset >= self.last_stable:
            return False
        aborted = self._aborted_of.get(batch.producer_id) if batch.transactional else None
        if aborted is None:
            return True
        # A producer's transactions in a partition do not overlap.
        at = bisect_left(aborted, batch.base_offset, key=lambda each: each.last)
        return at == len(aborted) or aborted[at].first > batch.base_offset

    def forget_aborted(self, before: int) -> None:
        """Remove the aborted transactions whose markers are before an offset, because the log no longer has their
        records.

        ``before``: the offset.
        """
        del self.aborted[: bisect_left(self.aborted, before, key=lambda each: each.last)]
        self._aborted_of.clear()
        for each in self.aborted:
            self._aborted_of.setdefault(each.producer_id, []).append(each)

    def replace_aborted(self, retained: Iterable[Aborted], until: int) -> None:
        """Replace the aborted transactions of the compacted part of the log, after a compaction.

        Args:
            retained: the aborted transactions of which the compaction has kept records.
            until: end offset of the compacted part. Aborted transactions with markers from ``until`` on remain in the
                list.
        """
        later = self.aborted[bisect_left(self.aborted, until, key=lambda each: each.last) :]
        self.aborted = [*retained, *later]
        self.forget_aborted(self.log.start)

    def append(self, batch: Batch, now_ms: int = -1) -> int:
        """Append a batch to the log, and update the producer state; return the base offset of the batch.

        Args:
            batch: the batch.
            now_ms: the current time, milliseconds since 1970; -1 if the batch has a timestamp.
        """
        base = self.log.append(batch, self.leader_epoch, now_ms)
        self.producers.record(batch, base)
        return base

    def end_transaction(
        self,
        producer_id: int,
        epoch: int,
        *,
        committed: bool,
        coordinator_epoch: int,
        timestamp: int,
        transaction_version: int = 0,
    ) -> ErrorCode:
        """Append the marker that ends a producer's transaction, and update the producer state and ``aborted``. Return
        NONE, or the error code if the marker is rejected.

        Args:
            producer_id: producer id.
            epoch: producer epoch of the marker.
            committed: True for a commit marker, False for an abort marker.
            coordinator_epoch: epoch of the transaction coordinator.
            timestamp: timestamp of the marker, milliseconds since 1970.
            transaction_version: transaction version of the marker.
        """
        if epoch < 0:
            return ErrorCode.UNKNOWN_SERVER_ERROR  # Kafka fails to build a marker with a negative epoch
        if error := self.producers.marker_error(producer_id, epoch, coordinator_epoch, transaction_version):
            return error
        from kwire.records.control import ControlType, build_marker  # late: most clusters have no transactions

        marker = build_marker(
            ControlType.COMMIT if committed else ControlType.ABORT,
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=timestamp,
        )
        at = self.log.append(read_batch(marker), self.leader_epoch)
        self._ended(producer_id, epoch, coordinator_epoch, timestamp, at, committed=committed)
        return ErrorCode.NONE

    def end_open_transaction(self, producer: Producer, timestamp: int, *, committed: bool, fence: bool) -> None:
        """Append the marker that ends the open transaction of a producer in this partition.

        Args:
            producer: state of the producer.
            timestamp: timestamp of the marker, milliseconds since 1970.
            committed: True for a commit marker, False for an abort marker.
            fence: True to give the marker the next producer epoch, as after a transaction timeout; this fences the
                producer. False for the current epoch.
        """
        self.end_transaction(
            producer.producer_id,
            min(producer.epoch + 1, LAST_EPOCH) if fence else producer.epoch,
            committed=committed,
            coordinator_epoch=max(producer.coordinator_epoch, 0),
            timestamp=timestamp,
        )

    def restore(self, batches: Sequence[Batch], start: int, end: int, segments: Sequence[int] = ()) -> None:
        """Restore the log, the leader epochs and the producer state from the batches on disk.

        Args:
            batches: all batches, in order; some may be before the log start offset.
            start: log start offset.
            end: log end offset.
            segments: base offsets of the segments, in order; if empty, all batches are in one segment.

        Raises: kwire.WireError for a marker that cannot be decoded.
        """
        self.log.restore([batch for batch in batches if batch.last_offset >= start], start, end, segments)
        self.epochs.restore([(batch.leader_epoch, batch.base_offset) for batch in batches], self.leader_epoch, end)
        self._replay(batches)

    def delete_before(self, offset: int) -> None:
        """Advance the log start offset to ``offset``, which must not be above the log end offset. Delete earlier
        batches, leader epochs and aborted transactions.
        """
        self.log.delete_before(offset)
        self._start_moved()

    def delete_segments(self, count: int) -> None:
        """Delete the first ``count`` segments of the log, as retention does."""
        self.log.delete_segments(count)
        self._start_moved()

    def _start_moved(self) -> None:
        self.epochs.truncate_from_start(self.log.start)
        self.forget_aborted(self.log.start)

    def truncate(self, end: int) -> None:
        """Remove the batches with offsets at or after a new log end offset, and their effects on the other attributes,
        such as the producer state.

        The caller must then start a new leader epoch, which also removes the leader epochs of the removed batches.

        ``end``: the new log end offset.
        """
        self.log.truncate(end)
        self.paused = {node: min(paused_end, self.log.end) for node, paused_end in self.paused.items()}
        self.cleaned_until = min(self.cleaned_until, self.log.end)
        self.producers = Producers()
        self.aborted.clear()
        self._aborted_of.clear()
        self._replay(self.log.batches())

    def _replay(self, batches: Iterable[Batch]) -> None:
        """Set the producer state and the list of aborted transactions from all batches of the log (``batches``, in
        order).
        """
        for batch in batches:
            if batch.producer_id < 0:
                continue
            if not batch.control:
                self.producers.record(batch, batch.base_offset)
                continue
            from kwire.records.control import ControlType, control_records  # late, as above

            for record in control_records(batch):
                if record.marker is not None:
                    self._ended(
                        batch.producer_id,
                        batch.producer_epoch,
                        record.marker.coordinator_epoch,
                        batch.max_timestamp,
                        batch.base_offset,
                        committed=record.type == ControlType.COMMIT,
                    )

    def _ended(
        self, producer_id: int, epoch: int, coordinator_epoch: int, timestamp: int, at: int, *, committed: bool
    ) -> None:
        first = self.producers.end(producer_id, epoch, coordinator_epoch, timestamp)
        if first is not None and not committed:
            aborted = Aborted(producer_id, first, at)
            self.aborted.append(aborted)
            self._aborted_of.setdefault(producer_id, []).append(aborted)

    def aborted_from(self, offset: int, size: int) -> list[Aborted]:
        """Return the aborted transactions in the part of the log that begins at ``offset`` and has ``size`` bytes.

        As in Kafka, a few transactions after this part may be included, because Kafka looks up the end of the part in
        the sparse offset index.
        """
        until = self.log.offset_after(offset, size + INDEX_INTERVAL)
        since = bisect_left(self.aborted, offset, key=lambda each: each.last)
        return [each for each in self.aborted[since:] if each.first < until]


@dataclass(slots=True)
class Topic:
    """A topic: its partitions and configurations.

    Attributes:
        name: topic name.
        topic_id: topic id.
        partitions: partitions in the order of their numbers.
        configs: configurations that are set on the topic itself.
        rules: cache: id of a leader -> requirements on records, derived from the configurations.
        log_configs: cache: id of a leader -> effective configurations of the logs.
        produce_responses: cache: API version -> bytes before and after the fields of the partition in the response to a
            Produce with one partition.
    """

    name: str
    topic_id: UUID
    partitions: list[Partition]
    configs: Mapping[str, str | None] = field(default_factory=dict)
    rules: dict[int, RecordRules] = field(default_factory=dict)
    log_configs: dict[int, LogConfig] = field(default_factory=dict)
    produce_responses: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)

    @property
    def internal(self) -> bool:
        return self.name in INTERNAL

    def partition(self, index: int) -> Partition | None:
        return self.partitions[index] if 0 <= index < len(self.partitions) else None

    def partition_of(self, name: str) -> Partition:
        """Return the partition of this internal topic that stores the group or transactional id ``name``."""
        return self.partitions[partition_for(name, len(self.partitions))]


class Storage(Protocol):
    """The interface of a storage, which is called after each change of a cluster so that it can store the change on
    disk.
    """

    def log_listener(self, topic: Topic, index: int) -> LogListener:
        """Return the listener for the log of a partition that is being created.

        Args:
            topic: the topic.
            index: index of the partition.
        """
        ...

    def created(self, topic: Topic, first: int) -> None:
        """Handle the creation of partitions of a topic. The topic may be new.

        Args:
            topic: the topic.
            first: index of the first new partition; all later partitions are new too.
        """
        ...

    def deleted(self, topic: Topic) -> None:
        """Handle the deletion of a topic."""
        ...

    def changed(self) -> None:
        """Handle a change for which neither ``created`` nor ``deleted`` is called, such as a configuration, a leader
        epoch or an ACL.
        """
        ...


class ClusterState:
    """The metadata of a cluster: brokers, topics and partitions.

    Args:
        nodes: the brokers.
        new_uuid: function that returns a new id, for topic ids and the cluster id.
        storage: listener of changes; None for a cluster in memory only.

    Attributes:
        nodes: broker id -> running broker.
        down: broker id -> stopped broker.
        unregistered: ids of stopped brokers whose registration was removed.
        cluster_id: cluster id.
        topics: topic name -> topic.
        by_id: topic id -> topic.
        epoch: number that increases whenever topics, partitions or brokers change.
        partition_count: number of partitions of all topics.
        created: topic names in the order of creation; names of deleted topics may remain in the list.
        taken_producer_ids: number of producer ids that are used or reserved; ids are reserved in blocks of
            PRODUCER_IDS.
        reconfigured: topics whose changed configurations have not been applied to their logs yet.
        group_configs: configurations that are set on groups, by group id; the groups need not exist.
        changed_features: finalized levels of features that UpdateFeatures has changed, by name.
        features_epoch: number that increases whenever a finalized feature level changes.
        client_metrics: configurations of client metrics subscriptions, by name.
        client_metrics_version: number that increases whenever ``client_metrics`` changes.
        broker_configs: settings that AlterConfigs has set, by broker id as text, or "" for all brokers.
        coming_topic_ids: topic name -> id that the topic gets when it is created; used to replay a recording.
        client_quotas: entity -> limit by quota key; used by ``ClientQuotas``.
        acls: ACLs, for a cluster with an authorizer.
        scram: SCRAM credentials that clients have set, by user and mechanism; None for a deleted credential.
        tokens: the delegation tokens.
        log_dirs: replica -> path of its log directory; used by ``LogDirs``.
        future_log_dirs: replica -> path of the log directory to which it is being moved; used by ``LogDirs``.
    """

    def __init__(self, nodes: Sequence[Node], new_uuid: Callable[[], UUID], storage: Storage | None = None) -> None:
        self.nodes = {node.node_id: node for node in nodes}
        self.down: dict[int, Node] = {}
        self.unregistered: set[int] = set()
        self.cluster_id = new_uuid()
        self.topics: dict[str, Topic] = {}
        self.by_id: dict[UUID, Topic] = {}
        self.client_quotas: dict[Entity, dict[str, float]] = {}
        self._by_metric: dict[str, str] = {}  # metric name of a topic -> topic name
        self.epoch = 0
        self.partition_count = 0
        self.created: list[str] = []
        self.storage = storage
        self.taken_producer_ids = 0
        self.acls = Acls()
        self.scram: dict[tuple[str, str], ScramCredential | None] = {}
        self.tokens = DelegationTokens()
        self.log_dirs: dict[Replica, str] = {}
        self.future_log_dirs: dict[Replica, str] = {}
        self._next_producer_id = 0
        self.reconfigured: list[Topic] = []
        self.group_configs: dict[str, Mapping[str, str]] = {}
        self.broker_configs: dict[str, Mapping[str, str]] = {}
        self.changed_features: dict[str, int] = {}
        self.features_epoch = 0
        self.client_metrics: dict[str, Mapping[str, str]] = {}
        self.client_metrics_version = 0
        self.coming_topic_ids: dict[str, list[UUID]] = {}
        self._new_uuid = new_uuid

    @property
    def cluster_text(self) -> str:
        """The cluster id as base64 text, as in Metadata responses."""
        return uuid_text(self.cluster_id)

    @property
    def controller(self) -> int:
        """The broker id to advertise as the controller; NO_LEADER without a running broker.

        Any broker accepts requests to the controller.
        """
        return min(self.nodes, default=NO_LEADER)

    def new_topic_id(self) -> UUID:
        """Return a new topic id, for the response to a CreateTopics request with ``validate_only``."""
        return self._new_uuid()

    def colliding(self, name: str) -> str | None:
        """Return the name of an existing topic that collides with ``name``, or None.

        Two names collide if they differ only in dots and underscores, because metric names cannot distinguish them.
        """
        return self._by_metric.get(metric_name(name))

    def create_topic(
        self,
        name: str,
        replicas: Sequence[Sequence[int]],
        configs: Mapping[str, str | None] | None = None,
    ) -> Topic:
        """Create a topic, and return it.

        Args:
            name: name of the topic, which must be valid and unused.
            replicas: broker ids of the replicas of each partition.
            configs: configurations to set on the topic, by name; None to set none.
        """
        coming = self.coming_topic_ids.get(name)
        topic = Topic(name, coming.pop(0) if coming else self._new_uuid(), [], dict(configs or {}))
        self.topics[name] = topic
        self.by_id[topic.topic_id] = topic
        self._record_created([name])
        self._by_metric.setdefault(metric_name(name), name)
        self.add_partitions(topic, replicas)
        return topic

    def add_partitions(self, topic: Topic, replicas: Sequence[Sequence[int]]) -> None:
        """Add partitions to a topic. ``replicas``: broker ids for each new partition."""
        first = len(topic.partitions)
        for index, nodes in enumerate(replicas, first):
            log = PartitionLog(None if self.storage is None else self.storage.log_listener(topic, index))
            partition = Partition(topic.name, index, list(nodes), log=log)
            partition.leader = next((node for node in nodes if node in self.nodes), NO_LEADER)
            topic.partitions.append(partition)
        self.partition_count += len(replicas)
        self.epoch += 1
        if self.storage is not None:
            self.storage.created(topic, first)

    def configure(self, topic: Topic, configs: Mapping[str, str | None]) -> None:
        """Replace the configurations of a topic. ``configs``: configuration name -> value."""
        topic.configs = configs
        topic.rules.clear()
        topic.log_configs.clear()
        self.reconfigured.append(topic)
        self.changed()

    def configure_group(self, group_id: str, configs: Mapping[str, str]) -> None:
        """Replace the configurations of a group. ``configs``: configuration name -> value."""
        self.group_configs[group_id] = configs
        self.changed()

    def configure_client_metrics(self, name: str, configs: Mapping[str, str]) -> None:
        """Replace the configurations of a client metrics subscription.

        Without configurations, the subscription is deleted.

        Args:
            name: name of the subscription.
            configs: configuration name -> value.
        """
        self.client_metrics.pop(name, None)
        if configs:
            self.client_metrics[name] = configs
        self.client_metrics_version += 1
        self.changed()

    def configure_broker(self, name: str, configs: Mapping[str, str]) -> None:
        """Replace the settings of one broker, or the settings of all brokers.

        Args:
            name: broker id as text; "" for the settings of all brokers.
            configs: the new settings, by name.
        """
        before = self.broker_configs.pop(name, {})
        if configs:
            self.broker_configs[name] = configs
        of_logs = any(key.startswith(OF_LOGS) for key, _ in before.items() ^ configs.items())
        for topic in self.topics.values():
            topic.rules.clear()
            if of_logs:
                topic.log_configs.clear()
                self.reconfigured.append(topic)
        self.changed()

    def changed(self) -> None:
        """Notify the storage of a change for which neither ``Storage.created`` nor ``Storage.deleted`` is called.

        Such changes concern, among other things, configurations, leaders, ACLs and reserved producer ids. Without a
        storage, do nothing.
        """
        if self.storage is not None:
            self.storage.changed()

    def new_producer_id(self) -> int:
        """Return a producer id that was never returned before, also not before a restart of the broker."""
        if self._next_producer_id == self.taken_producer_ids:
            self.taken_producer_ids += PRODUCER_IDS
            self.changed()
        self._next_producer_id += 1
        return self._next_producer_id - 1

    def restore(self, cluster_id: UUID, topics: Sequence[Topic], taken_producer_ids: int) -> None:
        """Set the metadata that was read from disk.

        Args:
            cluster_id: cluster id.
            topics: the topics, with their partitions.
            taken_producer_ids: number of producer ids that were used or reserved. These ids are not used again.
        """
        self.cluster_id = cluster_id
        self.taken_producer_ids = self._next_producer_id = taken_producer_ids
        self.topics |= {topic.name: topic for topic in topics}
        self.by_id |= {topic.topic_id: topic for topic in topics}
        for topic in topics:
            self._by_metric.setdefault(metric_name(topic.name), topic.name)
        self.partition_count = sum(len(topic.partitions) for topic in self.topics.values())
        self._record_created([topic.name for topic in topics])
        self.epoch += 1

    def delete_topic(self, topic: Topic) -> None:
        """Delete a topic with its records."""
        self.epoch += 1
        self.partition_count -= len(topic.partitions)
        del self.topics[topic.name]
        del self.by_id[topic.topic_id]
        if self.colliding(topic.name) == topic.name:
            del self._by_metric[metric_name(topic.name)]
        if self.storage is not None:
            self.storage.deleted(topic)
        for partition in topic.partitions:
            partition.log.listener = None  # a holder of the partition may still append to it
            partition.log.truncate(0)  # fetch sessions keep the partition until their next request or their eviction

    def _record_created(self, names: Sequence[str]) -> None:
        self.created += names
        if len(self.created) > 2 * len(self.topics) + SPARE_NAMES:  # a new list: readers may hold an index into the old
            self.created = list(self.topics)

    def partitions(self) -> list[Partition]:
        """Return the partitions of all topics."""
        return [partition for topic in self.topics.values() for partition in topic.partitions]

    def in_sync(self, partition: Partition) -> list[int]:
        """Return the broker ids of the in-sync replicas (ISR) of a partition.

        These are the replicas on running brokers, without replicas that are catching up. If the ISR would then be
        empty, the last replica that is not catching up remains in the ISR, as in Kafka.
        """
        if in_sync := self.electable(partition):
            return in_sync
        return [[node for node in partition.replicas if node not in partition.catching_up][-1]]

    def electable(self, partition: Partition) -> list[int]:
        """Return the broker ids of the replicas that can lead a partition.

        These are the in-sync replicas whose brokers are running.
        """
        catching_up = partition.catching_up
        return [node for node in partition.replicas if node in self.nodes and node not in catching_up]

    def reassign(self, partition: Partition, replicas: Sequence[int], reassignment: Reassignment | None) -> None:
        """Replace the replicas of a partition.

        Args:
            partition: the partition.
            replicas: broker ids of the new replicas.
            reassignment: replicas that the reassignment adds and removes; None if no reassignment is in progress after
                the call.
        """
        partition.replicas = list(replicas)
        partition.reassignment = reassignment
        self.epoch += 1
        self.changed()

    def offline_replicas(self, partition: Partition) -> list[int]:
        """Return the broker ids of the replicas of a partition whose brokers are stopped."""
        return [node for node in partition.replicas if node in self.down]

    def set_leader(self, partition: Partition, node: int) -> None:
        """Change the leader of a partition and increment its leader epoch. ``node``: broker id or NO_LEADER."""
        partition.leader = node
        partition.leader_epoch += 1
        if node != NO_LEADER:
            partition.epochs.begin(partition.leader_epoch, partition.log.end)
        self.epoch += 1
        self.changed()

    def snapshot(self) -> ClusterState:
        """Return a copy of the metadata, for a broker with frozen metadata to report. The copy shares the partition
        logs.
        """
        stale = copy(self)
        stale.nodes, stale.down = dict(self.nodes), dict(self.down)
        stale.topics = {
            name: replace(topic, partitions=[copy(partition) for partition in topic.partitions])
            for name, topic in self.topics.items()
        }
        stale.by_id = {topic.topic_id: topic for topic in stale.topics.values()}
        return stale

    def unregister(self, node: int) -> None:
        """Remove the registration of a stopped broker. A start of the broker registers it again.

        ``node``: broker id.
        """
        self.unregistered.add(node)
        self.epoch += 1

    def has_room(self, partitions: int) -> bool:
        """Return whether the cluster can have ``partitions`` more partitions without exceeding MAX_PARTITIONS."""
        return self.partition_count + partitions <= MAX_PARTITIONS

    @property
    def broker_ids(self) -> AbstractSet[int]:
        """The ids of all registered brokers, running or stopped."""
        return (self.nodes.keys() | self.down.keys()) - self.unregistered

    def place(self, partitions: int, replicas: int) -> list[list[int]]:
        """Return the replicas (broker ids) for each partition of a new topic.

        Args:
            partitions: number of partitions.
            replicas: replication factor.
        """
        return place(sorted(self.broker_ids), partitions, replicas, start=len(self.topics))

    def find(self, name: str, topic_id: UUID, *, by_id: bool) -> Topic | None:
        """Return a topic, or None if it does not exist.

        Args:
            name: topic name.
            topic_id: topic id.
            by_id: True to look the topic up by its id, as in newer request versions; False by its name.
        """
        return self.by_id.get(topic_id) if by_id else self.topics.get(name)

    def partition(self, topic: str, index: int) -> Partition | None:
        """Return a partition, or None if it does not exist.

        Args:
            topic: topic name.
            index: partition index.
        """
        named = self.topics.get(topic)
        return named.partition(index) if named else None


def legal_topic_name(name: str) -> bool:
    """Return whether a topic name is valid. Source: org.apache.kafka.common.internals.Topic."""
    return _LEGAL(name) is not None and name not in (".", "..")


def metric_name(topic: str) -> str:
    """Return the name of a topic in metrics, where dots become underscores. Source: Kafka's
    Topic.unifyCollisionChars.
    """
    return topic.replace(".", "_")


def name_error(name: str) -> str | None:
    """Return Kafka's error message for an invalid topic name; None for a valid one."""
    if legal_topic_name(name):
        return None
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > MAX_NAME:
        reason = f"the length of '{shortened(name)}' is longer than the max allowed length {MAX_NAME}"
    else:
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return f"Topic name is invalid: {reason}"
