"""The engine on trio: connections, timers and failures."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import trio
import trio.testing
from tools.fake_cluster import FakeCluster
from tools.in_process_streams import InProcessNetwork

from kwire.messages.metadata import METADATA, MetadataRequest
from mockbroker import open_cluster
from mockbroker.client.driver import Driver
from mockbroker.client.link import Link
from mockbroker.consumer import Consumer, ConsumerError, RebalanceListener, open_consumer, open_share_consumer

QUICK = {"group.initial.rebalance.delay.ms": 0, "mockbroker.join.settle.ms": 0}


async def test_consumers_over_real_sockets() -> None:
    async with open_cluster(topics={"t": 2}, config=QUICK) as cluster:
        cluster.produce("t", ["a", "b"], partition=0)
        async with open_consumer(
            cluster.bootstrap_servers, group="g", topics=["t"], auto_offset_reset="earliest"
        ) as consumer:
            result = [record.value async for record, _ in tagged(consumer, 2)]
        assert result == [b"a", b"b"]
        assert (cluster.committed("g")["t", 0], cluster.groups()["g"].state) == (2, "Empty")


async def tagged(consumer: Any, count: int) -> AsyncIterator[tuple[Any, ...]]:
    """Yield the next records of a consumer, each with a number."""
    for number in range(count):
        yield await consumer.__anext__(), number


async def test_poll_with_a_closed_port_returns_no_records(unused_port: int) -> None:
    async with open_consumer(f"127.0.0.1:{unused_port}", group="g", topics=["t"]) as consumer:
        assert await consumer.poll(0.2) == []


async def test_poll_with_an_impossible_host_name_returns_no_records() -> None:
    """Metadata may contain a host name that cannot be encoded for a DNS lookup."""
    async with open_consumer(f"{'x' * 300}:9092", group="g", topics=["t"]) as consumer:
        assert await consumer.poll(0.2) == []


@pytest.fixture
def unused_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


async def test_invalid_response_closes_the_connection(autojump_clock) -> None:
    connected = 0

    async def connect(host: str, port: int) -> trio.abc.Stream:
        nonlocal connected
        connected += 1
        near, far = trio.testing.memory_stream_pair()
        await far.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        return near

    async with open_consumer("web:80", connect=connect, group="g", topics=["t"]) as consumer:
        assert await consumer.poll(10) == []
        assert 8 <= connected <= 25, "retried with a growing backoff"


async def test_peer_that_does_not_respond_times_out(autojump_clock) -> None:
    connected = []

    async def connect(host: str, port: int) -> trio.abc.Stream:
        connected.append(trio.current_time())
        near, far = trio.testing.memory_stream_pair()
        held.append(far)
        return near

    held: list[trio.abc.Stream] = []
    async with open_consumer("mute:1", connect=connect, group="g", topics=["t"]) as consumer:
        await consumer.poll(25)
        assert [round(at) for at in connected] == [0, 10, 20], "each has 10 s to be ready"


async def test_connect_that_never_returns_times_out(autojump_clock) -> None:
    tried = []

    async def connect(host: str, port: int) -> trio.abc.Stream:
        tried.append(trio.current_time())
        await trio.sleep_forever()
        raise AssertionError

    async with open_consumer("slow:1", connect=connect, group="g", topics=["t"]) as consumer:
        await consumer.poll(25)
        assert [round(at) for at in tried] == [0, 10, 20]


async def test_connection_that_times_out_has_a_reason(autojump_clock) -> None:
    """This driver does not run its timers, which close the connection too."""

    async def connect(host: str, port: int) -> trio.abc.Stream:
        await trio.sleep_forever()
        raise AssertionError

    async with trio.open_nursery() as nursery:
        engine = FakeCluster(group=None).engine
        driver = Driver(engine, nursery, connect)
        driver.update_clock()
        link = Link("slow", 1, "me", trio.current_time() + 3.0)
        engine.network.to_open.append(link)
        driver.flush()
        await trio.sleep(4.0)
        assert link.close_reason == "slow:1 did not accept the connection within the timeout"
        driver.stop()


async def test_connection_that_is_refused_has_a_reason(autojump_clock) -> None:
    links = []

    async def connect(host: str, port: int) -> trio.abc.Stream:
        links.extend(node.link for node in consumer._engine.network._bootstrap if node.link)
        raise OSError("no route")

    async with open_consumer("far:1", connect=connect, group="g", topics=["t"]) as consumer:
        await consumer.poll(1)
    assert {link.close_reason for link in links} == {"far:1 cannot be reached: no route"}


async def test_closed_connection_is_not_kept_open(autojump_clock) -> None:
    waiting = 0
    held: list[trio.abc.Stream] = []

    async def connect(host: str, port: int) -> trio.abc.Stream:
        nonlocal waiting
        if host == "deaf":  # this host accepts the connection and reads nothing
            near, far = trio.testing.lockstep_stream_pair()
            held.append(far)
            return near
        waiting += 1
        try:
            await trio.sleep_forever()
        finally:
            waiting -= 1
        raise AssertionError

    async with open_consumer(["deaf:1", "slow:1"], connect=connect, group="g", topics=["t"]) as consumer:
        await consumer.poll(100)
        assert waiting <= 1
        assert len(held) > 2
        given_up = held[:-1]
        with trio.fail_after(1):
            for far in given_up:
                while await far.receive_some():
                    pass


@pytest.mark.parametrize("bad", ["connect", "engine"])
async def test_internal_error_is_raised_to_the_user(autojump_clock, bad: str) -> None:
    async def connect(host: str, port: int) -> trio.abc.Stream:
        raise ZeroDivisionError

    async def run() -> None:
        network = InProcessNetwork(cluster)
        async with open_consumer(
            cluster.bootstrap_servers, connect=connect if bad == "connect" else network.connect, group="g", topics=["t"]
        ) as consumer:
            if bad == "engine":
                consumer._engine.metadata.update = None  # type: ignore[assignment, method-assign]
            await consumer.poll(100)

    async with open_cluster(topics={"t": 2}, config=QUICK) as cluster:
        with pytest.raises(ExceptionGroup) as caught:
            await run()
        assert caught.group_contains(ZeroDivisionError if bad == "connect" else TypeError)
        assert trio.current_time() < 30


async def test_consumer_follows_a_coordinator_that_moves_and_dies(autojump_clock) -> None:
    async with open_cluster(brokers=3, topics={"t": 3}, config=QUICK) as cluster:
        network = InProcessNetwork(cluster)
        async with open_consumer(
            cluster.bootstrap_servers, connect=network.connect, group="g", topics=["t"], enable_auto_commit=False
        ) as consumer:
            await consumer.poll(5)
            assert len(consumer.assignment) == 3
            first = cluster.coordinator("g")
            second = (first + 1) % 3
            cluster.move_coordinator("g", second)
            await consumer.poll(20)
            received = [request.node for request in cluster.requests("Heartbeat")]
            assert (received[0], received[-1]) == (first, second)
            network.down.add(second)
            for node, stream in network.streams:
                if node == second:
                    stream.hang_up()
            cluster.kill_broker(second)
            await consumer.poll(30)
            third = cluster.coordinator("g")
            assert third != second
            assert [request.node for request in cluster.requests("Heartbeat")][-1] == third
            await consumer.commit({("t", 0): 1})
        assert not [event for event in cluster.events() if event.event == "expire"]
        assert cluster.committed("g")["t", 0] == 1


async def test_one_connection_to_a_broker_and_one_to_a_coordinator(autojump_clock) -> None:
    async with open_cluster(topics={"t": 1}, config=QUICK) as cluster:
        network = InProcessNetwork(cluster)
        async with open_consumer(
            cluster.bootstrap_servers, connect=network.connect, group="g", topics=["t"]
        ) as consumer:
            await consumer.poll(30)
            open_now = [stream for _, stream in network.streams if not stream.cut]
            assert len(open_now) == 2, "one for the group, one for reading; the bootstrap connection is closed"
        assert [stream for _, stream in network.streams if not stream.cut] == []


async def test_waiting_poll_raises_a_fatal_error(autojump_clock) -> None:
    async with open_cluster(topics={"t": 1}, config=QUICK) as cluster:
        network = InProcessNetwork(cluster)
        with pytest.raises(ConsumerError, match="INVALID_SESSION_TIMEOUT"):
            async with open_consumer(
                cluster.bootstrap_servers, connect=network.connect, group="g", topics=["t"], session_timeout=99_999.0
            ) as consumer:
                await consumer.poll(30)


async def test_ended_connections_are_forgotten(autojump_clock) -> None:
    async with open_cluster(topics={"t": 1}, config=QUICK) as cluster:
        network = InProcessNetwork(cluster)
        async with open_consumer(cluster.bootstrap_servers, connect=network.connect, partitions=[("t", 0)]) as consumer:
            for _ in range(3):
                await consumer.poll(5)
                network.streams[-1][1].hang_up()
            await consumer.poll(5)
            driver = consumer._driver
            assert len(driver._sending) == len(driver._connections) == 1
            assert len(driver._scopes) == 2, "of the timers and of the open connection"


def checked_engine(consumer: Any, *parts: str) -> list[str]:
    """Check the engine's clock at each call of these methods. Return a list to which the calls are added."""
    driver, engine = consumer._driver, consumer._engine
    calls: list[str] = []

    def checked(owner: Any, name: str) -> None:
        call = getattr(owner, name)

        def at_the_current_time(*args: Any, **options: Any) -> Any:
            calls.append(name)
            assert engine.clock.now == trio.current_time(), f"the clock is late in {name}"
            return call(*args, **options)

        setattr(owner, name, at_the_current_time)

    for part in parts:
        owner, _, name = part.rpartition(".")
        checked(getattr(engine, owner) if owner else engine, name)

    def nothing_is_left() -> None:
        assert engine.network.to_open == [], "a connection is not opened"
        assert all(ready.is_set() or not link.outgoing for link, ready in driver._sending.items()), "bytes are not sent"

    consumer.nothing_is_left = nothing_is_left
    return calls


CALLS: dict[str, Any] = {
    "poll": lambda consumer: consumer.poll(0.3),
    "commit": lambda consumer: consumer.commit({("t", 0): 1}),
    "commit_nowait": lambda consumer: consumer.commit_nowait({("t", 0): 1}),
    "committed": lambda consumer: consumer.committed(("t", 0)),
    "end_offsets": lambda consumer: consumer.end_offsets(("t", 0)),
    "partitions_for": lambda consumer: consumer.partitions_for("t"),
    "unsubscribe": lambda consumer: consumer.unsubscribe(),
    "close": lambda consumer: consumer.close(),
}


@pytest.mark.parametrize("kind", ["subscribed", "assigned"])
@pytest.mark.parametrize("call", [*CALLS, "assign"])
async def test_each_call_runs_the_engine_at_the_current_time(autojump_clock, call: str, kind: str) -> None:
    """The call also leaves no bytes unsent."""
    how: dict[str, Any] = {"topics": ["t"]} if kind == "subscribed" else {"partitions": [("t", 0)]}
    async with open_cluster(brokers=2, topics={"t": 2}, config=QUICK) as cluster:
        connect = InProcessNetwork(cluster).connect
        async with open_consumer(cluster.bootstrap_servers, connect=connect, group="g", **how) as consumer:
            await consumer.poll(1)
            calls = checked_engine(
                consumer,
                *("advance", "record_poll", "auto_commit", "assign", "unsubscribe", "listener_returned"),
                *("look_up_committed", "look_up_log", "look_up_topic", "committer.commit", "fetcher.close"),
            )
            if call == "assign":
                if kind == "subscribed":
                    await consumer.unsubscribe()
                await trio.sleep(0.0625)
                await consumer.assign([("t", 1)])
                assert "assign" in calls
            else:
                await trio.sleep(0.0625)
                result = CALLS[call](consumer)
                if result is not None:
                    await result
            assert calls
            consumer.nothing_is_left()


async def test_close_leaves_at_the_time_after_the_listener(autojump_clock) -> None:
    class SlowListener(RebalanceListener):
        async def on_revoked(self, consumer: Consumer, partitions: Sequence[tuple[str, int]]) -> None:
            await trio.sleep(0.0625)

    async with open_cluster(topics={"t": 2}, config=QUICK) as cluster:
        how: dict[str, Any] = {"connect": InProcessNetwork(cluster).connect, "group": "g", "topics": ["t"]}
        async with open_consumer(cluster.bootstrap_servers, listener=SlowListener(), **how) as consumer:
            await consumer.poll(1)
            calls = checked_engine(consumer, "unsubscribe")
            await consumer.close()
            assert calls == ["unsubscribe"]


async def test_rebalance_continues_at_the_time_after_the_listener(autojump_clock) -> None:
    class SlowListener(RebalanceListener):
        async def on_assigned(self, consumer: Consumer, partitions: Sequence[tuple[str, int]]) -> None:
            await trio.sleep(0.0625)

    async with open_cluster(topics={"t": 2}, config=QUICK) as cluster:
        how: dict[str, Any] = {"connect": InProcessNetwork(cluster).connect, "group": "g", "topics": ["t"]}
        async with open_consumer(cluster.bootstrap_servers, listener=SlowListener(), **how) as consumer:
            calls = checked_engine(consumer, "listener_returned")
            await consumer.poll(1)
            assert calls == ["listener_returned"]


async def test_interrupted_poll_ends_at_the_current_time(autojump_clock) -> None:
    async with open_cluster(topics={"t": 2}, config=QUICK) as cluster:
        how: dict[str, Any] = {"connect": InProcessNetwork(cluster).connect, "group": "g", "topics": ["t"]}
        async with open_consumer(cluster.bootstrap_servers, **how) as consumer:
            await consumer.poll(1)
            calls = checked_engine(consumer, "record_poll")
            with trio.move_on_after(0.0625) as scope:
                await consumer.poll()
            assert scope.cancelled_caught
            assert len(calls) >= 3, "it begins, waits and ends"


async def test_requests_of_a_refused_connection_fail_at_its_time(autojump_clock) -> None:
    async def connect(host: str, port: int) -> trio.abc.Stream:
        await trio.sleep(3.0)
        raise OSError("refused")

    async with trio.open_nursery() as nursery:
        engine = FakeCluster(group=None).engine
        driver = Driver(engine, nursery, connect)
        driver.update_clock()
        began, times = engine.clock.now, []
        node = engine.network.least_loaded()
        assert node
        engine.network.send_request(
            node, METADATA.key, lambda _: MetadataRequest(), lambda _: times.append(engine.clock.now - began)
        )
        driver.flush()
        await trio.sleep(4.0)
        assert times == [3.0]
        driver.stop()


async def test_task_that_starts_after_the_stop_ends_at_once(autojump_clock) -> None:
    with trio.fail_after(1):
        async with trio.open_nursery() as nursery:
            driver = Driver(FakeCluster(group=None).engine, nursery, lambda *_: trio.sleep_forever())  # type: ignore[arg-type]
            driver.stop()
            driver.start()


async def test_response_is_processed_at_the_current_time(autojump_clock) -> None:
    async with (
        open_cluster(topics={"t": 2}, config=QUICK) as cluster,
        open_consumer(cluster.bootstrap_servers, connect=InProcessNetwork(cluster).connect) as consumer,
    ):
        assert await consumer.partitions_for("t") == 2
        driver, engine = consumer._driver, consumer._engine
        cluster.faults.add(api="Metadata", delay_ms=3000)
        node, times = engine.network.least_loaded(), []
        assert node
        driver.update_clock()
        engine.network.send_request(
            node,
            METADATA.key,
            lambda _: MetadataRequest(),
            lambda _: times.append((engine.clock.now, trio.current_time())),
        )
        driver.flush()
        await trio.sleep(5.0)
        ((at, now),) = times
        assert at == now


async def test_requests_of_a_lost_connection_fail_at_the_current_time(autojump_clock) -> None:
    near, far = trio.testing.memory_stream_pair()

    async def connect(host: str, port: int) -> trio.abc.Stream:
        return near

    async with trio.open_nursery() as nursery:
        engine = FakeCluster(group=None).engine
        driver = Driver(engine, nursery, connect)
        driver.update_clock()
        node, times = engine.network.least_loaded(), []
        assert node
        engine.network.send_request(
            node, METADATA.key, lambda _: MetadataRequest(), lambda _: times.append(engine.clock.now)
        )
        driver.flush()
        await trio.sleep(3.0)
        await far.aclose()
        closed_at = trio.current_time()
        await trio.sleep(1.0)
        assert times == [closed_at]
        driver.stop()


async def test_share_consumer_leaves_at_the_current_time(autojump_clock) -> None:
    """The time is also current if the last acknowledgements get no response."""
    async with open_cluster(topics={"t": 2}, config=QUICK) as cluster:
        connect = InProcessNetwork(cluster).connect
        async with open_share_consumer(cluster.bootstrap_servers, connect=connect, group="g", topics=["t"]) as consumer:
            await consumer.poll(1)
            calls = checked_engine(consumer, "member.leave")
            cluster.faults.add(api="ShareAcknowledge", delay_ms=60_000, times="always")
            await consumer.close()
            assert calls == ["leave"]


async def test_share_poll_without_a_wait_sends_its_fetch(autojump_clock) -> None:
    async with open_cluster(topics={"t": 2}, config=QUICK) as cluster:
        connect = InProcessNetwork(cluster).connect
        async with open_share_consumer(cluster.bootstrap_servers, connect=connect, group="g", topics=["t"]) as consumer:
            while not consumer.assignment:
                await consumer.poll(0.1)
            await trio.sleep(5.0)
            checked_engine(consumer, "advance")
            await consumer.poll(0)
            assert consumer._engine.fetcher.waiting
            consumer.nothing_is_left()


SHARE_CALLS: dict[str, Any] = {
    "poll": lambda consumer: consumer.poll(0.3),
    "commit": lambda consumer: consumer.commit(),
    "subscribe": lambda consumer: consumer.subscribe(["t"]),
    "close": lambda consumer: consumer.close(),
}


@pytest.mark.parametrize("call", SHARE_CALLS)
async def test_each_share_call_runs_the_engine_at_the_current_time(autojump_clock, call: str) -> None:
    """The call also leaves no bytes unsent."""
    async with open_cluster(topics={"t": 2}, config=QUICK) as cluster:
        connect = InProcessNetwork(cluster).connect
        async with open_share_consumer(cluster.bootstrap_servers, connect=connect, group="g", topics=["t"]) as consumer:
            await consumer.poll(1)
            calls = checked_engine(consumer, "advance", "subscribe", "fetcher.close", "member.leave")
            await trio.sleep(0.0625)
            await SHARE_CALLS[call](consumer)
            assert calls
            consumer.nothing_is_left()


@pytest.mark.parametrize("call", ["poll", "commit", "subscribe", "unsubscribe"])
async def test_calls_are_checkpoints(autojump_clock, call: str) -> None:
    calls = {
        "poll": lambda consumer: consumer.poll(0),
        "commit": lambda consumer: consumer.commit({}),
        "subscribe": lambda consumer: consumer.subscribe(["t"]),
        "unsubscribe": lambda consumer: consumer.unsubscribe(),
    }
    async with open_cluster(topics={"t": 2}, config=QUICK) as cluster:
        connect = InProcessNetwork(cluster).connect
        options: dict[str, Any] = {"connect": connect, "group": "g", "topics": ["t"]}
        async with open_consumer(cluster.bootstrap_servers, **options) as consumer:
            await consumer.poll(1)
            with trio.testing.assert_checkpoints():
                await calls[call](consumer)
        if call in SHARE_CALLS:
            async with open_share_consumer(cluster.bootstrap_servers, **options | {"group": "s"}) as shared:
                await shared.poll(1)
                with trio.testing.assert_checkpoints():
                    await (shared.poll(0) if call == "poll" else SHARE_CALLS[call](shared))


class BrokenStream(trio.abc.Stream):
    """A stream that cannot send and receives nothing."""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        raise trio.BrokenResourceError

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.sleep_forever()
        raise AssertionError

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


async def test_connection_that_cannot_send_is_replaced(autojump_clock) -> None:
    connected: list[float] = []

    async def connect(host: str, port: int) -> trio.abc.Stream:
        connected.append(trio.current_time())
        return BrokenStream()

    async with open_consumer("broken:1", connect=connect, group="g", topics=["t"]) as consumer:
        await consumer.poll(5)
        assert len(connected) > 3
