"""Changes of a cluster on a disk, recorded with the states that are allowed after a crash."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import UUID

from tools.compacted_logs import compact_to

from kwire.records.batch import Record, build_batch, read_batch
from mockbroker.storage.data_dir import DataDir
from mockbroker.storage.disk import Disk
from mockbroker.topics.log_segments import SegmentLimits
from mockbroker.topics.model import ClusterState, Node, Partition, Topic

SMALL = {"segment.bytes": "300"}  # room for three or four batches
Log = tuple[bytes, ...]


def ids(first: int = 1) -> Callable[[], UUID]:
    numbers = count(first)
    return lambda: UUID(int=next(numbers))


def nodes(number: int = 1) -> list[Node]:
    return [Node(each, "127.0.0.1", 9092 + each) for each in range(number)]


def opened(disk: Disk, first_id: int = 1, brokers: int = 1) -> DataDir:
    data_dir = DataDir(disk, "DIR")
    data_dir.open(nodes(brokers), ids(first_id))
    return data_dir


def content(partition: Partition) -> Log:
    """Return the batches of a partition, encoded."""
    return tuple(stored.data for stored in partition.log.stored())


def a_batch(text: str, **options: Any) -> bytes:
    return build_batch([Record(timestamp=1_000, value=text.encode())], **options)


@dataclass
class LogVersion:
    """A state of a log since the last flush. ``batches``: includes those before ``start``."""

    batches: Log = ()
    start: int = 0


@dataclass
class DiskChanges:
    """A cluster on a disk, and the states that a recovery may find.

    ``past``: states of each partition since the last flush, by topic id and index; ``catalogues``: names and ids of the
    topics since the last flush. The first element of each is durable.
    """

    data_dir: DataDir
    past: dict[tuple[UUID, int], list[LogVersion]] = field(default_factory=dict)
    catalogues: list[dict[str, UUID]] = field(default_factory=lambda: [{}])
    appended: int = 0

    @property
    def cluster(self) -> ClusterState:
        return self.data_dir.cluster

    def topic(self, name: str, partitions: int, **configs: str) -> Topic:
        topic = self.cluster.create_topic(name, [[0]] * partitions, SMALL | configs)
        self._limit(topic)
        return topic

    def _limit(self, topic: Topic) -> None:
        """Set the maximum size of the log segments, as the first Produce does."""
        for partition in topic.partitions:
            partition.log.limits = SegmentLimits(int(topic.configs["segment.bytes"] or 0))

    def append(self, topic: Topic, index: int, number: int = 1, **options: int) -> None:
        partition = topic.partitions[index]
        self._limit(topic)
        for _ in range(number):
            self.appended += 1
            partition.append(read_batch(a_batch(f"record {self.appended}", **options)))
            options = {}
            self._note(topic, index, (*self._last(topic, index).batches, content(partition)[-1]), partition.log.start)

    def cut(self, topic: Topic, index: int, start: int) -> None:
        topic.partitions[index].log.delete_before(start)
        self._note(topic, index, self._last(topic, index).batches, start)

    def compact(self, topic: Topic, index: int) -> None:
        log = topic.partitions[index].log
        *rest, last = content(topic.partitions[index])
        kept = (*rest[::2], last)
        compact_to(log, kept)
        self._note(topic, index, kept, log.start)

    def flush(self) -> None:
        self.catalogues.append({name: topic.topic_id for name, topic in self.cluster.topics.items()})
        self.data_dir.flush()
        self.mark_durable()

    def mark_durable(self) -> None:
        self.past = {place: past[-1:] for place, past in self.past.items()}
        self.catalogues = self.catalogues[-1:]

    def check(self, cluster: ClusterState) -> None:
        """Check that a recovered cluster equals one of the states since the last flush."""
        topic_ids = {name: topic.topic_id for name, topic in cluster.topics.items()}
        assert topic_ids in self.catalogues
        for topic in cluster.topics.values():
            for partition in topic.partitions:
                self._check_partition(partition, self.past.get((topic.topic_id, partition.index), [LogVersion()]))

    def _check_partition(self, partition: Partition, past: list[LogVersion]) -> None:
        start = partition.log.start
        assert start in {each.start for each in past}
        possible = [tuple(data for data in each.batches if read_batch(data).last_offset >= start) for each in past]
        assert content(partition) in possible, f"{partition.topic}-{partition.index}"
        ends = {read_batch(each.batches[-1]).last_offset + 1 if each.batches else 0 for each in past}
        assert partition.log.end in ends

    def _last(self, topic: Topic, index: int) -> LogVersion:
        return self.past.setdefault((topic.topic_id, index), [LogVersion()])[-1]

    def _note(self, topic: Topic, index: int, log: Log, start: int) -> None:
        self.past[topic.topic_id, index].append(LogVersion(log, start))


def make_all_changes(changes: DiskChanges) -> None:
    """Make every kind of change to logs and topics."""
    a = changes.topic("a", 2)
    changes.append(a, 0, 3)
    changes.append(a, 1)
    changes.flush()
    changes.append(a, 0, 9)
    changes.flush()
    b = changes.topic("b", 1)
    changes.append(b, 0, 2)
    changes.cluster.add_partitions(a, [[0]])
    changes.append(a, 2, producer_id=5, producer_epoch=0, base_sequence=0)
    changes.flush()
    changes.cut(a, 0, 5)
    changes.append(a, 0)
    changes.cut(b, 0, 1)
    changes.flush()
    changes.append(a, 0, 2)
    changes.compact(a, 0)
    changes.append(a, 0, 5)
    changes.flush()
    changes.cluster.delete_topic(b)
    b = changes.topic("b", 2)
    changes.append(b, 0)
    changes.flush()
    changes.cluster.configure(a, SMALL | {"retention.ms": "1"})
    changes.cluster.new_producer_id()
    a.partitions[1].leader_epoch += 1
    changes.cluster.changed()
    changes.append(a, 1, 6)
    changes.flush()
    changes.compact(a, 1)
    changes.cut(b, 0, 1)
    changes.flush()
    changes.data_dir.close()
