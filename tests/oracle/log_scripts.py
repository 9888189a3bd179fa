"""Conversations about segments, retention and compaction, which record.py records; each function is one conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prober import Prober
from script import NEW, script
from topic_scripts import FAR_OFF, LONG_AGO, SET, TOPIC, fetch, make, send, topic
from transaction_scripts import begin

from kwire.messages.delete_records import DeleteRecordsRequest
from kwire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kwire.messages.list_offsets import ListOffsetsRequest
from kwire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kwire.records import Record
from kwire.records.compression import GZIP, LZ4, SNAPPY, ZSTD

OFTEN = {"log.retention.check.interval.ms": 50, "log.initial.task.delay.ms": 50, "log.cleaner.backoff.ms": 50}
CHECKED_AFTER = 700  # milliseconds, in which retention is checked several times
STEP = 10_000  # milliseconds between records that are in different segments
ANY_TIME = ("message.timestamp.after.max.ms", "9223372036854775807")
SMALL = (("segment.ms", "1000"), ANY_TIME)
COMPACT = (("cleanup.policy", "compact"), ("min.cleanable.dirty.ratio", "0.01"), *SMALL)
EARLIEST, LATEST, LARGEST = -2, -1, -3


def at(step: int, key: bytes | None = None, value: bytes | None = b"v", **more: Any) -> Record:
    return Record(timestamp=LONG_AGO + step * STEP, key=key, value=value, **more)


async def made(p: Prober, topics: Mapping[str, Sequence[tuple[str, str]]]) -> dict[str, str]:
    """Create topics with one partition in one request; return their names by suffix."""
    names = {suffix: f"{p.scenario}-{suffix}" for suffix in topics}
    await make(p, *(topic(names[suffix], given) for suffix, given in topics.items()), version=4)
    await p.wait(600, "until the leaders are known")
    return names


async def offsets(p: Prober, name: str, *more: int) -> None:
    for timestamp in (EARLIEST, LATEST, LARGEST, *more):
        place = ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=timestamp)
        request = ListOffsetsRequest(topics=[ListOffsetsRequest.Topic(name=name, partitions=[place])])
        await p.ask("A", request, 7)


async def ends(p: Prober, name: str, *epochs: int) -> None:
    for epoch in epochs:
        place = OffsetForLeaderEpochRequest.Topic.Partition(partition=0, leader_epoch=epoch)
        topics = [OffsetForLeaderEpochRequest.Topic(topic=name, partitions=[place])]
        await p.ask("A", OffsetForLeaderEpochRequest(replica_id=-1, topics=topics), 4)


async def delete_before(p: Prober, name: str, offset: int) -> None:
    place = DeleteRecordsRequest.Topic.Partition(partition_index=0, offset=offset)
    topics = [DeleteRecordsRequest.Topic(name=name, partitions=[place])]
    await p.ask("A", DeleteRecordsRequest(topics=topics, timeout_ms=5000), 2)


async def looked_at(p: Prober, name: str, starts: Sequence[int] = (0,)) -> None:
    await offsets(p, name, LONG_AGO + STEP)
    for start in starts:
        await fetch(p, name, start)


async def send_quietly(p: Prober, name: str, *records: Record) -> None:
    """Produce with a version whose response has no log start offset, because retention may advance it at any time."""
    await send(p, name, *records, version=4)


async def altered(p: Prober, name: str, *given: tuple[str, str]) -> None:
    kind = IncrementalAlterConfigsRequest.Resource
    configs = [kind.Config(name=key, config_operation=SET, value=value) for key, value in given]
    resource = kind(resource_type=TOPIC, resource_name=name, configs=configs)
    await p.ask("A", IncrementalAlterConfigsRequest(resources=[resource]), 1)


@script(OFTEN, releases=(NEW,))
async def retention_by_time(p: Prober) -> None:
    """retention.ms: old segments are deleted in order; the active segment only if no other remains."""
    policies = (("delete", "60000"), ("both", "60000"), ("forever", "-1"), ("zero", "0"))
    given = {
        name: [
            ("retention.ms", retention),
            ("cleanup.policy", "compact,delete" if name == "both" else "delete"),
            *SMALL,
        ]
        for name, retention in (*policies, ("every", "60000"), ("reverse", "60000"))
    }
    names = await made(p, given)
    for policy, _ in policies:
        for step in range(3):
            await send_quietly(p, names[policy], at(step, b"k%d" % step))
        await send_quietly(p, names[policy], Record(timestamp=FAR_OFF, key=b"new", value=b"v"))
    for step in range(3):
        await send_quietly(p, names["every"], at(step, b"k%d" % step))
    reverse = names["reverse"]
    await send_quietly(p, reverse, Record(timestamp=LONG_AGO, value=b"v"), Record(timestamp=FAR_OFF, value=b"v"))
    await send_quietly(p, reverse, at(0))
    await send_quietly(p, reverse, at(1))
    await p.wait(CHECKED_AFTER)
    for name in names.values():
        await looked_at(p, name, (0, 2, 3, 4))
        await ends(p, name, 0)
    await send_quietly(p, names["every"], at(5, b"again"), Record(timestamp=FAR_OFF, key=b"new", value=b"v"))
    await p.wait(CHECKED_AFTER)
    await looked_at(p, names["every"], (3,))


@script(OFTEN, releases=(NEW,))
async def retention_by_size(p: Prober) -> None:
    """retention.bytes: segments are deleted as long as the log does not get smaller than that."""
    sizes = (-1, 0, 1_069, 2_136, 2_137, 3_000, 5_340, 5_341)
    given = {f"{size}": [("retention.bytes", str(size)), ("retention.ms", "-1"), *SMALL] for size in sizes}
    for policy in ("compact", "compact,delete"):
        lag = ("min.compaction.lag.ms", "9000000000000")
        given[policy.replace(",", "-")] = [
            ("cleanup.policy", policy),
            ("retention.bytes", "1500"),
            ("retention.ms", "-1"),
            lag,
            *SMALL,
        ]
    names = await made(p, given)
    for name in names.values():
        for step in range(5):
            await send_quietly(p, name, at(step, b"k", bytes(1_000)))
    await p.wait(CHECKED_AFTER)
    for name in names.values():
        await offsets(p, name)


@script(OFTEN, releases=(NEW,))
async def retention_without_a_policy(p: Prober) -> None:
    """With an empty cleanup.policy, neither retention nor compaction removes records."""
    given = [("cleanup.policy", ""), ("retention.ms", "1"), ("retention.bytes", "1"), *SMALL]
    (name,) = (await made(p, {"none": given})).values()
    for step in range(4):
        await send_quietly(p, name, at(step, b"k"))
    await p.wait(CHECKED_AFTER)
    await looked_at(p, name)


@script(OFTEN, releases=(NEW,))
async def segments_roll(p: Prober) -> None:
    """Retention shows where segments begin, by segment.ms and the largest timestamps of batches."""
    times = {
        "equal": (0, 1_000, 1_001),
        "more": (0, 1_001, 1_002, 2_002, 2_003),
        "back": (5_000, 0, 6_000, 6_001, 1_000),
    }
    given = [("retention.bytes", "100"), ("retention.ms", "-1"), *SMALL]
    names = await made(p, dict.fromkeys(times, given))
    for suffix, name in names.items():
        for time in times[suffix]:
            await send_quietly(p, name, Record(timestamp=LONG_AGO + time, value=b"v"))
        await send_quietly(
            p, name, Record(timestamp=LONG_AGO, value=b"v"), Record(timestamp=LONG_AGO + 9_000, value=b"v")
        )
    await p.wait(CHECKED_AFTER)
    for name in names.values():
        await offsets(p, name)


@script(OFTEN, releases=(NEW,))
async def leader_epochs_after_deletion(p: Prober) -> None:
    """OffsetForLeaderEpoch after DeleteRecords has advanced the log start offset."""
    (name,) = (await made(p, {"deleted": [("retention.ms", "-1")]})).values()
    for _ in range(3):
        await send(p, name, Record(timestamp=LONG_AGO, value=b"v"))
    for before in (1, -1):
        await delete_before(p, name, before)
        await ends(p, name, 0, 1)


@script(OFTEN, releases=(NEW,))
async def compaction_of_keys(p: Prober) -> None:
    """cleanup.policy=compact retains the latest record of each key at its offset; the active segment is not
    compacted."""
    (name,) = (await made(p, {"keys": COMPACT})).values()
    await send(p, name, at(0, b"a", b"1"), at(0, b"b", b"1", headers=[("h", b"1")]), at(0, b"c", b"1"))
    await send(p, name, at(1, b"a", b"2"), at(1, b"c", b"2"))
    await send(p, name, at(2, b"c", b"3"), at(2, b"d", b"1"))
    await send(p, name, at(3, b"a", b"3"), at(3, b"d", b"2"))
    await p.wait(CHECKED_AFTER)
    await looked_at(p, name)
    await send(p, name, at(4, b"c", b"4"))
    await p.wait(CHECKED_AFTER)
    await looked_at(p, name, (0, 1, 2, 4, 7, 9))


@script(OFTEN, releases=(NEW,))
async def compaction_of_codecs(p: Prober) -> None:
    """Compaction of compressed batches."""
    (name,) = (await made(p, {"codecs": COMPACT})).values()
    for step, codec in enumerate((GZIP, SNAPPY, LZ4, ZSTD)):
        await send(p, name, at(step, b"k", b"1"), at(step, b"k%d" % step, b"2"), codec=codec)
    await send(p, name, at(5, b"k", b"3"))
    await p.wait(CHECKED_AFTER)
    await looked_at(p, name)


@script(OFTEN, releases=(NEW,))
async def compaction_of_tombstones(p: Prober) -> None:
    """Tombstones remain for delete.retention.ms after the first compaction; then a compaction removes them."""
    retentions = {"soon": "0", "late": "86400000"}
    names = await made(p, {name: [("delete.retention.ms", ms), *COMPACT] for name, ms in retentions.items()})
    for name in names.values():
        await send(p, name, at(0, b"a", b"1"), at(0, b"b", b"1"))
        await send(p, name, at(1, b"a", None), at(1, b"c", b"1"))
    for step in range(2, 5):
        for name in names.values():
            await send(p, name, at(step, b"k%d" % step, b"1"))
        await p.wait(CHECKED_AFTER)
        for name in names.values():
            await looked_at(p, name)


@script(OFTEN, releases=(NEW,))
async def compaction_without_keys(p: Prober) -> None:
    """Compaction of a topic that was not compacted before: records without a key are removed."""
    (name,) = (await made(p, {"none": [("retention.ms", "-1"), *SMALL]})).values()
    await send(p, name, at(0, b"a", b"1"), at(0, None, b"1"))
    await send(p, name, at(1, None, b"1"))
    await send(p, name, at(2, b"a", b"1"))
    await send(p, name, at(3, b"b", b"1"))
    await altered(p, name, ("cleanup.policy", "compact"), ("min.cleanable.dirty.ratio", "0.01"))
    await p.wait(CHECKED_AFTER)
    await looked_at(p, name)


@script(OFTEN, releases=(NEW,))
async def compaction_by_ratio_and_lag(p: Prober) -> None:
    """When a log is compacted: min.cleanable.dirty.ratio, min.compaction.lag.ms and max.compaction.lag.ms."""
    common = (("cleanup.policy", "compact"), *SMALL)
    kinds = {
        "ratio-1": [("min.cleanable.dirty.ratio", "1.0")],
        "ratio-0": [("min.cleanable.dirty.ratio", "0.0")],
        "overdue": [("min.cleanable.dirty.ratio", "1.0"), ("max.compaction.lag.ms", "1000")],
        "lag": [("min.cleanable.dirty.ratio", "0.0"), ("min.compaction.lag.ms", "9000000000000")],
    }
    names = await made(p, {name: [*more, *common] for name, more in kinds.items()})
    for name in names.values():
        for step in range(4):
            await send(p, name, at(step, b"k", b"%d" % step))
    await p.wait(CHECKED_AFTER)
    for name in names.values():
        await looked_at(p, name)


@script(OFTEN, releases=(NEW,))
async def compaction_of_producers(p: Prober) -> None:
    """Compaction retains the last batch of a producer, and the last one compacted, without their records."""
    (name,) = (await made(p, {"producers": COMPACT})).values()
    for number in range(3):
        producer = {"producer_id": 77, "producer_epoch": 0, "base_sequence": number}
        await send(p, name, at(number, b"k", b"%d" % number), **producer)
    await send(p, name, at(4, b"k", b"x"))
    await send(p, name, at(5, b"k", b"y"))
    await send(p, name, at(6, b"z", b"y"))
    await p.wait(CHECKED_AFTER)
    await looked_at(p, name)
    await send(p, name, at(7, b"k", b"3"), producer_id=77, producer_epoch=0, base_sequence=3)
    await send(p, name, at(8, b"k", b"4"), producer_id=77, producer_epoch=0, base_sequence=5)
    await send(p, name, at(9, b"z", b"y"))
    await p.wait(CHECKED_AFTER)
    await looked_at(p, name)


@script(OFTEN, releases=(NEW,))
async def compaction_of_transactions(p: Prober) -> None:
    """Compaction of transactions removes aborted records first and their markers later; an open transaction is not
    compacted."""
    producer, _ = await begin(p)
    (name,) = (await made(p, {"txn": [("delete.retention.ms", "0"), *COMPACT]})).values()
    for step, (value, committed) in enumerate(((b"1", True), (b"2", False), (b"3", True), (b"4", False))):
        await producer.add((name, [0]))
        await producer.produce_records(name, at(step, b"k", value), at(step, b"k%d" % step, value))
        await producer.end(committed)
    for step in range(4):
        await send(p, name, Record(timestamp=FAR_OFF + step * STEP, key=b"y", value=b"v"))
        await p.wait(CHECKED_AFTER)
        await fetch(p, name)
        await fetch(p, name, 0, isolation_level=1)
    await producer.add((name, [0]))
    await producer.produce_records(name, Record(timestamp=FAR_OFF + 6 * STEP, key=b"k0", value=b"open"))
    await send(p, name, Record(timestamp=FAR_OFF + 7 * STEP, key=b"k0", value=b"other"))
    await send(p, name, Record(timestamp=FAR_OFF + 8 * STEP, key=b"z", value=b"v"))
    await p.wait(CHECKED_AFTER)
    await fetch(p, name)


@script(releases=(NEW,))
async def compression_types(p: Prober) -> None:
    """compression.type: the broker stores batches with this codec, whatever codec the producer used; also with a limit
    by max.message.bytes."""
    types = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
    forever = ("retention.ms", "-1")
    given: dict[str, list[tuple[str, str]]] = {name: [("compression.type", name), forever] for name in types}
    levels = {"gzip": "9", "lz4": "17", "zstd": "22"}
    for name, level in levels.items():
        given[f"{name}-{level}"] = [("compression.type", name), (f"compression.{name}.level", level), forever]
    given["small"] = [("compression.type", "uncompressed"), ("max.message.bytes", "300"), forever]
    given["shrunk"] = [("compression.type", "gzip"), ("max.message.bytes", "300"), forever]
    given["stamped"] = [("compression.type", "gzip"), ("message.timestamp.type", "CreateTime"), forever]
    names = await made(p, given)
    for name in names.values():
        for codec in (0, GZIP, SNAPPY, LZ4, ZSTD):
            await send(p, name, at(0, b"k", bytes(150)), at(-1, None, b"v", headers=[("h", b"1")]), codec=codec)
        await send(p, name, at(1, b"k", bytes(400)), codec=0)
        await send(p, name, at(1, b"k", bytes(400)), codec=GZIP)
        await send(p, name, at(2, b"k", b"v"), log_append_time=LONG_AGO, codec=ZSTD)
        await send(p, name, at(2, b"k", b"v"), producer_id=78, producer_epoch=0, base_sequence=0, codec=LZ4)
        await fetch(p, name)
        await offsets(p, name, LONG_AGO + 1)
