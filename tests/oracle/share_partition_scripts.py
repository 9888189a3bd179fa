"""Conversations about share partitions, which record.py records; each function is one conversation.

The state of a share partition is initialized with InitializeShareGroupState, as a group coordinator does, so that no
conversation depends on the times at which a group coordinator does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from consumer import create as create_with_configs
from consumer import topic_id
from fetch_scripts import WRITTEN_AT, create, delete, produce
from prober import Asked, Prober
from script import NEW, script
from transaction_scripts import FOR_EVER, begin

from kwire.messages.delete_records import DeleteRecordsRequest
from kwire.messages.delete_share_group_state import DeleteShareGroupStateRequest
from kwire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kwire.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from kwire.messages.produce import ProduceRequest
from kwire.messages.read_share_group_state import ReadShareGroupStateRequest
from kwire.messages.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from kwire.messages.share_acknowledge import ShareAcknowledgeRequest
from kwire.messages.share_fetch import ShareFetchRequest
from kwire.messages.write_share_group_state import WriteShareGroupStateRequest
from kwire.records import Record, build_batch

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
BATCH_OPTIMIZED, RECORD_LIMIT = range(2)
GROUP = 32  # resource type
IN_2100 = 4_102_444_800_000  # milliseconds since 1970
WAIT_MS = 300  # ms after which the leader has read the state of a partition
NEWEST = 2  # version of ShareFetch and ShareAcknowledge
SHORT_LOCKS: dict[str, int | str] = {
    "group.share.min.record.lock.duration.ms": 1000,
    "group.share.record.lock.duration.ms": 1500,
}
Acknowledged = tuple[int, int, Sequence[int]]  # first offset, last offset, types


def share_script(**config: int | str) -> Any:
    return script({name.replace("_", "."): value for name, value in config.items()}, releases=(NEW,))


@dataclass(slots=True, kw_only=True)
class Sharer:
    """A member of a share group with a share session on the leader of its partitions."""

    p: Prober
    topic: str
    conn: str = "A"
    name: str = "member-a"
    group: str = ""
    epoch: int = 0

    def _acknowledgements(self, kind: Any, acknowledged: Sequence[Acknowledged]) -> list[Any]:
        batch = kind.AcknowledgementBatch
        return [
            batch(first_offset=first, last_offset=last, acknowledge_types=list(types))
            for first, last, types in acknowledged
        ]

    async def send(
        self,
        *partitions: int,
        acknowledge: Sequence[Acknowledged] = (),
        forget: Sequence[int] = (),
        version: int = NEWEST,
        id_: UUID | None = None,
        **changes: Any,
    ) -> Asked:
        kind = ShareFetchRequest.Topic.Partition
        topic = id_ or topic_id(self.p, self.topic)
        named = [
            kind(partition_index=n, acknowledgement_batches=self._acknowledgements(kind, acknowledge))
            for n in partitions
        ]
        request = ShareFetchRequest(
            **{
                "group_id": self.group or self.p.group,
                "member_id": self.name,
                "share_session_epoch": self.epoch,
                "max_wait_ms": WAIT_MS,
                "min_bytes": 1,
                "max_bytes": 1 << 20,
                "max_records": 500,
                "batch_size": 500,
                "topics": [ShareFetchRequest.Topic(topic_id=topic, partitions=named)] if named else [],
                "forgotten_topics_data": [ShareFetchRequest.ForgottenTopic(topic_id=topic, partitions=list(forget))]
                if forget
                else [],
                **changes,
            }
        )
        return await self.p.send(self.conn, request, version)

    async def answer(self, sent: Asked) -> Any:
        answer = await self.p.answer(sent)
        if not answer.error_code and self.epoch >= 0:
            self.epoch += 1
        return answer

    async def fetch(self, *partitions: int, **changes: Any) -> Any:
        return await self.answer(await self.send(*partitions, **changes))

    async def acknowledge(
        self,
        *acknowledged: Acknowledged,
        partition: int = 0,
        version: int = NEWEST,
        id_: UUID | None = None,
        **changes: Any,
    ) -> Any:
        kind = ShareAcknowledgeRequest.Topic.Partition
        named = kind(partition_index=partition, acknowledgement_batches=self._acknowledgements(kind, acknowledged))
        topic = ShareAcknowledgeRequest.Topic(topic_id=id_ or topic_id(self.p, self.topic), partitions=[named])
        request = ShareAcknowledgeRequest(
            **{
                "group_id": self.group or self.p.group,
                "member_id": self.name,
                "share_session_epoch": self.epoch,
                "topics": [topic],
                **changes,
            }
        )
        answer = await self.p.ask(self.conn, request, version)
        if not answer.error_code and self.epoch >= 0:
            self.epoch += 1
        return answer


async def initialize(
    p: Prober, topic: str, *partitions: int, start: int = 0, state_epoch: int = 1, group: str = ""
) -> None:
    kind = InitializeShareGroupStateRequest.Topic
    named = [kind.Partition(partition=n, state_epoch=state_epoch, start_offset=start) for n in partitions or (0,)]
    topics = [kind(topic_id=topic_id(p, topic), partitions=named)]
    await p.ask("S", InitializeShareGroupStateRequest(group_id=group or p.group, topics=topics), 0)


async def read(p: Prober, topic: str, partition: int = 0, leader_epoch: int = 0) -> None:
    """Read the stored state of a share partition, and its summary."""
    kind = ReadShareGroupStateRequest.Topic
    named = [kind.Partition(partition=partition, leader_epoch=leader_epoch)]
    topics = [kind(topic_id=topic_id(p, topic), partitions=named)]
    await p.ask("S", ReadShareGroupStateRequest(group_id=p.group, topics=topics), 0)
    of_summary = ReadShareGroupStateSummaryRequest.Topic
    summary = of_summary(
        topic_id=topic_id(p, topic),
        partitions=[of_summary.Partition(partition=partition, leader_epoch=leader_epoch)],
    )
    await p.ask("S", ReadShareGroupStateSummaryRequest(group_id=p.group, topics=[summary]), 1)


async def values(p: Prober, topic: str, *counts: int, partition: int = 0) -> None:
    """Produce a batch for each count of records."""
    for number, count in enumerate(counts):
        await produce(p, topic, partition, *(b"%d-%d" % (number, n) for n in range(count)))


@share_script()
async def share_fetch_acquires(p: Prober) -> None:
    """ShareFetch acquires records for one member at a time; accepted records are not delivered again."""
    topic = await create(p)
    await initialize(p, topic, 0)
    await values(p, topic, 3, 2)
    a, b = Sharer(p=p, topic=topic), Sharer(p=p, topic=topic, conn="B", name="member-b")
    await a.fetch(0)
    await b.fetch(0)
    await read(p, topic)
    await a.acknowledge((0, 2, [ACCEPT]))
    await read(p, topic)
    await a.fetch(acknowledge=[(3, 4, [ACCEPT])], max_records=500)
    await a.fetch(0, acknowledge=[(3, 4, [ACCEPT])])
    await read(p, topic)
    await values(p, topic, 1)
    await b.fetch()
    await b.fetch(0, acknowledge=[(5, 5, [ACCEPT])], version=1)
    await read(p, topic)


@share_script()
async def share_acknowledge_types(p: Prober) -> None:
    """Accept, release, reject and gap for a whole batch, for a part of it, and for each offset."""
    topic = await create(p)
    await initialize(p, topic, 0)
    await values(p, topic, 10, 10, 10)
    a, b = Sharer(p=p, topic=topic), Sharer(p=p, topic=topic, conn="B", name="member-b")
    await a.fetch(0, batch_size=1)
    await a.acknowledge((0, 3, [ACCEPT]), (4, 4, [RELEASE]), (5, 6, [REJECT]), (7, 9, [GAP]))
    await read(p, topic)
    await a.acknowledge((10, 19, [ACCEPT, RELEASE, REJECT, GAP, ACCEPT, RELEASE, ACCEPT, ACCEPT, RELEASE, RELEASE]))
    await read(p, topic)
    await a.acknowledge((20, 29, [RELEASE]))
    await read(p, topic)
    await b.fetch(0)
    await b.acknowledge((4, 4, [ACCEPT]))
    await b.acknowledge((11, 11, [ACCEPT]), (15, 15, [ACCEPT]), (18, 29, [ACCEPT]))
    await read(p, topic)


@share_script()
async def share_session_errors(p: Prober) -> None:
    """Share sessions: unknown members, wrong epochs, acknowledgements in the first request, invalid member ids, and a
    final request."""
    topic = await create(p)
    await initialize(p, topic, 0, 1)
    await values(p, topic, 2)
    a = Sharer(p=p, topic=topic)
    await a.fetch(0, share_session_epoch=1)
    await a.fetch(0, share_session_epoch=-1)
    await a.acknowledge((0, 0, [ACCEPT]), share_session_epoch=0)
    await a.acknowledge((0, 0, [ACCEPT]), share_session_epoch=1)
    await a.acknowledge((0, 0, [ACCEPT]), share_session_epoch=-1)
    await a.fetch(0, acknowledge=[(0, 0, [ACCEPT])])
    for member_id in ("", "m" * 37, None):
        if member_id is not None:
            await a.fetch(0, member_id=member_id)
            await a.acknowledge((0, 0, [ACCEPT]), member_id=member_id)
    await a.fetch(0)
    await a.fetch(share_session_epoch=5)
    await a.acknowledge((0, 0, [ACCEPT]), share_session_epoch=7)
    await a.fetch()
    await a.acknowledge((0, 0, [ACCEPT]))
    await a.fetch(forget=[0])
    await a.fetch(acknowledge=[])
    a.epoch = 0
    await a.fetch(0)
    await a.fetch(share_session_epoch=-1)
    await a.fetch()
    a.epoch = 0
    await a.fetch(0)
    await a.acknowledge((0, 1, [ACCEPT]), share_session_epoch=-1)
    a.epoch = 1
    await a.fetch()
    await read(p, topic)


@share_script()
async def share_acknowledge_errors(p: Prober) -> None:
    """Acknowledgements with invalid ranges or types, of records of other members, and of records that are not
    acquired."""
    topic = await create(p)
    await initialize(p, topic, 0)
    await values(p, topic, 5, 5)
    a, b = Sharer(p=p, topic=topic), Sharer(p=p, topic=topic, conn="B", name="member-b")
    await a.fetch(0, max_records=5)
    await b.fetch(0, max_records=5)
    await a.acknowledge((3, 2, [ACCEPT]))
    await a.acknowledge((2, 3, [ACCEPT]), (1, 1, [ACCEPT]))
    await a.acknowledge((0, 1, []))
    await a.acknowledge((0, 2, [ACCEPT, ACCEPT]))
    await a.acknowledge((0, 1, [5]))
    await a.acknowledge((0, 1, [-1]))
    await a.acknowledge((0, 1, [RENEW]))
    await a.acknowledge((0, 1, [RENEW]), version=1)
    await a.acknowledge((5, 9, [ACCEPT]))
    await a.acknowledge((3, 6, [ACCEPT]))
    await a.acknowledge((8, 12, [ACCEPT]))
    await a.acknowledge((20, 21, [ACCEPT]))
    await a.acknowledge((0, 1, [ACCEPT]))
    await a.acknowledge((1, 1, [ACCEPT]))
    await a.acknowledge((1, 2, [ACCEPT]))
    await a.acknowledge((0, 4, [ACCEPT]))
    await a.acknowledge((3, 3, [RELEASE]))
    await a.acknowledge((3, 3, [ACCEPT]))
    await a.acknowledge((2, 2, [ACCEPT]), (2, 2, [ACCEPT]))
    await a.acknowledge((2, 2, [ACCEPT]), (3, 3, [ACCEPT]))
    await a.acknowledge((0, 0, [ACCEPT]), partition=1)
    await a.acknowledge((0, 0, [ACCEPT]), partition=9)
    await a.acknowledge((0, 0, [ACCEPT]), id_=UUID(int=9))
    await a.acknowledge()
    await a.fetch(0, acknowledge=[(3, 3, [ACCEPT])])
    await a.fetch(0, acknowledge=[(3, 2, [ACCEPT])])
    await a.fetch(1, acknowledge=[(3, 3, [ACCEPT])])
    await a.fetch(0, acknowledge=[(3, 3, [ACCEPT])], id_=UUID(int=9))
    await read(p, topic)


@share_script()
async def share_acquire_modes(p: Prober) -> None:
    """batch_optimized acquires whole record batches beyond max_records; record_limit acquires at most max_records."""
    topic = await create(p)
    await initialize(p, topic, 0, 1, 2)
    for partition in (0, 1):
        await values(p, topic, 4, 4, 4, partition=partition)
    a, b = Sharer(p=p, topic=topic), Sharer(p=p, topic=topic, conn="B", name="member-b")
    await a.fetch(0, max_records=2)
    await a.fetch(max_records=5)
    await b.fetch(1, max_records=2, share_acquire_mode=RECORD_LIMIT)
    await b.fetch(max_records=3, share_acquire_mode=RECORD_LIMIT)
    await b.fetch(max_records=9, share_acquire_mode=RECORD_LIMIT)
    await b.acknowledge((0, 1, [RELEASE]), partition=1)
    await b.fetch(max_records=1, share_acquire_mode=RECORD_LIMIT)
    await b.fetch(max_records=1)
    await values(p, topic, 4, 4, 4, 4, partition=2)
    await a.fetch(2, batch_size=5)
    await a.fetch(forget=[0, 1, 2], max_records=0)
    await a.fetch(max_bytes=0)
    await a.fetch(0, share_acquire_mode=7)


@share_script()
async def share_delivery_limit(p: Prober) -> None:
    """Records that approach the delivery count limit are acquired in smaller numbers, the last time alone, and are then
    archived."""
    topic = await create(p)
    await initialize(p, topic, 0)
    await values(p, topic, 8)
    a = Sharer(p=p, topic=topic)
    answer = await a.fetch(0)
    for _ in range(40):
        results = [
            each for one in answer.responses for partition in one.partitions for each in partition.acquired_records
        ]
        if not results:
            break
        await a.acknowledge(*((each.first_offset, each.last_offset, [RELEASE]) for each in results))
        answer = await a.fetch()
    await read(p, topic)
    await values(p, topic, 1)
    await a.fetch(0)


@share_script(group_share_delivery_count_limit=2)
async def share_delivery_limit_of_two(p: Prober) -> None:
    """With a delivery count limit of 2, records are not delivered alone; an accepted record is not delivered again."""
    topic = await create(p)
    await initialize(p, topic, 0)
    await values(p, topic, 4)
    a = Sharer(p=p, topic=topic)
    await a.fetch(0)
    await a.fetch(0, acknowledge=[(0, 0, [RELEASE]), (1, 1, [ACCEPT]), (2, 3, [RELEASE])])
    await read(p, topic)
    await a.fetch(0, acknowledge=[(0, 0, [RELEASE])])
    await read(p, topic)
    await a.fetch(0, acknowledge=[(2, 3, [RELEASE])])
    await read(p, topic)


@script(SHORT_LOCKS, releases=(NEW,))
async def share_lock_timeout(p: Prober) -> None:
    """An acquisition lock ends after its duration; a member can renew it, and acknowledge only before its end."""
    topic = await create(p)
    await initialize(p, topic, 0)
    await values(p, topic, 3)
    a, b = Sharer(p=p, topic=topic), Sharer(p=p, topic=topic, conn="B", name="member-b")
    await a.fetch(0)
    await b.fetch(0)
    await p.wait(900, "less than the lock duration")
    await a.acknowledge((0, 1, [RENEW]), is_renew_ack=True)
    await p.wait(1000, "the end of the lock that was not renewed")
    await b.fetch()
    await a.acknowledge((2, 2, [ACCEPT]))
    await a.acknowledge((0, 0, [ACCEPT]), is_renew_ack=True)
    await a.fetch(0, acknowledge=[(1, 1, [RENEW])], is_renew_ack=True)
    await a.fetch(
        0,
        acknowledge=[(1, 1, [RENEW])],
        is_renew_ack=True,
        max_bytes=0,
        min_bytes=0,
        max_records=0,
        max_wait_ms=0,
    )
    await p.wait(2500, "the end of all locks")
    await a.acknowledge((1, 1, [ACCEPT]))
    await b.fetch()
    await read(p, topic)


@share_script()
async def share_fetch_waits(p: Prober) -> None:
    """A ShareFetch waits for records: of a producer, of another member, or until its maximum wait ends."""
    topic = await create(p)
    await initialize(p, topic, 0, 1)
    a, b = Sharer(p=p, topic=topic), Sharer(p=p, topic=topic, conn="B", name="member-b")
    await a.fetch(0)
    held = await a.send(0, max_wait_ms=5000)
    await p.silent(held)
    await values(p, topic, 2)
    await a.answer(held)
    await b.fetch(0)
    await a.acknowledge((0, 1, [RELEASE]))
    await b.fetch()
    held = await a.send(max_wait_ms=400)
    await a.answer(held)
    held = await a.send(1, max_wait_ms=5000, min_bytes=200)
    await p.silent(held)
    await values(p, topic, 1, partition=1)
    await p.silent(held, 1500)
    await values(p, topic, 2, 2, partition=1)
    await a.answer(held)
    await p.close("B")
    await p.wait(500, "until the session of B has ended")
    await a.fetch()
    await a.fetch(max_wait_ms=200, min_bytes=0)


@share_script(group_share_max_size=1, group_share_max_share_sessions=1)
async def share_session_limit(p: Prober) -> None:
    """A member exceeds the maximum number of share sessions: the error is returned after the maximum wait."""
    topic = await create(p)
    await initialize(p, topic, 0)
    a, b = Sharer(p=p, topic=topic), Sharer(p=p, topic=topic, conn="B", name="member-b")
    await a.fetch(0)
    held = await b.send(0, max_wait_ms=600)
    await p.silent(held)
    await b.answer(held)
    await a.fetch(0, share_session_epoch=0)
    await a.fetch(share_session_epoch=-1)
    await b.fetch(0)


@share_script()
async def share_unknown_partitions(p: Prober) -> None:
    """Topics and partitions that do not exist, are deleted, or are not initialized by a group coordinator."""
    topic = await create(p)
    await initialize(p, topic, 0)
    a = Sharer(p=p, topic=topic)
    await a.fetch(0, id_=UUID(int=7))
    await a.fetch()
    a.epoch = 0
    await a.fetch(5)
    await a.fetch()
    a.epoch = 0
    await a.fetch(1)
    await a.fetch(0, forget=[1])
    await values(p, topic, 1)
    await a.fetch()
    await delete(p, topic)
    await a.fetch()
    await a.acknowledge((0, 0, [ACCEPT]))
    again = await create(p, f"u-{p.scenario}", 1)
    b = Sharer(p=p, topic=again, conn="B", name="member-b")
    held = await b.send(0, max_wait_ms=700)
    await b.answer(held)


@share_script()
async def share_deleted_records(p: Prober) -> None:
    """Records that are deleted from the log are archived, unless they are acquired."""
    topic = await create(p)
    await initialize(p, topic, 0)
    await values(p, topic, 4, 4, 4)
    a, b = Sharer(p=p, topic=topic), Sharer(p=p, topic=topic, conn="B", name="member-b")
    await a.fetch(0, max_records=4)
    await a.acknowledge((0, 3, [RELEASE]))
    await a.fetch(max_records=1)
    place = DeleteRecordsRequest.Topic.Partition(partition_index=0, offset=6)
    wanted = DeleteRecordsRequest.Topic(name=topic, partitions=[place])
    await p.ask("P", DeleteRecordsRequest(topics=[wanted], timeout_ms=5000), 2)
    await b.fetch(0)
    await b.fetch()
    await a.acknowledge((0, 3, [RELEASE]))
    await b.fetch()
    await b.acknowledge((6, 11, [ACCEPT]))
    await read(p, topic)


@share_script(group_share_partition_max_record_locks=100)
async def share_in_flight_limit(p: Prober) -> None:
    """At the maximum number of records in flight, only released records are acquired."""
    topic = await create(p)
    await initialize(p, topic, 0)
    await values(p, topic, *[10] * 12)
    a, b = Sharer(p=p, topic=topic), Sharer(p=p, topic=topic, conn="B", name="member-b")
    await a.fetch(0, max_records=95)
    await b.fetch(0)
    await a.acknowledge((50, 59, [RELEASE]))
    await b.fetch()
    await a.acknowledge((0, 9, [ACCEPT]))
    await b.fetch()
    await a.acknowledge((20, 29, [ACCEPT]))
    await b.fetch()


@share_script()
async def share_start_offset(p: Prober) -> None:
    """Without a stored start offset a group begins at the end of the log (latest); otherwise it begins at the stored
    offset."""
    topic = await create(p)
    await values(p, topic, 3)
    await values(p, topic, 3, partition=1)
    await initialize(p, topic, 0, start=-1)
    await initialize(p, topic, 1, start=2)
    a = Sharer(p=p, topic=topic)
    await a.fetch(0)
    await a.fetch(1, forget=[0])
    await values(p, topic, 2)
    await a.fetch(0, forget=[1])
    await read(p, topic)
    await a.acknowledge((3, 3, [ACCEPT]))
    await read(p, topic)
    await read(p, topic, 1)
    await initialize(p, topic, 0, start=1, state_epoch=2)
    await a.acknowledge((4, 4, [ACCEPT]))
    await read(p, topic)
    await a.fetch(0)


@share_script()
async def share_state_requests(p: Prober) -> None:
    """The requests to the share coordinator: initialize, read, write and delete states, and their errors."""
    topic = await create(p)
    id_ = topic_id(p, topic)
    await read(p, topic)
    for partition in (0, 7, -1):
        await initialize(p, topic, partition, state_epoch=3)
    await initialize(p, topic, 0, state_epoch=2)
    await read(p, topic)
    kind = WriteShareGroupStateRequest.Topic
    batch = kind.Partition.StateBatch

    async def write(*batches: tuple[int, int, int, int], partition: int = 0, **changes: Any) -> None:
        results = [
            batch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
            for first, last, state, count in batches
        ]
        fields = {"state_epoch": 3, "leader_epoch": 0, "start_offset": 0, "delivery_complete_count": 0, **changes}
        named = kind.Partition(partition=partition, state_batches=results, **fields)
        topics = [kind(topic_id=id_, partitions=[named])]
        await p.ask("S", WriteShareGroupStateRequest(group_id=p.group, topics=topics), 1)

    await write((0, 9, 0, 1), (3, 5, 2, 1))
    await read(p, topic)
    await write((4, 7, 0, 2), (10, 12, 4, 1), start_offset=2, delivery_complete_count=3)
    await read(p, topic, leader_epoch=2)
    await write((2, 2, 2, 1), leader_epoch=1)
    await write((2, 2, 2, 1), leader_epoch=2, state_epoch=2)
    await write((2, 2, 2, 1), leader_epoch=-1, state_epoch=-1, start_offset=-1, delivery_complete_count=4)
    await write((2, 2, 2, 1), partition=1)
    await write((2, 2, 2, 1), partition=-1)
    await read(p, topic, leader_epoch=2)
    await read(p, topic, 5)
    await read(p, topic, -1)
    gone = DeleteShareGroupStateRequest.Topic
    for partitions in ([0], [1], [9], [-1], []):
        named = [gone.Partition(partition=n) for n in partitions]
        topics = [gone(topic_id=id_, partitions=named)]
        await p.ask("S", DeleteShareGroupStateRequest(group_id=p.group, topics=topics), 0)
    await p.ask(
        "S",
        DeleteShareGroupStateRequest(
            group_id="", topics=[gone(topic_id=id_, partitions=[gone.Partition(partition=0)])]
        ),
        0,
    )
    await p.ask("S", DeleteShareGroupStateRequest(group_id=p.group, topics=[]), 0)
    await read(p, topic)


@share_script()
async def share_transactions(p: Prober) -> None:
    """Read uncommitted, the default: records of open and aborted transactions and markers are acquired too."""
    tx, topic = await begin(p, conn="T")
    await initialize(p, topic, 0)
    await tx.add((topic, [0]))
    await tx.produce(topic, 0, b"a", b"b")
    a = Sharer(p=p, topic=topic)
    await a.fetch(0)
    await tx.end(committed=False)
    await p.wait(500, "until the marker is written")
    await a.fetch()
    await a.acknowledge((0, 1, [ACCEPT]), (2, 2, [GAP]))
    await read(p, topic)


async def configure(p: Prober, name: str, value: str) -> None:
    """Set a configuration of the group."""
    resource = IncrementalAlterConfigsRequest.Resource
    changed = resource(resource_type=GROUP, resource_name=p.group, configs=[resource.Config(name=name, value=value)])
    await p.ask("S", IncrementalAlterConfigsRequest(resources=[changed]), 1)
    await p.wait(500, "until the leader knows it")


@share_script()
async def share_read_committed(p: Prober) -> None:
    """share.isolation.level=read_committed: only records of committed transactions are acquired."""
    tx, topic = await begin(p, conn="T")
    await initialize(p, topic, 0)
    await configure(p, "share.isolation.level", "read_committed")
    await tx.add((topic, [0]))
    await tx.produce(topic, 0, b"a", b"b")
    a = Sharer(p=p, topic=topic)
    await a.fetch(0)
    await tx.end(committed=False)
    await p.wait(500, "until the marker is written")
    await a.fetch()
    await read(p, topic)
    await tx.add((topic, [0]))
    await tx.produce(topic, 0, b"c", b"d")
    await a.fetch()
    await tx.end(committed=True)
    await p.wait(500, "until the marker is written")
    await a.fetch()
    await a.acknowledge((3, 3, [ACCEPT]), (4, 4, [RELEASE]))
    await read(p, topic)
    await a.fetch()
    await configure(p, "share.isolation.level", "read_uncommitted")
    await a.fetch()


@share_script()
async def share_reset_by_duration(p: Prober) -> None:
    """share.auto.offset.reset=by_duration: a group begins at the first record that is not older, if there is one."""
    topic = f"t-{p.scenario}"
    await create_with_configs(
        p, topic, 2, segment_ms=FOR_EVER, retention_ms="-1", message_timestamp_after_max_ms=FOR_EVER
    )
    await configure(p, "share.auto.offset.reset", "by_duration:PT1H")
    await values(p, topic, 3)
    await values(p, topic, 2, partition=1)
    await initialize(p, topic, 0, start=-1)
    await initialize(p, topic, 1, start=-1)
    records = build_batch([Record(timestamp=IN_2100, value=b"later")] * 2)
    data = ProduceRequest.Topic.Partition(index=0, records=records)
    topics = [ProduceRequest.Topic(name=topic, partition_data=[data])]
    await p.ask("P", ProduceRequest(acks=-1, timeout_ms=5000, topic_data=topics), 9)
    a = Sharer(p=p, topic=topic)
    await a.fetch(0)
    await a.fetch()
    await a.acknowledge((3, 4, [ACCEPT]))
    await read(p, topic)
    await a.fetch(1, forget=[0])
    await read(p, topic, 1)


@share_script(log_cleaner_backoff_ms=100)
async def share_compacted_gaps(p: Prober) -> None:
    """Offsets that compaction has removed are acquired with the records around them, and acknowledged as gaps."""
    topic = f"t-{p.scenario}"
    await create_with_configs(
        p,
        topic,
        1,
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="0.01",
        segment_ms="1000",
        message_timestamp_after_max_ms=FOR_EVER,
    )
    await initialize(p, topic, 0)

    async def keyed(at: int, *keys: bytes) -> None:
        records = [Record(timestamp=WRITTEN_AT + at, key=key, value=b"v") for key in keys]
        data = ProduceRequest.Topic.Partition(index=0, records=build_batch(records))
        topics = [ProduceRequest.Topic(name=topic, partition_data=[data])]
        await p.ask("P", ProduceRequest(acks=-1, timeout_ms=5000, topic_data=topics), 9)

    await keyed(0, b"a", b"b", b"a", b"c", b"a", b"d")
    await keyed(0, b"b")
    await keyed(60_000, b"e")  # this batch begins another segment
    await p.wait(2500, "until the log is compacted")
    a = Sharer(p=p, topic=topic)
    await a.fetch(0)
    await a.acknowledge((0, 2, [GAP]), (3, 3, [ACCEPT]), (4, 5, [RELEASE, ACCEPT]))
    await read(p, topic)
    await a.fetch()
    await a.acknowledge((4, 4, [ACCEPT]), (6, 7, [ACCEPT]))
    await read(p, topic)
