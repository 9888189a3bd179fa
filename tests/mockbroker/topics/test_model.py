"""The metadata of a cluster."""

from __future__ import annotations

from itertools import count
from uuid import UUID

import pytest

from kwire import ErrorCode as E
from kwire.records.batch import Batch, Record, build_batch, read_batch
from kwire.records.control import ControlType, control_records
from mockbroker.base.settings import MAX_PARTITIONS
from mockbroker.topics.log import UNKNOWN_END
from mockbroker.topics.model import (
    INDEX_INTERVAL,
    NO_LEADER,
    OFFSETS_TOPIC,
    SPARE_NAMES,
    ClusterState,
    Node,
    Partition,
    Topic,
    legal_topic_name,
    name_error,
)
from mockbroker.topics.producers import LAST_EPOCH


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
    assert (cluster.epoch, cluster.features_epoch, cluster.client_metrics_version) == (0, 0, 0)
    assert (cluster.partition_count, cluster.taken_producer_ids, cluster.new_producer_id()) == (0, 0, 0)


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


def test_names_of_a_thousand_deleted_topics_are_kept() -> None:
    """Readers hold an index into the list, so the list is not replaced with each deleted topic."""
    ids = (UUID(int=number) for number in count(1))
    cluster = ClusterState([Node(0, "a", 1)], lambda: next(ids))
    created = cluster.created
    for number in range(SPARE_NAMES + 2):
        cluster.delete_topic(cluster.create_topic(f"t{number}", [[0]]))
    assert cluster.created is created
    assert len(created) == SPARE_NAMES + 2
    cluster.create_topic("last", [[0]])
    assert cluster.created == ["last"]


def aborted_partition() -> Partition:
    """Return a partition with aborted transactions of producer 7 at offsets 0 and 2, and a committed one at 4."""
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


def test_replaced_aborted_transactions_are_forgotten() -> None:
    partition = aborted_partition()
    batches = list(partition.log.batches())
    aborted = [batch.base_offset for batch in batches if not batch.control and not partition.is_committed(batch)]
    assert aborted == [0, 2]
    partition.replace_aborted(partition.aborted[1:], 99)
    assert [partition.is_committed(batches[0]), partition.is_committed(batches[2])] == [True, False]
    partition.replace_aborted([], 99)
    assert partition.is_committed(batches[2])


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


# --- what each change of the cluster notifies and counts ---


class Journal(Storage):
    """A storage that records each call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[object] = []

    def log_listener(self, topic: Topic, index: int) -> None:
        self.calls.append(("listener", topic.name, index))

    def created(self, topic: Topic, first: int) -> None:
        self.calls.append(("created", topic.name, first))

    def deleted(self, topic: Topic) -> None:
        self.calls.append(("deleted", topic.name))

    def changed(self) -> None:
        self.calls.append("changed")


def journaled(cluster: ClusterState) -> tuple[Topic, Journal]:
    """Return a topic with a partition, and the storage of its cluster."""
    topic = cluster.create_topic("t", [[0, 1]])
    cluster.storage = journal = Journal()  # type: ignore[assignment]
    return topic, journal


CHANGES = {
    "leader": (lambda cluster, topic: cluster.set_leader(topic.partitions[0], 1), 1),
    "no leader": (lambda cluster, topic: cluster.set_leader(topic.partitions[0], NO_LEADER), 1),
    "replicas": (lambda cluster, topic: cluster.reassign(topic.partitions[0], [1], None), 1),
    "topic configs": (lambda cluster, topic: cluster.configure(topic, {}), 0),
    "group configs": (lambda cluster, _: cluster.configure_group("g", {"a": "1"}), 0),
    "client metrics": (lambda cluster, _: cluster.configure_client_metrics("s", {"a": "1"}), 0),
    "broker configs": (lambda cluster, _: cluster.configure_broker("0", {"a": "1"}), 0),
    "producer ids": (lambda cluster, _: cluster.new_producer_id(), 0),
}


@pytest.mark.parametrize("change", CHANGES)
def test_change_is_stored_and_raises_the_epoch_of_metadata(cluster: ClusterState, change: str) -> None:
    topic, journal = journaled(cluster)
    before = cluster.epoch
    make, raised = CHANGES[change]
    make(cluster, topic)
    assert (journal.calls, cluster.epoch > before) == (["changed"], bool(raised))


def test_created_partitions_are_stored_and_counted(cluster: ClusterState) -> None:
    topic, journal = journaled(cluster)
    before = cluster.epoch
    cluster.add_partitions(topic, [[0], [1]])
    assert journal.calls == [("listener", "t", 1), ("listener", "t", 2), ("created", "t", 1)]
    assert [each.index for each in topic.partitions] == [0, 1, 2]
    assert (cluster.partition_count, cluster.epoch > before) == (3, True)
    assert [each.log.listener for each in topic.partitions] == [None] * 3


def test_deleted_topic_is_stored_and_forgotten(cluster: ClusterState) -> None:
    topic, journal = journaled(cluster)
    other = cluster.create_topic("t.u", [[0], [0]])
    before = cluster.epoch
    journal.calls.clear()
    topic.partitions[0].log.listener = object()  # type: ignore[assignment]
    cluster.delete_topic(topic)
    assert journal.calls == [("deleted", "t")]
    assert topic.partitions[0].log.listener is None
    assert (cluster.topics, cluster.by_id) == ({"t.u": other}, {other.topic_id: other})
    assert (cluster.partition_count, cluster.epoch > before) == (2, True)
    assert (cluster.colliding("t"), cluster.colliding("t_u")) == (None, "t.u")


def test_deleted_topic_frees_its_records(cluster: ClusterState) -> None:
    """A fetch session without a further request keeps the partition."""
    topic = cluster.create_topic("t", [[0]])
    (partition,) = topic.partitions
    partition.append(read_batch(build_batch([Record(value=b"v")])))
    cluster.delete_topic(topic)
    assert (list(partition.log.batches()), partition.log.size) == ([], 0)


def test_name_of_a_deleted_collision_stays_taken(cluster: ClusterState) -> None:
    """Only a client of an older release can create two topics that collide."""
    cluster.create_topic("a.b", [[0]])
    second = cluster.create_topic("a_b", [[0]])
    cluster.delete_topic(second)
    assert cluster.colliding("a_b") == "a.b"


@pytest.mark.parametrize(
    ("before", "after", "of_logs"),
    [
        ({}, {"log.retention.ms": "1"}, True),
        ({"log.retention.ms": "1"}, {"log.retention.ms": "2"}, True),
        ({"log.retention.ms": "1"}, {}, True),
        ({"log.retention.ms": "1"}, {"log.retention.ms": "1", "message.max.bytes": "5"}, False),
        ({}, {"message.max.bytes": "5"}, False),
        ({}, {"message.max.bytes": "5", "log.retention.ms": "1"}, True),
    ],
)
def test_changed_broker_settings_reach_the_logs(cluster: ClusterState, before, after, of_logs) -> None:
    topic, _ = journaled(cluster)
    cluster.configure_broker("0", before)
    cluster.reconfigured.clear()
    topic.rules[0] = topic.log_configs[0] = object()  # type: ignore[assignment]
    cluster.configure_broker("0", after)
    assert cluster.broker_configs == ({"0": after} if after else {})
    assert (topic.rules, topic.log_configs == {}) == ({}, of_logs)
    assert cluster.reconfigured == ([topic] if of_logs else [])


def test_changed_topic_configs_reach_rules_and_logs(cluster: ClusterState) -> None:
    topic, _ = journaled(cluster)
    topic.rules[0] = topic.log_configs[0] = object()  # type: ignore[assignment]
    cluster.configure(topic, {"retention.ms": "1"})
    assert (topic.configs, topic.rules, topic.log_configs) == ({"retention.ms": "1"}, {}, {})
    assert cluster.reconfigured == [topic]


def test_subscription_without_configs_is_deleted(cluster: ClusterState) -> None:
    for version, (configs, kept) in enumerate((({"metrics": "a"}, 1), ({"metrics": "b"}, 1), ({}, 0), ({}, 0)), 1):
        cluster.configure_client_metrics("s", configs)
        assert cluster.client_metrics == ({"s": configs} if kept else {})
        assert cluster.client_metrics_version == version


def test_producer_ids_are_allocated_in_blocks(cluster: ClusterState) -> None:
    """As in ProducerIdsBlock, a block has 1000 ids."""
    _, journal = journaled(cluster)
    assert [cluster.new_producer_id() for _ in range(1_000)] == list(range(1_000))
    assert (journal.calls, cluster.taken_producer_ids) == (["changed"], 1_000)
    assert cluster.new_producer_id() == 1_000
    assert (journal.calls, cluster.taken_producer_ids) == (["changed"] * 2, 2_000)


def test_restored_cluster_has_all_that_was_stored(cluster: ClusterState) -> None:
    other = ClusterState([Node(0, "a", 1)], lambda: UUID(int=77))
    before = other.epoch
    topics = [cluster.create_topic("t", [[0], [0]]), cluster.create_topic("u", [[0]])]
    other.restore(UUID(int=5), topics, 3_000)
    assert (other.cluster_id, other.partition_count, other.created) == (UUID(int=5), 3, ["t", "u"])
    assert (other.topics, other.by_id) == (
        {each.name: each for each in topics},
        {each.topic_id: each for each in topics},
    )
    assert other.epoch > before
    assert (other.new_producer_id(), other.taken_producer_ids) == (3_000, 4_000)


@pytest.mark.parametrize(
    ("running", "catching_up", "in_sync", "electable"),
    [
        ([0, 1, 2], [], [2, 0, 1], [2, 0, 1]),
        ([0, 2], [], [2, 0], [2, 0]),
        ([0, 1, 2], [2], [0, 1], [0, 1]),
        ([], [], [1], []),
        ([], [1], [0], []),
        ([2], [2, 1], [0], []),
    ],
)
def test_last_replica_stays_in_sync(
    running: list[int], catching_up: list[int], in_sync: list[int], electable: list[int]
) -> None:
    cluster = ClusterState([Node(node, "a", 1) for node in range(3)], lambda: UUID(int=1))
    [partition] = cluster.create_topic("t", [[2, 0, 1]]).partitions
    partition.catching_up = frozenset(catching_up)
    for node in set(range(3)) - set(running):
        cluster.down[node] = cluster.nodes.pop(node)
    assert (cluster.in_sync(partition), cluster.electable(partition)) == (in_sync, electable)
    assert cluster.offline_replicas(partition) == [node for node in (2, 0, 1) if node not in running]


def test_leader_epoch_begins_at_the_log_end_offset(cluster: ClusterState) -> None:
    [partition] = cluster.create_topic("t", [[0, 1]]).partitions
    partition.append(read_batch(build_batch([Record(value=b"v")])))
    cluster.set_leader(partition, NO_LEADER)
    assert (partition.leader, partition.leader_epoch, partition.epochs.entries) == (NO_LEADER, 1, [(0, 0)])
    cluster.set_leader(partition, 1)
    assert (partition.leader, partition.leader_epoch, partition.epochs.entries) == (1, 2, [(0, 0), (2, 1)])


def test_frozen_metadata_is_a_copy(cluster: ClusterState) -> None:
    topic = cluster.create_topic("t", [[0, 1]])
    stale = cluster.snapshot()
    cluster.set_leader(topic.partitions[0], 1)
    cluster.down[1] = cluster.nodes.pop(1)
    cluster.create_topic("u", [[0]])
    assert (sorted(stale.nodes), stale.down, list(stale.topics)) == ([0, 1], {}, ["t"])
    assert [(each.leader, each.leader_epoch) for each in stale.topics["t"].partitions] == [(0, 0)]
    assert stale.by_id == {topic.topic_id: stale.topics["t"]}
    assert stale.topics["t"].partitions[0].log is topic.partitions[0].log


def test_unregistered_broker_has_no_new_replicas(cluster: ClusterState) -> None:
    before = cluster.epoch
    cluster.down[1] = cluster.nodes.pop(1)
    assert cluster.broker_ids == {0, 1}
    cluster.unregister(1)
    assert (cluster.broker_ids, cluster.epoch > before) == ({0}, True)
    assert cluster.place(2, 1) == [[0], [0]]


@pytest.mark.parametrize(("more", "room"), [(MAX_PARTITIONS - 1, True), (MAX_PARTITIONS, False)])
def test_number_of_partitions_is_limited(cluster: ClusterState, more: int, room: bool) -> None:
    cluster.create_topic("t", [[0]])
    assert cluster.has_room(more) is room


def test_topic_is_found_by_name_or_id(cluster: ClusterState) -> None:
    topic = cluster.create_topic("t", [[0]])
    assert cluster.find("t", UUID(int=0), by_id=False) is cluster.find("", topic.topic_id, by_id=True) is topic
    assert cluster.find("t", UUID(int=0), by_id=True) is cluster.find("u", topic.topic_id, by_id=False) is None


def test_coming_topic_ids_are_used_in_order(cluster: ClusterState) -> None:
    cluster.coming_topic_ids["t"] = [UUID(int=50), UUID(int=51)]
    ids = []
    for _ in range(3):
        topic = cluster.create_topic("t", [[0]])
        ids.append(topic.topic_id.int)
        cluster.delete_topic(topic)
    assert ids[:2] == [50, 51]
    assert ids[2] < 50


def test_broker_has_an_address_for_each_listener() -> None:
    node = Node(1, "a", 2, {"SSL": 3}, {"SSL": "b"})
    assert [(node.host_of(name), node.port_of(name)) for name in ("SSL", "OTHER")] == [("b", 3), ("a", 2)]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a", None),
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 249, None),
        ("x" * 250, "is longer than the max allowed length 249"),
        ("x" * 248 + "/", "contains one or more characters other than ASCII alphanumerics"),
        ("a/b", "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
    ],
)
def test_invalid_topic_name_is_explained(name: str, reason: str | None) -> None:
    error = name_error(name)
    assert error is None if reason is None else reason in (error or "")


# --- partitions: transactions, replicas and restarts ---


def transactional(sequence: int, producer: int = 7) -> Batch:
    data = build_batch(
        [Record(value=b"v", timestamp=5)],
        producer_id=producer,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )
    return read_batch(data)


def test_last_stable_offset_is_that_of_the_oldest_transaction() -> None:
    partition = Partition("t", 0, [0])
    partition.append(read_batch(build_batch([Record(value=b"v")])))
    assert partition.last_stable == 1
    partition.append(transactional(0))
    partition.append(transactional(0, producer=8))
    assert partition.last_stable == 1
    partition.end_transaction(7, 0, committed=True, coordinator_epoch=0, timestamp=1)
    assert partition.last_stable == 2
    partition.end_transaction(8, 0, committed=False, coordinator_epoch=0, timestamp=1)
    assert partition.last_stable == partition.log.end == 5


def test_read_committed_omits_open_and_aborted_batches() -> None:
    partition = Partition("t", 0, [0])
    partition.append(transactional(0))  # 0
    partition.end_transaction(7, 0, committed=False, coordinator_epoch=0, timestamp=1)  # 1
    partition.append(transactional(1))  # 2
    partition.end_transaction(7, 0, committed=True, coordinator_epoch=0, timestamp=1)  # 3
    partition.append(read_batch(build_batch([Record()], producer_id=7, producer_epoch=0, base_sequence=2)))  # 4
    partition.append(transactional(3))  # 5
    partition.end_transaction(7, 0, committed=False, coordinator_epoch=0, timestamp=1)  # 6
    partition.append(transactional(0, producer=8))  # 7
    partition.append(read_batch(build_batch([Record()])))  # 8
    visible = [each.base_offset for each in partition.log.batches() if partition.is_committed(each)]
    assert visible == [2, 3, 4]


def test_aborted_transactions_of_a_range_are_listed() -> None:
    """As in Kafka, the offset index gives the end of the range, so a later transaction may be included."""
    partition = Partition("t", 0, [0])
    for number in range(3):
        partition.append(transactional(number))
        partition.end_transaction(7, 0, committed=False, coordinator_epoch=0, timestamp=1)
        partition.append(read_batch(build_batch([Record(value=b"x" * 5_000)])))
    aborted = [(each.first, each.last) for each in partition.aborted]
    assert aborted == [(0, 1), (3, 4), (6, 7)]
    listed = [[each.first for each in partition.aborted_from(offset, 1)] for offset in range(9)]
    assert listed == [[0], [0], [], [3], [3], [], [6], [6], []]
    assert [each.first for each in partition.aborted_from(0, 20_000)] == [0, 3, 6]


@pytest.mark.parametrize(
    ("epoch", "coordinator_epoch", "error"),
    [
        (-1, 5, E.UNKNOWN_SERVER_ERROR),
        (0, 5, E.INVALID_PRODUCER_EPOCH),
        (1, 4, E.TRANSACTION_COORDINATOR_FENCED),
        (1, 5, E.NONE),
    ],
)
def test_marker_that_is_refused_is_not_appended(epoch: int, coordinator_epoch: int, error: E) -> None:
    partition = Partition("t", 0, [0])
    partition.end_transaction(7, 1, committed=True, coordinator_epoch=5, timestamp=1)
    result = partition.end_transaction(7, epoch, committed=True, coordinator_epoch=coordinator_epoch, timestamp=1)
    assert (result, partition.log.end) == (error, 1 if error else 2)


@pytest.mark.parametrize(("epoch", "fence", "marker"), [(0, False, 0), (0, True, 1), (LAST_EPOCH, True, LAST_EPOCH)])
def test_fencing_uses_the_next_producer_epoch(epoch: int, fence: bool, marker: int) -> None:
    partition = Partition("t", 0, [0])
    data = build_batch([Record()], producer_id=7, producer_epoch=epoch, base_sequence=0, transactional=True)
    partition.append(read_batch(data))
    [producer] = partition.producers
    partition.end_open_transaction(producer, 9, committed=False, fence=fence)
    batch = list(partition.log.batches())[-1]
    assert (batch.producer_epoch, batch.max_timestamp) == (marker, 9)
    [record] = control_records(batch)
    assert (record.type, record.marker and record.marker.coordinator_epoch) == (ControlType.ABORT, 0)
    assert LAST_EPOCH == 32_767


def test_truncation_undoes_transactions_and_replicas() -> None:
    partition = aborted_partition()
    partition.paused = {1: 1, 2: 6}
    partition.cleaned_until = 5
    partition.truncate(3)
    assert (partition.paused, partition.cleaned_until, partition.log.end) == ({1: 1, 2: 3}, 3, 3)
    assert [(each.first, each.last) for each in partition.aborted] == [(0, 1)]
    assert [each.opened for each in partition.producers] == [2]
    assert partition.last_stable == 2
    partition.end_transaction(7, 0, committed=True, coordinator_epoch=0, timestamp=1)
    assert committed(partition) == [2]


def test_replica_has_the_end_at_which_it_was_paused() -> None:
    partition = aborted_partition()
    partition.paused = {1: 2, 0: 1}
    assert [partition.end_at(node) for node in (0, 1, 2)] == [6, 2, 6]


def test_partition_begins_with_its_first_replica_as_leader() -> None:
    partition = Partition("t", 3, [4, 5], leader_epoch=2)
    assert (partition.leader, partition.epochs.entries, partition.cleaned_until) == (4, [(2, 0)], 0)


def test_replayed_batches_restore_producers_and_markers() -> None:
    partition = aborted_partition()
    partition.append(read_batch(build_batch([Record()])))
    partition.append(transactional(0, producer=8))
    restored = Partition("t", 0, [0])
    restored.restore(list(partition.log.batches()), 0, partition.log.end)
    assert list(restored.producers) == list(partition.producers)
    assert (restored.aborted, restored.last_stable) == (partition.aborted, partition.last_stable)


def test_deleted_segments_take_epochs_and_transactions() -> None:
    partition = aborted_partition()
    partition.log.roll()
    partition.leader_epoch = 4
    partition.epochs.begin(4, partition.log.end)
    partition.append(read_batch(build_batch([Record()])))
    partition.delete_segments(1)
    assert (partition.log.start, partition.aborted, partition.epochs.entries) == (6, [], [(4, 6)])


def test_numbers_of_kafkas_metadata() -> None:
    assert (NO_LEADER, INDEX_INTERVAL, SPARE_NAMES) == (-1, 4_096, 1_000)
    assert UNKNOWN_END == -1
    assert len({Node(1, "a", 2, {"SSL": 3}, {"SSL": "b"}), Node(1, "a", 2)}) == 2, "brokers are keys of sets"


def test_end_of_a_range_has_the_precision_of_the_index() -> None:
    partition = Partition("t", 0, [0])
    for sequence in (0, 1):
        partition.append(transactional(sequence))
        partition.end_transaction(7, 0, committed=False, coordinator_epoch=0, timestamp=1)
        partition.append(read_batch(build_batch([Record(value=b"x" * 9_000)])))
    second = partition.log.stored()[3].position
    sizes = [second - 4_096 + by for by in (-1, 0, 1)]
    assert [len(partition.aborted_from(0, size)) for size in sizes] == [1, 1, 2]
