"""The metadata of a cluster."""

from __future__ import annotations

from itertools import count
from uuid import UUID

import pytest

from kwire.records.batch import Record, build_batch, read_batch
from mockbroker.topics.model import (
    NO_LEADER,
    OFFSETS_TOPIC,
    SPARE_NAMES,
    ClusterState,
    Node,
    Partition,
    legal_topic_name,
)


@pytest.fixture
def cluster() -> ClusterState:
    ids = (UUID(int=number) for number in range(1, 1_000))
    return ClusterState([Node(1, "b", 2), Node(0, "a", 1)], lambda: next(ids))


def test_without_a_running_broker_there_is_no_controller(cluster):
    cluster.nodes.clear()
    assert cluster.controller == NO_LEADER


def test_a_new_cluster(cluster):
    assert cluster.controller == 0
    assert cluster.topics == {}
    assert len(cluster.cluster_text) == 22  # base64url of 16 bytes


def test_topic_lookup_by_name_and_id(cluster):
    topic = cluster.create_topic("t", [[0, 1], [1, 0]], {"retention.ms": "1"})
    assert cluster.topics["t"] is cluster.by_id[topic.topic_id] is topic
    assert topic.configs == {"retention.ms": "1"}
    assert not topic.internal
    assert cluster.create_topic("u", [[0]]).topic_id != topic.topic_id
    assert cluster.create_topic(OFFSETS_TOPIC, [[0]]).internal


def test_partitions_have_leaders_and_own_logs(cluster):
    topic = cluster.create_topic("t", [[0, 1], [1, 0]])
    assert [(each.topic, each.index, each.leader) for each in topic.partitions] == [("t", 0, 0), ("t", 1, 1)]
    assert cluster.partition("t", 1) is topic.partition(1) is topic.partitions[1]
    assert [topic.partition(index) for index in (-1, 2)] == [None, None]
    assert cluster.partition("unknown", 0) is None
    assert topic.partitions[0].log is not topic.partitions[1].log


def test_next_topic_starts_at_the_next_broker(cluster):
    assert cluster.place(2, 1) == [[0], [1]]
    cluster.create_topic("t", [[0]])
    assert cluster.place(2, 1) == [[1], [0]]


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "__consumer_offsets", "x" * 249])
def test_legal_names(name):
    assert legal_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "é", "x" * 250, "a\n", "a\0"])
def test_illegal_names(name):
    assert not legal_topic_name(name)


class Storage:
    """A storage that counts the changes of the catalogue."""

    def __init__(self) -> None:
        self.changes = 0

    def changed(self) -> None:
        self.changes += 1


def test_changed_broker_settings_are_stored(cluster):
    cluster.storage = storage = Storage()
    cluster.configure_broker("", {"log.retention.ms": "1"})
    assert storage.changes == 1


def test_leader_is_the_first_running_replica(cluster):
    del cluster.nodes[1]
    topic = cluster.create_topic("t", [[1, 0], [1]])
    assert [each.leader for each in topic.partitions] == [0, NO_LEADER]


def test_restored_topics_collide_with_new_names(cluster):
    other = ClusterState([Node(0, "a", 1)], lambda: UUID(int=77))
    other.restore(UUID(int=5), [cluster.create_topic("a.b", [[0]])], 3)
    assert other.colliding("a_b") == "a.b"
    assert other.partition_count == 1


def test_names_of_deleted_topics_are_forgotten_in_time():
    ids = (UUID(int=number) for number in count(1))
    cluster = ClusterState([Node(0, "a", 1)], lambda: next(ids))
    for number in range(2 * SPARE_NAMES):
        cluster.delete_topic(cluster.create_topic(f"t{number}", [[0]]))
    assert len(cluster.created) <= 2 * len(cluster.topics) + SPARE_NAMES + 1
    cluster.create_topic("last", [[0]])
    assert "last" in cluster.created


def aborted_partition() -> Partition:
    """Offsets 0 and 2 belong to aborted transactions of producer 7, offset 4 to a committed one."""
    partition = Partition("t", 0, [0])
    for number, committed in enumerate((False, False, True)):
        data = build_batch(
            [Record(value=b"v")], producer_id=7, producer_epoch=0, base_sequence=number, transactional=True
        )
        partition.append(read_batch(data))
        partition.end_transaction(7, 0, committed=committed, coordinator_epoch=0, timestamp=1)
    return partition


def committed(partition: Partition) -> list[int]:
    return [
        batch.base_offset for batch in partition.log.batches() if not batch.control and partition.is_committed(batch)
    ]


def test_aborted_transactions_after_the_start_are_kept():
    partition = aborted_partition()
    assert committed(partition) == [4]
    partition.delete_before(2)
    assert [each.first for each in partition.aborted] == [2]
    assert committed(partition) == [4]


def test_restored_partition_has_its_epochs_and_start():
    partition = aborted_partition()
    restored = Partition("t", 0, [0], leader_epoch=3)
    restored.restore(list(partition.log.batches()), 2, partition.log.end)
    assert restored.epochs.entries == [(0, 0), (3, 6)]
    assert (restored.log.start, [each.base_offset for each in restored.log.stored()]) == (2, [2, 3, 4, 5])
    assert committed(restored) == [4]
