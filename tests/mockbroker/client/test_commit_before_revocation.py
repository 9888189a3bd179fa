"""After the last commit before a revocation, poll returns no records of the partition: they would be read twice."""

from __future__ import annotations

import struct

import pytest
import trio
from tools.in_process_streams import InProcessNetwork

from mockbroker import open_cluster
from mockbroker.consumer import Consumer, open_consumer

OFFSET_COMMIT = 8
CONFIG = {
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.heartbeat.interval.ms": 50,
}


class HeldStream(trio.abc.Stream):
    """A connection that holds back all responses from the first OffsetCommit on, until it is released."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self.committed, self.released = trio.Event(), trio.Event()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        data = bytes(data)
        await self._stream.send_all(data)
        at = 0
        while at < len(data):
            length, key = struct.unpack_from(">ih", data, at)
            if key == OFFSET_COMMIT:
                self.committed.set()
            at += 4 + length

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        data = await self._stream.receive_some(max_bytes)
        if self.committed.is_set():
            await self.released.wait()
        return data

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_no_record_is_returned_after_the_last_commit(autojump_clock, protocol: str) -> None:
    links: list[HeldStream] = []

    async def connect(host: str, port: int) -> trio.abc.Stream:
        links.append(HeldStream(await InProcessNetwork(cluster).connect(host, port)))
        return links[-1]

    settings = {
        "group_protocol": protocol,
        "auto_offset_reset": "earliest",
        "heartbeat_interval": 0.05,
        "max_poll_records": 5,
        "auto_commit_interval": 60.0,
    }
    read: list[tuple[int, int]] = []

    async def poll_places(consumer: Consumer, timeout: float) -> list[tuple[int, int]]:
        records = [(record.partition, record.offset) for record in await consumer.poll(timeout)]
        read.extend(records)
        return records

    async with open_cluster(topics={"orders": 2}, config=CONFIG) as cluster:
        for partition in (0, 1):
            cluster.produce("orders", [f"{n}" for n in range(100)], partition=partition)
        both = {"group": "billing", "topics": ["orders"], **settings}
        async with (
            open_consumer(cluster.bootstrap_servers, connect=connect, **both) as first,
            open_consumer(cluster.bootstrap_servers, connect=InProcessNetwork(cluster).connect, **both) as second,
            trio.open_nursery() as nursery,
        ):
            await poll_places(first, 5.0)

            async def poll_second() -> None:
                while len({*read}) < 200:
                    await poll_places(second, 0.05)

            first.pause(*first.assignment)
            nursery.start_soon(poll_second)
            while not any(link.committed.is_set() for link in links):
                await poll_places(first, 0.01)
            first.resume(("orders", 1))  # both protocols revoke this partition
            meanwhile = [place for _ in range(5) for place in await poll_places(first, 0.05)]
            assert meanwhile == []
            first.resume(*first.paused)
            for link in links:
                link.released.set()
            while len({*read}) < 200:
                await poll_places(first, 0.05)
    assert sorted(read) == [(partition, offset) for partition in (0, 1) for offset in range(100)]
