"""Conversations about followers, which record.py records: broker 1 leads some partitions and follows others."""

from __future__ import annotations

from typing import Any

from log_scripts import at
from prober import Prober
from reassignment_scripts import create
from script import NEW, script
from topic_scripts import send

from kwire.messages.describe_producers import DescribeProducersRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.list_offsets import ListOffsetsRequest
from kwire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest

RACKS = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "broker.rack": "a,b",
}


async def fetch(
    p: Prober, topic: str, rack: str = "", *, offset: int = 0, epoch: int = -1, version: int = 11, **more: Any
) -> Any:
    place = FetchRequest.Topic.Partition(
        partition=0, fetch_offset=offset, current_leader_epoch=epoch, partition_max_bytes=1 << 20
    )
    topics = [FetchRequest.Topic(topic=topic, partitions=[place])]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=topics, rack_id=rack, **more)
    return await p.ask("A", request, version)


@script(RACKS, (NEW,), brokers=2)
async def fetch_from_followers(p: Prober) -> None:
    """The replica that serves consumers, by rack and version (KIP-392), and the responses of a follower to other
    requests."""
    led, followed, foreign = (f"t-{p.scenario}-{name}" for name in ("led", "followed", "foreign"))
    await create(p, led, [1, 2])
    await create(p, followed, [2, 1])
    await create(p, foreign, [2])
    await send(p, led, at(0), at(1))
    await p.wait(2_000, "until the follower has fetched")
    for rack in ("", "a", "b", "c"):
        for offset in (0, 2, 5):
            await fetch(p, led, rack, offset=offset)
    await fetch(p, led, "b", version=12)
    await fetch(p, led, "b", epoch=3)
    for name in (followed, foreign):
        for version in (4, 10, 11, 12):
            await fetch(p, name, version=version)
        for epoch in (0, 3):
            await fetch(p, name, epoch=epoch)
        await fetch(p, name, "b")
        await fetch(p, name, offset=7)
        where = ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=-1)
        await p.ask("A", ListOffsetsRequest(topics=[ListOffsetsRequest.Topic(name=name, partitions=[where])]), 7)
        epochs = OffsetForLeaderEpochRequest.Topic.Partition(partition=0, leader_epoch=0)
        of = OffsetForLeaderEpochRequest.Topic(topic=name, partitions=[epochs])
        await p.ask("A", OffsetForLeaderEpochRequest(replica_id=-1, topics=[of]), 4)
        producers = DescribeProducersRequest.Topic(name=name, partition_indexes=[0])
        await p.ask("A", DescribeProducersRequest(topics=[producers]), 0)
