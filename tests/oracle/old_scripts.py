"""Conversations with Kafka 3.9 in versions that 4.0 removed, such as message sets, which record.py records."""

from __future__ import annotations

import gzip
import zlib
from typing import Any

from consumer import create
from fetch_scripts import WRITTEN_AT
from prober import Prober
from script import OLD, script
from transaction_scripts import begin

from kwire.messages.create_topics import CreateTopicsRequest
from kwire.messages.delete_topics import DeleteTopicsRequest
from kwire.messages.describe_configs import DescribeConfigsRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.list_offsets import ListOffsetsRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kwire.messages.produce import ProduceRequest
from kwire.messages.write_txn_markers import WriteTxnMarkersRequest
from kwire.records import Record, build_batch, build_message_set
from kwire.records.compression import GZIP, LZ4, NAMES, NONE, SNAPPY, ZSTD

FOR_EVER = str(2**63 - 1)
ONLY_OLD = (OLD,)
FAR = 2**60  # a timestamp in the far future
KEYED = [
    Record(timestamp=WRITTEN_AT + 5, key=b"k1", value=b"v1"),
    Record(timestamp=WRITTEN_AT, key=None, value=b"v2" * 20),
    Record(timestamp=WRITTEN_AT + 9, key=b"k3", value=None),
]
TEXT = [Record(timestamp=WRITTEN_AT + n, key=b"key", value=b"the same text again and again" * 4) for n in range(4)]


async def topic_of(p: Prober) -> str:
    """Create a topic without retention, because the leader would delete the old records; return its name."""
    await create(p, f"t-{p.scenario}", 1, segment_ms=FOR_EVER, retention_ms="-1")
    await p.wait(500, "until the leader is known")
    return f"t-{p.scenario}"


async def produce(
    p: Prober, topic: str, records: bytes | None, version: int, partition: int = 0, **changes: Any
) -> Any:
    data = ProduceRequest.Topic.Partition(index=partition, records=records)
    fields: dict[str, Any] = {
        "acks": 1,
        "timeout_ms": 5000,
        "topic_data": [ProduceRequest.Topic(name=topic, partition_data=[data])],
    }
    return await p.ask("P", ProduceRequest(**fields | changes), version)


async def fetch(
    p: Prober, topic: str, version: int, offset: int = 0, most: int = 1 << 20, partition: int = 0, **changes: Any
) -> Any:
    wanted = FetchRequest.Topic.Partition(partition=partition, fetch_offset=offset, partition_max_bytes=most)
    fields: dict[str, Any] = {
        "max_wait_ms": 0,
        "min_bytes": 0,
        "topics": [FetchRequest.Topic(topic=topic, partitions=[wanted])],
    }
    return await p.ask("F", FetchRequest(**fields | changes), version)


@script(releases=ONLY_OLD)
async def old_produce(p: Prober) -> None:
    """Produce v0-2 of message sets with magic 0 and 1 in every compression codec; the broker stores them as record
    batches."""
    topic = await topic_of(p)
    for version in (0, 1, 2):
        for magic in (0, 1):
            for codec in (NONE, GZIP, SNAPPY, LZ4):
                p.note(f"magic {magic}, {NAMES[codec]}")
                await produce(p, topic, build_message_set(KEYED, magic=magic, codec=codec), version)
    for offset in range(0, 72, 3):
        await fetch(p, topic, 11, offset, most=1)
    wanted = ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=WRITTEN_AT + 5)
    listed = ListOffsetsRequest.Topic(name=topic, partitions=[wanted])
    await p.ask("F", ListOffsetsRequest(replica_id=-1, topics=[listed]), 1)


@script(releases=ONLY_OLD)
async def old_produce_odd(p: Prober) -> None:
    """Unusual message sets that Produce v0-2 refuses or accepts."""
    topic = await topic_of(p)
    plain = build_message_set(KEYED)
    zipped = build_message_set(KEYED, codec=GZIP)
    batch = build_batch(KEYED)
    odd = {
        "empty": b"",
        "offsets of its own": build_message_set(KEYED, base_offset=70),
        "offsets of its own, gzip": build_message_set(KEYED, base_offset=70, codec=GZIP),
        "offsets of its own, magic 0, gzip": build_message_set(KEYED, base_offset=70, codec=GZIP, magic=0),
        "two wrappers": zipped + zipped,
        "a wrapper and a message": zipped + build_message_set(KEYED[:1]),
        "a message and a wrapper": build_message_set(KEYED[:1]) + zipped,
        "both magics": build_message_set(KEYED, magic=0) + plain,
        "cut short": plain[:-3],
        "cut to nothing": plain[:20],
        "wrong checksum": plain[:-1] + b"!",
        "a wrong checksum behind a good message": build_message_set(KEYED[:1]) + plain[:-1] + b"!",
        "log append time": build_message_set(KEYED, log_append_time=WRITTEN_AT),
        "no timestamp": build_message_set([Record(timestamp=-1, value=b"v")]),
        "from the future": build_message_set([Record(timestamp=2**61, value=b"v")]),
        "a batch": batch,
        "a batch, gzip": build_batch(KEYED, codec=GZIP),
        "a batch, zstd": build_batch(KEYED, codec=ZSTD),
        "two batches": batch + batch,
        "a batch and messages": batch + plain,
        "garbage": b"\x01" * 40,
        "a size of nothing": bytes(40),
        "a wrapper of nothing": wrapper(b""),
        "a wrapper of garbage": wrapper(b"\x01" * 40),
        "a wrapper in a wrapper": wrapper(zipped),
        "the codec of zstd": flagged(plain, ZSTD),
    }
    for what, records in odd.items():
        p.note(what)
        await produce(p, topic, records, 2)
    await fetch(p, topic, 11, 0)
    for version in (3, 7, 9):
        await produce(p, topic, plain, version)
    await produce(p, "not-there", plain, 2, partition=9)
    await produce(p, topic, plain, 2, partition=9)
    await produce(p, topic, plain, 2, acks=5)


def message(body: bytes, attributes: int = 0) -> bytes:
    """Return a message of magic 1 with a value."""
    return flagged(build_message_set([Record(timestamp=WRITTEN_AT, value=body)]), attributes)


def flagged(data: bytes, attributes: int) -> bytes:
    """Return the first message of a set with other attributes and a matching checksum."""
    size = 12 + int.from_bytes(data[8:12], "big")
    tail = data[16:17] + bytes([attributes]) + data[18:size]
    return data[:12] + zlib.crc32(tail).to_bytes(4, "big") + tail + data[size:]


def wrapper(inside: bytes) -> bytes:
    return message(gzip.compress(inside, mtime=0), GZIP)


@script(releases=ONLY_OLD)
async def old_fetch(p: Prober) -> None:
    """Fetch v0-3 returns record batches of every compression codec as message sets; record headers are lost."""
    topic = await topic_of(p)
    headed = [Record(timestamp=WRITTEN_AT, key=b"k", value=b"v", headers=[("h", b"1")])]
    for codec in (NONE, GZIP, SNAPPY, LZ4):
        await produce(p, topic, build_batch(KEYED, codec=codec), 7)
    await produce(p, topic, build_batch(headed), 7)
    for version in (0, 1, 2, 3):
        for offset in (0, 1, 3, 4, 6, 9, 12, 13):
            await fetch(p, topic, version, offset)
        for offset in (1, 4):
            await fetch(p, topic, version, offset, most=1)
        await fetch(p, topic, version, 4, most=150)
        await fetch(p, topic, version, 14)
        await fetch(p, topic, version, partition=9)
    await fetch(p, topic, 3, most=1 << 20, max_bytes=1)
    for version in (0, 3):
        held = await p.send("F", waiting(topic), version)
        await p.silent(held)
        await produce(p, topic, build_batch(headed), 7)
        await p.answer(held)
    await produce(p, topic, build_message_set(TEXT, codec=GZIP), 2)
    await produce(p, topic, build_message_set(TEXT, codec=LZ4, magic=0), 2)
    for version in (0, 2, 4):
        for offset in (15, 17, 19, 21):
            await fetch(p, topic, version, offset)


def waiting(topic: str) -> FetchRequest:
    wanted = FetchRequest.Topic.Partition(partition=0, fetch_offset=13, partition_max_bytes=1 << 20)
    topics = [FetchRequest.Topic(topic=topic, partitions=[wanted])]
    return FetchRequest(max_wait_ms=5000, min_bytes=200, topics=topics)


@script(releases=ONLY_OLD)
async def old_fetch_zstd(p: Prober) -> None:
    """Fetch of zstd batches in versions that do not support zstd, and in version 10."""
    topic = await topic_of(p)
    await produce(p, topic, build_batch(KEYED), 7)
    await produce(p, topic, build_batch(KEYED, codec=ZSTD), 7)
    await produce(p, topic, build_batch(KEYED), 7)
    for version in (0, 3, 4, 9, 10):
        for offset in (0, 3, 6):
            await fetch(p, topic, version, offset)


@script(releases=ONLY_OLD)
async def old_fetch_of_transactions(p: Prober) -> None:
    """Fetch v0-3 of a log with transactions returns aborted records, but no markers."""
    a, topic = await begin(p)
    for committed in (True, False, True):
        await a.add((topic, [0]))
        await a.produce(topic, 0, b"a", b"b", version=7)
        await a.end(committed)
    await a.add((topic, [0]))
    await a.produce(topic, 0, b"open", version=7)
    for version in (0, 3):
        for offset in (0, 1, 3, 4, 6, 7, 9):  # Kafka 3.9 returns all records after a marker twice
            await fetch(p, topic, version, offset)
    await a.end(True)
    await fetch(p, topic, 3, 9)
    await fetch(p, topic, 3, 10)


@script(releases=ONLY_OLD)
async def old_offsets(p: Prober) -> None:
    """ListOffsets v0, and OffsetForLeaderEpoch v0 and v1."""
    topic = await topic_of(p)

    async def ask(timestamp: int, most: int = 1, partition: int = 0) -> None:
        wanted = ListOffsetsRequest.Topic.Partition(
            partition_index=partition, timestamp=timestamp, max_num_offsets=most
        )
        requested = ListOffsetsRequest.Topic(name=topic, partitions=[wanted])
        await p.ask("F", ListOffsetsRequest(replica_id=-1, topics=[requested]), 0)

    for records in (None, build_batch(KEYED)):
        if records:
            await produce(p, topic, records, 7)
        for timestamp in (-1, -2, 0, FAR):
            for most in (1, 2, 9):
                await ask(timestamp, most)
    await ask(-1, 0)
    await ask(-3)
    await ask(-1, partition=9)
    for version in (0, 1):
        for epoch in (-1, 0, 1):
            where = OffsetForLeaderEpochRequest.Topic.Partition(partition=0, leader_epoch=epoch)
            nowhere = OffsetForLeaderEpochRequest.Topic.Partition(partition=9, leader_epoch=epoch)
            requested = OffsetForLeaderEpochRequest.Topic(topic=topic, partitions=[where, nowhere])
            await p.ask("F", OffsetForLeaderEpochRequest(topics=[requested]), version)


@script(releases=ONLY_OLD)
async def old_commits(p: Prober) -> None:
    """OffsetCommit v0 and v1, and OffsetFetch v0."""
    for version in (0, 1, 2):
        one = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=version, committed_metadata="m")
        two = OffsetCommitRequest.Topic.Partition(partition_index=99, committed_offset=5)
        topics = [OffsetCommitRequest.Topic(name="probe", partitions=[one, two])]
        topics.append(OffsetCommitRequest.Topic(name="not-there", partitions=[one]))
        await p.ask("A", OffsetCommitRequest(group_id=p.group, topics=topics), version)
        for other in (0, 1):
            wanted = [OffsetFetchRequest.Topic(name="probe", partition_indexes=[0, 1, 99])]
            await p.ask("A", OffsetFetchRequest(group_id=p.group, topics=wanted), other)
    await p.ask("A", OffsetCommitRequest(group_id=p.group, topics=[]), 1)
    await p.ask("A", OffsetFetchRequest(group_id=p.group, topics=[]), 0)
    await p.ask("A", OffsetCommitRequest(group_id="", topics=topics), 1)
    await p.ask(
        "A", OffsetCommitRequest(group_id=p.group, generation_id_or_member_epoch=3, member_id="m", topics=topics), 1
    )


@script(releases=ONLY_OLD)
async def old_admin(p: Prober) -> None:
    """CreateTopics v0 and v1, DeleteTopics v0, and DescribeConfigs v0."""
    for version in (0, 1, 2):
        name = f"t-{p.scenario}-{version}"
        good = CreateTopicsRequest.Topic(name=name, num_partitions=2, replication_factor=1)
        bad = CreateTopicsRequest.Topic(name=f"{name}-bad", num_partitions=0, replication_factor=1)
        default = CreateTopicsRequest.Topic(name=f"{name}-default", num_partitions=-1, replication_factor=-1)
        more = [good, bad, default, CreateTopicsRequest.Topic(name="probe", num_partitions=1, replication_factor=1)]
        await p.ask("P", CreateTopicsRequest(topics=more, timeout_ms=5000), version)
        await p.wait(300)
        resource = DescribeConfigsRequest.Resource(
            resource_type=2, resource_name=name, configuration_keys=["retention.ms", "cleanup.policy"]
        )
        nobody = DescribeConfigsRequest.Resource(resource_type=2, resource_name="not-there", configuration_keys=None)
        await p.ask("P", DescribeConfigsRequest(resources=[resource, nobody]), min(version, 1))
        await p.ask("P", DeleteTopicsRequest(topic_names=[name, "not-there"], timeout_ms=5000), min(version, 1))


@script(releases=ONLY_OLD)
async def old_markers(p: Prober) -> None:
    """WriteTxnMarkers v0 for a partition of the transaction and for a missing one."""
    a, topic = await begin(p)
    await a.add((topic, [0]))
    await a.produce(topic, 0, b"a", version=7)
    where = WriteTxnMarkersRequest.Marker.Topic(name=topic, partition_indexes=[0, 9])
    marker = WriteTxnMarkersRequest.Marker(
        producer_id=a.producer_id, producer_epoch=a.epoch, transaction_result=True, topics=[where]
    )
    await p.ask("B", WriteTxnMarkersRequest(markers=[marker]), 0)
    await fetch(p, topic, 11, isolation_level=1)
