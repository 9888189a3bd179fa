"""The data directory of a running cluster: changes are collected in memory, then written and synced in groups.

Collecting a change does no I/O. ``flush`` makes all collected changes durable with one sync per changed file, so that
concurrent commits share syncs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar
from uuid import UUID

from kwire.lazy_dataclass import dataclass
from mockbroker.base.buggify import FLUSH_PARTIALLY, buggify_point
from mockbroker.storage.catalogue import TopicEntry, TopicTexts, encode_catalogue
from mockbroker.storage.disk import DataDirError, Disk, replace_file
from mockbroker.storage.layout import META_PROPERTIES, Place, meta_properties
from mockbroker.storage.recovery import Recovered, recover
from mockbroker.storage.work import Append, Create, Delete, DeleteBefore, Operation, Replace, Roll, Work, Worker
from mockbroker.topics.log import LogListener, PartitionLog, StoredBatch
from mockbroker.topics.model import ClusterState, Node, Partition, Topic

T = TypeVar("T")


class DataDir:
    """The data directory of a cluster. Call ``open`` before any other method.

    After a method has raised DataDirError, ``close`` writes nothing, because the content of the disk is unknown.

    Args:
        disk: the disk, on which the data directory is the folder "".
        name: path of the directory, for error messages.

    Attributes:
        collected: number of the last change; changes are numbered from 1.
        synced: number of the last change that is durable.
        cluster: the cluster that ``open`` returned.
        name: path of the directory, for error messages.
    """

    def __init__(self, disk: Disk, name: str) -> None:
        self.collected = 0
        self.synced = 0
        self.cluster: ClusterState
        self._disk = disk
        self.name = name
        self._operations: list[Operation] = []
        self._pending: Work | None = None
        self._catalogue_changed = False
        self._topic_texts = TopicTexts()
        self._deleted: list[UUID] = []  # ids of deleted topics whose directories may still exist
        self._worker: Worker
        self._failed = False

    def open(self, nodes: Sequence[Node], new_uuid: Callable[[], UUID]) -> ClusterState:
        """Return the cluster that is stored in the directory, or a new cluster if the directory is empty.

        Args:
            nodes: the brokers. They must have the broker ids of the stored cluster.
            new_uuid: function that returns a new id, for a new cluster and its topics.

        Raises: DataDirError if the directory cannot be read or belongs to other brokers.
        """
        return self._guarded(lambda: self._open(nodes, new_uuid), "cannot read")

    # --- changes that the cluster reports ---

    def log_listener(self, topic: Topic, index: int) -> LogListener:
        """Return the listener that collects the changes of a partition's log.

        Args:
            topic: the topic.
            index: index of the partition.
        """
        return _LogListener(self, (topic.name, index))

    def created(self, topic: Topic, first: int) -> None:
        """Collect the creation of partitions of a topic.

        Args:
            topic: the topic.
            first: index of the first new partition; all later partitions are new too.
        """
        for partition in topic.partitions[first:]:
            self.collect(Create((topic.name, partition.index), topic.topic_id))
        self.changed()

    def deleted(self, topic: Topic) -> None:
        """Collect the deletion of a topic."""
        self._deleted.append(topic.topic_id)
        for partition in topic.partitions:
            self.collect(Delete((topic.name, partition.index)))
        self.changed()

    def changed(self) -> None:
        """Collect a change of the cluster's metadata, such as a configuration, a leader or an ACL."""
        self._catalogue_changed = True
        self.collected += 1

    def collect(self, operation: Operation) -> None:
        """Collect an operation on a partition directory, such as an appended batch. A later ``perform`` writes it."""
        self._operations.append(operation)
        self.collected += 1

    # --- writing and syncing ---

    @buggify_point(FLUSH_PARTIALLY)
    def next_work(self) -> Work | None:
        """Return all collected changes as the argument for ``perform``; None if all changes are durable.

        Only the thread that changes the cluster may call this method. If the previous result was not performed because
        its task was cancelled, the same object is returned again.
        """
        if self._pending is not None or self.collected == self.synced:
            return self._pending
        catalogue = None
        if self._catalogue_changed:
            catalogue = encode_catalogue(self.cluster, self._deleted, self._topic_texts)
        self._pending = Work(self.collected, catalogue, self._operations)
        self._operations, self._deleted, self._catalogue_changed = [], [], False
        return self._pending

    def perform(self, work: Work) -> None:
        """Write and sync the changes of ``work``. Any thread may call this method, but only one at a time.

        Raises: DataDirError if the data directory cannot be read or written.
        """
        self._guarded(lambda: self._worker.perform(work), "cannot write")
        self._pending = None
        self.synced = work.number

    def flush(self) -> None:
        """Make all collected changes durable. Raises: DataDirError if the data directory cannot be read or written."""
        while (work := self.next_work()) is not None:
            self.perform(work)

    def close(self) -> None:
        """Flush, and write the index files. Do nothing if a method has failed before.

        Raises: DataDirError if the data directory cannot be read or written.
        """
        if not self._failed:
            self.flush()
            self._guarded(self._worker.close, "cannot write")

    def _open(self, nodes: Sequence[Node], new_uuid: Callable[[], UUID]) -> ClusterState:
        cluster = self.cluster = ClusterState(nodes, new_uuid, self)
        recovered = recover(self._disk)
        if recovered is None:
            self._worker = Worker(self._disk, {}, {})
            self.changed()
            self.flush()  # the catalogue first: it marks the directory as mockbroker's
        else:
            files = {place: log.files for place, log in recovered.logs.items()}
            self._worker = Worker(self._disk, files, recovered.starts)
            self._restore(recovered)
        meta = meta_properties(cluster.cluster_id, min(cluster.nodes))
        if META_PROPERTIES not in self._disk.names("") or self._disk.read(META_PROPERTIES) != meta:
            replace_file(self._disk, META_PROPERTIES, meta)
        return cluster

    def _restore(self, recovered: Recovered) -> None:
        catalogue, cluster = recovered.catalogue, self.cluster
        if (brokers := sorted(cluster.nodes)) != sorted(catalogue.brokers):
            raise DataDirError(
                f"the directory was created by a cluster of {_brokers(catalogue.brokers)}, and cannot "
                f"be opened with {_brokers(brokers)}: start with the same brokers"
            )
        topics = [self._topic(entry, recovered) for entry in catalogue.topics]
        cluster.restore(catalogue.cluster_id, topics, catalogue.taken_producer_ids)
        self._topic_texts.of(topics)  # now, not while clients wait for the first change
        cluster.client_quotas |= catalogue.client_quotas
        cluster.group_configs |= catalogue.group_configs
        cluster.broker_configs |= catalogue.broker_configs
        cluster.changed_features |= catalogue.changed_features
        cluster.client_metrics |= catalogue.client_metrics
        cluster.acls.add(catalogue.acls)
        cluster.scram |= catalogue.scram
        cluster.log_dirs |= catalogue.log_dirs
        cluster.future_log_dirs |= catalogue.future_log_dirs
        for token in catalogue.tokens:
            cluster.tokens.put(token)

    def _topic(self, topic_entry: TopicEntry, recovered: Recovered) -> Topic:
        topic = Topic(topic_entry.name, topic_entry.topic_id, [], topic_entry.configs)
        for index, entry in enumerate(topic_entry.partitions):
            log = recovered.logs[topic.name, index]
            listener = self.log_listener(topic, index)
            partition = Partition(topic.name, index, list(entry.replicas), entry.leader_epoch, PartitionLog(listener))
            partition.reassignment, partition.catching_up = entry.reassignment, entry.catching_up
            partition.restore(log.batches, log.start, log.end, log.files.segments)
            topic.partitions.append(partition)
        return topic

    def _guarded(self, function: Callable[[], T], doing: str) -> T:
        try:
            return function()
        except OSError as error:
            self._failed = True
            file = f"file {error.filename}" if error.filename else "a file"
            raise DataDirError(f"data directory {self.name}: {doing} {file}: {error.strerror or error}") from error
        except DataDirError as error:
            self._failed = True
            raise DataDirError(f"data directory {self.name}: {error}") from error


@dataclass(frozen=True, slots=True)
class _LogListener:
    """The listener of one partition's log. It collects each change for the next write.

    Attributes:
        data_dir: the data directory.
        place: topic and partition number.
    """

    data_dir: DataDir
    place: Place

    def appended(self, stored: StoredBatch, leader_epoch: int, *, new_segment: bool) -> None:
        self.data_dir.collect(Append(self.place, stored, leader_epoch, new_segment))

    def rolled(self, base_offset: int) -> None:
        self.data_dir.collect(Roll(self.place, base_offset))

    def deleted_before(self, start: int) -> None:
        self.data_dir.collect(DeleteBefore(self.place, start))

    def replaced(self, base_offset: int, end: int, batches: Sequence[StoredBatch]) -> None:
        self.data_dir.collect(Replace(self.place, base_offset, end, batches))


def _brokers(ids: Sequence[int]) -> str:
    text = ", ".join(str(broker_id) for broker_id in sorted(ids))
    return f"1 broker (id {text})" if len(ids) == 1 else f"{len(ids)} brokers (ids {text})"
