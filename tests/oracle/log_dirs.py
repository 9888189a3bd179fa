"""Store log directories of real brokers, with the brokers' responses about their groups, in fixtures/log_dirs.

    log_dirs.py [NAME ...]        all of DIRS, or the named ones; each takes a minute

The members are clients of librdkafka. Requests that no Python client sends (share groups, Streams groups, commits that
expire) are sent as bytes. Only files about groups are stored: no indexes, which Kafka rebuilds, no log of the
controller, and no records of other topics.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kwire.json.objects import to_json
from kwire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.describe_groups import DescribeGroupsRequest
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_delete import OffsetDeleteRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

FIXTURES = Path(__file__).parents[2] / "fixtures" / "log_dirs"
PORT = 19292
TOPICS = {"orders": 4, "bills-2026-01": 2}  # a name with hyphens
LEFT_OUT = ("__cluster_metadata", "__share_group_state")
KEPT = ("*.log", "partition.metadata", "*-checkpoint", "meta.properties", ".kafka_cleanshutdown", "*.swap", "*.deleted")
SMALL = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "offsets.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "100",
    "log.initial.task.delay.ms": "100",
}
COMPACTED = {
    "offsets.topic.segment.bytes": "1048576",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.01",
}


@dataclass(frozen=True)
class Dir:
    release: str
    end: signal.Signals
    codec: int  # offsets.topic.compression.codec
    settings: Mapping[str, str] = field(default_factory=dict)
    many: int = 0  # number of successive commits, which compaction can remove


QUIET = {"log_level": 2}  # the broker ends before its clients, which would log this

DIRS = {
    "4.2.0-stopped": Dir("4.2.0", signal.SIGTERM, 0),
    "4.2.0-killed": Dir("4.2.0", signal.SIGKILL, 4),
    "4.2.0-compacted": Dir("4.2.0", signal.SIGTERM, 2, COMPACTED, 8_200),
    "3.9.1-stopped": Dir("3.9.1", signal.SIGTERM, 3),
    "3.9.1-killed": Dir("3.9.1", signal.SIGKILL, 1),
}


class Story:
    """The requests to one broker before it ends."""

    def __init__(self, address: str, dir_: Dir) -> None:
        self.address, self.dir = address, dir_
        host, port = address.split(":")
        self.connection = socket.create_connection((host, int(port)))
        self.living: list[Any] = []  # clients that are running when the broker ends

    def ask(self, request: object, version: int) -> Any:
        return kafka.exchange(self.connection, request, version)

    def play(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.address, **QUIET})
        for made in admin.create_topics([NewTopic(name, count) for name, count in TOPICS.items()]).values():
            made.result()
        producer = Producer({"bootstrap.servers": self.address, **QUIET})
        for n in range(40):
            producer.produce("orders", b"tea", partition=n % 4)
        producer.flush()
        self.members("c-stable", 1, **{"group.instance.id": "shelf-1"})
        self.members("c-stable", 2)
        self.members("c-empty", 1)
        self.leave()
        self.members("c-deleted", 1)
        self.leave()
        self.simple("s-simple", {("orders", 0): 5, ("bills-2026-01", 1): 2**40}, "café \N{TEACUP WITHOUT HANDLE}")
        self.simple("s-one-left", {("orders", 0): 1, ("orders", 1): 2})
        gone = OffsetDeleteRequest.Topic
        places = [gone.Partition(partition_index=1)]
        self.ask(OffsetDeleteRequest(group_id="s-one-left", topics=[gone(name="orders", partitions=places)]), 0)
        self.simple("s-deleted", {("orders", 0): 1})
        self.ask(DeleteGroupsRequest(groups_names=["s-deleted", "c-deleted"]), 2)
        self.simple("s-expired", {("orders", 0): 1}, retention_ms=1)
        self.simple("s-expires", {("orders", 0): 1}, retention_ms=365 * 86_400_000)
        self.transactions()
        if self.dir.release.startswith("4."):
            self.members("n-stable", 1, **{"group.protocol": "consumer", "group.instance.id": "shelf-1"})
            self.members("n-stable", 2, **{"group.protocol": "consumer"})
            self.members("n-empty", 1, **{"group.protocol": "consumer"})
            self.leave()
            share = ShareGroupHeartbeatRequest(
                group_id="h-share",
                member_id="AAAAAAAAAAAAAAAAAAAAAA",
                member_epoch=0,
                subscribed_topic_names=["orders"],
            )
            print("share:", self.ask(share, 1).error_code)
        for n in range(self.dir.many):
            self.simple("s-many", {("orders", n % 4): n})
        until = time.monotonic() + 30
        while self.committed(["s-expired"])["s-expired"] and time.monotonic() < until:
            time.sleep(0.2)
        time.sleep(5 if self.dir.many else 0.5)  # time for compaction

    def members(self, group: str, count: int, **settings: str) -> None:
        """Add ``count`` members that read orders, commit and remain in the group."""
        new = []
        for n in range(count):
            consumer = Consumer(
                {
                    "bootstrap.servers": self.address,
                    **QUIET,
                    "group.id": group,
                    "client.id": f"{group}-{n}",
                    "auto.offset.reset": "earliest",
                    "enable.auto.commit": False,
                    **settings,
                }
            )
            consumer.subscribe(["orders"])
            new.append((group, consumer))
        self.living += new
        mine = [consumer for name, consumer in self.living if name == group]
        until = time.monotonic() + 30
        quiet = 0
        while quiet < 20:  # until all members have partitions, which no longer change
            assert time.monotonic() < until, f"{group}: {[each.assignment() for each in mine]}"
            before = [sorted(each.assignment()) for each in mine]
            for each in mine:
                each.poll(0.05)
            after = [sorted(each.assignment()) for each in mine]
            even = sum(map(len, after)) == TOPICS["orders"] and all(after)
            quiet = quiet + 1 if even and before == after else 0
        for each in mine:
            wanted = [TopicPartition("orders", p.partition, p.partition + 1) for p in each.assignment()]
            each.commit(offsets=wanted, asynchronous=False)

    def leave(self) -> None:
        """Let all members of the last group leave."""
        last = self.living[-1][0]
        for group, consumer in self.living:
            if group == last:
                consumer.close()
        self.living = [each for each in self.living if each[0] != last]

    def simple(
        self, group: str, offsets: Mapping[tuple[str, int], int], metadata: str = "", *, retention_ms: int = -1
    ) -> None:
        kind = OffsetCommitRequest.Topic
        topics = [
            kind(
                name=topic,
                partitions=[
                    kind.Partition(partition_index=index, committed_offset=offset, committed_metadata=metadata)
                ],
            )
            for (topic, index), offset in offsets.items()
        ]
        expiring: dict[str, Any] = {"retention_time_ms": retention_ms} if retention_ms >= 0 else {}
        self.ask(
            OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, topics=topics, **expiring),
            2 if expiring else 8,
        )

    def transactions(self) -> None:
        for name in ("committed", "aborted", "open"):
            if name == "open" and self.dir.many:
                continue  # compaction stops at the first open transaction
            producer = self.transaction(f"t-{name}", 7)
            if name == "committed":
                producer.commit_transaction()
            elif name == "aborted":
                producer.abort_transaction()
            else:
                self.living.append((f"t-{name}", producer))
        self.simple("t-overtaken", {("orders", 0): 1})
        producer = self.transaction("t-overtaken", 7)
        self.simple("t-overtaken", {("orders", 0): 9})  # later in the log than 7, so it remains
        producer.commit_transaction()
        self.simple("t-waiting", {("orders", 0): 3})
        if self.dir.many:
            return
        self.living.append(("t-waiting", self.transaction("t-waiting", 7)))

    def transaction(self, group: str, offset: int) -> Producer:
        producer = Producer({"bootstrap.servers": self.address, **QUIET, "transactional.id": group})
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce("orders", b"milk", partition=0)
        producer.flush()
        reader = Consumer({"bootstrap.servers": self.address, **QUIET, "group.id": group})
        wanted = [TopicPartition("orders", 0, offset), TopicPartition("orders", 1, offset)]
        until = time.monotonic() + 20
        while True:
            try:
                producer.send_offsets_to_transaction(wanted, reader.consumer_group_metadata())
                return producer
            except KafkaException as error:
                if error.args[0].code() != KafkaError.COORDINATOR_NOT_AVAILABLE or time.monotonic() > until:
                    raise

    def committed(self, groups: list[str]) -> dict[str, Any]:
        """Return the committed offsets by group, without require_stable."""
        requested = [OffsetFetchRequest.Group(group_id=group, topics=None) for group in groups]
        answer = self.ask(OffsetFetchRequest(groups=requested, require_stable=False), 8)
        return {group["group_id"]: group["topics"] for group in to_json(answer, 8)["groups"]}

    def said(self) -> dict[str, Any]:
        """Return the broker's responses about its groups, in the JSON format of ``kwire decode``."""
        listed = to_json(self.ask(ListGroupsRequest(), 5), 5)["groups"]
        names = sorted(group["group_id"] for group in listed)
        new = [group["group_id"] for group in listed if group["group_type"] == "consumer"]
        old = [name for name in names if name not in new]
        described = to_json(self.ask(DescribeGroupsRequest(groups=old), 5), 5)["groups"]
        consumers: list[Any] = []
        if new:
            consumers = to_json(self.ask(ConsumerGroupDescribeRequest(group_ids=sorted(new)), 1), 1)["groups"]
        return {
            "ListGroups": sorted(listed, key=lambda group: str(group["group_id"])),
            "DescribeGroups": described,
            "ConsumerGroupDescribe": consumers,
            "OffsetFetch": self.committed(names),
        }


def keep(data: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    for pattern in KEPT:
        for path in sorted(data.rglob(pattern)):
            inside = path.relative_to(data)
            if inside.parts[0].startswith(LEFT_OUT) or (path.suffix == ".log" and inside.parts[0][0] != "_"):
                continue
            (target / inside).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / inside)


def make(name: str) -> None:
    dir_ = DIRS[name]
    settings = {**SMALL, **dir_.settings, "offsets.topic.compression.codec": str(dir_.codec)}
    with kafka.running(dir_.release, PORT, settings) as address:
        story = Story(address, dir_)
        story.play()
        facts = story.said()
        kafka.stop(PORT, dir_.end)
    run = kafka.FOLDER / f"run-{PORT}"
    keep(run / "data", FIXTURES / name / "data")
    (FIXTURES / name / "said.json").write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--one":
        make(sys.argv[2])
        sys.stdout.flush()
        os._exit(0)  # members without a broker would wait for it when they are closed
    for name in sys.argv[1:] or DIRS:
        if status := os.spawnv(os.P_WAIT, sys.executable, [sys.executable, __file__, "--one", name]):
            sys.exit(status)
        print(name)
