"""A data directory over a simulated disk: durable data survives a crash at any moment, once and in order."""

from __future__ import annotations

import errno
import json
from math import inf, nan
from uuid import UUID

import pytest
from tools.disk_changes import DiskChanges, a_batch, content, ids, make_all_changes, nodes, opened

from kwire.records.batch import read_batch
from mockbroker.quotas.entity import DEFAULT, Entity
from mockbroker.security.acl import Acl
from mockbroker.security.delegation_tokens import DelegationToken, Principal
from mockbroker.security.users import ScramCredential
from mockbroker.storage import catalogue
from mockbroker.storage.catalogue import CATALOGUE, Catalogue, TopicTexts, decode_catalogue, encode_catalogue
from mockbroker.storage.data_dir import DataDir
from mockbroker.storage.disk import DataDirError
from mockbroker.storage.layout import META_PROPERTIES, START_OFFSETS
from mockbroker.storage.simulated_disk import CrashError, SimulatedDisk, none
from mockbroker.topics.log_dirs import Replica
from mockbroker.topics.model import TRANSACTIONS_TOPIC, ClusterState, Topic
from mockbroker.topics.reassignment import Reassignment


def half(unsynced: int) -> int:
    return unsynced // 2


def all_bytes(unsynced: int) -> int:
    return unsynced


CRASHES = {  # unsynced bytes that survive, unsynced names that survive
    "nothing": (none, False),
    "names": (none, True),
    "half of the bytes": (half, False),
    "names and half of the bytes": (half, True),
    "all bytes": (all_bytes, False),
    "everything, after kill -9": (all_bytes, True),
}


def crash_at(disk: SimulatedDisk, number: int) -> None:
    """Crash in the operation that is ``number`` operations from now."""
    number += disk.operations

    def before(operation: str, file: str) -> None:
        if disk.operations >= number:
            raise CrashError(f"{operation} {file}")

    disk.before = before


def stop_failing(disk: SimulatedDisk) -> None:
    disk.before = lambda *_: None


def run_changes(disk: SimulatedDisk) -> DiskChanges:
    changes = DiskChanges(DataDir(disk, "DIR"))
    try:
        changes.data_dir.open(nodes(), ids())
        make_all_changes(changes)
    except CrashError:
        pass
    return changes


def count_operations() -> int:
    disk = SimulatedDisk()
    run_changes(disk)
    return disk.operations


@pytest.mark.parametrize("crash", CRASHES)
def test_synced_data_survives_a_crash_at_every_operation(crash: str, caplog: pytest.LogCaptureFixture) -> None:
    survives, names = CRASHES[crash]
    total = count_operations()
    assert total > 100
    for number in range(1, total + 1):
        disk = SimulatedDisk()
        crash_at(disk, number)
        changes = run_changes(disk)
        stop_failing(disk)
        disk.crash(survives, names=names)
        changes.check(opened(disk, 1_000).cluster)
    assert [message for message in caplog.messages if "truncated at" not in message] == []


@pytest.mark.parametrize("crash", CRASHES)
def test_synced_data_survives_a_crash_during_recovery(crash: str) -> None:
    survives, names = CRASHES[crash]
    for number in range(1, count_operations() + 1, 5):
        for second in range(1, 40):
            disk = SimulatedDisk()
            crash_at(disk, number)
            changes = run_changes(disk)
            disk.crash(survives, names=names)
            crash_at(disk, second)
            try:
                opened(disk, 1_000)
            except CrashError:
                pass
            else:
                break  # recovery has fewer operations than this
            stop_failing(disk)
            disk.crash(survives, names=names)
            changes.check(opened(disk, 2_000).cluster)


def failing(disk: SimulatedDisk, operation: str, number: int) -> None:
    """Let each operation of this kind fail with this errno from now on."""

    def before(doing: str, file: str) -> None:
        if doing == operation:
            raise OSError(number, "injected error", file)

    disk.before = before


@pytest.mark.parametrize("operation", ["append", "sync", "sync_folder", "write", "rename"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_failed_disk_operation_stops_all_writes(operation: str, number: int) -> None:
    disk = SimulatedDisk()
    changes = DiskChanges(opened(disk))
    changes.flush()
    failing(disk, operation, number)
    changes.append(changes.topic("a", 1), 0)
    with pytest.raises(DataDirError, match=r"data directory DIR: cannot write (a file|file \S+): injected error"):
        changes.data_dir.flush()
    assert changes.data_dir.synced < changes.data_dir.collected
    stop_failing(disk)
    before = disk.operations
    changes.data_dir.close()
    assert disk.operations == before  # the content of the disk is unknown


def test_append_during_a_flush_is_in_the_next_flush() -> None:
    disk = SimulatedDisk()
    changes = DiskChanges(opened(disk))
    topic = changes.topic("a", 1)
    changes.append(topic, 0)
    work = changes.data_dir.next_work()
    assert work is not None
    changes.append(topic, 0)
    changes.data_dir.perform(work)
    assert changes.data_dir.synced == work.number < changes.data_dir.collected
    changes.flush()
    disk.crash()
    assert len(content(opened(disk, 1_000).cluster.topics["a"].partitions[0])) == 2


def test_work_that_was_not_performed_is_returned_again() -> None:
    disk = SimulatedDisk()
    changes = DiskChanges(opened(disk))
    changes.append(changes.topic("a", 1), 0)
    work = changes.data_dir.next_work()
    assert work is not None
    changes.append(changes.topic("b", 1), 0)
    assert changes.data_dir.next_work() is work
    changes.flush()
    disk.crash()
    again = opened(disk, 1_000).cluster
    assert [len(content(again.topics[name].partitions[0])) for name in ("a", "b")] == [1, 1]


def test_append_to_a_deleted_topic_is_not_stored() -> None:
    disk = SimulatedDisk()
    changes = DiskChanges(opened(disk))
    old = changes.topic("a", 1)
    changes.append(old, 0)
    changes.cluster.delete_topic(old)
    new = changes.topic("a", 1)
    old.partitions[0].append(read_batch(a_batch("late")))
    changes.append(new, 0)
    changes.flush()
    disk.crash()
    [partition] = opened(disk, 1_000).cluster.topics["a"].partitions
    assert content(partition) == content(new.partitions[0]) != ()


def test_many_appends_share_one_sync() -> None:
    disk = SimulatedDisk()
    changes = DiskChanges(opened(disk))
    topic = changes.topic("a", 1, **{"segment.bytes": "100000"})
    changes.append(topic, 0)
    changes.flush()
    seen: list[str] = []
    disk.before = lambda operation, file: seen.append(f"{operation} {file}")
    changes.append(topic, 0, 500)
    changes.flush()
    log = "a-0/00000000000000000000.log"
    assert seen == [f"append {log}", f"sync {log}"]


def test_flush_without_changes_does_no_io() -> None:
    disk = SimulatedDisk()
    changes = DiskChanges(opened(disk))
    before = disk.operations
    changes.data_dir.flush()
    assert changes.data_dir.next_work() is None
    assert disk.operations == before


def test_topics_and_configs_survive_a_restart() -> None:
    disk = SimulatedDisk()
    data_dir = opened(disk, brokers=3)
    cluster = data_dir.cluster
    topic = cluster.create_topic("a", [[1, 2], [2, 0]], {"retention.ms": "5"})
    cluster.configure(topic, {"retention.ms": "6"})
    cluster.configure_group("g", {"share.auto.offset.reset": "earliest"})
    cluster.configure_broker("", {"message.max.bytes": "5"})
    cluster.changed_features["share.version"] = 0
    cluster.configure_client_metrics("s", {"metrics": "*"})
    topic.partitions[1].leader_epoch = 4
    cluster.changed()
    data_dir.flush()
    disk.crash()
    again = opened(disk, 1_000, brokers=3).cluster
    assert again.cluster_id == cluster.cluster_id
    assert description(again) == description(cluster)
    assert again.by_id == {topic.topic_id: again.topics["a"]}
    assert again.group_configs == {"g": {"share.auto.offset.reset": "earliest"}}
    assert again.broker_configs == {"": {"message.max.bytes": "5"}}
    assert again.changed_features == {"share.version": 0}
    assert again.client_metrics == {"s": {"metrics": "*"}}


def test_client_quotas_survive_a_restart() -> None:
    disk = SimulatedDisk()
    data_dir = opened(disk, brokers=3)
    quotas = {Entity("ann", DEFAULT): {"producer_byte_rate": 5.0}, Entity(ip="::1"): {"connection_creation_rate": 1.0}}
    data_dir.cluster.client_quotas |= quotas
    data_dir.cluster.changed()
    data_dir.flush()
    assert opened(disk, 1_000, brokers=3).cluster.client_quotas == quotas


def test_client_quotas_that_are_not_finite_survive_a_restart() -> None:
    disk = SimulatedDisk()
    data_dir = opened(disk, brokers=3)
    data_dir.cluster.client_quotas[Entity("ann")] = {"producer_byte_rate": nan, "request_percentage": inf}
    data_dir.cluster.changed()
    data_dir.flush()
    json.loads(encode_catalogue(data_dir.cluster, (), TopicTexts()), parse_constant=pytest.fail)
    assert str(opened(disk, 1_000, brokers=3).cluster.client_quotas) == str(data_dir.cluster.client_quotas)


def test_acls_credentials_and_tokens_survive_a_restart() -> None:
    disk = SimulatedDisk()
    cluster = (data_dir := opened(disk, brokers=3)).cluster
    acls = [Acl(2, 4, "é", "User:alice", "*", 3, 3), Acl(3, 3, "*", "User:*", "127.0.0.1", 2, 2)]
    scram = {
        ("alice", "SCRAM-SHA-256"): ScramCredential(b"salt", 4_096, b"\0", b"\xff"),
        ("bob", "SCRAM-SHA-512"): None,
    }
    cluster.acls.add(acls)
    cluster.scram |= scram
    alice, group = Principal("User", "é"), Principal("Group", "")
    token = DelegationToken("id", b"\0\xff", group, alice, (alice, group), 1, 2, 3)
    cluster.tokens.put(token)
    cluster.changed()
    data_dir.flush()
    again = opened(disk, 1_000, brokers=3).cluster
    assert (list(again.acls), again.scram, list(again.tokens)) == (acls, scram, [token])


def test_directories_of_replicas_survive_a_restart() -> None:
    disk = SimulatedDisk()
    cluster = (data_dir := opened(disk, brokers=3)).cluster
    here, there = Replica(0, UUID(int=1), 0), Replica(1, UUID(int=1), 0)
    cluster.log_dirs |= {here: "/a", there: "/b"}
    cluster.future_log_dirs |= {there: "/a"}
    cluster.changed()
    data_dir.flush()
    again = opened(disk, 1_000, brokers=3).cluster
    assert (again.log_dirs, again.future_log_dirs) == ({here: "/a", there: "/b"}, {there: "/a"})


def test_stopped_broker_stays_in_the_catalogue() -> None:
    disk = SimulatedDisk()
    data_dir = opened(disk, brokers=3)
    cluster = data_dir.cluster
    cluster.down[1] = cluster.nodes.pop(1)
    cluster.changed()
    data_dir.flush()
    assert sorted(opened(disk, 1_000, brokers=3).cluster.nodes) == [0, 1, 2]


def test_directory_lost_in_a_crash_is_durable_after_a_write() -> None:
    disk = SimulatedDisk()
    changes = DiskChanges(opened(disk))
    changes.topic("a", 1)
    changes.flush()
    disk.crash()  # the topic is in the catalogue, but its empty directory is lost
    again = opened(disk, 1_000)
    again.cluster.topics["a"].partitions[0].append(read_batch(a_batch("kept")))
    again.flush()
    disk.crash()
    assert opened(disk, 2_000).cluster.topics["a"].partitions[0].log.end == 1


def description(cluster: ClusterState) -> list[object]:
    return [
        (
            topic.name,
            topic.topic_id,
            dict(topic.configs),
            [(p.index, list(p.replicas), p.leader_epoch) for p in topic.partitions],
        )
        for topic in cluster.topics.values()
    ]


def test_log_without_batches_keeps_its_end_offset() -> None:
    disk = SimulatedDisk()
    changes = DiskChanges(opened(disk))
    topic = changes.topic("a", 1)
    changes.append(topic, 0, 8)
    changes.cut(topic, 0, 8)
    changes.flush()
    again = opened(disk, 1_000)
    [partition] = again.cluster.topics["a"].partitions
    assert (partition.log.start, partition.log.end, content(partition)) == (8, 8, ())
    assert partition.append(read_batch(a_batch("next"))) == 8
    again.flush()
    assert opened(disk, 2_000).cluster.topics["a"].partitions[0].log.end == 9


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_truncated_log_is_restored(kept: int) -> None:
    disk = SimulatedDisk()
    data_dir = opened(disk)
    changes = DiskChanges(data_dir)
    topic = changes.topic("a", 1)
    for _ in range(3):
        topic.partitions[0].append(read_batch(a_batch("old")))
    changes.flush()
    topic.partitions[0].truncate(kept)
    data_dir.cluster.set_leader(topic.partitions[0], topic.partitions[0].leader)
    changes.flush()
    assert opened(disk, 1_000).cluster.topics["a"].partitions[0].log.end == kept
    topic.partitions[0].append(read_batch(a_batch("new")))
    changes.flush()
    [again] = opened(disk, 2_000).cluster.topics["a"].partitions
    assert (again.log.end, again.leader_epoch) == (kept + 1, 1)
    assert again.epochs.entries == ([(0, 0), (1, kept)] if kept else [(1, 0)])
    checkpoint = disk.read("a-0/leader-epoch-checkpoint").decode().split("\n")[2:-1]
    assert checkpoint == [f"{epoch} {offset}" for epoch, offset in again.epochs.entries]


def test_batches_after_a_truncation_survive_a_restart() -> None:
    """Later batches are appended to the new file that replaces the truncated segment."""
    disk = SimulatedDisk()
    changes = DiskChanges(opened(disk))
    topic = changes.topic("a", 1)
    partition = topic.partitions[0]
    for text in ("old", "lost"):
        partition.append(read_batch(a_batch(text)))
    changes.data_dir.flush()
    partition.truncate(1)
    changes.data_dir.flush()
    assert not [name for name in disk.names("a-0") if name.endswith((".swap", ".cleaned"))]
    partition.append(read_batch(a_batch("new")))
    changes.data_dir.flush()
    assert content(opened(disk, 1_000).cluster.topics["a"].partitions[0]) == content(partition)


def test_deleted_segments_leave_no_files() -> None:
    disk = SimulatedDisk()
    changes = DiskChanges(opened(disk))
    topic = changes.topic("a", 1)
    changes.append(topic, 0, 9)
    changes.flush()
    changes.cut(topic, 0, 6)
    changes.flush()
    segments = {name.partition(".")[0] for name in disk.names("a-0") if name[0].isdigit()}
    assert segments == {f"{6:020}"}


def test_leader_epochs_without_records_are_dropped() -> None:
    """Kafka's LeaderEpochFileCache.truncateFromStartAsyncFlush: the epoch of the log start offset begins there."""
    disk = SimulatedDisk()
    changes = DiskChanges(opened(disk))
    topic = changes.topic("a", 1)
    for number in (3, 2, 4):  # epochs from offsets 0, 3 and 5
        changes.append(topic, 0, number)
        changes.flush()
        changes.cluster.set_leader(topic.partitions[0], 0)
    topic.partitions[0].log.delete_before(4)
    changes.append(topic, 0)
    changes.data_dir.flush()
    changes.cluster.set_leader(topic.partitions[0], 0)
    changes.append(topic, 0)
    changes.data_dir.flush()
    checkpoint = disk.read("a-0/leader-epoch-checkpoint").decode().split("\n")[2:-1]
    assert checkpoint == ["1 4", "2 5", "3 9", "4 10"]


def test_deleted_topic_is_not_in_the_catalogue() -> None:
    disk = SimulatedDisk()
    changes = DiskChanges(opened(disk))
    topic = changes.topic("a", 1)
    changes.flush()
    changes.cluster.delete_topic(topic)
    changes.data_dir.flush()
    assert opened(disk, 1_000).cluster.topics.keys() == {"__consumer_offsets"} & changes.cluster.topics.keys()
    assert topic.topic_id in decode_catalogue(disk.read(CATALOGUE)).deleted
    assert "a-0" not in disk.names("")


def test_catalogue_shows_no_credentials() -> None:
    """Log messages may contain the text of the catalogue object."""
    principal = Principal("User", "alice")
    catalogue = Catalogue(
        cluster_id=UUID(int=1),
        brokers=[0],
        taken_producer_ids=0,
        broker_configs={"": {"ssl.keystore.password": "hidden"}},
        scram={("alice", "SCRAM-SHA-256"): ScramCredential(b"hidden", 4_096, b"hidden", b"hidden")},
        tokens=[DelegationToken("id", b"hidden", principal, principal, (), 1, 2, 3)],
    )
    assert "hidden" not in repr(catalogue)


def test_recovered_batches_are_synced() -> None:
    """A killed process leaves unsynced batches. Recovery serves them, so it must sync them."""
    disk = SimulatedDisk()
    changes = DiskChanges(opened(disk))
    topic = changes.topic("a", 1)
    changes.append(topic, 0)

    def before(operation: str, file: str) -> None:
        if operation == "sync" and file.endswith(".log"):
            raise CrashError

    disk.before = before
    with pytest.raises(CrashError):
        changes.flush()
    stop_failing(disk)
    served = content(opened(disk, 1_000).cluster.topics["a"].partitions[0])
    assert len(served) == 1
    disk.crash()
    assert content(opened(disk, 2_000).cluster.topics["a"].partitions[0]) == served


@pytest.mark.parametrize("damaged", [b"{", b"[" * 100_000], ids=["truncated", "nested too deeply"])
def test_data_dir_that_cannot_be_opened_is_not_written(damaged: bytes) -> None:
    disk = SimulatedDisk()
    DiskChanges(opened(disk)).data_dir.close()
    disk.write(CATALOGUE, damaged)
    before = disk.operations
    data_dir = DataDir(disk, "DIR")
    with pytest.raises(DataDirError, match="is damaged"):
        data_dir.open(nodes(), ids(1_000))
    data_dir.close()
    assert disk.operations == before


def meta(disk: SimulatedDisk) -> list[str]:
    return disk.read(META_PROPERTIES).decode().splitlines()


def test_meta_properties_have_the_lowest_broker_id() -> None:
    disk = SimulatedDisk()
    opened(disk, brokers=3)
    assert "node.id=0" in meta(disk)


def test_damaged_meta_properties_are_written_again() -> None:
    disk = SimulatedDisk()
    opened(disk)
    written = disk.read(META_PROPERTIES)
    disk.write(META_PROPERTIES, b"version=0\n")
    opened(disk, 1_000)
    assert disk.read(META_PROPERTIES) == written
    seen: list[str] = []
    disk.before = lambda _operation, file: seen.append(file)
    opened(disk, 2_000)
    assert not [file for file in seen if META_PROPERTIES in file]  # an unchanged file is not written


def test_change_encodes_only_the_changed_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[str] = []

    def topic_json(topic: Topic) -> dict[str, object]:
        encoded.append(topic.name)
        return original(topic)

    original = catalogue._topic_json
    monkeypatch.setattr(catalogue, "_topic_json", topic_json)
    disk = SimulatedDisk()
    changes = DiskChanges(opened(disk))
    for name in ("a", "b", "c"):
        changes.topic(name, 2)
        changes.flush()
    assert encoded == ["a", "b", "c"]
    changes = DiskChanges(opened(disk, 1_000))
    topics = changes.cluster.topics
    del encoded[:]
    changes.cluster.configure(topics["a"], {"retention.ms": "1"})
    changes.flush()
    topics["b"].partitions[1].leader_epoch += 1
    changes.cluster.changed()
    changes.flush()
    changes.cluster.delete_topic(topics["c"])
    changes.flush()
    assert encoded == ["a", "b"]
    data = disk.read(CATALOGUE)
    assert data == encode_catalogue(changes.cluster, [*decode_catalogue(data).deleted], TopicTexts())


def test_new_directory_is_durable_with_its_first_batch() -> None:
    disk = SimulatedDisk()
    changes = DiskChanges(opened(disk))
    changes.append(changes.topic("a", 1), 0)
    changes.flush()
    seen: list[str] = []
    disk.before = lambda operation, file: seen.append(f"{operation} {file}")
    topic = changes.topic("b", 1)
    changes.flush()
    assert "sync_folder b-0" not in seen  # recovery creates an empty directory again if it is lost
    assert seen[-1] == "write b-0/partition.metadata"
    changes.append(topic, 0)
    changes.flush()
    assert seen[-1] == "sync_folder "


def test_removed_directory_is_durable_with_the_next_batch() -> None:
    disk = SimulatedDisk()
    changes = DiskChanges(opened(disk))
    kept, deleted = changes.topic("a", 1), changes.topic("b", 1)
    changes.append(kept, 0)
    changes.append(deleted, 0)
    changes.flush()
    changes.cluster.delete_topic(deleted)
    changes.flush()
    seen: list[str] = []
    disk.before = lambda operation, file: seen.append(f"{operation} {file}")
    for _ in range(2):
        changes.append(kept, 0)
        changes.flush()
    assert seen.count("sync_folder ") == 1


def traced(disk: SimulatedDisk) -> list[str]:
    """Return a list to which each operation of the disk is added from now on."""
    seen: list[str] = []
    disk.before = lambda operation, file: seen.append(f"{operation} {file}")
    return seen


def test_opened_directory_has_nothing_to_write() -> None:
    disk = SimulatedDisk()
    for first_id in (1, 1_000):
        data_dir = opened(disk, first_id)
        assert data_dir.collected == data_dir.synced
        assert data_dir.next_work() is None
    assert (DataDir(disk, "DIR").collected, DataDir(disk, "DIR").synced) == (0, 0)


def test_append_after_a_restart_writes_no_catalogue() -> None:
    disk = SimulatedDisk()
    changes = DiskChanges(opened(disk))
    changes.append(changes.topic("a", 1), 0)
    changes.data_dir.close()
    again = opened(disk, 1_000)
    seen = traced(disk)
    again.cluster.topics["a"].partitions[0].append(read_batch(a_batch("more")))
    again.flush()
    log = f"a-0/{0:020}.log"
    assert [each for each in seen if "checkpoint" not in each] == [f"append {log}", f"sync {log}", "sync_folder "]


def test_closed_directory_has_all_changes_and_indexes() -> None:
    disk = SimulatedDisk()
    changes = DiskChanges(opened(disk))
    topic = changes.topic("a", 1)
    changes.append(topic, 0, 2)
    changes.data_dir.close()
    assert {f"{0:020}{kind}" for kind in (".log", ".index", ".timeindex")} < set(disk.names("a-0"))
    assert changes.data_dir.synced == changes.data_dir.collected
    assert len(content(opened(disk, 1_000).cluster.topics["a"].partitions[0])) == 2


def test_segment_without_batches_is_restored() -> None:
    disk = SimulatedDisk()
    changes = DiskChanges(opened(disk))
    topic = changes.topic("a", 1)
    changes.append(topic, 0, 2)
    topic.partitions[0].log.roll()
    changes.data_dir.flush()
    assert disk.read(f"a-0/{2:020}.log") == b""
    log = opened(disk, 1_000).cluster.topics["a"].partitions[0].log
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_reassignment_survives_a_restart() -> None:
    disk = SimulatedDisk()
    cluster = (data_dir := opened(disk, brokers=3)).cluster
    topic = cluster.create_topic("a", [[0, 1], [1, 2]], {})
    cluster.reassign(topic.partitions[0], [2, 0, 1], Reassignment((2,), (0, 1)))
    topic.partitions[0].catching_up = frozenset({2, 1})
    cluster.changed()
    data_dir.flush()
    first, second = opened(disk, 1_000, brokers=3).cluster.topics["a"].partitions
    assert (first.replicas, first.reassignment) == ([2, 0, 1], Reassignment((2,), (0, 1)))
    assert (first.catching_up, second.catching_up, second.reassignment) == (frozenset({1, 2}), frozenset(), None)


def test_catalogue_is_written_only_if_it_changed() -> None:
    disk = SimulatedDisk()
    changes = DiskChanges(opened(disk))
    topic = changes.topic("a", 1)
    changes.append(topic, 0)
    changes.flush()
    seen = traced(disk)
    changes.append(topic, 0)
    changes.flush()
    assert not [each for each in seen if CATALOGUE in each]
    changes.cluster.changed()
    changes.flush()
    assert [each for each in seen if CATALOGUE in each] == [
        f"write {CATALOGUE}.tmp",
        f"sync {CATALOGUE}.tmp",
        f"rename {CATALOGUE}.tmp",
    ]
    assert seen[-1] == "sync_folder "


def test_catalogue_is_written_before_directories() -> None:
    """After a crash, each directory belongs to a topic of the catalogue."""
    disk = SimulatedDisk()
    changes = DiskChanges(opened(disk))
    seen = traced(disk)
    changes.topic("a", 1)
    changes.flush()
    assert seen.index(f"rename {CATALOGUE}.tmp") < seen.index("make_folder a-0")


@pytest.mark.parametrize("segments", [1, 2])
def test_transaction_log_is_durable_before_other_partitions(segments: int) -> None:
    """Otherwise a crash may keep a commit marker and lose the decision, so that the rest of the transaction is
    aborted."""
    disk = SimulatedDisk()
    changes = DiskChanges(opened(disk))
    topic, transactions = changes.topic("a", 1), changes.topic(TRANSACTIONS_TOPIC, 1)
    changes.append(topic, 0)
    changes.append(transactions, 0)
    changes.flush()
    seen = traced(disk)
    changes.append(topic, 0)
    changes.append(transactions, 0)
    changes.append(topic, 0)
    if segments > 1:
        topic.partitions[0].log.roll()
    changes.flush()
    decision, marker = (f"{folder}-0/{0:020}.log" for folder in (TRANSACTIONS_TOPIC, "a"))
    assert seen.index(f"sync {decision}") < seen.index(f"append {marker}")
    assert seen.count(f"sync {decision}") == 1


def test_transaction_is_complete_after_its_markers_are_durable() -> None:
    """Otherwise a crash may lose a marker and keep the begin of the producer's next transaction."""
    disk = SimulatedDisk()
    changes = DiskChanges(opened(disk))
    one_segment = {"segment.bytes": "10000"}
    topic, transactions = (changes.topic(name, 1, **one_segment) for name in ("a", TRANSACTIONS_TOPIC))
    changes.append(topic, 0)
    changes.append(transactions, 0)
    changes.data_dir.flush()
    seen = traced(disk)
    for _ in range(2):  # two transactions of different producers
        changes.append(transactions, 0)  # the decision to commit or abort
        topic.partitions[0].end_transaction(1, 0, committed=True, coordinator_epoch=0, timestamp=1)
        changes.append(transactions, 0)  # the completion of the transaction
        changes.append(topic, 0)  # records outside of transactions
    changes.data_dir.flush()
    appended = [each.partition(" ")[2].partition("-")[0] for each in seen if each.startswith("append")]
    assert appended == [TRANSACTIONS_TOPIC, "a", TRANSACTIONS_TOPIC, "a", TRANSACTIONS_TOPIC, "a"]
    logs = [each.partition(" ")[0] for each in seen if ".log" in each]
    assert logs == ["append", "sync"] * 6


def test_deleted_topics_are_listed_until_the_next_catalogue() -> None:
    disk = SimulatedDisk()
    changes = DiskChanges(opened(disk))
    first, second = changes.topic("a", 1), changes.topic("b", 1)
    changes.flush()
    for deleted in (first, second):
        changes.cluster.delete_topic(deleted)
        changes.data_dir.flush()
        assert decode_catalogue(disk.read(CATALOGUE)).deleted == {deleted.topic_id}


def test_log_start_offset_is_durable_before_segments_go() -> None:
    disk = SimulatedDisk()
    changes = DiskChanges(opened(disk))
    topic = changes.topic("a", 2)
    changes.append(topic, 0, 9)
    changes.append(topic, 1, 9)
    changes.flush()
    seen = traced(disk)
    changes.cut(topic, 0, 4)
    changes.cut(topic, 1, 3)
    changes.data_dir.flush()
    assert disk.read(START_OFFSETS) == b"0\n2\na 0 4\na 1 3\n"
    replaced = seen.index(f"rename {START_OFFSETS}.tmp")
    removed = [number for number, each in enumerate(seen) if each == f"remove a-0/{0:020}.log"]
    assert removed
    assert replaced < removed[0]


def test_deleted_topic_has_no_log_start_offsets() -> None:
    disk = SimulatedDisk()
    changes = DiskChanges(opened(disk))
    topic, other = changes.topic("a", 1), changes.topic("b", 1)
    for each in (topic, other):
        changes.append(each, 0, 4)
        changes.cut(each, 0, 1)
    changes.flush()
    changes.cluster.delete_topic(topic)
    changes.data_dir.flush()
    assert disk.read(START_OFFSETS) == b"0\n1\nb 0 1\n"
    seen = traced(disk)
    changes.cluster.delete_topic(changes.topic("c", 1))
    changes.data_dir.flush()
    assert not [each for each in seen if START_OFFSETS in each], "it had none"


def test_changes_of_a_deleted_topic_are_not_written() -> None:
    disk = SimulatedDisk()
    changes = DiskChanges(opened(disk))
    topic = changes.topic("a", 1)
    changes.append(topic, 0, 3)
    changes.flush()
    seen = traced(disk)
    changes.append(topic, 0)
    topic.partitions[0].log.delete_before(2)
    changes.cluster.delete_topic(topic)
    changes.data_dir.flush()
    assert not [each for each in seen if each.startswith("append")]
    assert START_OFFSETS not in disk.names("")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(errno.EIO, "Input/output error", "f"), "cannot write file f: Input/output error"),
        (OSError(errno.EIO, "Input/output error"), "cannot write a file: Input/output error"),
        (OSError("odd"), "cannot write a file: odd"),
    ],
)
def test_failed_write_is_named(error: OSError, text: str) -> None:
    disk = SimulatedDisk()
    data_dir = opened(disk)

    def fail(_operation: str, _file: str) -> None:
        raise error

    data_dir.changed()
    disk.before = fail
    with pytest.raises(DataDirError) as raised:
        data_dir.flush()
    assert str(raised.value) == f"data directory DIR: {text}"


def test_brokers_of_the_directory_are_those_of_the_cluster() -> None:
    disk = SimulatedDisk()
    opened(disk, brokers=3)
    for brokers, shown in ((1, "1 broker (id 0)"), (2, "2 brokers (ids 0, 1)")):
        with pytest.raises(DataDirError) as raised:
            opened(disk, 1_000, brokers)
        assert f"a cluster of 3 brokers (ids 0, 1, 2), and cannot be opened with {shown}" in str(raised.value)
