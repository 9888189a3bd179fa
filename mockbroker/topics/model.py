"""The metadata of a cluster: brokers, topics, partitions and their leaders."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Protocol
from uuid import UUID

from kwire import ErrorCode
from kwire.java import partition_for
from kwire.json.objects import uuid_text
from kwire.records.batch import Batch, read_batch
from kwire.records.control import ControlType, build_marker, control_records
from mockbroker.base.settings import MAX_PARTITIONS
from mockbroker.base.texts import shortened
from mockbroker.topics.epochs import LeaderEpochs
from mockbroker.topics.log import LogListener, PartitionLog
from mockbroker.topics.placement import place
from mockbroker.topics.producers import LAST_EPOCH, Producer, Producers
from mockbroker.topics.record_rules import RecordRules

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
INTERNAL = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})
NO_LEADER = -1  # leader of a partition whose brokers are all down
INDEX_INTERVAL = 4_096  # bytes between two entries of Kafka's offset index: its precision in looking up positions
PRODUCER_IDS = 1_000  # ids that Kafka's brokers allocate at a time; those left over after a restart are never used
SPARE_NAMES = 1_000  # names of deleted topics that ``Cluster.created`` keeps, besides as many as there are topics
MAX_NAME = 249  # maximum characters of a topic name
LEGAL_NAME = re.compile(rf"[a-zA-Z0-9._-]{{1,{MAX_NAME}}}")


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
        leader: broker id, NO_LEADER if no replica is alive.
        leader_epoch: number of leader changes.
        log: the batches.
        producers: state of idempotent and transactional producers.
        aborted: aborted transactions, in the order of their markers.
        epochs: leader epochs and their first offsets.
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

    def __post_init__(self) -> None:
        self.leader = self.replicas[0]
        self.epochs.begin(self.leader_epoch, self.log.end)

    @property
    def last_stable(self) -> int:
        """The last stable offset: the first offset of the oldest open transaction, else the log end offset."""
        first = self.producers.first_unstable
        return self.log.end if first is None else first

    def is_committed(self, batch: Batch) -> bool:
        """Return whether a read_committed consumer sees a batch of this partition."""
        if batch.base_offset >= self.last_stable:
            return False
        aborted = self._aborted_of.get(batch.producer_id) if batch.transactional else None
        if aborted is None:
            return True
        # A producer's transactions in a partition do not overlap.
        at = bisect_left(aborted, batch.base_offset, key=lambda each: each.last)
        return at == len(aborted) or aborted[at].first > batch.base_offset

    def forget_aborted(self, before: int) -> None:
        """Remove the aborted transactions that ended before this offset: their records are no longer in the log."""
        del self.aborted[: bisect_left(self.aborted, before, key=lambda each: each.last)]
        self._aborted_of.clear()
        for each in self.aborted:
            self._aborted_of.setdefault(each.producer_id, []).append(each)

    def append(self, batch: Batch) -> int:
        """Append a batch and return its base offset."""
        base = self.log.append(batch, self.leader_epoch)
        self.producers.record(batch, base)
        return base

    def end_transaction(
        self, producer_id: int, epoch: int, *, committed: bool, coordinator_epoch: int, timestamp: int
    ) -> ErrorCode:
        """Append the marker that ends a producer's transaction; return the error, or NONE.

        Args:
            producer_id: producer id.
            epoch: producer epoch of the marker.
            committed: True for a commit marker, False for an abort marker.
            coordinator_epoch: epoch of the transaction coordinator.
            timestamp: timestamp of the marker, milliseconds since 1970.
        """
        if epoch < 0:
            return ErrorCode.UNKNOWN_SERVER_ERROR  # Kafka fails to build a marker with a negative epoch
        if error := self.producers.marker_error(producer_id, epoch, coordinator_epoch):
            return error
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
        """End the transaction that a producer has open here. ``timestamp``: milliseconds since 1970.

        ``fence``: use the next producer epoch for the marker, so that the producer is fenced, as after a timeout.
        """
        self.end_transaction(
            producer.producer_id,
            min(producer.epoch + 1, LAST_EPOCH) if fence else producer.epoch,
            committed=committed,
            coordinator_epoch=max(producer.coordinator_epoch, 0),
            timestamp=timestamp,
        )

    def restore(self, batches: Sequence[Batch], start: int, end: int) -> None:
        """Restore the log, the leader epochs and the producer state from the batches on disk.

        Args:
            batches: all batches, in order; some may lie before the log start offset.
            start: log start offset.
            end: log end offset.

        Raises: kwire.WireError for a marker that cannot be decoded.
        """
        self.log.restore([batch for batch in batches if batch.last_offset >= start], start, end)
        self.epochs.restore([(batch.leader_epoch, batch.base_offset) for batch in batches], self.leader_epoch, end)
        self._replay(batches)

    def truncate(self, end: int) -> None:
        """Remove the batches that end after offset ``end``, with what they changed in the producer state.

        The caller must make the partition begin a leader epoch, which removes the epochs of these batches.
        """
        self.log.truncate(end)
        self.producers = Producers()
        self.aborted.clear()
        self._aborted_of.clear()
        self._replay(self.log.batches())

    def _replay(self, batches: Iterable[Batch]) -> None:
        """Restore the producer state from batches, in order."""
        for batch in batches:
            if batch.producer_id < 0:
                continue
            if not batch.control:
                self.producers.record(batch, batch.base_offset)
                continue
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
        """Return the aborted transactions in ``size`` bytes of the log from ``offset`` on.

        As in Kafka, which looks up the end of the bytes in the offset index, a few later transactions may be included.
        """
        until = self.log.offset_after(offset, size + INDEX_INTERVAL)
        since = bisect_left(self.aborted, offset, key=lambda each: each.last)
        return [each for each in self.aborted[since:] if each.first < until]


@dataclass(slots=True)
class Topic:
    """A topic.

    Attributes:
        name: topic name.
        topic_id: topic id.
        partitions: in the order of their numbers.
        configs: configurations that are set on the topic itself.
        rules: requirements on records that follow from the configurations; None until the first Produce.
    """

    name: str
    topic_id: UUID
    partitions: list[Partition]
    configs: Mapping[str, str | None] = field(default_factory=dict)
    rules: RecordRules | None = None

    @property
    def internal(self) -> bool:
        return self.name in INTERNAL

    def partition(self, index: int) -> Partition | None:
        return self.partitions[index] if 0 <= index < len(self.partitions) else None

    def partition_of(self, name: str) -> Partition:
        """Return the partition of an internal topic that stores the group or transactional id with this name."""
        return self.partitions[partition_for(name, len(self.partitions))]


class Storage(Protocol):
    """A listener that is called after each change of a cluster, to store the cluster on disk as well."""

    def log_listener(self, topic: Topic, index: int) -> LogListener:
        """Return the listener for the log of a partition that is being created."""
        ...

    def created(self, topic: Topic, first: int) -> None:
        """Record that the partitions of a topic from index ``first`` on were created; the topic may be new."""
        ...

    def deleted(self, topic: Topic) -> None:
        """Record that a topic was deleted."""
        ...

    def changed(self) -> None:
        """Record that metadata changed: configurations, leaders, leader epochs or allocated producer ids."""
        ...


class Cluster:
    """The metadata of a cluster.

    Args:
        nodes: the brokers.
        new_uuid: source of topic ids and the cluster id.
        storage: is called after each change; None for a cluster in memory only.

    Attributes:
        nodes: broker id -> running broker.
        down: broker id -> stopped broker.
        cluster_id: cluster id.
        topics: topic name -> topic.
        by_id: topic id -> topic.
        epoch: changes whenever topics, partitions or brokers change.
        partition_count: number of partitions of all topics.
        created: topic names in the order of creation, including some of deleted topics.
        taken_producer_ids: number of producer ids allocated so far, in blocks of PRODUCER_IDS.
    """

    def __init__(self, nodes: Sequence[Node], new_uuid: Callable[[], UUID], storage: Storage | None = None) -> None:
        self.nodes = {node.node_id: node for node in nodes}
        self.down: dict[int, Node] = {}
        self.cluster_id = new_uuid()
        self.topics: dict[str, Topic] = {}
        self.by_id: dict[UUID, Topic] = {}
        self._by_metric: dict[str, str] = {}  # metric name of a topic -> topic name
        self.epoch = 0
        self.partition_count = 0
        self.created: list[str] = []
        self.storage = storage
        self.taken_producer_ids = 0
        self._next_producer_id = 0
        self._new_uuid = new_uuid

    @property
    def cluster_text(self) -> str:
        """The cluster id as base64 text, as in Metadata responses."""
        return uuid_text(self.cluster_id)

    @property
    def controller(self) -> int:
        """Broker id to advertise as the controller; every broker accepts admin requests."""
        return min(self.nodes)

    def new_topic_id(self) -> UUID:
        """Return a new topic id, for a CreateTopics request with validate_only."""
        return self._new_uuid()

    def colliding(self, name: str) -> str | None:
        """Return the topic whose name collides with ``name`` in metric names, or None.

        Two names collide if they differ only in dots and underscores.
        """
        return self._by_metric.get(_metric_name(name))

    def create_topic(
        self,
        name: str,
        replicas: Sequence[Sequence[int]],
        configs: Mapping[str, str | None] | None = None,
    ) -> Topic:
        """Create a topic. ``replicas``: broker ids for each partition. The name must be valid and unused."""
        topic = Topic(name, self._new_uuid(), [], dict(configs or {}))
        self.topics[name] = topic
        self.by_id[topic.topic_id] = topic
        self._record_created([name])
        self._by_metric.setdefault(_metric_name(name), name)
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
        """Replace the configurations of a topic."""
        topic.configs = configs
        topic.rules = None
        self.changed()

    def changed(self) -> None:
        """Report a change of leaders or leader epochs to the storage."""
        if self.storage is not None:
            self.storage.changed()

    def new_producer_id(self) -> int:
        """Return a producer id that was never used, including before a restart."""
        if self._next_producer_id == self.taken_producer_ids:
            self.taken_producer_ids += PRODUCER_IDS
            self.changed()
        self._next_producer_id += 1
        return self._next_producer_id - 1

    def restore(self, cluster_id: UUID, topics: Sequence[Topic], taken_producer_ids: int) -> None:
        """Restore the metadata read from disk; the allocated producer ids are not used again."""
        self.cluster_id = cluster_id
        self.taken_producer_ids = self._next_producer_id = taken_producer_ids
        self.topics |= {topic.name: topic for topic in topics}
        self.by_id |= {topic.topic_id: topic for topic in topics}
        for topic in topics:
            self._by_metric.setdefault(_metric_name(topic.name), topic.name)
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
            del self._by_metric[_metric_name(topic.name)]
        if self.storage is not None:
            self.storage.deleted(topic)
            for partition in topic.partitions:
                partition.log.listener = None  # a holder of the partition may still append to it

    def _record_created(self, names: Sequence[str]) -> None:
        self.created += names
        if len(self.created) > 2 * len(self.topics) + SPARE_NAMES:  # a new list: readers may hold an index into the old
            self.created = list(self.topics)

    def partitions(self) -> list[Partition]:
        """Return the partitions of all topics."""
        return [partition for topic in self.topics.values() for partition in topic.partitions]

    def in_sync(self, partition: Partition) -> list[int]:
        """Return the ISR: the replicas whose brokers are running. If none is running, it is the last replica, as in
        Kafka.
        """
        return [node for node in partition.replicas if node in self.nodes] or [partition.replicas[-1]]

    def offline_replicas(self, partition: Partition) -> list[int]:
        """Return the replicas whose brokers are down."""
        return [node for node in partition.replicas if node in self.down]

    def set_leader(self, partition: Partition, node: int) -> None:
        """Change the leader of a partition and increment its leader epoch. ``node``: broker id or NO_LEADER."""
        partition.leader = node
        partition.leader_epoch += 1
        if node != NO_LEADER:
            partition.epochs.begin(partition.leader_epoch, partition.log.end)
        self.epoch += 1
        self.changed()

    def snapshot(self) -> Cluster:
        """Return a copy of the metadata, for a broker with stale metadata; the partition logs are shared."""
        stale = copy(self)
        stale.nodes, stale.down = dict(self.nodes), dict(self.down)
        stale.topics = {
            name: replace(topic, partitions=[copy(partition) for partition in topic.partitions])
            for name, topic in self.topics.items()
        }
        stale.by_id = {topic.topic_id: topic for topic in stale.topics.values()}
        return stale

    def has_room(self, partitions: int) -> bool:
        """Return whether ``partitions`` more partitions fit into MAX_PARTITIONS."""
        return self.partition_count + partitions <= MAX_PARTITIONS

    @property
    def broker_ids(self) -> AbstractSet[int]:
        """Ids of all brokers, running or down."""
        return self.nodes.keys() | self.down.keys()

    def place(self, partitions: int, replicas: int) -> list[list[int]]:
        """Return the broker ids of the replicas of each partition of a new topic.

        Args:
            partitions: number of partitions.
            replicas: replication factor.
        """
        return place(sorted(self.broker_ids), partitions, replicas, start=len(self.topics))

    def find(self, name: str, topic_id: UUID, *, by_id: bool) -> Topic | None:
        """Return a topic: with ``by_id`` by its topic id, as in newer request versions, else by its name."""
        return self.by_id.get(topic_id) if by_id else self.topics.get(name)

    def partition(self, topic: str, index: int) -> Partition | None:
        """Return a partition by topic name and number, or None."""
        named = self.topics.get(topic)
        return named.partition(index) if named else None


def legal_topic_name(name: str) -> bool:
    """Return whether a topic name is valid. Source: org.apache.kafka.common.internals.Topic."""
    return LEGAL_NAME.fullmatch(name) is not None and name not in (".", "..")


def _metric_name(topic: str) -> str:
    """Return the name of a topic in metrics. Source: Kafka's Topic.unifyCollisionChars."""
    return topic.replace(".", "_")


def name_error(name: str) -> str | None:
    """Return Kafka's error message for an invalid topic name, None for a valid one."""
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
