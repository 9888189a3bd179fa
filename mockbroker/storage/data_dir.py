"""The data directory of a running cluster: changes are collected in memory, then written and synced in groups.

Collecting a change does no I/O. ``flush`` makes all collected changes durable with one sync per changed file, so
that commits that arrive together share the syncs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from mockbroker.storage.catalogue import TopicEntry, encode_catalogue
from mockbroker.storage.disk import DataDirError, Disk, replace_file
from mockbroker.storage.layout import META_PROPERTIES, Place, meta_properties
from mockbroker.storage.recovery import Recovered, recover
from mockbroker.storage.work import Append, Create, Delete, DeleteBefore, Operation, Replace, Work, Worker
from mockbroker.topics.configs import SINCE_4_0
from mockbroker.topics.log import LogListener, PartitionLog, StoredBatch
from mockbroker.topics.model import Cluster, Node, Partition, Topic

T = TypeVar("T")
SEGMENT_BYTES = "segment.bytes"


class DataDir:
    """The data directory of a cluster, on a disk; call ``open`` first.

    After a method has raised DataDirError nothing more is written, since the content of the disk is unknown.

    Attributes:
        collected: number of the last change.
        synced: number of the last change that is durable.
        cluster: the cluster that ``open`` returned.
        name: path of the directory, for error messages.
    """

    def __init__(self, disk: Disk, name: str) -> None:
        self.collected = 0
        self.synced = 0
        self.cluster: Cluster
        self._disk = disk
        self.name = name
        self._operations: list[Operation] = []
        self._pending: Work | None = None
        self._catalogue_changed = False
        self._deleted: list[UUID] = []  # ids of deleted topics whose directories may still exist
        self._segment_bytes: dict[str, int] = {}
        self._worker: Worker
        self._failed = False

    def open(self, nodes: Sequence[Node], new_uuid: Callable[[], UUID]) -> Cluster:
        """Return the cluster stored here, with these nodes, or a new cluster if the directory is empty.

        Raises: DataDirError.
        """
        return self._guarded(lambda: self._open(nodes, new_uuid), "cannot read")

    # --- changes that the cluster reports ---

    def log_listener(self, topic: Topic, index: int) -> LogListener:
        """Return the listener that collects the changes of a partition's log."""
        return _LogListener(self, (topic.name, index))

    def created(self, topic: Topic, first: int) -> None:
        """Collect that the partitions of a topic from index ``first`` on were created."""
        for partition in topic.partitions[first:]:
            self.collect(Create((topic.name, partition.index), topic.topic_id))
        self.changed()

    def deleted(self, topic: Topic) -> None:
        """Collect that a topic was deleted."""
        self._deleted.append(topic.topic_id)
        for partition in topic.partitions:
            self.collect(Delete((topic.name, partition.index)))
        self.changed()

    def changed(self) -> None:
        """Collect that the catalogue (brokers, topics, configurations) changed."""
        self._catalogue_changed = True
        self.collected += 1

    def collect(self, operation: Operation) -> None:
        """Add an operation to the next work."""
        self._operations.append(operation)
        self.collected += 1

    # --- writing and syncing ---

    def next_work(self) -> Work | None:
        """Return the work for the next ``perform``, or None if all changes are durable.

        Only the thread that changes the cluster may call this method. Work that was not performed, because the task
        was cancelled, is returned again.
        """
        if self._pending is not None or self.collected == self.synced:
            return self._pending
        catalogue = None
        if self._catalogue_changed:
            catalogue = encode_catalogue(self.cluster, self._deleted)
            self._segment_bytes = _segment_bytes(self.cluster)
        self._pending = Work(self.collected, catalogue, self._segment_bytes, self._operations)
        self._operations, self._deleted, self._catalogue_changed = [], [], False
        return self._pending

    def perform(self, work: Work) -> None:
        """Write and sync the changes of ``work``. Any thread may call it, one at a time. Raises: DataDirError."""
        self._guarded(lambda: self._worker.perform(work), "cannot write")
        self._pending = None
        self.synced = work.number

    def flush(self) -> None:
        """Make all collected changes durable. Raises: DataDirError."""
        while (work := self.next_work()) is not None:
            self.perform(work)

    def close(self) -> None:
        """Flush, and write the index files; do nothing if a method has failed before. Raises: DataDirError."""
        if not self._failed:
            self.flush()
            self._guarded(self._worker.close, "cannot write")

    def _open(self, nodes: Sequence[Node], new_uuid: Callable[[], UUID]) -> Cluster:
        cluster = self.cluster = Cluster(nodes, new_uuid, self)
        recovered = recover(self._disk)
        if recovered is None:
            self._worker = Worker(self._disk, {}, {}, _default_segment_bytes())
            self.changed()
            self.flush()  # the catalogue first: it marks the directory as mockbroker's
        else:
            self._worker = Worker(
                self._disk,
                {place: log.files for place, log in recovered.logs.items()},
                recovered.starts,
                _default_segment_bytes(),
            )
            self._restore(recovered)
        meta = meta_properties(cluster.cluster_id, min(cluster.nodes))
        if META_PROPERTIES not in self._disk.names("") or self._disk.read(META_PROPERTIES) != meta:
            replace_file(self._disk, META_PROPERTIES, meta)
        return cluster

    def _restore(self, recovered: Recovered) -> None:
        catalogue, cluster = recovered.catalogue, self.cluster
        if (brokers := sorted(cluster.nodes)) != sorted(catalogue.brokers):
            raise DataDirError(
                f"created by a cluster of {_brokers(catalogue.brokers)}; cannot be opened with {_brokers(brokers)}"
            )
        topics = [self._topic(entry, recovered) for entry in catalogue.topics]
        cluster.restore(catalogue.cluster_id, topics, catalogue.taken_producer_ids)
        self._segment_bytes = _segment_bytes(cluster)

    def _topic(self, topic_entry: TopicEntry, recovered: Recovered) -> Topic:
        topic = Topic(topic_entry.name, topic_entry.topic_id, [], topic_entry.configs)
        for index, entry in enumerate(topic_entry.partitions):
            log = recovered.logs[topic.name, index]
            listener = self.log_listener(topic, index)
            partition = Partition(topic.name, index, list(entry.replicas), entry.leader_epoch, PartitionLog(listener))
            partition.restore(log.batches, log.start, log.end)
            topic.partitions.append(partition)
        return topic

    def _guarded(self, function: Callable[[], T], doing: str) -> T:
        try:
            return function()
        except OSError as error:
            self._failed = True
            where = f" {error.filename}" if error.filename else ""
            raise DataDirError(f"data directory {self.name}: {doing}{where}: {error.strerror or error}") from error
        except DataDirError as error:
            self._failed = True
            raise DataDirError(f"data directory {self.name}: {error}") from error


@dataclass(frozen=True, slots=True)
class _LogListener:
    """The listener of one partition's log: adds each change to the data directory's next work."""

    data_dir: DataDir
    place: Place

    def appended(self, stored: StoredBatch, leader_epoch: int) -> None:
        self.data_dir.collect(Append(self.place, stored, leader_epoch))

    def deleted_before(self, start: int) -> None:
        self.data_dir.collect(DeleteBefore(self.place, start))

    def replaced(self, batches: Sequence[StoredBatch]) -> None:
        self.data_dir.collect(Replace(self.place, batches))


def _default_segment_bytes() -> int:
    return int(SINCE_4_0[SEGMENT_BYTES].default)


def _segment_bytes(cluster: Cluster) -> dict[str, int]:
    """Return the segment size of the topics that configure a valid one; the default applies to all others."""
    sizes: dict[str, int] = {}
    for topic in cluster.topics.values():
        text = (topic.configs.get(SEGMENT_BYTES) or "").strip().removeprefix("+")
        if text.isdecimal():
            sizes[topic.name] = int(text)
    return sizes


def _brokers(ids: Sequence[int]) -> str:
    text = ", ".join(str(broker_id) for broker_id in sorted(ids))
    return f"1 broker (id {text})" if len(ids) == 1 else f"{len(ids)} brokers (ids {text})"
