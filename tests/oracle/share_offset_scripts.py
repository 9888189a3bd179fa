"""Conversations about the offsets of share groups (KIP-932), which record.py records; each function is one conversation."""

from __future__ import annotations

from consumer import Consumer, create, drop
from prober import Prober
from share_members import SETTLED, Sharer, look, share_script
from share_partition_scripts import ACCEPT, values
from share_partition_scripts import Sharer as Fetcher

from kwire.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from kwire.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequest


async def described(p: Prober, *groups: str, topics: dict[str, list[int]] | None = None, version: int = 1) -> None:
    """Send DescribeShareGroupOffsets for some partitions, or for all."""
    kind = DescribeShareGroupOffsetsRequest.Group
    requested = None if topics is None else [kind.Topic(topic_name=name, partitions=n) for name, n in topics.items()]
    request = DescribeShareGroupOffsetsRequest(
        groups=[kind(group_id=group, topics=requested) for group in groups or [p.group]]
    )
    await p.ask("O", request, version)


async def altered(p: Prober, offsets: dict[str, dict[int, int]], group: str | None = None) -> None:
    kind = AlterShareGroupOffsetsRequest.Topic
    topics = [
        kind(
            topic_name=name,
            partitions=[kind.Partition(partition_index=index, start_offset=offset) for index, offset in starts.items()],
        )
        for name, starts in offsets.items()
    ]
    await p.ask("O", AlterShareGroupOffsetsRequest(group_id=p.group if group is None else group, topics=topics), 0)
    await p.wait(200)


async def deleted(p: Prober, *topics: str, group: str | None = None) -> None:
    kind = DeleteShareGroupOffsetsRequest.Topic
    requested = [kind(topic_name=name) for name in topics]
    await p.ask("O", DeleteShareGroupOffsetsRequest(group_id=p.group if group is None else group, topics=requested), 0)
    await p.wait(200)


@share_script()
async def share_offsets_described(p: Prober) -> None:
    """DescribeShareGroupOffsets of a missing group, of initialized partitions, and after records were acknowledged."""
    topic = f"{p.group}-t"
    await create(p, topic, 2)
    await described(p, "none", "")
    await described(p, "none", topics={topic: [0], "nowhere": [0, 1]})
    a = Sharer(p=p, conn="A", names=[topic])
    await a.enter()
    await described(p)
    await described(p, version=0)
    await described(p, topics={topic: [1, 0], "nowhere": [0]})
    await described(p, topics={})
    fetcher = Fetcher(p=p, topic=topic, name=a.member_id, conn="F")
    await fetcher.fetch(0)
    await p.wait(SETTLED)
    await values(p, topic, 1, 1, 1)
    await described(p)
    await fetcher.fetch(0)
    await fetcher.acknowledge((0, 1, [ACCEPT]))
    await described(p)
    await fetcher.acknowledge((2, 2, [ACCEPT]))
    await described(p)
    await described(p, p.group, p.group, "none", topics={topic: [0]})


@share_script()
async def share_offsets_altered(p: Prober) -> None:
    """AlterShareGroupOffsets creates the group or requires it to be empty, and sets its start offsets."""
    topic = f"{p.group}-t"
    await create(p, topic, 2)
    await values(p, topic, 1, 1, 1, 1)
    await altered(p, {topic: {0: 1}}, group="")
    await altered(p, {topic: {0: 2, 1: 0, 5: 1}, "nowhere": {0: 1, 3: 0}})
    await described(p)
    await look(p)
    a = Sharer(p=p, conn="A", names=[topic])
    await a.join()
    await a.beat()
    await look(p)
    fetcher = Fetcher(p=p, topic=topic, name=a.member_id, conn="F")
    await fetcher.fetch(0)
    await p.wait(SETTLED)
    await fetcher.fetch(0)
    await altered(p, {topic: {0: 1}})
    await a.leave()
    await altered(p, {topic: {0: 9}})
    await altered(p, {topic: {0: -1}})
    await described(p)
    await altered(p, {})
    await altered(p, {"nowhere": {0: 1}}, group=f"{p.group}-2")
    await look(p, f"{p.group}-2")
    b = Consumer(p=p, conn="B", group=f"{p.group}-848")
    await b.join()
    await altered(p, {topic: {0: 1}}, group=f"{p.group}-848")


@share_script()
async def share_offsets_deleted(p: Prober) -> None:
    """DeleteShareGroupOffsets requires an empty group and topics that the group has."""
    topic, other = f"{p.group}-t", f"{p.group}-u"
    await create(p, topic, 1)
    await create(p, other, 1)
    await deleted(p, topic)
    await deleted(p, topic, group="")
    a = Sharer(p=p, conn="A", names=[topic, other])
    await a.enter()
    await deleted(p, topic)
    await a.leave()
    await deleted(p, topic, "nowhere", "probe", topic)
    await described(p)
    await described(p, topics={topic: [0]})
    await deleted(p, topic)
    await deleted(p)
    await a.enter()
    await described(p)
    await look(p)
    await drop(p, other)
    await described(p)
    await described(p, topics={other: [0]})
    await a.leave()
    await deleted(p, other)
    await p.ask("O", DeleteGroupsRequest(groups_names=[p.group]), 2)
    await described(p, topics={topic: [0]})
    b = Consumer(p=p, conn="B", group=f"{p.group}-848")
    await b.join()
    await deleted(p, topic, group=f"{p.group}-848")
    await described(p, f"{p.group}-848")
