"""A server with a data directory: responses wait until their changes are on disk; after a failed write none is sent."""

from __future__ import annotations

import errno
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import trio
from tools.served_broker import PATIENCE, ServedBroker, serving

from kwire import ErrorCode as E
from kwire.messages.fetch import FetchRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.produce import ProduceRequest
from kwire.records.batch import Record, build_batch
from mockbroker.net.pump import WRITE_AHEAD
from mockbroker.storage.simulated_disk import SimulatedDisk

BEAT = (HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 3)


def produce(value: bytes = b"v", acks: int = -1) -> tuple[Any, int]:
    data = ProduceRequest.Topic.Partition(index=0, records=build_batch([Record(value=value)]))
    topic = ProduceRequest.Topic(name="t", partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=0, topic_data=[topic]), 7


def fetch(offset: int = 0, wait: int = 0) -> tuple[Any, int]:
    partition = FetchRequest.Topic.Partition(partition=0, fetch_offset=offset, partition_max_bytes=10**7)
    topics = [FetchRequest.Topic(topic="t", partitions=[partition])]
    return FetchRequest(max_wait_ms=wait, min_bytes=1, max_bytes=10**7, topics=topics), 11


class Gate(SimulatedDisk):
    """A disk whose syncs take as long as a test wants. ``done``: how often each operation has completed."""

    def __init__(self) -> None:
        super().__init__()
        self.done = Counter[str]()
        self.failure: OSError | None = None
        self._open = threading.Event()
        self._open.set()
        self._sync_requested = threading.Event()
        self.before = self._wait

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Hold back syncs until the end of the block, or until ``open``."""
        self._sync_requested.clear()
        self._open.clear()
        try:
            yield
        finally:
            self.open()

    def open(self) -> None:
        self._open.set()

    async def sync_requested(self) -> None:
        """Wait until a response waits for a sync."""
        with trio.fail_after(PATIENCE):
            await trio.to_thread.run_sync(self._sync_requested.wait)

    def _wait(self, operation: str, file: str) -> None:
        if operation == "sync" and file.startswith("t-"):
            self._sync_requested.set()
            self._open.wait()
            if self.failure is not None:
                raise self.failure
        self.done[operation] += 1


async def quiet(place: ServedBroker) -> None:
    """Wait until the server has done all that it can do now."""
    for _ in range(20):
        await trio.testing.wait_all_tasks_blocked(0.002)


async def test_an_answer_waits_for_the_disk() -> None:
    disk = Gate()
    async with serving(disk=disk) as place:
        peer = await place.connect()
        with disk.closed():
            await peer.send(produce())
            await disk.sync_requested()
            assert await peer.silent(0.05)
        answer = await peer.receive()
        assert answer.responses[0].partition_responses[0].base_offset == 0


async def test_response_waits_until_its_changes_are_synced() -> None:
    """Otherwise a consumer could see a record, and a member a response, that a crash undoes."""
    disk = Gate()
    async with serving(disk=disk) as place:
        writer, reader, member = [await place.connect() for _ in range(3)]
        with disk.closed():
            await writer.send(produce())
            await disk.sync_requested()
            await reader.send(fetch())
            await member.send(BEAT)
            for peer in (writer, reader, member):
                assert await peer.silent(0.05)
        assert (await reader.receive()).responses[0].partitions[0].records
        assert (await member.receive()).error_code == E.UNKNOWN_MEMBER_ID


async def test_where_nothing_was_written_nothing_is_held() -> None:
    disk = Gate()
    async with serving(disk=disk) as place:
        peer = await place.connect()
        before = disk.operations
        for _ in range(3):
            assert (await peer.ask(*BEAT)).error_code == E.UNKNOWN_MEMBER_ID
        assert disk.operations == before


async def test_requests_during_a_sync_share_the_next_one() -> None:
    disk = Gate()
    async with serving(disk=disk) as place:
        first, *others = [await place.connect() for _ in range(20)]
        await first.ask(*produce())
        with disk.closed():
            await first.send(produce())
            await disk.sync_requested()
            before = disk.done["sync"]
            for peer in others:
                await peer.send(produce(), produce())
            await place.until(lambda: place.broker.cluster.topics["t"].partitions[0].log.end == 2 + 2 * len(others))
        for peer in others:
            await peer.receive()
            await peer.receive()
        assert disk.done["sync"] == before + 2  # one sync for the first request, and one for all others


async def test_requests_without_response_are_written_too() -> None:
    disk = Gate()
    async with serving(disk=disk) as place:
        peer = await place.connect()
        await peer.stream.send_all(peer.side.send(*produce(acks=0), answered=False))
        await place.until(lambda: disk.done["append"] == 1)
        await place.until(lambda: place.broker.cluster.storage.synced == place.broker.cluster.storage.collected)


async def test_producer_id_is_synced_before_the_response() -> None:
    disk = Gate()
    async with serving(disk=disk) as place:
        peer = await place.connect()
        before = disk.done["sync"]
        assert (
            await peer.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 3)
        ).producer_id == 0
        assert disk.done["sync"] > before


async def test_response_is_sent_before_a_close_for_malformed_bytes() -> None:
    disk = Gate()
    async with serving(disk=disk) as place:
        peer = await place.connect()
        with disk.closed():
            await peer.stream.send_all(peer.side.send(*produce()) + b"GET / HTTP/1.1\r\n\r\n")
            await disk.sync_requested()
            assert await peer.silent(0.05)
        await peer.receive()
        assert await peer.closed() == b""
        assert place.server.connections == {}


async def test_half_closed_client_gets_its_held_response() -> None:
    disk = Gate()
    async with serving(disk=disk) as place:
        peer = await place.connect()
        with disk.closed():
            await peer.send(produce())
            await disk.sync_requested()
            await peer.stream.send_eof()
            await quiet(place)
        await peer.receive()
        assert await peer.closed() == b""


async def test_disconnected_client_is_forgotten() -> None:
    disk = Gate()
    async with serving(disk=disk) as place:
        peer, other = await place.connect(), await place.connect()
        with disk.closed():
            await peer.send(produce())
            await disk.sync_requested()
            peer.reset()
            await place.until(lambda: len(place.server.connections) == 1)
        assert (await other.ask(*BEAT)).error_code == E.UNKNOWN_MEMBER_ID


async def test_response_after_unsent_ones_waits_for_the_disk() -> None:
    disk = Gate()
    async with serving(disk=disk) as place:
        writer, reader = await place.connect(), await place.connect()
        reader.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 200_000)
        await writer.ask(*produce(bytes(1_000_000)))
        await reader.ask(*BEAT)
        for connection in place.server.connections.values():
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 100_000)
        await reader.send(fetch(), fetch(offset=1, wait=60_000))
        await place.until(lambda: any(connection.draining for connection in place.server.connections.values()))
        with disk.closed():
            await writer.send(produce(b"too early"))
            await disk.sync_requested()
            seen, quiet = bytearray(), False
            while not quiet:
                with trio.move_on_after(0.1) as scope:
                    seen += (data := await reader.stream.receive_some(65_536))
                    reader.side.receive(data)
                quiet = scope.cancelled_caught
            assert b"too early" not in seen
        assert len((await reader.receive()).responses[0].partitions[0].records) > 1_000_000
        assert b"too early" in (await reader.receive()).responses[0].partitions[0].records


async def test_answers_do_not_pile_up_while_they_are_held() -> None:
    disk = Gate()
    async with serving(disk=disk) as place:
        peer = await place.connect()
        await peer.ask(*produce(bytes(500_000)))
        with disk.closed():
            await peer.send(produce(), *[fetch()] * 20)
            await disk.sync_requested()
            await quiet(place)
            [connection] = place.server.connections.values()
            assert WRITE_AHEAD < len(connection.out) < WRITE_AHEAD + 600_000
        await peer.receive()
        for _ in range(20):
            assert len((await peer.receive()).responses[0].partitions[0].records) > 500_000


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS])
async def test_failed_disk_ends_the_server_without_responses(number: int) -> None:
    disk = Gate()
    async with serving(disk=disk) as place:
        writer, member = await place.connect(), await place.connect()
        with disk.closed():
            await writer.send(produce())
            await disk.sync_requested()
            await member.send(BEAT)
            disk.failure = OSError(number, "told by a test")
        assert await writer.closed() == b""
        assert await member.closed() == b""
        assert "cannot write a file: told by a test" in str(place.server.failure)
        assert place.broker.cluster.storage.synced < place.broker.cluster.storage.collected
