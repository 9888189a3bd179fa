"""Why a poll gives only so many records: who is long at work with them is taken for dead (document 003)."""

from __future__ import annotations

from collections import deque

import pytest
import trio

from kwire.envelope import decode_request, encode_response
from kwire.frames import FrameBuffer, pack
from mockbroker import Cluster, open_cluster
from mockbroker.consumer import open_consumer

QUICK = {"group.initial.rebalance.delay.ms": 0, "mockbroker.join.settle.ms": 0}
WORK = 1.0  # seconds for one record


class Inside(trio.abc.Stream):
    """To a broker of the same process, so that the clock of a test may jump."""

    def __init__(self, cluster: Cluster, node: int) -> None:
        self._line = cluster.connect(node, "slow")
        self._frames, self._asked, self._come = FrameBuffer(), deque[bytes](), trio.Event()

    async def send_all(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        self._frames.feed(bytes(data))
        while (frame := self._frames.next_frame()) is not None:
            self._asked.append(frame)
        self._come.set()

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        while not self._asked:
            self._come = trio.Event()
            await self._come.wait()
        request = decode_request(self._asked.popleft())
        body = await self._line.ask(request.body, request.version)
        return pack(encode_response(body, request.version, correlation_id=request.header.correlation_id))

    async def aclose(self) -> None:
        self._line.close()
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize(("most", "alive"), [(500, False), (30, True)])
async def test_a_slow_handler(most, alive, autojump_clock):
    """A minute between polls is allowed. 200 records at a second each take longer, 30 do not."""
    async with open_cluster(topics={"t": 1}, config=QUICK) as cluster:
        cluster.produce("t", [b"x"] * 200)

        async def connect(host: str, port: int) -> trio.abc.Stream:
            await trio.lowlevel.checkpoint()
            return Inside(cluster, next(node.node_id for node in cluster.nodes if node.port == port))

        async with open_consumer(
            cluster.bootstrap_servers,
            group="g",
            topics=["t"],
            auto_offset_reset="earliest",
            connect=connect,
            max_poll_interval=60.0,
            max_poll_records=most,
        ) as consumer:
            for _ in range(200 // most or 1):
                records = await consumer.poll()
                assert len(records) == min(most, 200)
                await trio.sleep(WORK * len(records))
            left = [event for event in cluster.events() if event.event == "leave"]
            assert (left == []) is alive
            members = cluster.groups()["g"].members
            assert (len(members) == 1) is alive
