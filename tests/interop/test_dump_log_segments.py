"""Kafka's own DumpLogSegments reads the files of a data directory, with and without their indexes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from interop.kafka_tools import dumped
from tools.compacted_logs import compact_to
from tools.disk_changes import DiskChanges, content, opened
from tools.streams_group_harness import WORD_COUNT, Request, StreamsGroupHarness

from kwire.blobs import encode_record, encode_stored
from kwire.blobs.offsets_topic import OffsetCommitKey, OffsetCommitValue
from kwire.records.batch import Record, build_batch, read_batch
from mockbroker import ThreadCluster, run_cluster
from mockbroker.groups.streams.records import records as streams_records
from mockbroker.storage.real_disk import RealDisk
from mockbroker.topics.model import OFFSETS_TOPIC

pytestmark = pytest.mark.interop

OFFSET = re.compile(r"\| offset: (\d+) CreateTime: (\d+) .*?payload: (\w+)")


@pytest.fixture
def changes(tmp_path: Path) -> Iterator[DiskChanges]:
    """Return a cluster with a new data directory on a real disk, which the test closes."""
    disk = RealDisk(tmp_path)
    yield DiskChanges(opened(disk))
    disk.close()


def files(folder: Path, *kinds: str) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in kinds)


def test_segments_and_indexes(changes: DiskChanges, tmp_path: Path) -> None:
    [partition] = changes.topic("a", 1, **{"segment.bytes": "20000"}).partitions
    sent = [f"{number:0900}" for number in range(60)]
    times = [1_000 + (number * 7) % 60 for number in range(60)]  # timestamps that are not in order
    for value, time in zip(sent, times, strict=True):
        partition.append(read_batch(build_batch([Record(key=b"k", value=value.encode(), timestamp=time)])))
    changes.data_dir.close()
    folder = tmp_path / "a-0"
    assert len(files(folder, ".log")) == len(files(folder, ".index")) == len(files(folder, ".timeindex")) == 3
    deep = ["--deep-iteration", "--print-data-log"]
    lines = dumped(files(folder, ".log", ".index", ".timeindex"), *deep)
    rows = [found.groups() for line in lines if (found := OFFSET.match(line))]
    assert rows == [(str(offset), str(times[offset]), sent[offset]) for offset in range(60)]
    assert sum(line.startswith("offset: ") for line in lines) >= 9
    assert sum(line.startswith("timestamp: ") for line in lines) >= 3
    assert [line for line in lines if "ismatch" in line or "invalid" in line.lower()] == []
    checked = dumped(files(folder, ".index"), "--index-sanity-check")
    assert sum(line.endswith("passed sanity check.") for line in checked) == 3
    for path in files(folder, ".index", ".timeindex"):
        path.unlink()
    assert sum(bool(OFFSET.match(line)) for line in dumped(files(folder, ".log"), *deep)) == 60


def test_transactions_and_compaction(changes: DiskChanges, tmp_path: Path) -> None:
    topic = changes.topic("a", 1)
    changes.append(topic, 0, producer_id=7, producer_epoch=1, base_sequence=0, transactional=True)
    topic.partitions[0].end_transaction(7, 1, committed=True, coordinator_epoch=3, timestamp=5)
    changes.data_dir.flush()
    *rest, last = content(topic.partitions[0])
    assert len(rest) == 1
    empty = build_batch([], base_offset=read_batch(last).base_offset, last_offset=read_batch(last).last_offset)
    lines = dumped(files(tmp_path / "a-0", ".log"), "--deep-iteration")
    assert any("endTxnMarker: COMMIT coordinatorEpoch: 3" in line for line in lines)
    compact_to(topic.partitions[0].log, [*rest, empty])
    changes.data_dir.close()
    lines = dumped(files(tmp_path / "a-0", ".log"), "--deep-iteration")
    assert [line.split()[1::2][:3] for line in lines if line.startswith("baseOffset")] == [
        ["0", "0", "1"],
        ["1", "1", "0"],
    ]


def test_offsets(changes: DiskChanges, tmp_path: Path) -> None:
    topic = changes.cluster.create_topic(OFFSETS_TOPIC, [[0]], {"cleanup.policy": "compact"})
    key = OffsetCommitKey(group="billing", topic="orders", partition=3)
    value = OffsetCommitValue(offset=42, leader_epoch=2, metadata="noted", commit_timestamp=1_000)
    records = [
        Record(key=encode_stored(key, 0), value=encode_stored(value, 3), timestamp=1_000),
        Record(key=encode_stored(key, 0), value=None, timestamp=2_000),
    ]
    topic.partitions[0].append(read_batch(build_batch(records)))
    changes.data_dir.close()
    decoded = offsets(tmp_path / f"{OFFSETS_TOPIC}-0")
    assert [key["data"] for key, _ in decoded] == [{"group": "billing", "topic": "orders", "partition": 3}] * 2
    assert decoded[0][1]["data"] == {"offset": 42, "leaderEpoch": 2, "metadata": "noted", "commitTimestamp": 1_000}
    assert decoded[1][1] is None


def test_streams_groups(changes: DiskChanges, tmp_path: Path) -> None:
    harness = StreamsGroupHarness(config={"group.streams.num.standby.replicas": 1})
    for name in ("m1", "m2"):
        harness.join(name, WORD_COUNT, user_endpoint=Request.Endpoint(host="h", port=9))
    harness.settle()
    records = [
        Record(key=key, value=value) for key, value in (encode_record(*each) for each in streams_records(harness.group))
    ]
    changes.topic(OFFSETS_TOPIC, 1).partitions[0].append(read_batch(build_batch(records)))
    changes.data_dir.close()
    dumped = offsets(tmp_path / f"{OFFSETS_TOPIC}-0")
    assert Counter(key["type"] for key, _ in dumped) == {"17": 1, "19": 2, "20": 1, "21": 2, "22": 2, "23": 1}
    values = {key["type"]: value["data"] for key, value in dumped}
    assert values["17"]["epoch"] == harness.group.epoch
    assert [part["subtopologyId"] for part in values["23"]["subtopologies"]] == ["0", "1"]
    assert values["19"]["userEndpoint"] == {"host": "h", "port": 9}
    tasks = values["22"]["activeTasks"]
    assert sum(len(each["partitions"]) for each in tasks) == len(harness.clients["m2"].owns.active)


def test_groups_of_real_clients(tmp_path: Path) -> None:
    """Kafka's tool prints members of both protocols, commits, a transaction and a deleted group."""
    quick = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 3}
    with run_cluster(topics={"t": 2}, config=quick, data_dir=tmp_path) as cluster:
        cluster.produce("t", ["a", "b"])
        with consumer(cluster, "old"), consumer(cluster, "new", **{"group.protocol": "consumer"}):
            pass
        with producer(cluster) as sending:
            sending.begin_transaction()
            metadata = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "paid"})
            sending.send_offsets_to_transaction([TopicPartition("t", 0, 7)], metadata.consumer_group_metadata())
            sending.commit_transaction()
            metadata.close()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.delete_consumer_groups(["old"])["old"].result(10)
    folders = [path.parent for path in tmp_path.glob(f"{OFFSETS_TOPIC}-*/*.log")]
    decoded = [line for folder in folders for line in offsets(folder)]
    records: dict[str, list[tuple[str, object]]] = {}
    for key, value in decoded:
        data = key["data"]
        assert isinstance(data, dict)
        records.setdefault(str(data.get("group", data.get("groupId"))), []).append((str(key["type"]), value))
    stable = next(value for kind, value in records["old"] if kind == "2" and value and value["data"]["members"])  # type: ignore[index]
    [member] = stable["data"]["members"]  # type: ignore[index]
    assert member["clientId"] == "a client"
    assert member["assignment"]["assignedPartitions"] == [{"topic": "t", "partitions": [0, 1]}]
    assert {kind for kind, _ in records["new"]} == {"1", "3", "5", "6", "7", "8"}
    for kind in ("1", "2"):
        assert [value for each, value in records["old"] if each == kind][-1] is None  # tombstones
    assert [value["data"]["offset"] for kind, value in records["paid"] if kind == "1" and value] == [7]  # type: ignore[index]
    segments = [path for path in tmp_path.glob("__transaction_state-*/*.log") if path.stat().st_size]
    printed = dumped(segments, "--transaction-log-decoder", "--print-data-log")
    states = [
        json.loads(line.partition(" payload: ")[2])["data"]["transactionStatus"]
        for line in printed
        if "payload" in line
    ]
    assert states == [0, 1, 2, 4]  # Empty, Ongoing, PrepareCommit, CompleteCommit


@contextmanager
def consumer(cluster: ThreadCluster, group: str, **more: str) -> Iterator[None]:
    """Run a member that has read and committed a record, until the end of the block."""
    given = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": group, "client.id": "a client"}
    member = Consumer(given | {"auto.offset.reset": "earliest", "enable.auto.commit": "false"} | more)
    try:
        member.subscribe(["t"])
        message = member.poll(10)
        assert message is not None
        assert message.error() is None
        member.commit(message, asynchronous=False)
        yield
    finally:
        member.close()


@contextmanager
def producer(cluster: ThreadCluster) -> Iterator[Producer]:
    sending = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "payments"})
    sending.init_transactions(10)
    yield sending
    sending.flush(10)


def offsets(folder: Path) -> list[tuple[dict[str, object], dict[str, object] | None]]:
    """Return keys and values of a partition of the offsets topic, as DumpLogSegments decodes them."""
    lines = dumped(files(folder, ".log"), "--offsets-decoder", "--print-data-log")
    results = []
    for line in lines:
        if line.startswith("| offset") and " key: " in line:  # not a transaction marker
            key, _, payload = line.partition(" key: ")[2].partition(" payload: ")
            results.append((json.loads(key), json.loads(payload) if payload.startswith("{") else None))
    return results
