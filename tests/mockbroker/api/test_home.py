"""A handle that is used in the wrong process, thread or event loop raises an error and does not block."""

from __future__ import annotations

import asyncio
import os
import queue
from collections.abc import Callable
from typing import Any

import pytest
import trio
from plain_client import PlainClient

from kwire.messages.offset_commit import OffsetCommitRequest
from mockbroker import Cluster, ClusterClosedError, open_cluster, run_cluster

OPERATIONS: list[Callable[[Cluster], object]] = [
    Cluster.events,
    lambda cluster: cluster.produce("t", ["v"]),
    lambda cluster: cluster.clock.stop(),
    lambda cluster: cluster.faults.add(api="Fetch", error="NOT_LEADER_OR_FOLLOWER"),
]
COMMITTED = OffsetCommitRequest.Topic(
    name="t", partitions=[OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=1)]
)
WAITS: list[Callable[[Cluster], Any]] = [
    lambda cluster: cluster.wait_group("g"),
    Cluster.compact,
    lambda cluster: cluster.faults.add(name="f", api="Fetch", delay_ms=1).wait_applied(),
]


def raised(function: Callable[[], object]) -> BaseException | None:
    try:
        function()
    except BaseException as error:
        return error
    return None


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_handle_of_trio_in_another_thread(operation: Callable[[Cluster], object]) -> None:
    async with open_cluster(topics={"t": 1}) as cluster:
        error = await trio.to_thread.run_sync(lambda: raised(lambda: operation(cluster)))
        assert isinstance(error, RuntimeError)
        assert "belongs to thread MainThread, and this is thread" in str(error)
        assert raised(lambda: operation(cluster)) is None
        assert await trio.to_thread.run_sync(lambda: trio.from_thread.run_sync(cluster.events)) is not None


@pytest.mark.parametrize("wait", WAITS)
async def test_handle_of_trio_in_asyncio_of_another_thread(wait: Callable[[Cluster], Any]) -> None:
    async with open_cluster() as cluster:

        async def in_asyncio() -> None:
            await wait(cluster)

        error = await trio.to_thread.run_sync(lambda: raised(lambda: asyncio.run(in_asyncio())))
        assert isinstance(error, RuntimeError)
        assert "belongs to thread MainThread" in str(error)


@pytest.mark.parametrize("wait", WAITS)
def test_handle_of_trio_in_asyncio_of_the_same_thread(wait: Callable[[Cluster], Any]) -> None:
    """With trio as a guest of asyncio, a coroutine of asyncio is not a task of the trio run."""

    async def host() -> BaseException | None:
        loop = asyncio.get_running_loop()
        opened: asyncio.Future[tuple[Cluster, trio.Event]] = loop.create_future()
        ended: asyncio.Future[object] = loop.create_future()

        async def guest() -> None:
            async with open_cluster() as cluster:
                end = trio.Event()
                opened.set_result((cluster, end))
                await end.wait()

        trio.lowlevel.start_guest_run(
            guest, run_sync_soon_threadsafe=loop.call_soon_threadsafe, done_callback=ended.set_result
        )
        cluster, end = await opened
        found = None
        try:
            await wait(cluster)
        except RuntimeError as error:
            found = error
        end.set()
        await ended
        return found

    assert "waits only in the trio run that has opened the cluster" in str(asyncio.run(host()))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_handle_of_trio_in_a_forked_process(operation: Callable[[Cluster], object]) -> None:
    async with open_cluster(topics={"t": 1}) as cluster:
        child = os.fork()
        if not child:
            os._exit(0 if isinstance(raised(lambda: operation(cluster)), ClusterClosedError) else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_listener_of_the_journal_does_not_call_its_own_thread() -> None:
    """The call would wait for its own thread."""
    errors: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
    with run_cluster(topics={"t": 1}) as cluster:
        cluster.journal.listeners.append(lambda _event: errors.put(raised(cluster.events)))
        with PlainClient(cluster.bootstrap_servers) as client:
            client.ask(OffsetCommitRequest(group_id="g", topics=[COMMITTED]), 8)
        error = errors.get(timeout=10)
    assert isinstance(error, RuntimeError)
    assert "would wait for itself" in str(error)
