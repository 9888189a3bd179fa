"""Consumers on trio against an in-process cluster in virtual time: groups, wakeup, cancellation and closing."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from tools.in_process_streams import InProcessNetwork

from mockbroker import Cluster, open_cluster
from mockbroker.consumer import (
    BrokerError,
    CommitFailed,
    ConcurrentUse,
    Consumer,
    IllegalUse,
    OffsetAndMetadata,
    RebalanceListener,
    TimedOut,
    UnsupportedVersion,
    Wakeup,
    open_consumer,
)

QUICK = {"group.initial.rebalance.delay.ms": 0, "mockbroker.join.settle.ms": 0}


@asynccontextmanager
async def cluster_of(topics: dict[str, int] | None = None, **options: Any) -> AsyncIterator[Any]:
    async with open_cluster(topics=topics or {"t": 4}, config=QUICK, **options) as cluster:
        yield cluster


def consumer_of(
    cluster: Cluster, name: str = "me", network: InProcessNetwork | None = None, **options: Any
) -> AbstractAsyncContextManager[Consumer]:
    network = network or InProcessNetwork(cluster, name)
    options = {"group": "g", "topics": ["t"], "auto_offset_reset": "earliest", "client_id": name} | options
    return open_consumer(cluster.bootstrap_servers, connect=network.connect, **options)


def assigned_numbers(consumer: Consumer) -> list[int]:
    return sorted(number for _, number in consumer.assignment)


def journal(cluster: Cluster, *events: str) -> list[tuple[float, str]]:
    return [(event.time_ms / 1000, event.event) for event in cluster.events() if event.event in events]


class RecordingListener(RebalanceListener):
    """A listener that records its calls with their times."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int]]] = []

    async def on_revoked(self, consumer: Consumer, partitions: Sequence[tuple[str, int]]) -> None:
        self.calls.append(("revoked", [number for _, number in partitions]))

    async def on_assigned(self, consumer: Consumer, partitions: Sequence[tuple[str, int]]) -> None:
        self.calls.append(("assigned", [number for _, number in partitions]))

    async def on_lost(self, consumer: Consumer, partitions: Sequence[tuple[str, int]]) -> None:
        self.calls.append(("lost", [number for _, number in partitions]))


# --- membership ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_consumer_reads_commits_and_leaves(autojump_clock, protocol: str) -> None:
    async with cluster_of() as cluster:
        cluster.produce("t", ["a", "b", "c"], partition=0)
        listener = RecordingListener()
        async with consumer_of(cluster, listener=listener, group_protocol=protocol) as consumer:
            records = await consumer.poll(10)
            assert [record.value for record in records] == [b"a", b"b", b"c"]
            assert assigned_numbers(consumer) == [0, 1, 2, 3]
            assert consumer.group_metadata.generation_id == 1
        assert listener.calls == [("assigned", [0, 1, 2, 3]), ("revoked", [0, 1, 2, 3])]
        assert cluster.committed("g")["t", 0] == 3
        assert cluster.groups()["g"].state == "Empty"
        with pytest.raises(IllegalUse, match="closed"):
            await consumer.poll(0)
        await consumer.close()


async def test_committed_offsets_are_those_of_the_given_partitions(autojump_clock) -> None:
    async with cluster_of() as cluster, consumer_of(cluster) as consumer:
        await consumer.poll(1)
        await consumer.commit({("t", 1): 5})
        assert await consumer.committed(("t", 0)) == {("t", 0): None}
        committed = await consumer.committed()
        assert {partition: at and at.offset for partition, at in committed.items()} == {
            ("t", number): 5 if number == 1 else None for number in range(4)
        }


@pytest.mark.parametrize(
    "options", [{"assignors": ["range"]}, {"assignors": ["cooperative-sticky"]}, {"group_protocol": "consumer"}]
)
async def test_second_member_takes_over_all_partitions(autojump_clock, options) -> None:
    async with cluster_of() as cluster:
        async with consumer_of(cluster, "one", **options) as one:
            await one.poll(1)
            async with consumer_of(cluster, "two", **options) as two, trio.open_nursery() as nursery:

                async def read(consumer: Consumer) -> None:
                    for _ in range(30):
                        await consumer.poll(1)

                nursery.start_soon(read, one)
                nursery.start_soon(read, two)
            # the member "two" has left
            for _ in range(20):
                await one.poll(1)
            assert assigned_numbers(one) == [0, 1, 2, 3]
        assert not journal(cluster, "expire")


async def test_two_members_get_half_of_the_partitions_each(autojump_clock) -> None:
    async with cluster_of() as cluster, consumer_of(cluster, "one") as one, consumer_of(cluster, "two") as two:
        for _ in range(10):
            await one.poll(1)
            await two.poll(1)
        assert sorted(assigned_numbers(one) + assigned_numbers(two)) == [0, 1, 2, 3]
        assert len(assigned_numbers(one)) == 2


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_poll_may_wait_longer_than_max_poll_interval(autojump_clock, protocol: str) -> None:
    async with cluster_of() as cluster:
        async with consumer_of(cluster, max_poll_interval=60.0, group_protocol=protocol) as consumer:
            assert await consumer.poll(200) == []
            assert assigned_numbers(consumer) == [0, 1, 2, 3]
        assert journal(cluster, "expire", "generation")[1:] == []
        assert trio.current_time() >= 200


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_poll_of_buffered_records_restarts_max_poll_interval(autojump_clock, protocol: str) -> None:
    options: dict[str, Any] = {"max_poll_interval": 20.0, "max_poll_records": 1, "group_protocol": protocol}
    async with cluster_of() as cluster, consumer_of(cluster, **options) as consumer:
        cluster.produce("t", ["x"] * 10, partition=0)
        for _ in range(8):
            while not await consumer.poll(0.1):
                pass
            await trio.sleep(8.0)
        assert cluster.groups()["g"].state == "Stable"


async def test_poll_without_a_response_may_exceed_max_poll_interval(autojump_clock) -> None:
    """No Heartbeat, OffsetCommit or Fetch response ends the wait of the poll, so it runs the engine only once."""
    async with cluster_of() as cluster:
        options: dict[str, Any] = {"heartbeat_interval": 20.0, "enable_auto_commit": False}
        async with consumer_of(cluster, max_poll_interval=5.0, **options) as consumer:
            while not consumer.assignment:
                await consumer.poll(0.1)
            consumer.pause(*consumer.assignment)
            joined = journal(cluster, "generation")
            await consumer.poll(15)
            assert journal(cluster, "generation") == joined


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_member_that_exceeds_max_poll_interval_rejoins(autojump_clock, protocol: str) -> None:
    async with cluster_of() as cluster:
        listener = RecordingListener()
        async with consumer_of(cluster, max_poll_interval=60.0, listener=listener, group_protocol=protocol) as consumer:
            await consumer.poll(1)
            await trio.sleep(50)
            await consumer.poll(1)
            assert listener.calls == [("assigned", [0, 1, 2, 3])]
            await trio.sleep(61)
            with pytest.raises(CommitFailed):
                await consumer.commit({("t", 0): 1})
            await consumer.poll(1)
            assert listener.calls[1:] == [("lost", [0, 1, 2, 3]), ("assigned", [0, 1, 2, 3])]


async def test_auto_commit_during_polls(autojump_clock) -> None:
    async with cluster_of() as cluster, consumer_of(cluster) as consumer:
        cluster.produce("t", ["a", "b"], partition=1)
        await consumer.poll(1)
        assert cluster.committed("g") == {}
        await consumer.poll(6)
        assert cluster.committed("g")["t", 1] == 2


async def test_pattern_subscription_finds_a_new_topic(autojump_clock) -> None:
    pattern = re.compile("t.*")
    async with (
        cluster_of({"t1": 1, "u": 1}) as cluster,
        consumer_of(cluster, topics=pattern, metadata_max_age=30.0) as consumer,
    ):
        await consumer.poll(1)
        assert consumer.assignment == {("t1", 0)}
        cluster.create_topic("t2")
        await consumer.poll(40)
        assert consumer.assignment == {("t1", 0), ("t2", 0)}


async def test_lost_coordinator_connection_is_reopened(autojump_clock) -> None:
    async with cluster_of() as cluster:
        network, listener = InProcessNetwork(cluster), RecordingListener()
        async with consumer_of(cluster, network=network, listener=listener) as consumer:
            await consumer.poll(1)
            for _, stream in network.streams:
                stream.hang_up()
            made = len(network.streams)
            await consumer.poll(10)
            assert len(network.streams) > made
            cluster.produce("t", ["a"], partition=0)
            assert len(await consumer.poll(10)) == 1
        assert listener.calls == [("assigned", [0, 1, 2, 3]), ("revoked", [0, 1, 2, 3])]


async def test_connection_is_retried_until_the_broker_is_up(autojump_clock) -> None:
    async with cluster_of() as cluster:
        network = InProcessNetwork(cluster)
        network.down = {node.node_id for node in cluster.nodes}
        async with consumer_of(cluster, network=network) as consumer:
            assert await consumer.poll(20) == []
            network.down = set()
            cluster.produce("t", ["a"], partition=0)
            assert len(await consumer.poll(5)) == 1


async def test_waiting_poll_advances_the_engine_rarely(autojump_clock) -> None:
    async with cluster_of() as cluster, consumer_of(cluster) as consumer:
        steps = 0
        real = consumer._engine.advance

        def counted(*, polling: bool) -> None:
            nonlocal steps
            steps += 1
            real(polling=polling)

        consumer._engine.advance = counted
        await consumer.poll(100)
        assert steps < 100 * 20, "a fetch is answered every half second, a heartbeat every 3 seconds"


# --- wakeup -------------------------------------------------------------------------------------------------


async def test_wakeup_ends_a_waiting_poll(autojump_clock) -> None:
    async with cluster_of() as cluster, consumer_of(cluster) as consumer:
        async with trio.open_nursery() as nursery:

            async def later() -> None:
                await trio.sleep(30.25)
                consumer.wakeup()

            nursery.start_soon(later)
            with pytest.raises(Wakeup):
                await consumer.poll()
            assert trio.current_time() == pytest.approx(30.25), "between two responses to fetches"
        cluster.produce("t", ["a"], partition=0)
        assert len(await consumer.poll(5)) == 1, "the consumer continues"


async def test_out_of_range_position_is_reset_without_delay(autojump_clock) -> None:
    async with cluster_of() as cluster:
        cluster.produce("t", ["a"], partition=0)
        async with consumer_of(cluster, group=None, topics=(), partitions=[("t", 0)]) as consumer:
            await consumer.poll()
            await trio.sleep(3)
            consumer.seek(("t", 0), 50)
            before = trio.current_time()
            (record,) = await consumer.poll()
            assert (record.offset, trio.current_time() - before < 1.0) == (0, True)


@pytest.mark.parametrize("lookup", ["partitions_for", "end_offsets"])
async def test_invalid_topic_fails_the_lookup_and_no_poll(autojump_clock, lookup: str) -> None:
    async with cluster_of() as cluster, consumer_of(cluster) as consumer:
        cluster.produce("t", ["a"], partition=0)
        await consumer.poll(10)
        ends = lookup == "end_offsets"
        with pytest.raises(BrokerError, match="INVALID_TOPIC_EXCEPTION"):
            await (consumer.end_offsets(("no topic", 0)) if ends else consumer.partitions_for("no topic"))
        cluster.produce("t", ["b"], partition=0)
        assert [record.value for record in await consumer.poll(10)] == [b"b"]


async def test_topics_of_lookups_are_not_requested_for_ever(autojump_clock) -> None:
    async with cluster_of() as cluster:
        options = {"allow_auto_create_topics": False, "enable_auto_commit": False}
        async with consumer_of(cluster, group=None, topics=(), partitions=[("t", 0)], **options) as consumer:
            assert await consumer.partitions_for("absent") == 0
            with pytest.raises(TimedOut):
                await consumer.end_offsets(("absent", 0), timeout=3.0)
            await consumer.poll(5)
            version = consumer._engine.metadata.version
            await consumer.poll(60)
            assert consumer._engine.metadata.version == version


@pytest.mark.parametrize(
    ("at", "error"),
    [
        (-1, ValueError),
        (2**63, ValueError),
        (OffsetAndMetadata(-7), ValueError),
        (OffsetAndMetadata(7, None), TypeError),
        ("7", TypeError),
        (7.5, TypeError),
    ],
)
async def test_invalid_offsets_are_rejected_before_they_are_sent(autojump_clock, at, error) -> None:
    async with cluster_of() as cluster, consumer_of(cluster, enable_auto_commit=False) as consumer:
        await consumer.poll(5)
        with pytest.raises(error):
            consumer.commit_nowait({("t", 0): at})
        with pytest.raises(error):
            await consumer.commit({("t", 0): at})
        if not isinstance(at, OffsetAndMetadata):
            with pytest.raises(error):
                consumer.seek(("t", 0), at)
        await consumer.commit({("t", 0): 7})
        assert cluster.committed("g")["t", 0] == 7


@pytest.mark.parametrize("partition", ["t", ("t", 0, 1), ("t", "0"), "t0"])
async def test_a_partition_of_a_wrong_type_is_rejected(autojump_clock, partition) -> None:
    async with cluster_of() as cluster, consumer_of(cluster, enable_auto_commit=False) as consumer:
        await consumer.poll(5)
        calls = [
            lambda: consumer.commit({partition: 1}),
            lambda: consumer.assign([partition]),
            lambda: consumer.committed(partition),
            lambda: consumer.end_offsets(partition),
        ]
        for call in calls:
            with pytest.raises(TypeError, match="a partition must be a topic and a number"):
                await call()
        with pytest.raises(TypeError, match="a partition must be a topic and a number"):
            consumer.commit_nowait({partition: 1})
        await consumer.commit({("t", 0): 7})
        assert cluster.committed("g")["t", 0] == 7


@pytest.mark.parametrize("partition", [("t", 2**40), ("t", -1), ("\ud800", 0)])
async def test_a_partition_out_of_range_is_rejected(autojump_clock, partition) -> None:
    async with cluster_of() as cluster, consumer_of(cluster, group="g", topics=()) as consumer:
        calls = [
            lambda: consumer.commit({partition: 1}),
            lambda: consumer.assign([partition]),
            lambda: consumer.committed(partition),
            lambda: consumer.end_offsets(partition),
            lambda: consumer.offsets_for_times({partition: 1}),
        ]
        for call in calls:
            with pytest.raises(ValueError, match=r"is out of range|cannot be encoded"):
                await call()


@pytest.mark.parametrize("name", [None, b"t", "\ud800"])
async def test_a_topic_of_a_wrong_type_is_rejected(autojump_clock, name) -> None:
    async with cluster_of() as cluster, consumer_of(cluster) as consumer:
        for call in (lambda: consumer.subscribe(["t", name]), lambda: consumer.partitions_for(name)):
            with pytest.raises((TypeError, ValueError), match=r"must be a str|cannot be encoded"):
                await call()
        cluster.produce("t", ["a"], partition=0)
        assert [record.value for record in await consumer.poll(10)] == [b"a"]


async def test_topics_and_partitions_exclude_each_other(autojump_clock) -> None:
    async with cluster_of() as cluster:
        with pytest.raises(ValueError, match="both topics and partitions are given"):
            async with consumer_of(cluster, topics=["t"], partitions=[("t", 0)]):
                pass


async def test_a_pattern_of_bytes_is_rejected(autojump_clock) -> None:
    async with cluster_of() as cluster, consumer_of(cluster) as consumer:
        with pytest.raises(TypeError, match="a pattern of topics must be a str"):
            await consumer.subscribe(re.compile(b"t"))


@pytest.mark.parametrize(("timestamp", "error"), [(1.5, TypeError), ("5", TypeError), (2**63, ValueError)])
async def test_an_invalid_timestamp_is_rejected(autojump_clock, timestamp, error) -> None:
    async with cluster_of() as cluster, consumer_of(cluster, group=None, topics=(), partitions=[("t", 0)]) as consumer:
        with pytest.raises(error, match="milliseconds since 1970"):
            consumer.seek_to_time(timestamp)
        with pytest.raises(error, match=r"of t-0 .* milliseconds since 1970"):
            await consumer.offsets_for_times({("t", 0): timestamp})


@pytest.mark.parametrize("offset", [OffsetAndMetadata(5, "\ud800"), OffsetAndMetadata(5, "", 2**40)])
async def test_unencodable_commit_fails_and_the_consumer_continues(autojump_clock, offset) -> None:
    async with cluster_of() as cluster, consumer_of(cluster, enable_auto_commit=False) as consumer:
        await consumer.poll(5)
        with pytest.raises(UnsupportedVersion, match="OffsetCommit"):
            await consumer.commit({("t", 0): offset})
        cluster.produce("t", ["a"], partition=0)
        assert [record.value for record in await consumer.poll(10)] == [b"a"]
        await consumer.commit()
        assert cluster.committed("g")["t", 0] == 1


async def test_wakeup_outside_of_a_poll_ends_the_next_one_once(autojump_clock) -> None:
    async with cluster_of() as cluster, consumer_of(cluster) as consumer:
        consumer.wakeup()
        consumer.wakeup()
        with pytest.raises(Wakeup):
            await consumer.poll(1)
        assert await consumer.poll(1) == []


async def test_wakeup_ends_a_waiting_commit(autojump_clock) -> None:
    async with cluster_of() as cluster:
        network = InProcessNetwork(cluster)
        async with consumer_of(cluster, network=network, enable_auto_commit=False) as consumer:
            await consumer.poll(1)
            network.down = {0}
            for _, stream in network.streams:
                stream.hang_up()
            async with trio.open_nursery() as nursery:

                async def later() -> None:
                    await trio.sleep(7)
                    consumer.wakeup()

                nursery.start_soon(later)
                with pytest.raises(Wakeup):
                    await consumer.commit({("t", 0): 9})
            network.down = set()
            await consumer.poll(3)
            assert ("t", 0) not in cluster.committed("g"), "an abandoned commit is not retried"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_unsubscribe_leaves_a_wakeup_to_the_next_poll(autojump_clock, protocol: str) -> None:
    listener = RecordingListener()
    async with cluster_of() as cluster, consumer_of(cluster, listener=listener, group_protocol=protocol) as consumer:
        cluster.produce("t", ["a"], partition=0)
        await consumer.poll(10)
        consumer.wakeup()
        await consumer.unsubscribe()
        assert ([name for name, _ in listener.calls], cluster.committed("g")["t", 0]) == (["assigned", "revoked"], 1)
        await consumer.subscribe(["t"])
        with pytest.raises(Wakeup):
            await consumer.poll(1)


async def test_cancelled_unsubscribe_calls_the_listener(autojump_clock) -> None:
    listener = RecordingListener()
    async with cluster_of() as cluster, consumer_of(cluster, listener=listener) as consumer:
        await consumer.poll(1)
        with trio.CancelScope() as scope:
            scope.cancel()
            await consumer.unsubscribe()
        assert scope.cancelled_caught
        assert ([name for name, _ in listener.calls], consumer.assignment) == (["assigned", "revoked"], frozenset())


async def test_close_ignores_a_wakeup(autojump_clock) -> None:
    """A second signal, for example, during the commit of the close."""
    listener = RecordingListener()
    async with cluster_of() as cluster, trio.open_nursery() as nursery:
        async with consumer_of(cluster, listener=listener) as consumer:
            await consumer.poll(1)
            cluster.faults.add(api="OffsetCommit", delay_ms=1000)

            async def later() -> None:
                await trio.sleep(0.5)
                consumer.wakeup()

            nursery.start_soon(later)
        assert [name for name, _ in listener.calls] == ["assigned", "revoked"]
        assert cluster.groups()["g"].state == "Empty"
        assert journal(cluster, "commit")


async def test_wakeup_from_another_thread() -> None:
    async with cluster_of() as cluster, consumer_of(cluster) as consumer, trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, lambda: trio.from_thread.run_sync(consumer.wakeup))
        with pytest.raises(Wakeup):
            await consumer.poll(60)


async def test_shutdown_by_wakeup_leaves_the_group(autojump_clock) -> None:
    async with cluster_of() as cluster:
        async with trio.open_nursery() as nursery:
            started = trio.Event()
            inside: list[Consumer] = []

            async def run() -> None:
                async with consumer_of(cluster) as consumer:
                    inside.append(consumer)
                    started.set()
                    with pytest.raises(Wakeup):
                        await consumer.poll()

            nursery.start_soon(run)
            await started.wait()
            await trio.sleep(5)
            inside[0].wakeup()
        assert cluster.groups()["g"].state == "Empty"


# --- one task at a time -------------------------------------------------------------------------------------------


USES = {
    "poll": lambda consumer: consumer.poll(0),
    "commit": lambda consumer: consumer.commit(),
    "subscribe": lambda consumer: consumer.subscribe(["t"]),
    "close": lambda consumer: consumer.close(),
    "anext": lambda consumer: consumer.__anext__(),
}


@pytest.mark.parametrize("use", USES)
async def test_use_by_two_tasks_raises_concurrent_use(autojump_clock, use: str) -> None:
    async with cluster_of() as cluster, consumer_of(cluster) as consumer:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(consumer.poll, 10)
            await trio.sleep(1)
            with pytest.raises(ConcurrentUse):
                await USES[use](consumer)
            for act in (lambda: consumer.seek(("t", 0), 0), lambda: consumer.pause(("t", 0)), consumer.commit_nowait):
                with pytest.raises(ConcurrentUse):
                    act()
        assert assigned_numbers(consumer) == [0, 1, 2, 3], "the first task is not affected"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(consumer.poll, 1)  # calls one after the other are allowed


async def test_listener_can_seek_in_on_assigned(autojump_clock) -> None:
    class SeekingListener(RebalanceListener):
        async def on_assigned(self, consumer: Consumer, partitions: Sequence[tuple[str, int]]) -> None:
            for partition in partitions:
                consumer.seek(partition, 1)
            await consumer.commit({("t", 3): 1})

    async with cluster_of() as cluster, consumer_of(cluster, listener=SeekingListener()) as consumer:
        cluster.produce("t", ["a", "b"], partition=0)
        assert [record.value for record in await consumer.poll(5)] == [b"b"]
        assert cluster.committed("g")["t", 3] == 1


async def test_committed_offsets_are_requested_during_on_assigned(autojump_clock) -> None:
    class Waiting(RebalanceListener):
        async def on_assigned(self, consumer: Consumer, partitions: Sequence[tuple[str, int]]) -> None:
            await trio.sleep(0.5)
            requests.append(len(cluster.requests("OffsetFetch")))

    requests: list[int] = []
    async with cluster_of() as cluster, consumer_of(cluster, listener=Waiting()) as consumer:
        while not consumer.assignment:
            await consumer.poll(0.1)
        assert requests == [1]


@pytest.mark.parametrize("wait", [0.0, 0.5])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_commit_in_on_assigned_sets_the_position(autojump_clock, protocol: str, wait: float) -> None:
    class Committing(RebalanceListener):
        async def on_assigned(self, consumer: Consumer, partitions: Sequence[tuple[str, int]]) -> None:
            await trio.sleep(wait)
            await consumer.commit(dict.fromkeys(partitions, 2))
            await trio.sleep(wait)

    async with cluster_of() as cluster:
        cluster.produce("t", ["a", "b", "c"], partition=0)
        async with consumer_of(cluster, listener=Committing(), group_protocol=protocol) as consumer:
            assert [record.value for record in await consumer.poll(10)] == [b"c"]


async def test_commit_after_a_seek_in_on_assigned_keeps_the_position(autojump_clock) -> None:
    class Seeking(RebalanceListener):
        async def on_assigned(self, consumer: Consumer, partitions: Sequence[tuple[str, int]]) -> None:
            consumer.seek(("t", 0), 1)
            await consumer.commit({("t", 0): 2})

    async with cluster_of() as cluster:
        cluster.produce("t", ["a", "b", "c"], partition=0)
        async with consumer_of(cluster, listener=Seeking()) as consumer:
            assert [record.value for record in await consumer.poll(10)] == [b"b", b"c"]


@pytest.mark.parametrize("wait", [0.0, 0.5])
async def test_commit_after_an_assignment_sets_the_position(autojump_clock, wait: float) -> None:
    async with cluster_of() as cluster:
        cluster.produce("t", ["a", "b", "c"], partition=0)
        async with consumer_of(cluster, topics=()) as consumer:
            assert await consumer.committed(("t", 0)) == {("t", 0): None}  # now the coordinator is known
            await consumer.assign([("t", 0)])
            await trio.sleep(wait)
            await consumer.commit({("t", 0): 2})
            await trio.sleep(wait)
            assert [record.value for record in await consumer.poll(10)] == [b"c"]
            await consumer.commit({("t", 0): 0})
            assert consumer.position(("t", 0)) == 3, "a poll has used the position"


async def test_listener_can_seek_during_an_iteration(autojump_clock) -> None:
    class SeekingListener(RebalanceListener):
        async def on_assigned(self, consumer: Consumer, partitions: Sequence[tuple[str, int]]) -> None:
            for partition in partitions:
                consumer.seek(partition, 1)

    async with cluster_of() as cluster, consumer_of(cluster, listener=SeekingListener()) as consumer:
        cluster.produce("t", ["a", "b"], partition=0)
        with trio.fail_after(60):
            assert [(await anext(consumer)).value] == [b"b"]


@pytest.mark.parametrize("use", ["poll", "anext", "close", "unsubscribe"])
async def test_listener_cannot_poll_unsubscribe_or_close(autojump_clock, use: str) -> None:
    class ReenteringListener(RecordingListener):
        async def on_assigned(self, consumer: Consumer, partitions: Sequence[tuple[str, int]]) -> None:
            await (consumer.unsubscribe() if use == "unsubscribe" else USES[use](consumer))

    listener = ReenteringListener()
    async with cluster_of() as cluster:
        async with consumer_of(cluster, listener=listener) as consumer:
            with pytest.raises(IllegalUse, match="a rebalance listener cannot"):
                await consumer.poll(5)
            assert assigned_numbers(consumer) == [0, 1, 2, 3]
        assert listener.calls == [("revoked", [0, 1, 2, 3])]


# --- closing --------------------------------------------------------------------------------------------------------


class UserError(Exception):
    pass


async def read_and_raise(raised: Exception, consumers: AbstractAsyncContextManager[Consumer]) -> None:
    async with consumers as consumer:
        await consumer.poll(5)
        raise raised


async def test_error_in_the_block_is_raised_and_nothing_is_committed(autojump_clock) -> None:
    async with cluster_of() as cluster:
        cluster.produce("t", ["a"], partition=0)
        listener, raised = RecordingListener(), UserError()
        with pytest.raises(UserError) as caught:
            await read_and_raise(raised, consumer_of(cluster, listener=listener))
        assert caught.value is raised
        assert listener.calls[-1] == ("revoked", [0, 1, 2, 3])
        assert (cluster.committed("g"), cluster.groups()["g"].state) == ({}, "Empty")


async def test_cancelled_consumer_leaves_the_group(autojump_clock) -> None:
    async with cluster_of() as cluster:
        listener = RecordingListener()
        with trio.move_on_after(20) as scope:
            async with consumer_of(cluster, listener=listener) as consumer:
                async for _ in consumer:
                    pass
        assert scope.cancelled_caught
        assert listener.calls[-1] == ("revoked", [0, 1, 2, 3])
        assert cluster.groups()["g"].state == "Empty"
        assert trio.current_time() < 21


async def test_error_during_a_cancellation_is_raised_unwrapped(autojump_clock) -> None:
    async with cluster_of() as cluster:

        async def run() -> None:
            async with consumer_of(cluster) as consumer:
                await consumer.poll(1)
                scope.cancel()
                raise UserError

        with trio.CancelScope() as scope, pytest.raises(UserError):
            await run()


async def test_listener_error_on_close_is_raised_after_leaving(autojump_clock) -> None:
    class FailingListener(RebalanceListener):
        async def on_revoked(self, consumer: Consumer, partitions: Sequence[tuple[str, int]]) -> None:
            raise UserError

    async with cluster_of() as cluster:
        with pytest.raises(UserError):
            async with consumer_of(cluster, listener=FailingListener()) as consumer:
                await consumer.poll(1)
        assert cluster.groups()["g"].state == "Empty"


async def test_close_without_a_cluster_is_quick_and_calls_the_listener(autojump_clock) -> None:
    async with cluster_of() as cluster:
        network, listener = InProcessNetwork(cluster), RecordingListener()
        cluster.produce("t", ["a"], partition=0)
        async with consumer_of(cluster, network=network, listener=listener) as consumer:
            await consumer.poll(5)
            network.down = {0}
            for _, stream in network.streams:
                stream.hang_up()
            began = trio.current_time()
        assert trio.current_time() - began <= 10.1
        assert listener.calls[-1] == ("revoked", [0, 1, 2, 3])


@pytest.mark.parametrize("auto", [True, False], ids=["auto-commit", "no auto-commit"])
async def test_commit_callbacks_are_called_before_close_returns(autojump_clock, auto: bool) -> None:
    called = []
    async with cluster_of() as cluster:
        async with consumer_of(cluster, enable_auto_commit=auto) as consumer:
            await consumer.poll(1)
            for offset in (1, 2, 3):
                consumer.commit_nowait(
                    {("t", 0): offset}, lambda offsets, error: called.append((offsets["t", 0].offset, error))
                )
        assert called == [(1, None), (2, None), (3, None)]


@pytest.mark.parametrize(
    "give_up",
    [Consumer.unsubscribe, partial(Consumer.subscribe, topics=[])],
    ids=["unsubscribe", "subscribe to no topics"],
)
async def test_unsubscribe_leaves_and_subscribe_rejoins(autojump_clock, give_up) -> None:
    async with cluster_of() as cluster:
        listener = RecordingListener()
        async with consumer_of(cluster, listener=listener) as consumer:
            await consumer.poll(1)
            await give_up(consumer)
            assert (consumer.assignment, consumer.subscription) == (frozenset(), frozenset())
            await trio.sleep(1)
            assert cluster.groups()["g"].state == "Empty"
            with pytest.raises(IllegalUse, match="nothing to poll"):
                await consumer.poll(1)
            await consumer.subscribe(["t"])
            await consumer.poll(1)
            assert assigned_numbers(consumer) == [0, 1, 2, 3]
        assert [name for name, _ in listener.calls] == ["assigned", "revoked", "assigned", "revoked"]


async def test_unsubscribe_leaves_and_others_get_its_partitions(autojump_clock) -> None:
    """The other member gets them within one heartbeat interval, long before the session would expire."""
    async with cluster_of() as cluster, consumer_of(cluster, "stays") as stays, consumer_of(cluster, "goes") as goes:
        for _ in range(10):
            await stays.poll(1)
            await goes.poll(1)
        assert (len(assigned_numbers(stays)), len(assigned_numbers(goes))) == (2, 2)
        generation = cluster.groups()["g"].generation
        await goes.unsubscribe()
        await stays.poll(5)
        assert assigned_numbers(stays) == [0, 1, 2, 3]
        group = cluster.groups()["g"]
        assert (len(group.members), group.generation > generation) == (1, True)
        assert [what for _, what in journal(cluster, "leave", "expire")] == ["leave"]


async def test_manual_assignment_has_no_session_and_no_takeover(autojump_clock) -> None:
    """When one of two consumers dies, the other keeps its partitions, and the group has only offsets."""
    options: dict[str, Any] = {"topics": (), "session_timeout": 10.0}
    async with cluster_of() as cluster:
        network = InProcessNetwork(cluster)
        left = consumer_of(cluster, "left", network, partitions=[("t", 0)], **options)
        async with left as dies, consumer_of(cluster, "right", partitions=[("t", 1)], **options) as right:
            cluster.produce("t", ["a", "b"], partition=0)
            assert len(await dies.poll(5)) == 2
            await dies.commit()
            network.down = {0}
            for _, stream in network.streams:
                stream.hang_up()
            cluster.produce("t", ["c"], partition=0)
            assert await right.poll(60) == []
            assert assigned_numbers(right) == [1]
            group = cluster.groups()["g"]
            assert (group.state, group.generation, group.members) == ("Empty", 0, ())
            assert journal(cluster, "join", "rebalance", "generation", "expire", "leave") == []
            async with consumer_of(cluster, "again", partitions=[("t", 0)], **options) as again:
                assert [record.value for record in await again.poll(5)] == [b"c"], "the restarted consumer continues"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_commit_of_an_assigned_partition_beside_members(autojump_clock, protocol: str) -> None:
    async with cluster_of() as cluster, consumer_of(cluster, group_protocol=protocol) as member:
        await member.poll(5)
        async with consumer_of(cluster, topics=(), partitions=[("t", 0)], group_protocol=protocol) as alone:
            with pytest.raises(CommitFailed, match="the group has members, and this consumer"):
                await alone.commit({("t", 0): 1})


async def test_static_member_returns_without_a_rebalance(autojump_clock) -> None:
    async with cluster_of() as cluster:
        for _ in range(3):
            async with consumer_of(cluster, group_instance_id="one", assignors=["range"]) as consumer:
                await consumer.poll(1)
                assert assigned_numbers(consumer) == [0, 1, 2, 3]
                assert consumer.group_metadata.group_instance_id == "one"
        assert cluster.groups()["g"].generation == 1


# --- committing ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [0.0, 3.0, 90.0])
async def test_commit_waits_for_its_timeout(autojump_clock, timeout: float) -> None:
    async with cluster_of() as cluster:
        network = InProcessNetwork(cluster)
        async with consumer_of(cluster, network=network, enable_auto_commit=False) as consumer:
            await consumer.poll(1)
            network.down = {0}
            for _, stream in network.streams:
                stream.hang_up()
            began = trio.current_time()
            with pytest.raises(TimedOut):
                await consumer.commit({("t", 0): 9}, timeout=timeout)
            assert trio.current_time() - began == pytest.approx(timeout)


async def test_illegal_use_and_invalid_arguments(autojump_clock) -> None:
    async with cluster_of() as cluster:
        async with consumer_of(cluster, group=None, topics=(), partitions=[("t", 0)]) as consumer:
            for act in (lambda: consumer.subscribe(["t"]), consumer.commit):
                with pytest.raises(IllegalUse):
                    await act()
            with pytest.raises(IllegalUse):
                consumer.group_metadata  # noqa: B018
        async with consumer_of(cluster) as consumer:
            with pytest.raises(IllegalUse, match="unsubscribe"):
                await consumer.assign([("t", 0)])
            with pytest.raises(TypeError, match="must be a list of names"):
                await consumer.subscribe("t")
            with pytest.raises(ValueError, match="negative"):
                consumer.seek(("t", 0), -1)
        with pytest.raises(TypeError, match="must be a list of names"):
            async with consumer_of(cluster, topics="t"):
                pass
        with pytest.raises(ValueError, match="'nowhere': use host:port"):
            async with open_consumer("nowhere"):
                pass


async def test_call_that_is_done_at_once_is_a_checkpoint(autojump_clock) -> None:
    async with cluster_of() as cluster, consumer_of(cluster) as consumer:
        await consumer.poll(1)
        with trio.testing.assert_checkpoints():
            await consumer.commit({})
        await consumer.unsubscribe()
        with trio.testing.assert_checkpoints():
            await consumer.assign([("t", 0)])


class LosingListener(RecordingListener):
    """A listener without a method for lost partitions."""

    on_lost = RebalanceListener.on_lost


async def test_lost_partitions_are_revoked_by_default(autojump_clock) -> None:
    async with cluster_of() as cluster:
        listener = LosingListener()
        async with consumer_of(cluster, max_poll_interval=6.0, listener=listener) as consumer:
            await consumer.poll(1)
            await trio.sleep(10)
            await consumer.poll(1)
            assert listener.calls == [
                ("assigned", [0, 1, 2, 3]),
                ("revoked", [0, 1, 2, 3]),
                ("assigned", [0, 1, 2, 3]),
            ]


@pytest.mark.parametrize(("api", "protocol"), [("Heartbeat", "classic"), ("ConsumerGroupHeartbeat", "consumer")])
async def test_close_of_a_fenced_member_loses_its_partitions(autojump_clock, api: str, protocol: str) -> None:
    listener = RecordingListener()
    async with cluster_of() as cluster:
        async with consumer_of(cluster, listener=listener, group_protocol=protocol) as consumer:
            while not consumer.assignment:
                await consumer.poll(0.1)
            cluster.faults.add(api=api, error="UNKNOWN_MEMBER_ID")
            await trio.sleep(6.0)
        assert listener.calls == [("assigned", [0, 1, 2, 3]), ("lost", [0, 1, 2, 3])]


async def test_subscribe_replaces_the_listener(autojump_clock) -> None:
    async with cluster_of({"t": 1, "u": 1}) as cluster:
        first, second = RecordingListener(), RecordingListener()
        async with consumer_of(cluster, listener=first) as consumer:
            await consumer.subscribe(["t"])
            await consumer.poll(1)
            await consumer.subscribe(["t", "u"], second)
            await consumer.poll(10)
            assert consumer.assignment == {("t", 0), ("u", 0)}
        assert [kind for kind, _ in first.calls] == ["assigned"]
        assert second.calls[-1][0] == "revoked"


async def test_rejoin_sends_the_reason(autojump_clock) -> None:
    async with cluster_of() as cluster:
        async with consumer_of(cluster, assignors=["range"]) as consumer:
            await consumer.poll(1)
            consumer.rejoin("a new assignor configuration")
            await consumer.poll(1)
            assert cluster.groups()["g"].generation == 2
            joins = [request.body.reason for request in cluster.requests("JoinGroup")]
            assert joins[-1] == "a new assignor configuration"
        async with consumer_of(cluster, group=None, topics=(), partitions=[("t", 0)]) as consumer:
            consumer.rejoin()
            assert assigned_numbers(consumer) == [0]


async def test_manual_assignment_calls_no_listener(autojump_clock) -> None:
    async with cluster_of() as cluster:
        listener = RecordingListener()
        options: dict[str, Any] = {"topics": (), "partitions": [("t", 0)]}
        async with consumer_of(cluster, listener=listener, **options) as consumer:
            await consumer.poll(1)
            await consumer.unsubscribe()
            await consumer.assign([("t", 1)])
            await consumer.poll(1)
        assert listener.calls == []


async def test_error_of_a_listener_whose_member_is_fenced_meanwhile(autojump_clock) -> None:
    class SlowListener(RecordingListener):
        async def on_assigned(self, consumer: Consumer, partitions: Sequence[tuple[str, int]]) -> None:
            await super().on_assigned(consumer, partitions)
            if len(self.calls) == 1:
                cluster.faults.add(api="ConsumerGroupHeartbeat", error="FENCED_MEMBER_EPOCH")
                await trio.sleep(12)
                raise UserError

    async with cluster_of() as cluster:
        listener = SlowListener()
        async with consumer_of(cluster, listener=listener, group_protocol="consumer") as consumer:
            with pytest.raises(UserError):
                await consumer.poll(5)
            await consumer.poll(5)
            assert [kind for kind, _ in listener.calls] == ["assigned", "lost", "assigned"]


async def test_reset_by_duration_uses_the_wall_clock(autojump_clock) -> None:
    now_ms = time.time_ns() // 1_000_000
    async with cluster_of({"t": 1}) as cluster:
        cluster.produce("t", ["10 minutes old"], timestamp=now_ms - 600_000)
        cluster.produce("t", ["new"], timestamp=now_ms)
        options: dict[str, Any] = {"auto_offset_reset": timedelta(minutes=1), "topics": (), "partitions": [("t", 0)]}
        async with consumer_of(cluster, group=None, **options) as consumer:
            assert [record.value for record in await consumer.poll(5)] == [b"new"]


async def test_close_waits_for_all_fetch_sessions(autojump_clock) -> None:
    async with cluster_of({"t": 2}, brokers=2) as cluster:
        options: dict[str, Any] = {"group": None, "topics": (), "partitions": [("t", 0), ("t", 1)]}
        async with consumer_of(cluster, **options) as consumer:
            await consumer.poll(2)
            cluster.faults.delay("Fetch", 3_000, broker=1, when="after", times="always")
            began = trio.current_time()
        assert trio.current_time() - began >= 3.0


async def test_listener_of_a_cancelled_consumer_may_wait(autojump_clock) -> None:
    ended = []

    class WaitingListener(RebalanceListener):
        async def on_revoked(self, consumer: Consumer, partitions: Sequence[tuple[str, int]]) -> None:
            await trio.sleep(2)
            ended.append(len(partitions))

    async with cluster_of() as cluster:
        with trio.move_on_after(5):
            async with consumer_of(cluster, listener=WaitingListener()) as consumer:
                await consumer.poll()
    assert ended == [4]


async def test_error_of_the_block_precedes_an_error_on_close(autojump_clock) -> None:
    class FailingListener(RebalanceListener):
        async def on_revoked(self, consumer: Consumer, partitions: Sequence[tuple[str, int]]) -> None:
            raise OSError

    async with cluster_of() as cluster:
        with pytest.raises(UserError):
            await read_and_raise(UserError(), consumer_of(cluster, listener=FailingListener()))


async def test_close_takes_at_most_10_s(autojump_clock) -> None:
    class EndlessListener(RebalanceListener):
        async def on_revoked(self, consumer: Consumer, partitions: Sequence[tuple[str, int]]) -> None:
            await trio.sleep_forever()

    async with cluster_of() as cluster:
        async with consumer_of(cluster, listener=EndlessListener()) as consumer:
            await consumer.poll(1)
            began = trio.current_time()
        assert trio.current_time() - began == pytest.approx(10.0, abs=0.5)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_cancelled_close_leaves_the_group(autojump_clock, protocol: str) -> None:
    """The cancellation ends only the wait for the last commit."""
    async with cluster_of() as cluster, consumer_of(cluster, group_protocol=protocol) as consumer:
        while not consumer.assignment:
            await consumer.poll(0.1)
        with trio.CancelScope() as scope:
            scope.cancel()
            await consumer.close()
        assert cluster.groups()["g"].state == "Empty"


async def test_close_closes_all_connections(autojump_clock) -> None:
    async with cluster_of() as cluster:
        network = InProcessNetwork(cluster)
        async with consumer_of(cluster, network=network) as consumer:
            await consumer.poll(1)
            await consumer.close()
            await trio.testing.wait_all_tasks_blocked()
            assert len(network.streams) > 1
            assert all(stream.cut for _, stream in network.streams)


async def test_close_without_partitions_calls_no_listener(autojump_clock) -> None:
    listener = RecordingListener()
    async with cluster_of() as cluster, consumer_of(cluster, listener=listener):
        pass
    assert listener.calls == []


async def test_close_ignores_an_earlier_wakeup(autojump_clock) -> None:
    async with cluster_of() as cluster, consumer_of(cluster) as consumer:
        while not consumer.assignment:
            await consumer.poll(0.1)
        await consumer.poll(0.5)
        consumer.wakeup()
        await consumer.close()
        assert cluster.groups()["g"].state == "Empty"


async def test_wakeup_does_not_interrupt_the_last_requests_of_close(autojump_clock) -> None:
    async with cluster_of() as cluster, consumer_of(cluster) as consumer:
        while not consumer.assignment:
            await consumer.poll(0.1)
        cluster.faults.add(api="LeaveGroup", delay_ms=1000)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(consumer.close)
            await trio.sleep(0.5)
            consumer.wakeup()
        assert cluster.groups()["g"].state == "Empty"


async def test_commit_calls_the_callbacks_of_earlier_commits(autojump_clock) -> None:
    stored: list[Any] = []
    async with cluster_of() as cluster, consumer_of(cluster, topics=[], partitions=[("t", 0)]) as consumer:
        consumer.commit_nowait({("t", 0): 1}, lambda offsets, error: stored.append((offsets, error)))
        await consumer.commit({("t", 0): 2})
        assert stored == [({("t", 0): OffsetAndMetadata(1)}, None)]


@pytest.mark.parametrize("close", ["close", "unsubscribe"])
async def test_last_commit_is_retried(autojump_clock, close: str) -> None:
    async with cluster_of() as cluster, consumer_of(cluster) as consumer:
        cluster.produce("t", ["a"], partition=0)
        assert len(await consumer.poll(10)) == 1
        cluster.faults.add(api="OffsetCommit", error="COORDINATOR_LOAD_IN_PROGRESS")
        await getattr(consumer, close)()
        assert cluster.committed("g")["t", 0] == 1


async def test_poll_calls_the_callbacks_of_earlier_commits(autojump_clock) -> None:
    stored: list[Any] = []
    async with cluster_of() as cluster, consumer_of(cluster, topics=[], partitions=[("t", 0)]) as consumer:
        await consumer.poll(0.1)
        consumer.commit_nowait({("t", 0): 1}, lambda offsets, error: stored.append((offsets, error)))
        await trio.sleep(0.5)
        assert stored == []
        await consumer.poll(0)
        assert stored == [({("t", 0): OffsetAndMetadata(1)}, None)]


async def test_time_after_an_interrupted_poll_counts_as_a_missed_poll(autojump_clock) -> None:
    async with cluster_of() as cluster, consumer_of(cluster, max_poll_interval=20.0) as consumer:
        while not consumer.assignment:
            await consumer.poll(0.1)
        with trio.move_on_after(1.0):
            await consumer.poll()
        await trio.sleep(19.0)
        assert cluster.groups()["g"].state == "Stable"
        await trio.sleep(2.0)
        assert cluster.groups()["g"].state == "Empty"
