"""A data directory in use: collects what changes, and makes it sure when it is asked to.

Whatever is collected costs no time until ``flush``, which makes everything sure that was collected by then, with as
few syncs as there are files: commits that come together share them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from mockbroker.storage.catalogue import KeptTopic, written
from mockbroker.storage.disk import DataDirError, Disk, replace_file
from mockbroker.storage.layout import META_PROPERTIES, Place, meta_properties
from mockbroker.storage.recovery import Kept, recover
from mockbroker.storage.work import Append, Create, Cut, Delete, Operation, Replace, Work, Worker
from mockbroker.topics.configs import SINCE_4_0
from mockbroker.topics.log import Copy, PartitionLog, Stored
from mockbroker.topics.model import Cluster, Node, Partition, Topic

T = TypeVar("T")
SEGMENT_BYTES = "segment.bytes"


class DataDir:
    """The data directory of a cluster; ``open`` returns the cluster that is kept there. ``name``: for error messages.

    ``collected``: number of the last change; ``synced``: of the last that is sure. Once a method has raised
    DataDirError, nothing is written any more: nobody knows what is on the disk.
    """

    def __init__(self, disk: Disk, name: str) -> None:
        self.collected = 0
        self.synced = 0
        self.cluster: Cluster
        self._disk = disk
        self.name = name
        self._operations: list[Operation] = []
        self._taken: Work | None = None
        self._catalogue_changed = False
        self._deleted: list[UUID] = []  # topics of which something may be left
        self._segment_bytes: dict[str, int] = {}
        self._worker: Worker
        self._failed = False

    def open(self, nodes: Sequence[Node], new_uuid: Callable[[], UUID]) -> Cluster:
        """The cluster that is kept here, with these nodes; a new one if there is none. Raises: DataDirError."""
        return self._guarded(lambda: self._open(nodes, new_uuid), "cannot read")

    # --- what a cluster tells of itself ---

    def copy(self, topic: Topic, index: int) -> Copy:
        return _LogCopy(self, (topic.name, index))

    def created(self, topic: Topic, first: int) -> None:
        for partition in topic.partitions[first:]:
            self.collect(Create((topic.name, partition.index), topic.topic_id))
        self.changed()

    def deleted(self, topic: Topic) -> None:
        self._deleted.append(topic.topic_id)
        for partition in topic.partitions:
            self.collect(Delete((topic.name, partition.index)))
        self.changed()

    def changed(self) -> None:
        self._catalogue_changed = True
        self.collected += 1

    def collect(self, operation: Operation) -> None:
        self._operations.append(operation)
        self.collected += 1

    # --- making it sure ---

    def next_work(self) -> Work | None:
        """What is to be given to ``perform`` next; None if everything is sure. To be called by the broker.

        The same again if nobody performed it, as when the one who wanted to was cancelled.
        """
        if self._taken is not None or self.collected == self.synced:
            return self._taken
        catalogue = None
        if self._catalogue_changed:
            catalogue = written(self.cluster, self._deleted)
            self._segment_bytes = _segment_bytes(self.cluster)
        self._taken = Work(self.collected, catalogue, self._segment_bytes, self._operations)
        self._operations, self._deleted, self._catalogue_changed = [], [], False
        return self._taken

    def perform(self, work: Work) -> None:
        """Come back when it is sure. Any thread may call it, one at a time. Raises: DataDirError."""
        self._guarded(lambda: self._worker.perform(work), "cannot write")
        self._taken = None
        self.synced = work.number

    def flush(self) -> None:
        """Come back when everything is sure. Raises: DataDirError."""
        while (work := self.next_work()) is not None:
            self.perform(work)

    def close(self) -> None:
        """A clean end. Nothing happens if something has failed before. Raises: DataDirError."""
        if not self._failed:
            self.flush()
            self._guarded(self._worker.close, "cannot write")

    def _open(self, nodes: Sequence[Node], new_uuid: Callable[[], UUID]) -> Cluster:
        cluster = self.cluster = Cluster(nodes, new_uuid, self)
        kept = recover(self._disk)
        if kept is None:
            self._worker = Worker(self._disk, {}, {}, _default_segment_bytes())
            self.changed()
            self.flush()  # before anything else, so that the directory is known as ours
        else:
            self._worker = Worker(
                self._disk,
                {place: each.files for place, each in kept.logs.items()},
                kept.starts,
                _default_segment_bytes(),
            )
            self._put_back(kept)
        meta = meta_properties(cluster.cluster_id, min(cluster.nodes))
        if META_PROPERTIES not in self._disk.names("") or self._disk.read(META_PROPERTIES) != meta:
            replace_file(self._disk, META_PROPERTIES, meta)
        return cluster

    def _put_back(self, kept: Kept) -> None:
        catalogue, cluster = kept.catalogue, self.cluster
        if (wanted := sorted(cluster.nodes)) != sorted(catalogue.brokers):
            raise DataDirError(f"it belongs to {_brokers(catalogue.brokers)}, and there are to be {_brokers(wanted)}")
        topics = [self._topic(topic, kept) for topic in catalogue.topics]
        cluster.put_back(catalogue.cluster_id, topics, catalogue.taken)
        self._segment_bytes = _segment_bytes(cluster)

    def _topic(self, kept_topic: KeptTopic, kept: Kept) -> Topic:
        topic = Topic(kept_topic.name, kept_topic.topic_id, [], kept_topic.configs)
        for index, each in enumerate(kept_topic.partitions):
            found = kept.logs[topic.name, index]
            copy = self.copy(topic, index)
            partition = Partition(topic.name, index, list(each.replicas), each.leader_epoch, PartitionLog(copy))
            partition.put_back(found.batches, found.start, found.end)
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
class _LogCopy:
    """What hears of one log."""

    data_dir: DataDir
    place: Place

    def appended(self, stored: Stored, leader_epoch: int) -> None:
        self.data_dir.collect(Append(self.place, stored, leader_epoch))

    def cut(self, start: int) -> None:
        self.data_dir.collect(Cut(self.place, start))

    def replaced(self, batches: Sequence[Stored]) -> None:
        self.data_dir.collect(Replace(self.place, batches))


def _default_segment_bytes() -> int:
    return int(SINCE_4_0[SEGMENT_BYTES].default)


def _segment_bytes(cluster: Cluster) -> dict[str, int]:
    """By topic, where it is configured. A topic may have been made with a text that is no number: then the default."""
    found: dict[str, int] = {}
    for topic in cluster.topics.values():
        text = (topic.configs.get(SEGMENT_BYTES) or "").strip().removeprefix("+")
        if text.isdecimal():
            found[topic.name] = int(text)
    return found


def _brokers(numbers: Sequence[int]) -> str:
    told = ", ".join(str(number) for number in sorted(numbers))
    return f"broker {told}" if len(numbers) == 1 else f"brokers {told}"
