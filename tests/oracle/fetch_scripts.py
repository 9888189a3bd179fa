"""Conversations about fetch sessions, which record.py records; each function is one conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from consumer import topic_id
from prober import Asked, Prober
from script import script

from kwire.messages.create_topics import CreateTopicsRequest
from kwire.messages.delete_topics import DeleteTopicsRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.produce import ProduceRequest
from kwire.records import Record, build_batch

WRITTEN_AT = 1_700_000_000_000  # milliseconds since 1970; the same in each recording
BY_ID = 13  # the first version of Fetch with topic ids
NEW_SESSION, NO_SESSION = 0, -1  # epochs
FEW_SLOTS = {"max.incremental.fetch.session.cache.slots": 9}

Wanted = tuple[int, int]  # partition and offset


@dataclass(slots=True, kw_only=True)
class Reader:
    """A consumer with its own fetch session. ``topic``: the topic of partitions without a named topic."""

    p: Prober
    topic: str
    conn: str = "A"
    version: int = 11
    session: int = 0
    epoch: int = NEW_SESSION
    ids: dict[str, Any] = field(default_factory=dict)

    async def send(
        self,
        *partitions: Wanted,
        also: Sequence[tuple[str, Sequence[Wanted]]] = (),
        forget: Sequence[tuple[str, Sequence[int]]] = (),
        most: int = 1 << 20,
        version: int = 0,
        **changes: Any,
    ) -> Asked:
        version = version or self.version
        topics: list[tuple[str, Sequence[Wanted]]] = [(self.topic, partitions)] if partitions else []
        topics += also
        request = FetchRequest(
            **{
                "max_wait_ms": 0,
                "min_bytes": 1,
                "max_bytes": most,
                "session_id": self.session,
                "session_epoch": self.epoch,
                "topics": [
                    FetchRequest.Topic(
                        **self._named(topic, version),
                        partitions=[
                            FetchRequest.Topic.Partition(partition=n, fetch_offset=at, partition_max_bytes=1 << 20)
                            for n, at in wanted
                        ],
                    )
                    for topic, wanted in topics
                ],
                "forgotten_topics_data": [
                    FetchRequest.ForgottenTopic(**self._named(topic, version), partitions=list(which))
                    for topic, which in forget
                ],
                **changes,
            }
        )
        return await self.p.send(self.conn, request, version)

    async def answer(self, sent: Asked) -> Any:
        answer = await self.p.answer(sent)
        if not answer.error_code:
            self.session = answer.session_id
            self.epoch += 1
        return answer

    async def fetch(self, *partitions: Wanted, **changes: Any) -> Any:
        return await self.answer(await self.send(*partitions, **changes))

    def _named(self, topic: str, version: int) -> dict[str, Any]:
        if version < BY_ID:
            return {"topic": topic}
        if topic not in self.ids:
            self.ids[topic] = topic_id(self.p, topic)
        return {"topic_id": self.ids[topic]}


async def create(p: Prober, name: str = "", partitions: int = 3) -> str:
    name = name or f"t-{p.scenario}"
    wanted = CreateTopicsRequest.Topic(name=name, num_partitions=partitions, replication_factor=1)
    await p.ask("P", CreateTopicsRequest(topics=[wanted], timeout_ms=5000), 7)
    await p.wait(800, "until the leader is known")
    return name


async def delete(p: Prober, name: str) -> None:
    wanted = DeleteTopicsRequest.Topic(name=name)
    await p.ask("P", DeleteTopicsRequest(topics=[wanted], timeout_ms=5000), 6)
    await p.wait(800, "until it is gone")


async def produce(p: Prober, topic: str, partition: int = 0, *values: bytes) -> None:
    records = build_batch([Record(timestamp=WRITTEN_AT, value=value) for value in values or [b"v"]])
    data = ProduceRequest.Topic.Partition(index=partition, records=records)
    request = ProduceRequest(
        acks=-1, timeout_ms=5000, topic_data=[ProduceRequest.Topic(name=topic, partition_data=[data])]
    )
    await p.ask("P", request, 9)


@script()
async def fetch_session_life(p: Prober) -> None:
    """A fetch session keeps the requested partitions, returns only partitions with changes, and drops the forgotten
    ones."""
    topic = await create(p)
    a = Reader(p=p, topic=topic)
    await a.fetch((0, 0), (1, 0), (2, 0))
    await a.fetch()
    await a.fetch(max_wait_ms=400)
    await produce(p, topic, 1)
    await a.fetch()
    await a.fetch()
    await a.fetch((1, 1))
    held = await a.send(max_wait_ms=5000)
    await p.silent(held)
    await produce(p, topic, 2)
    await a.answer(held)
    await a.fetch((2, 1), forget=[(topic, [0])])
    await produce(p, topic, 0)
    await a.fetch()
    await a.fetch((0, 0))
    await a.fetch((0, 1))
    await a.fetch(forget=[(topic, [0, 1, 7]), ("not-there", [0])])
    await a.fetch(forget=[(topic, [2])])
    await a.fetch()


@script()
async def fetch_session_by_id(p: Prober) -> None:
    """A fetch session with topic ids keeps the requested partitions, returns only partitions with changes, and drops
    the forgotten ones."""
    topic = await create(p)
    a = Reader(p=p, topic=topic, version=13)
    await a.fetch((0, 0), (1, 0), also=[("probe", [(0, 0)])])
    await a.fetch()
    await produce(p, topic, 1, b"a", b"b")
    await a.fetch()
    await a.fetch((1, 2), version=15)
    await a.fetch(forget=[("probe", [0]), (topic, [1])])
    await produce(p, topic, 1)
    await a.fetch()
    await a.fetch(forget=[(topic, [0])])
    await a.fetch()


@script()
async def fetch_session_errors(p: Prober) -> None:
    """Fetch with wrong session epochs, with unknown session ids, and with versions that do not match the session."""
    topic = await create(p)
    a = Reader(p=p, topic=topic)
    await a.fetch((0, 0), session_id=4711)
    first = a.session
    await a.fetch(session_epoch=2)
    await a.fetch(session_epoch=1)
    await a.fetch(session_epoch=1)
    await a.fetch((1, 0), session_epoch=-2)
    await a.fetch(version=13)
    await a.fetch(version=7)
    await a.fetch(session_id=first + 1)
    await a.fetch(session_id=0)
    await a.fetch(version=6, session_id=0, session_epoch=-1)
    await a.fetch((0, 0), session_epoch=0)
    await a.fetch((0, 0), session_id=first, session_epoch=1)
    a.epoch = 1
    await a.fetch((0, 0))
    await a.fetch((0, 0), session_epoch=-1)
    await a.fetch((0, 0), session_epoch=2)
    b = Reader(p=p, topic=topic, conn="B", version=13)
    await b.fetch((0, 0))
    await b.fetch(version=12)
    await b.fetch(version=17)
    await b.fetch()


@script()
async def fetch_session_of_nothing(p: Prober) -> None:
    """A fetch session without partitions, and a request that names a partition twice."""
    topic = await create(p)
    a = Reader(p=p, topic=topic)
    await a.fetch()
    await a.fetch((0, 0))
    await a.fetch()
    b = Reader(p=p, topic=topic, conn="B")
    await b.fetch((0, 5), (0, 0))
    await b.fetch()
    await produce(p, topic, 0)
    await b.fetch()
    await b.fetch((0, 5), (0, 1), forget=[(topic, [0])])
    await b.fetch()


@script()
async def fetch_session_bad_partitions(p: Prober) -> None:
    """Missing topics and partitions and offsets out of range: each response of the session returns their errors
    again."""
    topic = await create(p)
    a = Reader(p=p, topic=topic)
    await a.fetch((0, 0), (1, 9), (7, 0), also=[("not-there", [(0, 0)])])
    await a.fetch()
    await a.fetch(max_wait_ms=2000)
    await a.fetch((1, 0), forget=[("not-there", [0])])
    await a.fetch()
    await a.fetch(forget=[(topic, [7])])
    await a.fetch()
    await a.fetch((0, 0), also=[("not-there", [(0, 0)])], session_id=0, session_epoch=-1, max_wait_ms=700)
    await a.fetch((0, 0), (1, 9), session_id=0, session_epoch=-1, max_wait_ms=700)
    await a.fetch(also=[("not-there", [(0, 0)])], session_id=0, session_epoch=-1, max_wait_ms=700)


@script()
async def fetch_session_topic_goes(p: Prober) -> None:
    """A topic in a fetch session is deleted and created again, for sessions by name and by topic id."""
    topic = await create(p)
    a = Reader(p=p, topic=topic)
    b = Reader(p=p, topic=topic, conn="B", version=13)
    await a.fetch((0, 0), also=[("probe", [(0, 0)])])
    await b.fetch((0, 0), also=[("probe", [(0, 0)])])
    await a.fetch()
    await b.fetch()
    await delete(p, topic)
    await a.fetch()
    await b.fetch()
    await b.fetch()
    await create(p, topic)
    await produce(p, topic)
    await a.fetch()
    await b.fetch()
    await b.fetch()
    await b.fetch((0, 0), session_id=0, session_epoch=-1)


@script()
async def fetch_session_order(p: Prober) -> None:
    """A partition that returned records moves to the end of the session, so that each partition has its turn; a small
    response has room for one."""
    topic = await create(p)
    a = Reader(p=p, topic=topic)
    for partition in (0, 1, 2):
        await produce(p, topic, partition, b"v" * 100)
    await a.fetch((0, 0), (1, 0), (2, 0), most=100)
    for _ in range(4):
        await a.fetch(most=100)
    await a.fetch((1, 1), most=100)
    await a.fetch((2, 1), (0, 0), most=100)
    await a.fetch()


@script(FEW_SLOTS)
async def fetch_session_slots(p: Prober) -> None:
    """More fetch sessions than the cache has slots for: the later requests get no session until another one is
    closed."""
    topic = await create(p)
    readers = [Reader(p=p, topic=topic, conn=f"C{n}") for n in range(10)]
    for reader in readers:
        await reader.fetch((0, 0), (1, 0))
    for reader in readers[:8]:
        await reader.fetch()
    for reader in readers[8:]:
        reader.epoch = 0
        await reader.fetch((0, 0), (1, 0), (2, 0))
    await readers[3].fetch(session_epoch=-1)
    for reader in readers[8:] * 6:  # each attempt uses the next of eight shards of the session cache
        reader.epoch = 0
        await reader.fetch((0, 0))
    for reader in readers:
        if reader.session:
            await reader.fetch(session_epoch=-1)


@script()
async def fetch_session_while_it_waits(p: Prober) -> None:
    """A fetch session is continued or closed while a Fetch of it is waiting."""
    topic = await create(p)
    a = Reader(p=p, topic=topic)
    await a.fetch((0, 0))
    await a.fetch()
    waits = await a.send(max_wait_ms=2500)
    await p.silent(waits)
    a.conn = "B"
    a.epoch += 1
    await a.fetch()
    await produce(p, topic)
    a.conn = "A"
    await a.answer(waits)
    await a.fetch((0, 1), session_id=0, session_epoch=0)
    a.epoch = 1
    waits = await a.send(max_wait_ms=2500)
    await p.silent(waits)
    b = Reader(p=p, topic=topic, conn="B", session=a.session, epoch=-1)
    await b.fetch()
    await produce(p, topic)
    await a.answer(waits)
    await a.fetch()
