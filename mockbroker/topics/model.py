"""A cluster as its clients see it: brokers, topics, partitions and their leaders."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
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
from mockbroker.topics.log import Copy, PartitionLog
from mockbroker.topics.placement import place
from mockbroker.topics.producers import LAST_EPOCH, Producer, Producers
from mockbroker.topics.record_rules import RecordRules

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
INTERNAL = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})
NOBODY = -1  # leads a partition whose brokers are all away
INDEXED_EVERY = 4_096  # bytes; Kafka knows the places of batches in a segment as closely as this
PRODUCER_IDS = 1_000  # taken at a time, as Kafka's brokers take them: of these some are never given out
SPARE_NAMES = 1_000  # of deleted topics, beyond as many as there are topics
LONGEST_NAME = 249  # characters of a topic name
LEGAL_NAME = re.compile(rf"[a-zA-Z0-9._-]{{1,{LONGEST_NAME}}}")


@dataclass(frozen=True, slots=True)
class Node:
    """A broker and where clients reach it. ``ports``, ``hosts``: by the names of its listeners.

    ``host`` and ``port`` are those of the first.
    """

    node_id: int
    host: str
    port: int
    ports: Mapping[str, int] = field(default_factory=dict, hash=False)
    hosts: Mapping[str, str] = field(default_factory=dict, hash=False)

    def port_of(self, listener: str) -> int:
        """Where whoever came by this listener reaches it."""
        return self.ports.get(listener, self.port)

    def host_of(self, listener: str) -> str:
        """The same for its host."""
        return self.hosts.get(listener, self.host)


@dataclass(frozen=True, slots=True)
class Aborted:
    """A transaction whose records nobody shall see. ``last``: the offset of its marker."""

    producer_id: int
    first: int
    last: int


@dataclass(slots=True)
class Partition:
    """``replicas``: broker ids, the one that is preferred as leader first. ``leader``: -1 if there is none.

    ``aborted``: in the order of their markers.
    """

    topic: str
    index: int
    replicas: Sequence[int]
    leader: int = field(init=False)
    leader_epoch: int = 0
    log: PartitionLog = field(default_factory=PartitionLog)
    producers: Producers = field(default_factory=Producers)
    aborted: list[Aborted] = field(default_factory=list)
    _aborted_of: dict[int, list[Aborted]] = field(default_factory=dict)  # the same by producer
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)

    def __post_init__(self) -> None:
        self.leader = self.replicas[0]
        self.epochs.begin(self.leader_epoch, self.log.end)

    @property
    def last_stable(self) -> int:
        """How far a reader comes that wants to see committed records only: to the oldest open transaction."""
        first = self.producers.first_unstable
        return self.log.end if first is None else first

    def is_committed(self, batch: Batch) -> bool:
        """True if readers of committed records see the batch, which is stored here."""
        if batch.base_offset >= self.last_stable:
            return False
        aborted = self._aborted_of.get(batch.producer_id) if batch.transactional else None
        if aborted is None:
            return True
        at = bisect_left(aborted, batch.base_offset, key=lambda each: each.last)  # one comes after the other
        return at == len(aborted) or aborted[at].first > batch.base_offset

    def forget_aborted(self, before: int) -> None:
        """What ended before this offset and was aborted is not in the log any more."""
        del self.aborted[: bisect_left(self.aborted, before, key=lambda each: each.last)]
        self._aborted_of.clear()
        for each in self.aborted:
            self._aborted_of.setdefault(each.producer_id, []).append(each)

    def append(self, batch: Batch) -> int:
        """Store a batch; the offset of its first record."""
        base = self.log.append(batch, self.leader_epoch)
        self.producers.remember(batch, base)
        return base

    def end_transaction(
        self, producer_id: int, epoch: int, *, committed: bool, coordinator_epoch: int, timestamp: int
    ) -> ErrorCode:
        """Store the marker that ends a producer's transaction. ``timestamp``: milliseconds since 1970."""
        if epoch < 0:
            return ErrorCode.UNKNOWN_SERVER_ERROR  # Kafka cannot make such a marker
        if error := self.producers.may_end(producer_id, epoch, coordinator_epoch):
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

    def end_open(self, producer: Producer, timestamp: int, *, committed: bool, fence: bool) -> None:
        """End the transaction that a producer has open here. ``timestamp``: milliseconds since 1970.

        ``fence``: it cannot go on in the epoch it knows, as after one that ran too long.
        """
        self.end_transaction(
            producer.producer_id,
            min(producer.epoch + 1, LAST_EPOCH) if fence else producer.epoch,
            committed=committed,
            coordinator_epoch=max(producer.coordinator_epoch, 0),
            timestamp=timestamp,
        )

    def put_back(self, batches: Sequence[Batch], start: int, end: int) -> None:
        """The batches of a copy, in order, and what they tell of producers. ``start``, ``end``: of the log.

        Raises: kwire.WireError for a marker that cannot be read.
        """
        self.log.put_back([batch for batch in batches if batch.last_offset >= start], start, end)
        self.epochs.put_back([(batch.leader_epoch, batch.base_offset) for batch in batches], self.leader_epoch, end)
        for batch in batches:
            if batch.producer_id < 0:
                continue
            if not batch.control:
                self.producers.remember(batch, batch.base_offset)
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
        """What was aborted of the records in so many bytes from ``offset`` on, and a little behind them."""
        until = self.log.beyond(offset, size + INDEXED_EVERY)
        since = bisect_left(self.aborted, offset, key=lambda each: each.last)
        return [each for each in self.aborted[since:] if each.first < until]


@dataclass(slots=True)
class Topic:
    """``rules``: what its configurations ask of records; None until a record comes."""

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
        """The partition of an internal topic that keeps a group or a transactional id."""
        return self.partitions[partition_for(name, len(self.partitions))]


class Storage(Protocol):
    """What keeps a cluster somewhere else than in memory, and hears of every change after it was made."""

    def copy(self, topic: Topic, index: int) -> Copy:
        """What keeps the log of a partition that is being made."""
        ...

    def created(self, topic: Topic, first: int) -> None:
        """The topic has new partitions, from this one on; it may be new itself."""
        ...

    def deleted(self, topic: Topic) -> None: ...

    def changed(self) -> None:
        """Something else than logs is different: configurations, leaders and their epochs, producer ids taken."""
        ...


class Cluster:
    """``new_uuid``: where topic and cluster ids come from. ``storage``: None if memory is all there is.

    ``epoch``: another number whenever topics, partitions or brokers have changed. ``taken``: the lowest producer id
    that nobody has taken for giving it out. ``down``: brokers that are away. ``partition_count``: of all topics.
    ``created``: names of topics in the order in which they were created, also of some that are gone.
    """

    def __init__(self, nodes: Sequence[Node], new_uuid: Callable[[], UUID], storage: Storage | None = None) -> None:
        self.nodes = {node.node_id: node for node in nodes}
        self.down: dict[int, Node] = {}
        self.cluster_id = new_uuid()
        self.topics: dict[str, Topic] = {}
        self.by_id: dict[UUID, Topic] = {}
        self._by_metric: dict[str, str] = {}  # names of topics by those of their metrics
        self.epoch = 0
        self.partition_count = 0
        self.created: list[str] = []
        self.storage = storage
        self.taken = 0
        self._next_producer_id = 0
        self._new_uuid = new_uuid

    @property
    def cluster_text(self) -> str:
        """The cluster id as clients see it."""
        return uuid_text(self.cluster_id)

    @property
    def controller(self) -> int:
        """Id of the broker that takes admin calls; each of them does."""
        return min(self.nodes)

    def new_topic_id(self) -> UUID:
        """The id of a topic that is not created, as one that is would have it."""
        return self._new_uuid()

    def colliding(self, name: str) -> str | None:
        """A topic whose metrics would have the same name, in which dots are underscores, or None."""
        return self._by_metric.get(_metric_name(name))

    def create_topic(
        self,
        name: str,
        replicas: Sequence[Sequence[int]],
        configs: Mapping[str, str | None] | None = None,
    ) -> Topic:
        """A new topic with these replicas by partition. The name must be legal and free."""
        topic = Topic(name, self._new_uuid(), [], dict(configs or {}))
        self.topics[name] = topic
        self.by_id[topic.topic_id] = topic
        self._note_created([name])
        self._by_metric.setdefault(_metric_name(name), name)
        self.grow(topic, replicas)
        return topic

    def grow(self, topic: Topic, replicas: Sequence[Sequence[int]]) -> None:
        """More partitions, with these replicas."""
        first = len(topic.partitions)
        for index, nodes in enumerate(replicas, first):
            log = PartitionLog(None if self.storage is None else self.storage.copy(topic, index))
            partition = Partition(topic.name, index, list(nodes), log=log)
            partition.leader = next((node for node in nodes if node in self.nodes), NOBODY)
            topic.partitions.append(partition)
        self.partition_count += len(replicas)
        self.epoch += 1
        if self.storage is not None:
            self.storage.created(topic, first)

    def configure(self, topic: Topic, configs: Mapping[str, str | None]) -> None:
        """The topic has these configurations from now on."""
        topic.configs = configs
        topic.rules = None
        self.changed()

    def changed(self) -> None:
        """To be called after leaders or their epochs were changed: the storage is told."""
        if self.storage is not None:
            self.storage.changed()

    def new_producer_id(self) -> int:
        """A producer id that nobody had before, not even before the cluster was put back."""
        if self._next_producer_id == self.taken:
            self.taken += PRODUCER_IDS
            self.changed()
        self._next_producer_id += 1
        return self._next_producer_id - 1

    def put_back(self, cluster_id: UUID, topics: Sequence[Topic], taken: int) -> None:
        """Become what was kept; producer ids that were ``taken`` are not given out again."""
        self.cluster_id = cluster_id
        self.taken = self._next_producer_id = taken
        self.topics |= {topic.name: topic for topic in topics}
        self.by_id |= {topic.topic_id: topic for topic in topics}
        for topic in topics:
            self._by_metric.setdefault(_metric_name(topic.name), topic.name)
        self.partition_count = sum(len(topic.partitions) for topic in self.topics.values())
        self._note_created([topic.name for topic in topics])
        self.epoch += 1

    def delete_topic(self, topic: Topic) -> None:
        """The topic and its records are gone."""
        self.epoch += 1
        self.partition_count -= len(topic.partitions)
        del self.topics[topic.name]
        del self.by_id[topic.topic_id]
        if self.colliding(topic.name) == topic.name:
            del self._by_metric[_metric_name(topic.name)]
        if self.storage is not None:
            self.storage.deleted(topic)
            for partition in topic.partitions:
                partition.log.copy = None  # whoever still writes to it writes to nobody

    def _note_created(self, names: Sequence[str]) -> None:
        self.created += names
        if len(self.created) > 2 * len(self.topics) + SPARE_NAMES:  # another list, for those that remember the old one
            self.created = list(self.topics)

    def partitions(self) -> list[Partition]:
        """Those of all topics."""
        return [partition for topic in self.topics.values() for partition in topic.partitions]

    def in_sync(self, partition: Partition) -> list[int]:
        """Replicas that have everything: those that are there; the last one stays in, though it is away."""
        return [node for node in partition.replicas if node in self.nodes] or [partition.replicas[-1]]

    def away(self, partition: Partition) -> list[int]:
        """Replicas whose brokers are away."""
        return [node for node in partition.replicas if node in self.down]

    def lead(self, partition: Partition, node: int) -> None:
        """Another broker leads; -1: none does."""
        partition.leader = node
        partition.leader_epoch += 1
        if node != NOBODY:
            partition.epochs.begin(partition.leader_epoch, partition.log.end)
        self.epoch += 1
        self.changed()

    def as_it_is(self) -> Cluster:
        """What is known of the cluster now, for a broker that hears of nothing that comes. Logs are the same ones."""
        seen = copy(self)
        seen.nodes, seen.down = dict(self.nodes), dict(self.down)
        seen.topics = {
            name: replace(topic, partitions=[copy(partition) for partition in topic.partitions])
            for name, topic in self.topics.items()
        }
        seen.by_id = {topic.topic_id: topic for topic in seen.topics.values()}
        return seen

    def has_room(self, partitions: int) -> bool:
        """True if the cluster can have so many more partitions."""
        return self.partition_count + partitions <= MAX_PARTITIONS

    @property
    def known(self) -> AbstractSet[int]:
        """Ids of all brokers, also of those that are away."""
        return self.nodes.keys() | self.down.keys()

    def place(self, partitions: int, replicas: int) -> list[list[int]]:
        """Where the partitions of the next topic go."""
        return place(sorted(self.known), partitions, replicas, start=len(self.topics))

    def find(self, name: str, topic_id: UUID, *, by_id: bool) -> Topic | None:
        """A topic by its id or its name: newer requests have one, older the other."""
        return self.by_id.get(topic_id) if by_id else self.topics.get(name)

    def partition(self, topic: str, index: int) -> Partition | None:
        """A partition by topic name, or None."""
        found = self.topics.get(topic)
        return found.partition(index) if found else None


def legal_topic_name(name: str) -> bool:
    """Kafka's rule for topic names. Source: org.apache.kafka.common.internals.Topic."""
    return LEGAL_NAME.fullmatch(name) is not None and name not in (".", "..")


def _metric_name(topic: str) -> str:
    """Source: Kafka's Topic.unifyCollisionChars."""
    return topic.replace(".", "_")


def name_error(name: str) -> str | None:
    """What is wrong with a topic name, None if nothing is."""
    if legal_topic_name(name):
        return None
    if not name:
        what = "the empty string is not allowed"
    elif name in (".", ".."):
        what = f"'{name}' is not allowed"
    elif len(name) > LONGEST_NAME:
        what = f"the length of '{shortened(name)}' is longer than the max allowed length {LONGEST_NAME}"
    else:
        what = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return f"Topic name is invalid: {what}"
